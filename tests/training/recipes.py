"""What tests of pre-training share beside their fixtures."""

from pathlib import Path


def silent(_: str) -> None:
    """Progress that nobody reads."""


def change(path: Path, *pairs: tuple[str, str]) -> Path:
    """Replace texts of a recipe; each has to be there."""
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path
