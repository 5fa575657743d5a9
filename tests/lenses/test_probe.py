"""The probe lens on synthetic data sets: spans, packing, planted signals, controls and refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pytest
from tests.lenses.conftest import item_of, prepared_of, words_of
from tests.slices import with_slices

from sonde.base.errors import CaptureError, UnknownNameError, UsageError
from sonde.capture.requests import HiddenStates, ItemCapture
from sonde.comparison.summary import build_series
from sonde.corpora import Item, item_id
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, Control, LensSettings, ScoringContext
from sonde.lenses.engine.lens import CapturedItem, ControlObservations
from sonde.lenses.engine.observations import find_overlapping_subwords, pack, unpack
from sonde.lenses.probe.data import STATES_SCHEMA, gather_states
from sonde.lenses.probe.fit import Examples
from sonde.report.headlines import describe_scores
from sonde.results import spearman_rows
from sonde.results.headlines import compare_with_controls, find_headlines
from sonde.results.scores import Score, scores_to_frame
from sonde.results.text_format import SHARE
from sonde.stats.metrics import spearman
from sonde.stats.verdict import allows_verdict
from sonde.tasks import EXAMPLE_SCHEMA, Dataset
from sonde.tasks.engine.surface import surface_predictions

LAYERS, WIDTH = 3, 8
WORDS = ("alpha", "beta", "gamma", "delta", "omega", "sigma", "kappa", "theta")
TEMPLATE = Score(model="m", lens="probe", metric="", value=0.0, n=0, n_clusters=0, language="python")
QUICK: Mapping[str, str | int | float | bool] = {
    "folds": 1,
    "curves": False,
    "controls": False,
    "probe": "linear",
    "pooling": "mean",
}


def texts(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [
        f"def f{at}({rng.choice(WORDS)}):\n    return {' + '.join(rng.choice(WORDS, rng.integers(2, 9)))}\n"
        for at in range(count)
    ]


def functions(
    labels: Sequence[str], values: Sequence[float] | None = None, clusters: int = 40
) -> pl.DataFrame:
    """Examples of whole functions; split and cluster go by number."""
    rows: list[dict[str, object]] = []
    for at, (text, label) in enumerate(zip(texts(len(labels)), labels, strict=True)):
        cluster = at % clusters
        rows.append(
            {
                "example_id": f"example{at}",
                "item_id": item_id(text, "python", "function"),
                "source_id": "",
                "start": 0,
                "end": len(text),
                "label": label,
                "value": None if values is None else values[at],
                "split": ("train", "train", "train", "valid", "test")[cluster % 5],
                "cluster": f"cluster{cluster}",
                "type": "",
                "characters": len(text),
                "tokens": len(text.split()),
                "matched": True,
            }
        )
    return pl.DataFrame(rows, schema=dict(EXAMPLE_SCHEMA))


def observed(
    names: Sequence[str], states: np.ndarray, pooling: str = "mean", **ends: Sequence[int]
) -> pl.DataFrame:
    packed, scale = pack(states, list(names))
    whole = [-1] * len(names)
    columns = {"item_id": names, "start": ends.get("start", whole), "end": ends.get("end", whole)}
    rows = {**columns, "pooling": [pooling] * len(names), "states": packed, "scale": scale.tolist()}
    return pl.DataFrame(rows, schema=dict(STATES_SCHEMA))


def noise(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, LAYERS, WIDTH)).astype(np.float32)


def score(
    labels: Mapping[str, pl.DataFrame],
    observations: pl.DataFrame,
    *,
    mode: str = "corrected",
    quirks: frozenset[str] = frozenset(),
    untrained: tuple[ControlObservations, ...] = (),
    **options: str | float | bool,
) -> pl.DataFrame:
    made = {item_id(text, "python", "function"): text for text in texts(1000)}
    clusters = [f"cluster{at % 40}" for at in range(len(made))]
    items = pl.DataFrame({"item_id": list(made), "text": list(made.values()), "cluster": clusters})
    facts = {"language": "python", "unit": "function", "path": "a.py", "name": "f"}
    scoring = ScoringContext(
        observations=observations.lazy(),
        items=items.drop("text").with_columns(**{name: pl.lit(value) for name, value in facts.items()}),
        template=TEMPLATE,
        settings=LensSettings(mode=mode, quirks=quirks, options={**QUICK, **options}),
        labels=labels,
        texts=items.lazy(),
        controls=untrained,
    )
    return with_slices(scores_to_frame(LENSES.load("probe").score(scoring)))


def planted(count: int = 400, layer: int = 1, strength: float = 1.6) -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 2, count)
    states = noise(count)
    states[:, layer, 0] += strength * (2 * gold - 1)
    frame = functions([("no", "yes")[label] for label in gold])
    return frame, observed(frame["item_id"].to_list(), states)


def one(table: pl.DataFrame, **where: object) -> dict[str, object]:
    for name, value in where.items():
        table = table.filter(pl.col(name).eq_missing(pl.lit(value)))
    (row,) = table.to_dicts()
    return row


def test_a_planted_signal_is_told_at_its_layer_with_its_interval() -> None:
    frame, observations = planted()
    table = score({"task": frame}, observations)
    best = one(table, metric="accuracy", slice="best", split="test")
    assert best["layer"] == 1 and best["value"] > 0.85
    assert best["ci_low"] < best["value"] < best["ci_high"]
    assert (best["n"], best["n_clusters"], best["ci_method"]) == (80, 8, "Korn-Graubard")
    assert not allows_verdict(best)
    assert one(table, metric="coverage")["value"] == 1.0
    ranks = table.filter(pl.col("metric") == "layer_rank").sort("layer")["value"].to_list()
    assert ranks[1] == 1.0 and sum(ranks) == 6.0
    confusion = table.filter(pl.col("metric") == "confusion")
    by_gold = confusion.group_by(pl.col("slice").str.split(";").list.first()).agg(pl.col("value").sum())
    assert by_gold["value"].to_list() == pytest.approx([1.0, 1.0])
    valid = table.filter((pl.col("split") == "valid") & (pl.col("metric") == "accuracy"))
    assert valid["layer"].to_list() == [0, 1, 2] and valid["value"].arg_max() == 1


def test_accuracy_is_that_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    frame, observations = planted(strength=0.7)
    table = score({"task": frame}, observations, l2="0.05")
    examples = Examples.from_frame("task", frame)
    states, _ = gather_states(observations.lazy(), examples, "mean", language="python", token_pooling="mean")
    train, test = examples.folds[0].train, examples.tested_rows
    for layer in range(LAYERS):
        scaled = StandardScaler().fit(states[layer][train]).transform(states[layer])
        fit = LogisticRegression(C=1 / (0.05 * len(train))).fit(scaled[train], examples.labels[train])
        found = one(table, metric="accuracy", slice="all", split="test", layer=layer)
        assert found["value"] == pytest.approx(fit.score(scaled[test], examples.labels[test]), abs=0.013)


def test_shuffled_labels_are_at_chance_within_the_interval() -> None:
    frame, observations = planted(count=800)
    shuffled = frame.with_columns(label=pl.col("label").shuffle(seed=1))
    best = one(score({"task": shuffled}, observations), metric="accuracy", slice="best", split="test")
    assert best["ci_low"] <= 0.5 <= best["ci_high"]


def test_the_headline_is_the_paired_gain_over_the_surface_baseline_that_validation_chose() -> None:
    frame, observations = planted()
    table = score({"task": frame}, observations, controls=True)
    baselines = table.filter(
        (pl.col("metric") == "accuracy") & (pl.col("slice") == "best") & (pl.col("split") == "test")
    )
    told = {row["control"]: row["value"] for row in baselines.to_dicts()}
    assert {"majority", "length", "bag_of_tokens", "parse_error"} < set(told)
    gain = one(table, metric="gain", slice="best")
    # With one fold each baseline's accuracy on validation is what it reaches where validation is tested.
    examples = Examples.from_frame("task", frame)
    items = [
        Item(
            text=text,
            item_id=item_id(text, "python", "function"),
            language="python",
            unit="function",
            path="a.py",
            name="f",
        )
        for text in texts(len(frame))
    ]
    data = Dataset(task="task", version="", examples=examples.frame, inputs=())
    train, valid = examples.folds[0].train, examples.folds[0].valid
    on_valid = surface_predictions(data, items, [(train, valid, valid)])
    reached = dict(
        on_valid.group_by("control", maintain_order=True).agg(pl.col("correct").mean()).iter_rows()
    )
    assert gain["control"] == max(reached, key=reached.__getitem__)
    assert gain["value"] == pytest.approx(told[None] - told[gain["control"]])
    # On what is tested another one is the best.
    assert told[gain["control"]] < max(value for name, value in told.items() if name)
    (line,) = describe_scores(table)
    assert line.startswith("task (python), m: at layer ") and ", chosen on validation; " in line
    # The difference to the best control is in the line of the lens.
    assert "points over" not in line


def test_a_task_that_cannot_be_scored_says_why_and_the_others_go_on() -> None:
    frame, observations = planted()
    no_valid = frame.filter((pl.col("split") != "valid") | (pl.col("label") == "no"))
    broken = frame.with_columns(label=pl.lit("same"))
    unseen = frame.with_columns(item_id=pl.lit("elsewhere"))
    table = score({"a": no_valid, "b": broken, "c": unseen, "d": frame}, observations)
    reasons = dict(table.filter(pl.col("metric") == "left_out").select("task", "slice").iter_rows())
    assert "class 'yes' has no example in split 'valid'" in reasons["a"]
    assert "one class only ('same')" in reasons["b"]
    assert "there are no states with pooling 'mean'" in reasons["c"]
    assert one(table, task="d", metric="accuracy", slice="best", split="test")["value"] > 0.8
    assert sum(line.startswith("left out, m: task 'b'") for line in describe_scores(table)) == 1


def test_a_model_without_a_summary_token_is_told_which_pooling_to_leave_out() -> None:
    frame, observations = planted()
    table = score({"d": frame}, observations, pooling="mean,summary")
    ((reason,),) = table.filter(pl.col("metric") == "left_out").select("slice").iter_rows()
    assert "have no summary token; --option probe.pooling=mean,last leaves it out" in reason
    assert one(table, task="d", metric="accuracy", slice="best", split="test")["value"] > 0.8


def test_examples_without_a_state_are_counted() -> None:
    frame, observations = planted()
    table = score({"task": frame}, observations[:300])
    assert (one(table, metric="coverage")["value"], one(table, metric="coverage")["n"]) == (0.75, 400)


def test_numbers_are_told_with_and_without_length() -> None:
    frame = functions(["a", "b"] * 200)
    own = np.random.default_rng(1).normal(size=400)
    length = frame["tokens"].to_numpy() + 0.2 * frame["characters"].to_numpy()
    states = noise(400)
    states[:, 2, 0] = own + 0.1 * states[:, 2, 0]
    states[:, 0, 0] = length
    value = 3 * (length - length.mean()) / length.std() + own
    frame = frame.with_columns(value=pl.Series(value))
    observations = observed(frame["item_id"].to_list(), states)
    table = score({"task": frame}, observations, probe="linear,ridge")
    assert one(table, metric="r2", slice="best")["layer"] == 0
    assert one(table, metric="r2", slice="best;without length")["layer"] == 2
    assert one(table, metric="spearman", slice="best;without length")["value"] > 0.8
    assert one(table, metric="r2", slice="without length", layer=0)["value"] < 0.3
    assert one(table, metric="r2", control="length")["value"] > 0.7
    only_length = frame.with_columns(value=length)
    rows = score({"task": only_length}, observations, probe="linear,ridge")
    assert not rows["slice"].str.contains("without length").any()


def tokens(shown: np.ndarray, count: int = 600, kinds: int = 40) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tokens of 40 types whose states are a vector a type; the class is one feature of it."""
    frame = functions(["x"] * count)
    kind = np.arange(count) % kinds
    frame = frame.with_columns(
        start=pl.lit(4, pl.Int32),
        end=pl.lit(6, pl.Int32),
        label=pl.Series(np.where(shown[:kinds, 0] > 0, "high", "low")[kind]),
        cluster=pl.Series([f"t{k}" for k in kind]),
        type=pl.Series([f"t{k}" for k in kind]),
        split=pl.Series(np.array(["train", "train", "train", "valid", "test"])[kind % 5]),
    )
    states = noise(count) * 0.2 + shown[kind][:, None]
    observations = observed(frame["item_id"].to_list(), states, "span", start=[4] * count, end=[6] * count)
    return frame, observations


