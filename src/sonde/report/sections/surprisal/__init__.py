"""Sections of the lens `surprisal`: their title, with bits per byte and the other overall numbers.

The title answers for each model and language. It also gives the token explorer the surprisal at the places of
single functions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.base.formatting import DASH, count, number
from sonde.languages import CONSTRUCT_LABELS, format_language
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import (
    AMOUNT,
    COLOURINGS,
    WAYS,
    CrossLensNumber,
    LensTitle,
    PageHeader,
    StatTile,
    TokenFindings,
    TokenLens,
)
from sonde.report.sections.surprisal._scores import (
    BITS_PER_NAT,
    LENS,
    MIN_COUNT,
    SURPRISES,
    read_observations,
    read_slices,
)
from sonde.results.extremes import describe_ends
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import SHARED_TOKENS, dimension_value, has_dimension_names, has_dimensions
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, score_columns
from sonde.results.text_format import interval, with_interval
from sonde.stats.verdict import no_verdict_reason

__all__ = ["title"]

_READ = [
    "item_id", "position", "start", "end", "subword", "nats", "rank", "entropy", "context", "kind", "tag",
    "construct", "merged", "top", "top_nats",
]  # fmt: skip


_COLUMNS = ("bits", "rank", "entropy", "context", "merged", "subword", "tag", "kind", "construct", "top")


def _list_item_ids(run: RunData) -> list[str]:
    ids = [
        read_observations(run, model, ["item_id"]).select(pl.col("item_id").unique()) for model in run.models
    ]
    return pl.concat(ids).collect()["item_id"].unique().to_list()


def _difficulty(run: RunData) -> pl.DataFrame | None:
    """Bits per byte of every function that all models read, averaged over them."""
    frames = [
        read_observations(run, model, ["item_id", "nats", "bytes"])
        .filter(pl.col("nats").is_finite())
        .group_by("item_id")
        .agg(
            nats=pl.col("nats").cast(pl.Float64).sum(),
            bytes=pl.col("bytes").cast(pl.Int64).sum(),
            subwords=pl.len(),
        )
        .collect(engine="streaming")
        for model in run.models
    ]
    frames = [frame for frame in frames if frame.height]
    if not frames:
        return None
    rate = (pl.col("nats") * BITS_PER_NAT / pl.col("bytes")).mean()
    return (
        pl.concat([frame.filter(pl.col("bytes") > 0) for frame in frames])
        .group_by("item_id")
        .agg(difficulty=rate, subwords=pl.col("subwords").min(), models=pl.len())
        .filter(pl.col("models") == len(frames))
        .sort("item_id")
        .select("item_id", "difficulty", "subwords")
    )


def _read_findings(run: RunData, items: Sequence[str], characters: int) -> TokenFindings | None:
    read = [model for model in run.models if run.table(LENS, model) is not None]
    if not read:
        return None
    pieces = {model.slug: _pieces(run, model, items, characters) for model in read}
    sizes = {
        row["item_id"]: len(row["text"][:characters].encode("utf-8", "replace"))
        for row in run.items(items).iter_rows(named=True)
    }
    return TokenFindings(
        lens=LENS,
        label="Surprisal",
        kind=AMOUNT,
        columns=_COLUMNS,
        texts=frozenset({"subword", "tag", "kind", "construct"}),
        facts=(
            ("rank", "rank", ""),
            ("entropy", "entropy", "bits"),
            ("tag", "tag", ""),
            ("kind", "kind", ""),
            ("construct", "construct", ""),
            ("context", "context", "subwords before it"),
        ),
        colourings=COLOURINGS,
        rows={
            slug: {item: [_row(piece) for piece in rows] for item, rows in held.items()}
            for slug, held in pieces.items()
        },
        summaries={
            slug: {
                item: round(sum(_finite(rows)) * BITS_PER_NAT / sizes[item], 3)
                for item, rows in held.items()
                if sizes.get(item)
            }
            for slug, held in pieces.items()
        },
        summary="bits per byte",
        alike={model.slug: _objective(run, model) for model in read},
    )


def _objective(run: RunData, model: ModelInfo) -> str:
    """Which sides of a token its bits were read from: bits of one are not those of the other."""
    rows = run.every_row.filter((pl.col("lens") == LENS) & (pl.col("model") == model.name))
    named = rows["objective"].drop_nulls().unique().sort().to_list() if "objective" in rows.columns else []
    return ", ".join(WAYS.get(str(one), str(one)) for one in named if one)


def _pieces(
    run: RunData, model: ModelInfo, items: Sequence[str], characters: int
) -> dict[str, list[dict[str, Any]]]:
    rows = (
        read_observations(run, model, _READ)
        .filter(pl.col("item_id").is_in(list(items)) & (pl.col("start") < characters))
        .collect(engine="streaming")
        .sort("item_id", "position")
    )
    parts = rows.partition_by("item_id", as_dict=True)
    return {str(item): part.to_dicts() for (item,), part in parts.items()}


def _row(piece: Mapping[str, Any]) -> list[Any]:
    top: list[str | float | None] = []
    for surface, nats in zip(piece["top"] or (), piece["top_nats"] or (), strict=False):
        top += [surface, round(1000 * math.exp(-nats), 1) if math.isfinite(nats) else None]
    return [
        piece["start"],
        piece["end"],
        _bits(piece["nats"], 3),
        piece["rank"],
        _bits(piece["entropy"], 2),
        piece["context"],
        piece["merged"],
        piece["subword"],
        piece["tag"],
        piece["kind"],
        (piece["construct"] or "").replace("_", " "),
        top,
    ]


def _bits(nats: float | None, digits: int) -> float | None:
    return None if nats is None or not math.isfinite(nats) else round(nats * BITS_PER_NAT, digits)


def _finite(rows: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    return (row["nats"] for row in rows if row["nats"] is not None and math.isfinite(row["nats"]))


_METRICS = {
    "bits_per_byte": ("Bits per byte", 1.0, 3),
    "bits_per_character": ("Bits per character", 1.0, 3),
    "coverage": ("Characters covered by subwords, %", 100.0, 1),
    "nats_per_token": ("Bits per code token", BITS_PER_NAT, 2),
    "bits": ("Bits per subword", 1.0, 2),
    "top1": ("Top-1 accuracy, %", 100.0, 1),
    "top5": ("Right among five, %", 100.0, 1),
    "ece": ("Calibration error, points", 100.0, 1),
}


_SHARED = has_dimensions({"text": "shared"})


OVERALL = pl.when(_SHARED.any().over("language")).then(_SHARED).otherwise(has_dimensions({}))
"""Which rows are over everything: of several models over what all of them cover, of one over all it read."""


_PSEUDO, _FILLED = "pll", "infill"


_BITS = {
    _PSEUDO: "bits of pseudo-log-likelihood per byte",
    _FILLED: "bits per byte that it fills in",
}
"""What a number is where both sides of a subword were seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurprisalHeadline:
    """The answer for one model and language.

    Attributes:
        value: Bits per byte, as a number.
        interval: Its interval, empty where none is known.
        model: Name as shown.
        language: Public name.
        corpus: Names of the corpora.
        read: How much was read, from how many clusters.
        detail: The other half of the sentence.
        whole: The same over all that this model read; empty where the number is.
        behind: The same behind the text of the files before the items; empty where that was not asked for.
        caveat: Why it allows no verdict, empty where it allows one.
        measure: What the number is.
    """

    value: str
    interval: str
    model: str
    language: str
    corpus: str
    read: str
    detail: str
    whole: str
    behind: str
    caveat: str
    measure: str


