"""What a person sees who gives the lens something that it cannot take: one line and an exit code."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.models.conftest import build
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sonde.cli.commands import main

ALIASES = "".join(f"import other{number} as o{number}\nother{number}.f()\n" for number in range(12))


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The last line of a run that ends with exit code 2 and without a traceback."""
    monkeypatch.setattr("sys.argv", ["sonde", "run", "-l", "cloze", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    lines = [line for line in told.splitlines() if line.startswith("sonde: ")]
    assert len(lines) == 1 and told.splitlines()[-1] == lines[0]
    return lines[0]


def encoder(folder: Path, pieces: list[str], **special: str) -> str:
    """A tiny encoder whose tokenizer has these pieces, one letter each."""
    tokenizer = Tokenizer(models.WordLevel({piece: at for at, piece in enumerate(pieces)}, pieces[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    build("bert").save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=pieces[0], **special).save_pretrained(
        folder
    )
    return str(folder)


@pytest.fixture
def corpus(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        folder = tmp_path / "corpus"
        folder.mkdir()
        (folder / "a.py").write_text(text, encoding="utf-8")
        return f"local:{folder}"

    return write


def test_a_tokenizer_without_a_mask(
    tmp_path: Path,
    corpus: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = encoder(tmp_path / "maskless", ["[UNK]", *"abcdefo.("])
    given = ["-m", model, "-c", corpus(f"{ALIASES}import np\nnp.abc()\n"), "-o", str(tmp_path / "run")]
    line = said(monkeypatch, capsys, *given)
    assert "no mask token" in line and "sonde/mini-encoder" in line


def test_too_few_aliases(
    tmp_path: Path,
    corpus: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "import numpy as np\nimport json as js\nnp.zeros(1)\n"
    given = ["-m", "sonde/mini-encoder", "-c", corpus(text), "-o", str(tmp_path / "run")]
    given += ["--option", "cloze.templates=call,adversarial"]
    line = said(monkeypatch, capsys, *given)
    assert "'numpy': the corpus has 1 aliases of other modules, 10 are needed" in line
    assert "leave the template 'adversarial' out" in line


def test_vocabularies_without_a_common_piece(
    tmp_path: Path,
    corpus: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = encoder(tmp_path / "first", ["[UNK]", "[MASK]", *"abcdef.("], mask_token="[MASK]")
    second = encoder(tmp_path / "second", ["<unk>", "<mask>", *"xyzuvw"], mask_token="<mask>")
    given = ["-m", first, "-m", second, "-c", corpus(f"{ALIASES}import ab\nab.cd()\n")]
    line = said(monkeypatch, capsys, *given, "-o", str(tmp_path / "run"))
    assert "share no subtoken" in line and "first" in line and "second" in line


def test_a_malformed_cloze_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "clozeTest.json"
    path.write_text('[{"idx": "maxmin-1", "nl_tokens": [], "pl_tokens": ["x"]}]', encoding="utf-8")
    given = ["-m", "sonde/mini-encoder", "-c", f"codexglue:{path}", "-o", str(tmp_path / "run")]
    line = said(monkeypatch, capsys, *given)
    assert "entry 1: 0 tokens of the code are <mask>, not one" in line