def test_selectivity_sets_a_task_against_labels_by_heart() -> None:
    """Forty types in eight dimensions: a line finds the class, and cannot hold forty labels of its own."""
    frame, observations = tokens(np.random.default_rng(0).normal(size=(40, WIDTH)))
    table = score({"task": frame}, observations, controls=True)
    found = one(table, metric="selectivity", slice="best")
    assert found["value"] > 0.1 and found["ci_low"] > 0
    seen = table.filter((pl.col("slice") == "types seen") & (pl.col("layer") == found["layer"]))
    task, control = (
        one(seen, metric="accuracy", control=None),
        one(seen, metric="accuracy", control="control_task"),
    )
    assert found["value"] == pytest.approx(task["value"] - control["value"])
    gain = one(table, metric="gain")
    assert gain["control"] in {"majority", "length", "surface", "type"} and gain["n_clusters"] == 8


def test_a_pair_is_seen_through_the_product_of_its_ends() -> None:
    rng = np.random.default_rng(4)
    count = 500
    frame = functions(["x"] * count)
    signs = rng.choice([-1, 1], size=(count, 2))
    frame = frame.with_columns(
        start=pl.lit(4, pl.Int32),
        end=pl.lit(6, pl.Int32),
        other_start=pl.lit(7, pl.Int32),
        other_end=pl.lit(12, pl.Int32),
        label=pl.Series(np.where(signs.prod(axis=1) > 0, "same", "other")),
    )
    names = frame["item_id"].to_list()
    first, second = noise(count, 1), noise(count, 2)
    first[:, 2, 0], second[:, 2, 0] = signs.T
    observations = pl.concat(
        [
            observed(names, first, "span", start=[4] * count, end=[6] * count),
            observed(names, second, "span", start=[7] * count, end=[12] * count),
        ]
    )
    best = one(score({"task": frame}, observations), metric="accuracy", slice="best", split="test")
    assert best["layer"] == 2 and best["value"] > 0.95


