"""Who reads a run holds what it reads to its receipts: an edited file is named, or nothing of it is shown."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import sonde
from sonde.api.compare import ModelComparison
from sonde.base.errors import StoreError
from sonde.cli.commands import app
from sonde.comparison.compare import compare, write_comparison
from sonde.report import save_figures, write_card, write_report
from sonde.store import checksums
from sonde.store.checksums import verify_folder

from .conftest import decoder as decoder
from .test_commands import Made
from .test_commands import made as made


def edited(path: Path) -> None:
    """Change one value as a person would, so that the file can still be read."""
    if path.suffix == ".parquet":
        table = pl.read_parquet(path)
        numbers = [name for name, kind in table.schema.items() if kind.is_numeric()]
        texts = [name for name, kind in table.schema.items() if kind == pl.String]
        name = "value" if "value" in numbers else (numbers or texts)[0]
        changed = pl.col(name) + 1 if name in numbers else pl.col(name) + "x"
        # A table without rows gets its own row of nulls.
        table = table.with_columns(changed) if table.height else table.clear(1)
        table.write_parquet(path)
        return
    text = path.read_text(encoding="utf-8")
    if path.name == "run.json":
        path.write_text(re.sub(r'"items": \d+', '"items": 123456', text), encoding="utf-8")
        return
    path.write_text(
        re.sub(r"\d", lambda found: str((int(found[0]) + 1) % 10), text, count=1), encoding="utf-8"
    )


def page(run: Path, _: Made) -> bytes:
    return write_report(run).read_bytes()


def card(run: Path, _: Made) -> str:
    return write_card(run).json_text()


def compared(run: Path, _: Made) -> pl.DataFrame:
    folder = write_comparison(compare([run]), run.parent / "compared")
    return pl.read_parquet(folder / "comparison.parquet")


def comparison(run: Path, _: Made) -> pl.DataFrame:
    return ModelComparison(run / "comparison").differences


def figure(run: Path, _: Made) -> list[bytes]:
    return [path.read_bytes() for path in save_figures(run, ["calibration"]) if path.suffix == ".csv"]


def opened(run: Path, _: Made) -> list[Any]:
    held = sonde.Run(run)
    # An image has numbers of its own each time.
    return [held.summary, held.models, repr(held), re.sub(r'src="data:[^"]+"', "", held._repr_html_())]


def scores(run: Path, _: Made) -> pl.DataFrame:
    return sonde.read_scores(run)


def items(run: Path, _: Made) -> pl.DataFrame:
    return sonde.Run(run).items.collect()


def observations(run: Path, _: Made) -> list[pl.DataFrame]:
    return [sonde.Run(run).observations(lens).collect() for lens in ("surprisal", "probe")]


def states(run: Path, made: Made) -> list[Any]:
    held = sonde.Run(run).states("idn", 1, model=made.model)
    return [held.values.tolist(), held.examples]


def predicted(run: Path, made: Made) -> str:
    return repr(sonde.Run(run).predict(made.file, task="idn", model=made.model))


READERS: Mapping[str, Callable[[Path, Made], Any]] = {
    read.__name__: read
    for read in (
        page, card, compared, comparison, figure, opened, scores, items, observations, states, predicted,
    )
}  # fmt: skip


def kinds(root: Path) -> list[str]:
    """One file with a receipt of each folder, lens and ending."""
    found = {
        ("/".join(one.split("/")[:2]), Path(one).suffix): one
        for one in verify_folder(root).intact
        if "/" in one
    }
    return sorted({*found.values(), *(one for one in verify_folder(root).intact if "/" not in one)})


def same(one: Any, other: Any) -> bool:
    if isinstance(one, pl.DataFrame):
        assert_frame_equal(one, other)
        return True
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_an_edited_file_is_named_or_not_read(name: str, made: Made, tmp_path: Path) -> None:
    run, read = Path(shutil.copytree(made.whole, tmp_path / "run")), READERS[name]
    whole, named = read(run, made), list[str]()
    for relative in kinds(made.whole):
        shutil.copytree(made.whole, run, dirs_exist_ok=True)
        before = (run / relative).read_bytes()
        edited(run / relative)
        assert (run / relative).read_bytes() != before, relative
        try:
            assert same(read(run, made), whole), relative
        except StoreError as error:
            assert relative.rpartition("/")[2] in str(error), (relative, error)
            assert "its content is not what was written; the same `sonde" in str(error)
            named.append(relative)
    assert named, "the reader reads nothing that has a receipt"
    reads_run = name not in {"scores", "comparison"}
    assert ("run.json" in named) == reads_run


@pytest.mark.slow
def test_a_file_is_read_once_to_be_checked(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(made.whole, tmp_path / "run"))
    hashed: list[str] = []
    whole = checksums.hash_file

    def hash_file(path: Path) -> str:
        hashed.append(path.relative_to(run).as_posix())
        return whole(path)

    monkeypatch.setattr(checksums, "hash_file", hash_file)
    for _ in range(2):
        write_card(run)
    # A card is of scores: what models observed is not gone through for it.
    assert sorted(hashed) == ["run.json", "scores.parquet"]
    edited(run / "scores.parquet")
    with pytest.raises(StoreError, match=r"scores\.parquet: its content is not what was written"):
        write_card(run)


@pytest.mark.slow
def test_the_same_command_mends_every_kind_of_file(made: Made, tmp_path: Path) -> None:
    run = Path(shutil.copytree(made.whole, tmp_path / "run"))
    for relative in kinds(made.whole):
        edited(run / relative)
    assert len(verify_folder(run).damaged) == len(kinds(made.whole))
    done = CliRunner().invoke(app, [*made.run, "-o", str(run)])
    assert done.exit_code == 0, done.exception
    assert verify_folder(run).damaged == ()
    assert_frame_equal(
        pl.read_parquet(run / "scores.parquet"), pl.read_parquet(made.whole / "scores.parquet")
    )
    mine, theirs = (json.loads((one / "run.json").read_text(encoding="utf-8")) for one in (run, made.whole))
    assert mine["corpus"] == theirs["corpus"]


@pytest.mark.slow
def test_a_damaged_share_is_named_by_a_merge(made: Made, tmp_path: Path) -> None:
    for relative in kinds(made.share):
        share = Path(shutil.copytree(made.share, tmp_path / relative.replace("/", "-")))
        edited(share / relative)
        done = CliRunner().invoke(app, ["merge", str(share), "-o", str(tmp_path / "out"), "--no-report"])
        if done.exit_code:
            assert share.name in str(done.exception), done.exception
            assert not (tmp_path / "out" / "scores.parquet").exists()
        else:
            # What was not copied has been read from the corpus again.
            assert verify_folder(tmp_path / "out").damaged == ()
            shutil.rmtree(tmp_path / "out")
