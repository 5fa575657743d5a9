"""Scores of every lens moved to the edges at which sentences go wrong, and all that is said of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.report import (
    test_accepted,
    test_any_lens,
    test_attention_sections,
    test_behind_file,
    test_causal_depth_sections,
    test_causal_sections,
    test_cloze_sections,
    test_finetune_sections,
    test_joined,
    test_over_models,
    test_periods,
    test_probe_sections,
    test_prompted,
)
from tests.report.synthetic import Source, write_run

from sonde.report import RunData, answer_by_task, format_entry, format_outcome, write_card
from sonde.report.card import Card, render_markdown
from sonde.report.header import list_missing_results
from sonde.report.headlines import load_titles
from sonde.report.page import build_sections
from sonde.report.requirements import COLUMNS
from sonde.report.run_summary import describe_run
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory, slug


def _preferences() -> list[Score]:
    """Minimal pairs: three faults, each beside a control."""
    found: list[Score] = []
    for task in ("variable_misuse", "wrong_operator", "swapped_operands"):
        for metric, more in (
            ("preferred", {}),
            ("preferred", {"control": "ngram"}),
            ("gain", {"of_metric": "preferred", "compared_to": "ngram"}),
        ):
            found.append(
                Score(
                    model="org/one",
                    lens="surprisal",
                    task=task,
                    language="python",
                    metric=metric,
                    value=0.5,
                    n=400,
                    n_clusters=30,
                    ci_low=0.4,
                    ci_high=0.6,
                    **more,
                )
            )
    return found


def _prompted() -> list[Score]:
    score = test_prompted.score
    found = [score((), "p_at_k", 0.25, k) for k in (1, 20)]
    found += [score((), "p_at_k", 0.5, 20, "generative_lenient")]
    return [*found, score((), "share_refused", 0.4), score((), "share_unread", 0.1)]


def _fidelity() -> list[Score]:
    """Two models compared with a base: the rows over all text, of the sizes, and by slice."""
    found: list[Score] = []
    for model, size in (("org/q8", 2e8), ("org/q4", 1e8)):
        score = Score(
            model=model,
            lens="fidelity",
            language="python",
            metric="kl",
            value=0.2,
            n=500,
            n_clusters=30,
            ci_low=0.18,
            ci_high=0.22,
            compared_to="org/base",
            objective="causal",
        )
        everywhere = (
            "kl",
            "kl_reverse",
            "kl_p99",
            "same_first",
            "flips",
            "won",
            "lost",
            "top1_change",
            "bits",
        )
        everywhere += ("base_bits", "bits_change", "bits_distance", "rms_probability")
        found += [dataclasses.replace(score, metric=name) for name in (*everywhere, "bits_per_byte_change")]
        found += [
            dataclasses.replace(score, metric=name, dimensions=((dimension, value),))
            for dimension, values in (
                ("construct", ("loop", "call", "function_body")),
                ("kind", ("identifier", "keyword")),
                ("role", ("call",)),
                ("position", ("1-16", "17-64")),
            )
            for value in values
            for name in everywhere
        ]
        found += [
            dataclasses.replace(score, metric=name, value=value, n_clusters=0, ci_low=None, ci_high=None)
            for name, value in (
                ("bytes", size),
                ("bits_per_weight", size / 2e7),
                ("base_bytes", 4e8),
                ("base_bits_per_weight", 16.0),
            )
        ]
    return found


def _of_any_lens() -> list[Score]:
    by_layer = [test_any_lens.row(layer=layer) for layer in range(5)]
    by_value = [test_any_lens.row(0.5, ("depth", str(depth)), lens="other") for depth in range(6)]
    return [*by_layer, *by_value]


def _any_beside_a_control() -> list[Score]:
    return [test_any_lens.row(), test_any_lens.row(0.3, control="chance")]


def _interventions() -> list[Score]:
    """Erased properties, ablated heads, layers and patching of one model."""
    depth = [*test_causal_depth_sections.layered(), *test_causal_depth_sections.patched(4.0)]
    return [
        *test_causal_sections.scores(25.0),
        *(dataclasses.replace(one, model="org/m", split="test") for one in depth),
    ]


def _over_models() -> list[Score]:
    rng = np.random.default_rng(0)
    learned = test_over_models.LEARNED
    return [
        score
        for place, value in enumerate(learned)
        for score in test_over_models.of_model(f"org/m{place}", value, rng.random())
    ]


def _of_models(build: Callable[[str], list[Score]], models: object) -> list[Score]:
    return [score for model in models for score in build(model)]  # type: ignore[attr-defined]


SCORES: dict[str, Callable[[], list[Score]]] = {
    "attention": lambda: _of_models(test_attention_sections.scores_of, test_attention_sections.MODELS),
    "causal": _interventions,
    "cloze": lambda: _of_models(
        lambda name: test_cloze_sections.scores_of(name, 0.2), test_cloze_sections.MODELS
    ),
    "fidelity": _fidelity,
    "finetune": test_finetune_sections.scores,
    "probe": lambda: _of_models(test_probe_sections.scores_of, test_probe_sections.MODELS),
    "prompting": _prompted,
    "surprisal": _preferences,
    "any": _of_any_lens,
}
"""Scores with the rows that each lens writes, by lens; ``any`` is of lenses that a user hands in."""

MORE: dict[str, Callable[[], list[Score]]] = {
    "accepted": lambda: list(test_accepted.told("org/one")),
    "any_beside_a_control": _any_beside_a_control,
    "behind_file": lambda: list(test_behind_file.told("org/one")),
    "joined": lambda: list(test_joined.SCORES),
    "over_models": _over_models,
    "periods": lambda: test_periods.told(0.3, 0.1),
    "swept": test_finetune_sections.swept,
}
"""The same of what runs have only where it is asked for."""


def write_scores(folder: Path, lens: str, sources: Sequence[Source]) -> pl.DataFrame:
    """A run folder of the lens; surprisal has real observations, whose scores stand beside those of pairs."""
    found = {**SCORES, **MORE}[lens]()
    models = dict.fromkeys((score.model for score in found), 1.0)
    observed = lens in ("surprisal", "behind_file")
    write_run(folder, list(sources[::4]) if observed else [], models)
    scores = scores_to_frame(found)
    if lens == "surprisal":
        scores = pl.concat([pl.read_parquet(RunDirectory(folder).scores), scores])
    if lens == "periods":
        held = RunDirectory(folder).read_summary()
        held["arguments"] = {**held["arguments"], "selection": {"cut_off": "2024-01-01"}}
        RunDirectory(folder).write_summary(held)
    return scores


CLUSTERS = 30.0

COUNTED = frozenset(
    (
        "items", "edges", "left_out", "coverage", "loss", "learning_rate", "batch", "epochs", "best_epoch",
        "best_at_end", "rate_at_edge", "truncated", "listed", "realised_change", "overlap",
        "bytes", "base_bytes", "bits_per_weight", "base_bits_per_weight",
    )
)  # fmt: skip
"""Metrics that say how something was done, which no edge moves."""

IS_DIFFERENCE = (
    pl.col("metric").str.contains("gain|change|selectivity|margin|excess|apart|_lost|spearman_frequency")
    | pl.col("compared_to").is_not_null()
    | pl.col("dimensions").list.eval(pl.element().struct.field("value").str.contains(r"^\w+-\w+$")).list.any()
)
"""Numbers of which 0 is no difference."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Edge:
    """Where the numbers of a run lie, and what is true of all of them.

    Attributes:
        own: Shares of the models.
        control: Shares of controls.
        difference: Paired differences.
        half: Half of every interval's width; None where no interval is known.
        clusters: Effective clusters.
        varied: How far numbers lie around the named ones, as a share of ``half``.
        more: Other columns.
        allows: Whether a verdict is allowed; None where it depends on the row.
        apart: Whether every interval of a difference excludes 0, and that of a share its control's.
    """

    own: float
    control: float
    difference: float
    half: float | None
    clusters: float = CLUSTERS
    varied: float = 0.3
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    allows: bool | None = True
    apart: bool | None = True

    def move(self, scores: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
        """Return the scores with their numbers at this edge."""
        size = scores.height
        half = 0.0 if self.half is None else self.half
        spread = pl.lit(pl.Series(half * self.varied * rng.uniform(-1, 1, size)))
        value = (
            pl.when(IS_DIFFERENCE)
            .then(self.difference)
            .when(pl.col("control").is_not_null())
            .then(self.control)
            .otherwise(self.own)
        ) + spread
        moved = ~pl.col("metric").is_in(COUNTED)
        ends = {"ci_low": value - half, "ci_high": value + half} if self.half is not None else {}
        numbers = {
            "value": value,
            "ci_low": ends.get("ci_low", pl.lit(None)),
            "ci_high": ends.get("ci_high", pl.lit(None)),
            "df": pl.lit(max(self.clusters - 1, 0.5)),
            "effective_clusters": pl.lit(self.clusters),
            "n_clusters": pl.lit(int(np.ceil(self.clusters))),
            "n": pl.lit(500),
            "n_eff": pl.lit(None),
            "seeds": pl.lit(None),
            "ci_method": pl.lit("clustered jackknife, logit"),
            **{name: pl.lit(held) for name, held in self.more.items()},
        }
        return scores.with_columns(
            pl.when(moved).then(held).otherwise(name).cast(scores.schema[name]).alias(name)
            for name, held in numbers.items()
        )


BETTER: dict[str, Any] = {"own": 0.6, "control": 0.4, "difference": 0.2, "half": 0.02}
LEVEL: dict[str, Any] = {"own": 0.5, "control": 0.5, "difference": 0.0, "half": 0.02, "apart": False}
FEW: dict[str, Any] = {"allows": False}

EDGES: Mapping[str, Edge] = {
    "better": Edge(**BETTER),
    "worse": Edge(own=0.4, control=0.6, difference=-0.2, half=0.02),
    "ten clusters": Edge(**BETTER, clusters=10.0),
    "level": Edge(**LEVEL),
    "exactly level": Edge(**LEVEL, varied=0.0),
    "not sure": Edge(own=0.55, control=0.5, difference=0.05, half=0.1, apart=False),
    "slight": Edge(own=0.502, control=0.5, difference=0.002, half=0.0005, apart=None),
    "sure on few clusters": Edge(**BETTER, clusters=4.0, **FEW),
    "level on few clusters": Edge(**LEVEL, clusters=4.0, **FEW),
    "all but ten clusters": Edge(**BETTER, clusters=9.9996, **FEW),
    "one cluster": Edge(**{**BETTER, "half": None}, clusters=1.0, **FEW),
    "one observation": Edge(
        own=1.0, control=0.0, difference=1.0, half=None, clusters=1.0, more={"n": 1, "n_eff": 1.0}, **FEW
    ),
    "no interval": Edge(**{**BETTER, "half": None}, **FEW),
    "one seed": Edge(**BETTER, more={"seeds": 1}, **FEW),
    "four seeds": Edge(**BETTER, more={"seeds": 4}, **FEW),
    "few observations": Edge(**BETTER, more={"n_eff": 29.8}, **FEW),
    "wide": Edge(own=0.5, control=0.3, difference=0.2, half=0.1502, more={"n_eff": 90.0}, **FEW),
    "no variation": Edge(**{**BETTER, "half": 0.0}, allows=None, apart=None),
    "zero": Edge(own=0.0, control=0.0, difference=0.0, half=0.0, allows=None, apart=None),
    "all": Edge(own=1.0, control=1.0, difference=0.0, half=0.0, allows=None, apart=None),
    "rounds to no difference": Edge(
        own=0.4997, control=0.5, difference=-0.0003, half=0.02, varied=0.0, apart=False
    ),
    "tiny": Edge(own=3e-7, control=1e-7, difference=2e-7, half=2e-8, apart=None),
    "huge": Edge(own=3e7, control=1e7, difference=2e7, half=1e6),
    "negative": Edge(own=-0.6, control=-0.4, difference=-0.2, half=0.02, apart=None),
    "no number": Edge(own=float("nan"), control=0.4, difference=float("nan"), half=None, allows=None),
    "endless": Edge(
        own=0.6, control=0.4, difference=0.2, half=float("inf"), varied=0.0, allows=None, apart=None
    ),
}
"""Where the numbers of a whole run may lie."""


def mix_edges(scores: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Return the scores with each row at an edge of its own."""
    moved = pl.concat([edge.move(scores, rng).with_row_index("_row") for edge in EDGES.values()])
    chosen = pl.Series(rng.integers(len(EDGES), size=scores.height) * scores.height)
    places = chosen + pl.int_range(scores.height, eager=True)
    return moved[places.to_list()].drop("_row")


def _of_one(scores: pl.DataFrame, column: str) -> pl.DataFrame:
    return scores.filter(pl.col(column) == pl.col(column).last())


SHAPES: Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "as it is": lambda scores: scores,
    "one model": lambda scores: _of_one(scores, "model"),
    "one task": lambda scores: _of_one(scores, "task"),
    "two languages": lambda scores: pl.concat([scores, scores.with_columns(language=pl.lit("java"))]),
    "three models": lambda scores: pl.concat(
        [_of_one(scores, "model").with_columns(model=pl.lit(name)) for name in ("a/one", "b/two", "c/three")]
    ),
}
"""What a run is over."""


def place_scores(folder: Path, scores: pl.DataFrame) -> None:
    """Make these the scores of a run, and their models its models, each with a tokenizer of its own."""
    directory = RunDirectory(folder)
    scores.write_parquet(directory.scores)
    held = directory.read_summary()
    known = held["models"][0]
    held["models"] = [
        {**known, "name": name, "slug": slug(name), "vocab": 8000 + 1000 * place}
        for place, name in enumerate(scores["model"].unique(maintain_order=True))
    ]
    directory.write_summary(held)


def read_texts(folder: Path, card: Card) -> Iterator[tuple[str, str]]:
    """Every sentence that a run and its card have for a reader, each with where it stands."""
    run = RunData(folder)
    yield from (("terminal", line) for line in describe_run(run))
    yield from (("task answers", answer.verdict) for answer in answer_by_task(run))
    for one in list_missing_results(run):
        yield "missing", f"{one.what}: {one.why}. {one.remedy}"
    yield from (("card", format_entry(one)) for one in card.headlines)
    yield from (("card.md", line) for line in render_markdown(card).splitlines() if not line.startswith("- "))
    for lens, title in load_titles(run).items():
        if (top := title.top(run)) is not None:
            yield f"top of {lens}", top.headline
            yield f"top of {lens}", top.note
            yield from ((f"top of {lens}", line) for line in top.lines)
    for section in build_sections(run):
        figure = section.figure
        yield section.name, figure.lead
        yield from ((section.name, line) for line in figure.answer.splitlines())
        yield from ((section.name, note) for note in figure.notes)
        if figure.table is not None:
            yield section.name, figure.table.summary


def read_gate(folder: Path, card: Card) -> Iterator[tuple[str, str]]:
    """The outcomes of requirements on numbers of the card, each with a bound that it keeps and one not."""
    lines: list[str] = []
    for one in card.headlines[:_REQUIRED]:
        number = one.number
        if number.value is None or not np.isfinite(number.value):
            continue
        own = {name: getattr(number, name) for name in COLUMNS if getattr(number, name) not in (None, "")}
        for bound in (number.value - 1e9, number.value + 1e9):
            lines += ["[[require]]", f'lens = "{number.lens}"', f'metric = "{number.metric}"']
            lines += [f"at_least = {bound!r}", f"slice = {_inline(number.slice)}"]
            lines += [f'task = "{number.task}"'] if number.task else []
            lines += [f"where = {_inline({name: own[name] for name in own if name in _WHERE})}", ""]
    if not lines:
        return
    path = folder / "require.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    for outcome in write_card(folder, path).requirements:
        yield "gate", format_outcome(outcome)


_REQUIRED = 4
_WHERE = (
    "model",
    "language",
    "side",
    "layer",
    "head",
    "pooling",
    "k",
    "method",
    "matching",
    "split",
    "of_metric",
)


def _inline(table: Mapping[str, Any]) -> str:
    """A table of TOML on one line."""
    pairs = (f"{json.dumps(name)} = {json.dumps(value)}" for name, value in table.items())
    return "{" + ", ".join(pairs) + "}"