def test_random_weights_are_compared_on_what_all_of_them_read() -> None:
    frame, observations = planted(count=800)
    names = frame["item_id"].to_list()
    untrained = tuple(
        ControlObservations(
            Control(seed, 1.0), observed(names[seed : 400 + seed], noise(400, 10 + seed)).lazy()
        )
        for seed in range(3)
    )
    table = score({"task": frame}, observations, untrained=untrained, controls=True)
    gain = one(table, metric="gain", control="random_weights")
    assert gain["slice"] == "best;share=1" and gain["value"] > 0.2 and gain["ci_low"] > 0
    each = table.filter((pl.col("control") == "random_weights") & (pl.col("slice") == "best;share=1"))
    assert each.filter(pl.col("metric") == "accuracy")["seed"].to_list() == [0, 1, 2]
    test = frame[2:400].filter(pl.col("split") == "test")
    assert gain["n"] == test.height
    few = tuple(
        dataclasses.replace(control, observations=control.observations.head(2)) for control in untrained[:1]
    )
    row = one(score({"task": frame}, observations, untrained=few, controls=True), metric="left_out")
    assert row["control"] == "random_weights" and "raise random_weights_share" in row["slice"]


def test_curves_grow_and_codelengths_shrink_with_the_signal() -> None:
    frame, observations = planted(count=900, strength=1.2)
    table = score({"task": frame}, observations, curves=True, mdl=True)
    small = one(table, slice="size=100")
    assert one(table, slice="size=100")["k"] == 100 and small["n"] == 180
    assert small["value"] <= one(table, metric="accuracy", slice="best", split="test")["value"] + 0.02
    codes = table.filter(pl.col("metric") == "compression").sort("layer")
    assert (
        codes["value"].arg_max() == 1
        and codes["value"][1] > 1.3
        and codes["split"].unique().to_list() == ["train"]
    )


