"""Encoders from outside: probed as one layer, refused elsewhere, in keys by their file and weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sonde
from sonde.base.errors import CaptureError, InputError, UsageError
from sonde.models import describe_model, parse_spec, resolve_revision
from sonde.models.engine.external import encode_texts

HASHING = '''
"""Counts of words by their hash."""

import re
import zlib

import numpy as np


class Hashing:
    weights = "{weights}"

    def encode(self, texts):
        found = np.zeros((len(texts), 32))
        for row, text in enumerate(texts):
            for word in re.findall(r"\\\\w+", text):
                found[row, zlib.crc32(word.encode()) % 32] += 1
        return found


encoder = Hashing()
'''


def write(folder: Path, code: str = "", *, weights: str = "none") -> str:
    path = folder / "hashing.py"
    path.write_text(code or HASHING.replace("{weights}", weights).replace("\\\\", "\\"), encoding="utf-8")
    return str(path)


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Functions that loop or not, which words say, in many files."""
    folder = tmp_path / "code"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for at in range(60):
        lines: list[str] = []
        for part in range(4):
            name = f"f{at}_{part}"
            loop = f"    for x in {name}s:\n        if x > {part}:\n            total += x\n"
            body = f"    total = {rng.integers(100)}\n{loop}"
            plain = f"    total = {rng.integers(100)}\n    total = g{at}(total, {part})\n"
            lines.append(f"def {name}(a, b):\n{body if part % 2 else plain}    return total\n\n\n")
        (folder / f"m{at}.py").write_text("".join(lines), encoding="utf-8")
    return f"local:{folder}"


def test_a_vector_a_text_is_probed_as_one_layer(tmp_path: Path, source: str) -> None:
    name = write(tmp_path)
    run = sonde.run(
        models=[name], lenses=["probe"], tasks=["if_in_loop"], corpora=[source], limit=60,
        options={"probe": {"structural": 1.0, "curves": False}}, output=tmp_path / "run",
    )  # fmt: skip
    told = run.scores.filter(
        pl.col("metric") == "accuracy", pl.col("control").is_null(), pl.col("split") == "test"
    )
    assert told["layer"].unique().to_list() == [0] and told["task"].unique().to_list() == ["if_in_loop"]
    assert told["value"].min() > 0.9
    # Random weights cannot be drawn, and tokens have no vectors: the run names what is missing and continues.
    assert run.scores.filter(pl.col("control") == "random_weights").is_empty()
    reasons = run.scores.filter(pl.col("metric") == "left_out")["dimensions"].explode().struct.field("value")
    assert any("no function is short enough and has every token" in one for one in reasons)


@pytest.mark.parametrize("lens", ["surprisal", "attention", "cloze", "finetune", "prompting"])
def test_other_lenses_refuse_it_in_one_line(tmp_path: Path, source: str, lens: str) -> None:
    with pytest.raises(
        UsageError, match=r"an encoder gives one vector per text.*use the lens probe"
    ) as caught:
        sonde.run(
            models=[write(tmp_path)],
            lenses=[lens],
            corpora=[source],
            limit=5,
            output=tmp_path / "run",
        )
    assert "\n" not in str(caught.value)


def test_its_revision_is_its_file_and_its_weights(tmp_path: Path) -> None:
    first = resolve_revision(parse_spec(write(tmp_path)))
    assert first == resolve_revision(parse_spec(write(tmp_path)))
    other = tmp_path / "other"
    other.mkdir()
    assert resolve_revision(parse_spec(write(other, weights="v2"))) != first


def test_what_it_gives_is_a_finite_vector_a_text(tmp_path: Path) -> None:
    spec = parse_spec(write(tmp_path))
    assert describe_model(spec).kind == "vectors"
    assert encode_texts(spec, ["a a b", ""]).sum(axis=1).tolist() == [3.0, 0.0]
    wrong = {
        "np.zeros(len(texts))": (CaptureError, "2 texts gave an array of 2, not one row per text"),
        "np.zeros((1, 3))": (CaptureError, "2 texts gave an array of 1 x 3"),
        "np.full((len(texts), 2), np.nan)": (CaptureError, "a vector is not finite"),
        "1 / 0": (InputError, "ZeroDivisionError: division by zero"),
    }
    for at, (given, (error, line)) in enumerate(wrong.items()):
        folder = tmp_path / str(at)
        folder.mkdir()
        code = f"import numpy as np\nclass A:\n    def encode(self, texts): return {given}\nencoder = A()\n"
        with pytest.raises(error, match=line):
            encode_texts(parse_spec(write(folder, code)), ["a", "b"])


def test_what_is_no_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        describe_model(parse_spec(str(tmp_path / "missing.py")))
    for at, code in enumerate(("x = 1\n", "class encoder:\n    def encode(self, texts): ...\n")):
        folder = tmp_path / str(at)
        folder.mkdir()
        with pytest.raises(InputError, match=r"no `encoder`, an object with encode\(texts\)"):
            describe_model(parse_spec(write(folder, code)))
    with pytest.raises(UsageError, match="has its own weights"):
        describe_model(parse_spec(f"{write(tmp_path)}?quantise=8bit"))
