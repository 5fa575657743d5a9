"""The bookkeeping of `make bench-real`: rounds that are kept, and figures that are made of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from bench._real import Comparison, _KeptRounds, build_rows, measure_round

from bench import _real

PRINT = "import sys, pathlib; pathlib.Path(sys.argv[2]).open('a').write(sys.argv[1])"


def comparison(folder: Path, **changes: object) -> Comparison:
    """Two sides that write their letter into a file."""
    sides = {
        name: [sys.executable, "-c", PRINT, name[0], str(folder / "order")] for name in ("ours", "theirs")
    }
    fields = {"name": "letters", "sides": sides, "target": {"theirs": 1.5}, **changes}
    return Comparison(**fields)  # type: ignore[arg-type]


def test_sides_take_turns_and_what_was_there_is_cleared(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    compared = comparison(tmp_path, clear=left, check=lambda: {"theirs": (0.25, "nats")})
    rounds = [measure_round(compared, tmp_path, number) for number in range(4)]
    assert (tmp_path / "order").read_text() == "toot" * 2
    assert not left.exists()
    for one in rounds:
        assert one["checks"] == {"theirs": (0.25, "nats")}
        assert set(one["sides"]) == {"ours", "theirs"}
        assert all(side["wall"] > 0 and side["memory"] > 0 for side in one["sides"].values())


def test_rounds_are_kept_and_those_of_other_code_or_half_a_line_are_not(tmp_path: Path) -> None:
    file = tmp_path / "rounds.jsonl"
    first = _KeptRounds(file, "one")
    first.add("letters", 0, {"sides": {}, "checks": {}})
    _KeptRounds(file, "two").add("letters", 1, {"sides": {}, "checks": {}})
    with file.open("a") as handle:
        handle.write('{"comparison": "letters", "round": 2, "revision": "one"')
    again = _KeptRounds(file, "one")
    assert [again.has("letters", number) for number in range(3)] == [True, False, False]
    assert not again.has("words", 0)


def test_figures_are_ratios_within_a_round(tmp_path: Path) -> None:
    kept = _KeptRounds(tmp_path / "rounds.jsonl", "one")
    for number, (ours, theirs) in enumerate([(2.0, 4.0), (9.0, 3.0)]):
        sides = {
            "ours": {"wall": ours, "processor": 2 * ours, "memory": 10.0},
            "theirs": {"wall": theirs, "processor": theirs, "memory": 5.0},
        }
        kept.add("letters", number, {"sides": sides, "checks": {"theirs": (0.5 + number, "nats")}})
    rows = {row["name"]: row for row in build_rows("tiny", [comparison(tmp_path)], kept)}
    assert rows["tiny, letters: time, ours / theirs"]["values"] == [0.5, 3.0]
    assert rows["tiny, letters: time, ours / theirs"]["target"] == "<= 1.5"
    assert rows["tiny, letters: CPU time, ours / theirs"]["values"] == [1.0, 6.0]
    assert rows["tiny, letters: peak memory, ours / theirs"]["values"] == [2.0, 2.0]
    assert rows["tiny, letters: ours"]["values"] == [2.0, 9.0]
    assert rows["tiny, letters: largest difference from theirs"]["values"] == [0.5, 1.5]
    assert rows["tiny, letters: largest difference from theirs"]["unit"] == "nats"


def test_an_interrupted_call_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[str, int]] = []
    stop_at = [3]

    def measure(one: Comparison, folder: Path, number: int) -> dict[str, object]:
        if len(measured) == stop_at[0]:
            raise KeyboardInterrupt
        measured.append((one.name, number))
        return {"sides": {"ours": {"wall": 1.0, "processor": 1.0, "memory": 1.0}}, "checks": {}}

    place = tmp_path / "model"
    place.mkdir()
    monkeypatch.setattr(_real, "WORK_FOLDER", tmp_path / "work")
    monkeypatch.setattr(_real, "measure_round", measure)
    monkeypatch.setattr(_real, "_describe_revision", lambda: "one")
    monkeypatch.setattr(_real, "MODELS", {"tiny": _real.MODELS["minilm"]._replace(path=str(place))})
    monkeypatch.setattr(
        _real, "list_comparisons", lambda *_: [comparison(tmp_path, name=name) for name in ("a", "b")]
    )
    functions = tmp_path / "work" / "tiny-2" / "functions.jsonl"
    functions.parent.mkdir(parents=True)
    functions.write_text('{"item_id": "x", "text": "y"}\n')
    with pytest.raises(KeyboardInterrupt):
        _real._measure_model("tiny", 2, 2, tmp_path / "real.json")
    stop_at[0] = 4
    _real._measure_model("tiny", 2, 2, tmp_path / "real.json")
    assert measured == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    (entry,) = json.loads((tmp_path / "real.json").read_text())
    assert entry["benchmark"] == "real tiny"
    assert {row["name"]: row["values"] for row in entry["rows"]} == {
        "tiny, a: ours": [1.0, 1.0],
        "tiny, b: ours": [1.0, 1.0],
    }


def test_arrays_differ_by_the_largest_share_of_their_layer(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.npz", tmp_path / "theirs.npz"
    np.savez(ours, x=np.array([[1.0, 2.0], [10.0, 39.0]]), y=np.zeros((2, 0)))
    np.savez(theirs, x=np.array([[1.0, 2.0], [10.0, 40.0]]), y=np.zeros((2, 0)))
    assert _real._compare_arrays(ours, theirs) == pytest.approx(1 / 40)
    np.savez(theirs, z=np.zeros(1))
    with pytest.raises(ValueError, match="different functions"):
        _real._compare_arrays(ours, theirs)


def test_nats_differ_by_the_worst_subword_and_all_have_to_be_there(tmp_path: Path) -> None:
    run, table = tmp_path / "run", tmp_path / "by-hand.parquet"
    (run / "observations").mkdir(parents=True)
    schema = {"item_id": pl.String, "position": pl.Int32, "nats": pl.Float32}
    rows = [("f", 0, None), ("f", 1, 2.0), ("g", 1, 3.5)]
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(run / "observations" / "a.parquet")
    pl.DataFrame([("f", 1, 2.25), ("g", 1, 3.5)], schema=schema, orient="row").write_parquet(table)
    assert _real._compare_nats(run, table) == 0.25
    pl.DataFrame([("f", 1, 2.25)], schema=schema, orient="row").write_parquet(table)
    with pytest.raises(ValueError, match="different subwords"):
        _real._compare_nats(run, table)