def test_the_published_protocol_is_another_probe_on_the_same_states() -> None:
    frame, observations = planted(count=300)
    named = observations.with_columns(pooling=pl.lit("summary"))
    table = score(
        {"task": frame}, pl.concat([observations, named]), quirks=frozenset({"inspect.adam_protocol"})
    )
    best = one(table, metric="accuracy", slice="best", split="test", pooling="mean")
    assert best["method"] == "paper" and best["layer"] == 1
    assert one(table, metric="accuracy", slice="best", split="test")["pooling"] == "mean"
    lens = LENSES.load("probe")
    (asked,) = lens.input_requests([], {"task": frame}, LensSettings(mode="paper"))
    assert asked.requests == (HiddenStates(pooling=("summary",)),)


def test_requests_and_rows_take_the_subwords_of_a_token() -> None:
    lens = LENSES.load("probe")
    text = "alpha = betagamma(delta)"
    item = item_of(text, item_id="i")
    prepared = prepared_of(item, ["alpha", " =", " beta", "gamma", "(", "delta", ")"])
    whole = {"start": 0, "end": len(text), "other_start": None, "other_end": None}
    span = {"start": 8, "end": 17, "other_start": 18, "other_end": 23}
    rows = [{"item_id": "i", "characters": len(text), **ends} for ends in (whole, span)]
    labels = {"t": pl.DataFrame(rows, schema={name: EXAMPLE_SCHEMA[name] for name in rows[0]})}
    settings = LensSettings(options={"pooling": "mean"})
    (asked,) = lens.input_requests([prepared], labels, settings)
    assert asked.requests == (
        HiddenStates(pooling=("mean",)),
        HiddenStates(pooling=("spans",), spans={"i": ((2, 4), (5, 6))}),
    )
    states = {"mean": noise(1)[0], "spans": np.stack([noise(1, 5)[0], noise(1, 6)[0]], axis=1)}
    table = lens.observe([CapturedItem(prepared, (ItemCapture("i", states=states),))], labels, settings, [])
    assert table.schema == pl.Schema(STATES_SCHEMA)
    assert table.select("start", "end", "pooling").rows() == [
        (-1, -1, "mean"),
        (8, 17, "span"),
        (18, 23, "span"),
    ]
    back = unpack(table["states"].to_list(), np.array(table["scale"].to_list()))
    np.testing.assert_allclose(back[:, 0], states["mean"], rtol=1e-3)
    np.testing.assert_allclose(back[:, 2], states["spans"][:, 1], rtol=1e-3)


