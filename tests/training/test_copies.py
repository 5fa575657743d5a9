"""Training files that hold rewritten code of a held-out corpus."""

import polars as pl
import pytest

from sonde.base.fingerprint import hash_text
from sonde.corpora import duplicate_tokens
from sonde.training.pretrain.data import find_contaminated_files

WORDS = [f"name{number}" for number in range(60)]


def function(name, words):
    body = "".join(f"    {word} = {word}()\n" for word in words)
    return f"def {name}():\n{body}    return None\n"


@pytest.fixture
def folders(tmp_path):
    library, training = tmp_path / "library", tmp_path / "training"
    for folder in (library, training):
        folder.mkdir()
    (library / "original.py").write_text(
        function("first", WORDS[:30]) + "\n\n" + function("second", WORDS[30:])
    )
    # Of 30 names 25, and 15, are kept; the rest is new.
    new = [f"new{number}" for number in range(30)]
    (training / "near.py").write_text(function("first", WORDS[:25] + new[:5]))
    (training / "far.py").write_text(function("first", WORDS[:15] + new[:15]))
    (training / "short.py").write_text(function("first", WORDS[:5]))
    (training / "unread.py").write_text(function("second", WORDS[30:]))
    (training / "changed.py").write_text(function("second", WORDS[30:]))
    return library, training


def test_rewritten_functions_are_named(folders):
    library, training = folders
    texts = {path.name: path.read_text() for path in training.iterdir()}
    rows = [
        {
            "corpus": f"local:{training}",
            "path": name,
            "distribution": "training",
            "version": "1",
            "language": "python",
            "hash": hash_text(text if name != "changed.py" else text + "#"),
            "seen_in_training": name != "unread.py",
        }
        for name, text in texts.items()
    ]
    (copy,) = find_contaminated_files(pl.DataFrame(rows), [f"local:{library}"])
    assert (copy.path, copy.functions, copy.source) == ("near.py", 1, "original.py")
    ours, theirs = (set(duplicate_tokens(text)) for text in (texts["near.py"], function("first", WORDS[:30])))
    assert copy.similarity == pytest.approx(len(ours & theirs) / len(ours | theirs))
    assert find_contaminated_files(pl.DataFrame(rows), []) == ()
