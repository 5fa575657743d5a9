"""`--context`, `--stride`, `--bos` and `--batch-tokens` hold for every lens, the first three for its keys."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.capture import CaptureOptions, CaptureSettings, forward
from sonde.capture.requests import Masked, Pass, Plain, TokenScores, with_bos
from sonde.capture.windows import batch_by_length
from sonde.cli import app
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment, load_experiment, merge_overrides
from sonde.experiments.resolve import resolve_lenses
from sonde.experiments.run import run
from sonde.models import ModelSpec, load_model
from sonde.report.header import format_rerun_command
from sonde.report.run_tables import RunData
from sonde.results.scores import read_scores

from .conftest import save_decoder

PLAIN = CaptureOptions()


@pytest.fixture(scope="module")
def asked(decoder: Path, project: Path) -> Experiment:
    selection = Selection(limit=6, near_duplicates=False)
    return Experiment(models=(str(decoder),), corpora=(f"local:{project}",), selection=selection)


def observed(experiment: Experiment, folder: Path, lens: str = "surprisal") -> pl.DataFrame:
    run(experiment, Execution(output=folder))
    return pl.read_parquet(folder / f"observations/lens={lens}/**/*.parquet")


def read(asked: Experiment, folder: Path, **options: object) -> pl.DataFrame:
    chosen = dataclasses.replace(asked, capture=CaptureOptions(**options))  # pyright: ignore
    return observed(chosen, folder).sort("item_id", "position")


def test_context_and_stride_are_those_of_the_windows_that_are_read(
    asked: Experiment, decoder: Path, tmp_path: Path
) -> None:
    context, stride = 16, 5
    rows = read(asked, tmp_path, context=context, stride=stride)
    whole = rows.group_by("item_id").agg(pl.col("position").sort())
    assert all(found == list(range(len(found))) for found in whole["position"].to_list())
    # A window begins at a multiple of the stride, counted from the start token; a subword is scored in the
    # first window that it is the end of an input of.
    for place, seen in rows.select("position", "context").iter_rows():
        begin = max(0, -(-(place - context + 1) // stride)) * stride
        assert seen == (place if begin == 0 else place - begin + 1)
    assert rows["context"].max() == context
    # The numbers are those of the model on exactly that text.
    loaded = load_model(ModelSpec(name=str(decoder)))
    items = pl.read_parquet(tmp_path / "items.parquet")
    (text,) = items.filter(pl.col("item_id") == rows["item_id"][0])["text"]
    ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    mine = rows.filter(pl.col("item_id") == rows["item_id"][0])
    sequence = [loaded.special.bos, *ids]
    for place in (0, 3, context, context + 1, len(ids) - 1):
        (seen,), (nats,) = mine.filter(pl.col("position") == place).select("context", "nats")
        before = sequence[: place + 1] if seen == place else sequence[place + 1 - seen : place + 1]
        with torch.no_grad():
            logs = loaded.model(torch.tensor([before])).logits[0, -1].log_softmax(-1)
        np.testing.assert_allclose(nats, -float(logs[ids[place]]), atol=1e-5)


def test_as_much_as_the_model_takes_is_the_default(asked: Experiment, tmp_path: Path) -> None:
    usual = read(asked, tmp_path / "usual")
    named = read(asked, tmp_path / "named", context=10_000)
    assert usual["nats"].to_list() == named["nats"].to_list()
    # Half of 64 positions.
    halved = read(asked, tmp_path / "halved", stride=32)
    assert usual["nats"].to_list() == halved["nats"].to_list()


def test_without_a_start_the_first_subword_is_not_scored_unless_the_lens_says_so(
    asked: Experiment, tmp_path: Path
) -> None:
    usual, without = read(asked, tmp_path / "usual"), read(asked, tmp_path / "without", bos="none")
    first = pl.col("position") == 0
    assert usual.filter(first).height == asked.selection.limit and not without.filter(first).height
    named = dataclasses.replace(asked, options={"surprisal": {"bos": "always"}})
    both = read(named, tmp_path / "both", bos="none")
    assert both["nats"].to_list() == usual["nats"].to_list()


def test_lenses_still_share_their_forwards(asked: Experiment, tmp_path: Path) -> None:
    several = dataclasses.replace(
        asked, lenses=("surprisal", "attention"), capture=CaptureOptions(bos="none")
    )
    run(several, Execution(output=tmp_path))
    forwards = json.loads((tmp_path / "run.json").read_text())["forwards"]
    assert forwards["shared"] >= asked.selection.limit


def test_an_item_that_no_longer_fits_is_no_longer_asked_for_its_attention(
    asked: Experiment, tmp_path: Path
) -> None:
    long = save_decoder(tmp_path / "model", context=512)
    alone = dataclasses.replace(asked, models=(str(long),), lenses=("attention",))
    usual = observed(alone, tmp_path / "usual", "attention")
    short = observed(
        dataclasses.replace(alone, capture=CaptureOptions(context=12)), tmp_path / "short", "attention"
    )
    dropped = pl.col("dropped") == "longer than the context"
    assert not usual.filter(dropped).height
    assert short.filter(dropped)["item_id"].n_unique() == asked.selection.limit


def test_smaller_batches_give_the_same_scores_and_the_same_keys(
    asked: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets: set[int] = set()

    def noted(lengths: Sequence[int], keys: Sequence[str], budget: int, fill: float) -> list[list[int]]:
        budgets.add(budget)
        return batch_by_length(lengths, keys, budget, fill)

    monkeypatch.setattr(forward, "batch_by_length", noted)
    folders = {size: tmp_path / str(size) for size in (None, 64)}
    for size, folder in folders.items():
        run(asked, Execution(output=folder, batch_tokens=size))
    assert budgets == {1024, 64}
    whole, small = (read_scores(folder / "scores.parquet") for folder in folders.values())
    assert_frame_equal(whole, small, abs_tol=1e-5)
    # What was read in other batches is taken as it is.
    assert run(asked, Execution(output=folders[64])).observed == 0


def test_what_is_not_given_is_in_no_key() -> None:
    # The key that experiments had before they could say how models read.
    assert fingerprint(Experiment()) == "1294bfb09999b0f4115a31fed90c9371"
    chosen = [CaptureOptions(context=64), CaptureOptions(stride=8), CaptureOptions(bos="none"), PLAIN]
    (*keys,) = [fingerprint(Experiment(capture=one)) for one in chosen]
    assert len(set(keys)) == len(chosen)
    lenses = [resolve_lenses(Experiment(capture=one))[0].observation_lens for one in chosen]
    assert len({fingerprint(lens) for lens in lenses}) == len(chosen)


def test_what_trains_does_not_depend_on_it() -> None:
    lenses = ("surprisal", "finetune")
    read_, trained = resolve_lenses(Experiment(lenses=lenses, capture=CaptureOptions(context=64)))
    assert (read_.capture.context, trained.capture) == (64, PLAIN)
    with pytest.raises(UsageError, match="read an unchanged model, and finetune does not"):
        resolve_lenses(Experiment(lenses=("finetune",), capture=CaptureOptions(context=64)))


def test_a_file_says_it_and_the_command_line_overrides_it(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text("[capture]\ncontext = 64\nstride = 8\n")
    experiment = load_experiment(path)
    assert experiment.capture == CaptureOptions(context=64, stride=8)
    given = merge_overrides(experiment, {"context": None, "stride": 16, "bos": "none"})
    assert given.capture == CaptureOptions(context=64, stride=16, bos="none")
    assert experiment.capture.settings == CaptureSettings(context=64, step=8)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("context = 0", UsageError, "context = 0 is not a whole number of at least 1; in "),
        ("stride = 0.5", UsageError, "stride = 0.5 is not a whole number of at least 1"),
        (
            "context = 8\nstride = 9",
            UsageError,
            "would leave gaps; give a stride of at most the context; in ",
        ),
        ("bos = 'nome'", UnknownNameError, "unknown bos 'nome'; did you mean 'none'"),
        ("contxt = 8", UnknownNameError, "unknown capture key 'contxt'; did you mean 'context'"),
    ],
)
def test_what_cannot_be_is_one_line(text: str, error: type[Exception], words: str, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(f"[capture]\n{text}\n")
    with pytest.raises(error, match=words) as caught:
        load_experiment(path)
    assert "\n" not in str(caught.value)


def test_from_the_command_line_to_the_command_that_repeats_it(
    asked: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sonde.report.write_report", lambda folder, note: folder / "report.html")
    (model,), (corpus,) = asked.models, asked.corpora
    arguments = ["run", "-m", model, "-c", corpus, "--limit", "4", "-o", str(tmp_path)]
    flags = ["--context", "24", "--stride", "8", "--bos", "none"]
    result = CliRunner().invoke(app, [*arguments, *flags])
    assert result.exit_code == 0, result.output
    said = json.loads((tmp_path / "run.json").read_text())["arguments"]["capture"]
    assert said == {"context": 24, "stride": 8, "bos": "none"}
    assert " ".join(flags) in format_rerun_command(RunData(tmp_path))


def test_only_what_is_left_open_is_begun() -> None:
    wanted = (TokenScores(),)
    masked = Masked({"a": ((0,),)})
    passes = [Pass(one, wanted) for one in (Plain(), Plain(start="tokenizer"), Plain(padded=True), masked)]
    starts = [getattr(one.variant, "start", None) for one in with_bos(passes, "none")]
    assert starts == ["none", "tokenizer", "none", None]


@pytest.mark.parametrize("given", [{"context": -1}, {"chunk": -1}, {"step": -2}, {"fill": 1.5}])
def test_settings_that_cut_nothing_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(given))):
        CaptureSettings(**given)  # pyright: ignore