def test_the_subwords_of_a_place_are_those_that_touch_it() -> None:
    text = "if naïve:\n    x"
    subwords = prepared_of(item_of(text), words_of(text)).alignment.subwords
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            first, stop = find_overlapping_subwords([(start, end)], subwords)
            touched = [
                at for at in range(len(subwords)) if subwords.start[at] < end and subwords.end[at] > start
            ]
            assert list(range(first[0], stop[0])) == touched


def test_a_token_that_no_subword_touches_and_a_missing_summary_leave_no_row() -> None:
    lens = LENSES.load("probe")
    text = "alpha  = beta"
    prepared = prepared_of(item_of(text, item_id="i"), ["alpha", "  =", " beta"])
    whole = {"item_id": "i", "start": 0, "end": 13, "other_start": None, "other_end": None, "characters": 13}
    rows = [whole, {**whole, "start": 13, "end": 14}]
    labels = {"t": pl.DataFrame(rows, schema={name: EXAMPLE_SCHEMA[name] for name in whole})}
    states = {"mean": noise(1)[0], "summary": np.full((LAYERS, WIDTH), np.nan), "spans": noise(1, 2)}
    settings = LensSettings(options={"pooling": "mean,summary"})
    captured = CapturedItem(prepared, (ItemCapture("i", states=states),))
    table = lens.observe([captured], labels, settings, [])
    assert table.select("start", "end", "pooling").rows() == [(-1, -1, "mean")]
    nothing = lens.observe([CapturedItem(prepared, ())], labels, settings, [])
    assert nothing.is_empty() and nothing.schema == pl.Schema(STATES_SCHEMA)


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 3e4, 1e6, 3e38])
def test_packing_keeps_three_digits_at_any_size(size: float) -> None:
    states = noise(5) * np.float32(size / 5)
    packed, scale = pack(states, ["i"] * 5)
    back = unpack(packed, scale).transpose(1, 0, 2)
    assert np.isfinite(back).all()
    assert (np.abs(back - states) <= 1e-3 * np.abs(states) + 1e-6 * np.abs(states).max()).all()
    assert (np.log2(scale) % 1 == 0).all()