def list_headlines(run: RunData) -> list[SurprisalHeadline]:
    """One answer a model and language, in the run's order; several are over what all models cover."""
    rows = run.scores(lens=LENS, metrics=["bits_per_byte"], where=OVERALL)
    return [
        SurprisalHeadline(
            value=number(row["value"]),
            interval=bounds if (bounds := interval(row)) != DASH else "",
            model=model.label,
            language=format_language(row["language"]),
            corpus=_corpora(run, row["language"]),
            read=_describe_input(run, row),
            detail=_extremes(run, model, row["language"]),
            whole=_describe_full_text(run, row),
            behind=_describe_file_context(run, row),
            caveat=no_verdict_reason(row),
            measure=_BITS.get(row["objective"], "bits per byte"),
        )
        for model in run.models
        for row in rows.filter(pl.col("model") == model.name).sort("language").iter_rows(named=True)
    ]


def _describe_file_context(run: RunData, row: Mapping[str, Any]) -> str:
    """What the text of the file before each item changes."""
    rows = run.scores(lens=LENS, metrics=["bits_per_byte"], by="before")
    same = (pl.col("model") == row["model"]) & (pl.col("language") == row["language"])
    named = {one["label"]: one for one in rows.filter(same).iter_rows(named=True)}
    if len(named) < 2:
        return ""
    behind, change = (with_interval(named[name]) for name in ("file", "file-none"))
    return f"behind the text of its file {behind} bits per byte, a change of {change}"