def test_an_infinite_state_is_an_error() -> None:
    states = noise(2)
    states[1, 2, 3] = np.inf
    with pytest.raises(CaptureError, match="item second: a state of layer 2 is not finite"):
        pack(states, ["first", "second"])


def test_tokens_are_shown_alone_where_that_is_asked_for() -> None:
    lens = LENSES.load("probe")
    frame, observations = tokens(np.random.default_rng(0).normal(size=(40, WIDTH)))
    items = [item_of("x", item_id="i", language="python")]
    settings = LensSettings(options={"isolated": True})
    shown = lens.inputs(items, {"task": frame}, settings)
    alone: list[Item] = [one for one in shown if one.unit == "token"]
    assert len(shown) == 41 and {one.text for one in alone} == set(frame["type"])
    assert lens.inputs(items, {"task": frame}, LensSettings()) == items
    table = lens.observe(
        [
            CapturedItem(
                prepared_of(alone[0], [alone[0].text]),
                (ItemCapture("i", states={"mean": noise(1)[0], "last": noise(1)[0]}),),
            )
        ],
        {"task": frame.clear()},
        settings,
        [],
    )
    assert table["pooling"].to_list() == ["mean", "last"]
    vectors = observed([one.item_id for one in alone], noise(40, 3), "mean")
    rows = score({"task": frame}, pl.concat([observations, vectors]), isolated=True)
    assert rows["pooling"].unique().sort().to_list() == ["isolated", "span"]


def test_rank_correlation_is_scipys_and_its_interval_holds_it() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 6, 300).astype(float)
    said = gold + rng.normal(size=300)
    (row,) = spearman_rows(TEMPLATE, gold, said, np.arange(300) // 5, seed=0)
    assert row.value == pytest.approx(spearman(gold[None], said[None])[0])
    assert row.ci_low is not None and row.ci_high is not None and row.ci_low < row.value < row.ci_high


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "means"}, "did you mean 'mean'"),
        ({"probe": ""}, "option probe = '' is not any of linear, mlp, ridge"),
        ({"l2": "1,-2"}, "is not a number above 0, or several"),
        ({"l2": "much"}, "is not a number above 0, or several"),
        ({"seeds": 0}, "whole number of at least 1"),
        ({"curves": "yes"}, "is not true or false"),
        ({"random_weights_share": 2}, "is not a number from 0 to 1"),
    ],
)
def test_options_are_checked_in_one_line(options: dict[str, str | int], message: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=message) as error:
        LENSES.load("probe").controls(LensSettings(options=options))
    assert "\n" not in str(error.value)


def test_quirks_are_those_of_the_protocol_and_of_the_labels() -> None:
    quirks = LENSES.load("probe").quirks
    assert {"inspect.adam_protocol", "inspect.decisions", "inspect.keyword_text"} <= set(quirks)
    assert all(name.startswith("inspect.") for name in quirks)


def test_random_weights_are_three_over_a_tenth_and_go_with_the_controls() -> None:
    lens = LENSES.load("probe")
    controls = lens.controls(LensSettings())
    assert [control.share for control in controls] == [0.1] * 3 and len(
        {control.seed for control in controls}
    ) == 3
    assert lens.controls(LensSettings(options={"controls": False})) == ()


def check_whole_trees(table: pl.DataFrame) -> None:
    """A node a direction says much of the labels; noise says what is commonest."""
    rows = table.filter(pl.col("task") == "whole_trees", pl.col("metric") == "tree_f1")
    every = rows.filter(pl.col("slice").str.starts_with("rank="))
    assert every.height == 4 and set(every["slice"]) == {"rank=8", "rank=32"}
    best = one(rows.filter(pl.col("slice").str.contains("best")), control=None)
    assert best["layer"] == 1 and best["seeds"] == 5 and best["value"] > every.filter(layer=0)["value"].max()
    # Pairs of words tell all but how the sums nest.
    assert one(rows, control="gold_tree")["value"] == 1.0
    assert one(rows, control="token_pairs")["value"] > one(rows, control="right_branching")["value"]
    gain = one(table, task="whole_trees", metric="tree_f1_gain")
    assert gain["control"] == "token_pairs"
    assert gain["value"] == pytest.approx(best["value"] - one(rows, control="token_pairs")["value"])


@pytest.mark.slow
def test_structural_probes_find_the_tree_in_the_layer_that_holds_it() -> None:
    """A node a direction, a token the sum of its path; the other layers are noise."""
    language = LANGUAGES.load("python")
    frame = functions([("no", "yes")[at % 2] for at in range(150)])
    rng = np.random.default_rng(0)
    parts: list[pl.DataFrame] = []
    for text, item in zip(texts(150), frame["item_id"].to_list(), strict=True):
        tree = language.parse(text)
        tokens = language.tokens(tree)
        paths = np.zeros((len(tree), 64), dtype=np.float32)
        for node, above in enumerate(tree.parent.tolist()):
            if above >= 0:
                paths[node] = paths[above]
                paths[node, node] = 1.0
        states = rng.normal(size=(len(tokens), 2, 64)).astype(np.float32)
        states[:, 1] = paths[tokens.node]
        ends = {"start": tokens.start.tolist(), "end": tokens.end.tolist()}
        parts.append(observed([item] * len(tokens), states, "span", **ends))
    whole = observed(frame["item_id"].to_list(), rng.normal(size=(150, 2, 64)))
    table = score({"task": frame}, pl.concat([whole, *parts]), structural=1.0, tree_ranks="8,32")
    best = one(table, task="syntax_tree", metric="uuas", slice="best", control=None)
    assert best["layer"] == 1
    check_whole_trees(table)
    for metric in ("uuas", "distance_spearman", "depth_spearman"):
        rows = table.filter((pl.col("metric") == metric) & (pl.col("slice") == "all")).sort("layer")
        assert rows["value"][1] > rows["value"][0] + 0.2
        assert one(table, metric=metric, control="neighbours")["n"] == best["n"]
        assert one(table, metric=metric, control="gold_distances")["value"] == pytest.approx(1.0)


@pytest.mark.parametrize("about", ["functions", "tokens"])
@pytest.mark.parametrize("part", ["everywhere", "train"])
def test_one_class_is_left_out_with_its_reason_before_baselines_are_fitted(about: str, part: str) -> None:
    frame, observations = planted() if about == "functions" else cued(decided=True)
    same = pl.lit(True) if part == "everywhere" else pl.col("split") == "train"
    labels = frame.with_columns(label=pl.when(same).then(pl.lit("same")).otherwise("label"))
    (row,) = score({"task": labels}, observations, controls=True).to_dicts()
    assert row["metric"] == "left_out" and "class" in row["slice"]