def lacks_file_context(run: RunData) -> bool:
    """Whether the run's items are functions that were read only without the file around them."""
    selection = (run.summary.get("arguments") or {}).get("selection") or {}
    behind = run.scores(lens=LENS, metrics=["bits_per_byte"], where=has_dimensions({"before": "file"}))
    return selection.get("unit") == "function" and behind.is_empty()


def _describe_input(run: RunData, row: Mapping[str, Any]) -> str:
    model = next(model for model in run.models if model.name == row["model"])
    # Other lenses of the run may have read other items of the same corpus.
    scored = read_observations(run, model, ["item_id", "language"]).filter(
        pl.col("language") == row["language"]
    )
    items = scored.select(pl.col("item_id").n_unique()).collect(engine="streaming").item()
    # What all models cover is of the items that all of them read.
    units = f"{count(items)} items from " if items and not row["dimensions"] else ""
    of_all = " that all models of the run cover" if row["dimensions"] else ""
    return f"{units}{count(row['n_clusters'])} clusters, {count(row['n'])} bytes{of_all}"


def _describe_full_text(run: RunData, row: Mapping[str, Any]) -> str:
    """What a number over the characters that all models cover is over all that its model read."""
    rows = run.scores(lens=LENS, metrics=["bits_per_byte"], where=has_dimensions({}))
    same = (pl.col("model") == row["model"]) & (pl.col("language") == row["language"])
    for one in rows.filter(same & (pl.col("n") > row["n"])).iter_rows(named=True):
        return f"{with_interval(one)} over all {count(one['n'])} bytes that it read itself"
    return ""


def _corpora(run: RunData, language: str) -> str:
    entries = [entry for entry in run.summary.get("corpus") or () if entry.get("language") == language]
    return " and ".join(dict.fromkeys(_shorten_corpus(str(entry.get("name"))) for entry in entries))


def _shorten_corpus(corpus: str) -> str:
    """The name of a corpus, of a long list its first part.

    >>> _shorten_corpus("npm:async@3.2.5,axios@1.6.8,bluebird@3.7.2,commander@12.0.0")
    'npm:async@3.2.5 and 3 more'
    >>> _shorten_corpus("debian:golang-src")
    'debian:golang-src'
    """
    first, *more = corpus.split(",")
    return f"{first} and {len(more)} more" if len(more) > 1 else corpus


def _extremes(run: RunData, model: ModelInfo, language: str) -> str:
    held = read_slices(run, "construct")
    rows = held.rows.filter(
        (pl.col("model") == model.name)
        & (pl.col("language") == language)
        & (pl.col("n") >= MIN_COUNT)
        & (pl.col("label") != "")
    )
    return describe_ends(
        rows.to_dicts(),
        lambda row: f"“{row['label'].replace('_', ' ')}”",
        with_interval,
        noun="constructs",
        verbs=SURPRISES,
        unit=held.unit,
    )


def build_scoreboard(run: RunData) -> Table | None:
    """Every overall number with interval, n and clusters."""
    rows = run.scores(
        lens=LENS, metrics=list(_METRICS), where=has_dimensions({}) | has_dimension_names("text")
    )
    if rows.is_empty():
        return None
    parts = {
        "all": "everything",
        "code": "code",
        "layout": "blanks",
        "first": "what begins a text",
        "shared": "what all models cover",
    }
    order = pl.col("metric").replace_strict({metric: place for place, metric in enumerate(_METRICS)})
    return Table(
        summary="Every overall number",
        columns=[
            Column(title="Metric", value=lambda row: _METRICS[row["metric"]][0]),
            Column(title="Of", value=lambda row: parts[row["text"]], help="The part of the text."),
            MODEL,
            LANGUAGE,
            *score_columns(
                "Value",
                digits=lambda row: _METRICS[row["metric"]][2],
                scale=lambda row: _METRICS[row["metric"]][1],
            ),
        ],
        rows=rows.with_columns(text=dimension_value("text").fill_null("all"))
        .sort("text", "model", "language")
        .sort(order, maintain_order=True),
    )