def cued(decided: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tokens whose class the word behind them decides, or nothing; states know it in part."""
    rng = np.random.default_rng(6)
    behind = [text[text.index("return") + 7 :].split()[0] for text in texts(600)]
    gold = np.array([word < "delta" for word in behind]) if decided else rng.random(600) < 0.5
    frame = functions(["x"] * 600).with_columns(
        start=pl.Series([text.index("return") for text in texts(600)], dtype=pl.Int32),
        end=pl.Series([text.index("return") + 6 for text in texts(600)], dtype=pl.Int32),
        label=pl.Series(np.where(gold, "high", "low")),
        type=pl.lit("return"),
        value=pl.Series(gold + 0.1 * rng.normal(size=600)),
    )
    states = noise(600)
    states[:, 1, 0] += 1.5 * (2 * gold - 1)
    ends = {name: frame[name].to_list() for name in ("start", "end")}
    return frame, observed(frame["item_id"].to_list(), states, "span", **ends)


OPTIONS: Mapping[str, str | int | bool] = {"controls": True, "folds": 3, "probe": "linear,ridge"}


def without_cues(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("control").ne_missing("local_cues"))


@pytest.mark.parametrize("decided", [True, False])
def test_local_cues_stand_beside_the_probe_and_take_no_verdict(
    decided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, observations = cued(decided)
    table = score({"task": frame}, observations, **OPTIONS)
    best = one(table, metric="accuracy", slice="best", split="test", control=None)
    cues = one(table, metric="accuracy", control="local_cues")
    gain = one(table, metric="cues_gain", of_metric="accuracy")
    assert cues["value"] > 0.98 if decided else abs(cues["value"] - 0.5) < 0.1
    assert gain["value"] == pytest.approx(best["value"] - cues["value"])
    assert gain["ci_low"] < gain["value"] < gain["ci_high"] and (gain["ci_high"] < 0) is decided
    for row in (cues, gain):
        assert (row["n"], row["n_clusters"], row["pooling"]) == (600, 40, "span")
    assert (cues["layer"], gain["layer"], gain["slice"]) == (None, best["layer"], "best")
    r2 = {row["control"]: row["value"] for row in table.filter(metric="r2", slice="best").to_dicts()}
    rest = one(table, metric="cues_gain", of_metric="r2")
    assert rest["value"] == pytest.approx(r2[None] - r2["local_cues"])
    assert (rest["ci_high"] < 0) is decided
    # Whatever they reach, the verdict is that over the surface baseline, and no other row is another.
    monkeypatch.setattr("sonde.tasks.engine.surface.has_marked_spans", lambda examples: False)
    scored = score({"task": frame}, observations, **OPTIONS)
    assert scored.equals(without_cues(table), null_equal=True)
    headline = LENSES.load("probe").headline
    assert headline is not None
    said = [
        compare_with_controls(rows.filter(headline.where).to_dicts(), headline) for rows in (table, scored)
    ]
    assert said[0] == said[1] and said[0] is not None and said[0].kind == "above"
    assert find_headlines(table.filter(metric="accuracy")) == find_headlines(scored.filter(metric="accuracy"))
    steps = [
        build_series([(1, rows)], {"probe": LENSES.load("probe").comparable_metrics})
        for rows in (table, scored)
    ]
    assert steps[0].equals(steps[1], null_equal=True)


@pytest.mark.parametrize("decided", [True, False])
def test_the_headline_says_what_the_word_and_its_neighbours_tell(decided: bool) -> None:
    frame, observations = cued(decided)
    table = score({"task": frame}, observations, **OPTIONS)
    (line,) = describe_scores(table)
    best = one(table, metric="accuracy", slice="best", split="test", control=None)
    cues, gain = (
        one(table, control="local_cues", metric="accuracy"),
        one(table, metric="cues_gain", of_metric="accuracy"),
    )
    words = "less from the states" if decided else "more from the states"
    assert (
        f"; read from the states with {100 * best['value']:.1f} %, from the word and its neighbours" in line
    )
    assert f" with {SHARE.estimate(cues)}: {words}, {SHARE.change(gain, sign='+')}; encoded: " in line
    few = table.with_columns(effective_clusters=pl.lit(3.0))
    assert "%: too little data, " in next(describe_scores(few))
    level = pl.when(pl.col("metric") == "cues_gain")
    wide = table.with_columns(
        ci_low=level.then(pl.lit(-0.2)).otherwise("ci_low"),
        ci_high=level.then(pl.lit(0.2)).otherwise("ci_high"),
    )
    assert "%: no difference found, " in next(describe_scores(wide))
    assert "read from" not in next(describe_scores(without_cues(table)))