def _build_tiles(run: RunData, rows: pl.DataFrame) -> list[StatTile]:
    """The few numbers shown large, where the run has one model and one language."""
    if run.several or rows["language"].n_unique() != 1:
        return []
    shown = rows.filter(pl.col("binning").ne_missing("equal_mass"))
    named = {row["metric"]: row for row in shown.iter_rows(named=True)}
    return [
        StatTile(
            label=label,
            value=number(named[metric]["value"] * scale, digits),
            interval=interval(named[metric], scale, digits),
        )
        for metric in ("bits_per_byte", "bits", "nats_per_token", "top1", "ece")
        if metric in named
        for label, scale, digits in (_METRICS[metric],)
    ]


def _format_headline(run: RunData, found: list[SurprisalHeadline]) -> str:
    """Every answer in one line, or how many there are."""
    first = found[0]
    if len(found) == 1:
        corpus = f" from {first.corpus}" if first.corpus else ""
        return f"{first.model} reads {first.language}{corpus} at {first.value} {first.measure}"
    if len(found) <= 3:
        each = ", ".join(f"{one.model if run.several else one.language} at {one.value}" for one in found)
        return f"{each} {first.measure}"
    models, languages = len(run.models), len(run.languages)
    of = f"{models} model{'s' * (models > 1)} on {languages} language{'s' * (languages > 1)}"
    return f"{of}, in {first.measure}"


def _build_cross_lens_number(metric: str, unit: str, units: str, *within: tuple[str, str]) -> CrossLensNumber:
    """What surprisal says of constructs, counted by a unit."""
    return CrossLensNumber(
        title=f"Surprisal, bits a {unit}",
        question=HeadlineMetric(
            subject="Surprisal",
            measure=f"bits a {unit}",
            metrics=(metric,),
            where=has_dimension_names(*(name for name, _ in within), "construct"),
            share=False,
            lower=True,
        ),
        fact=dimension_value("construct"),
        constructs={name: (name,) for name in CONSTRUCT_LABELS},
        against=f"the mean over all {units}",
        level=pl.col("value").filter(has_dimensions(dict(within))).first(),
        same=f"of surprisal, the {units} whose innermost construct it is",
        scale=1.0 if metric == "bits" else BITS_PER_NAT,
    )


def _build_header(run: RunData) -> PageHeader | None:
    """One answer a model and language, with the overall numbers."""
    found = list_headlines(run)
    if not found:
        return None
    rows = run.scores(lens=LENS, metrics=list(_METRICS), where=has_dimensions({}))
    of_bits = rows.filter(pl.col("metric").is_in(["bits_per_byte", "bits"]))
    methods = {method.partition(",")[0] for method in of_bits["ci_method"].drop_nulls() if method}
    alone = (
        "Each function is read alone, without its file: the model does not see what the file imports and "
        "defines before it."
    )
    return PageHeader(
        headline=_format_headline(run, found),
        template="sections/surprisal/title.html.j2",
        context={"headlines": found},
        note=alone if lacks_file_context(run) else "",
        tiles=_build_tiles(run, rows),
        table=build_scoreboard(run),
        intervals=f"95 %, {', '.join(sorted(methods))} by repository, module or file" if methods else "",
    )


title = LensTitle(
    name="Surprisal",
    cites=("cooper2023perplexed",),
    method_text=(
        "Every subword is scored once, from what stands before it, or from both sides where the sections of "
        "surprisal begin with a note that says so. Surprisal is the negative logarithm of the probability "
        "that the model gave to what stands there: 0 bits is certainty, each bit halves the probability."
    ),
    in_float32="ranks and entropies",
    joined=dataclasses.replace(
        _build_cross_lens_number("bits", "subword", "subwords"),
        of_several=_build_cross_lens_number(
            "nats_per_token", "code token", "code tokens that every model of the run has whole", SHARED_TOKENS
        ),
    ),
    tokens=TokenLens(known=_list_item_ids, findings=_read_findings, difficulty=_difficulty),
    top=_build_header,
)
