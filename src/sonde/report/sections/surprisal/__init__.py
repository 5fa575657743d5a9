"""Sections of the lens `surprisal`: their title, with bits per byte and the other overall numbers.

The title answers for each model and language. It also gives the token explorer the surprisal at the places of
single functions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import DASH, count, number, plural
from sonde.languages import CONSTRUCT_LABELS, format_language
from sonde.report.charts import model_order
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
    unit_cells,
)
from sonde.report.sections.surprisal._scores import (
    BITS_PER_NAT,
    LENS,
    MIN_COUNT,
    SURPRISES,
    read_observations,
    read_slices,
)
from sonde.report.text import SEPARATE_INTERVALS
from sonde.results.extremes import describe_ends
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import SHARED_TOKENS, dimension_value, has_dimension_names, has_dimensions
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, score_columns
from sonde.results.text_format import Row, interval, verdict_mark, with_interval
from sonde.results.units import read_units

__all__ = ["title"]

_READ = [
    "item_id", "position", "start", "end", "subword", "nats", "rank", "entropy", "context", "kind", "tag",
    "construct", "merged", "top", "top_nats",
]  # fmt: skip


def _list_item_ids(run: RunData) -> list[str]:
    ids = [
        read_observations(run, model, ["item_id"]).select(pl.col("item_id").unique()) for model in run.models
    ]
    return pl.concat(ids).collect()["item_id"].unique().to_list()


def _difficulty(run: RunData) -> pl.DataFrame | None:
    """Compute the bits per byte of every function that all models read, averaged over them."""
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
    models = [model for model in run.models if run.table(LENS, model) is not None]
    if not models:
        return None
    pieces = {model.slug: _read_pieces(run, model, items, characters) for model in models}
    # Only models are compared by code token.
    units = {model.slug: _read_units(run, model, items, characters) for model in models if len(models) > 1}
    sizes = {
        row["item_id"]: len(row["text"][:characters].encode("utf-8", "replace"))
        for row in run.items(items).iter_rows(named=True)
    }
    return TokenFindings(
        lens=LENS,
        label="Surprisal",
        kind=AMOUNT,
        columns=(
            "bits",
            "rank",
            "entropy",
            "context",
            "merged",
            "subword",
            "tag",
            "kind",
            "construct",
            "top",
        ),
        texts=frozenset({"subword", "tag", "kind", "construct"}),
        facts=[
            (name, name, {"entropy": "bits", "context": "subwords before it"}.get(name, ""))
            for name in ("rank", "entropy", "tag", "kind", "construct", "context")
        ],
        colourings=COLOURINGS,
        rows={
            slug: {item: [_encode_piece(piece) for piece in rows] for item, rows in by_item.items()}
            for slug, by_item in pieces.items()
        },
        units=units,
        summaries={
            slug: {
                item: round(_sum_nats(rows) * BITS_PER_NAT / sizes[item], 3)
                for item, rows in by_item.items()
                if sizes.get(item)
            }
            for slug, by_item in pieces.items()
        },
        summary="bits per byte",
        alike={model.slug: _describe_objective(run, model) for model in models},
    )


def _describe_objective(run: RunData, model: ModelInfo) -> str:
    """Describe from which sides of a token its bits were read: bits of one are not those of the other."""
    rows = run.every_row.filter((pl.col("lens") == LENS) & (pl.col("model") == model.name))
    objectives = rows["objective"].drop_nulls().unique().sort().to_list()
    return ", ".join(WAYS.get(str(objective), str(objective)) for objective in objectives if objective)


def _read_pieces(
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


def _read_units(
    run: RunData, model: ModelInfo, items: Sequence[str], characters: int
) -> dict[str, list[list[Any]]]:
    """Read the code tokens of some functions with the costs that do not depend on the tokenizer."""
    columns = ["item_id", "language", "cluster", "units"]
    table = read_observations(run, model, columns).filter(pl.col("item_id").is_in(list(items)))
    # What follows the last code token is no place.
    rows = read_units(table).filter((pl.col("start") < pl.col("end")) & (pl.col("end") <= characters))
    parts = rows.sort("item_id", "unit").partition_by("item_id", as_dict=True)
    return {str(item): [unit_cells(unit) for unit in part.to_dicts()] for (item,), part in parts.items()}


def _encode_piece(piece: Row) -> list[Any]:
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


def _sum_nats(rows: Sequence[Row]) -> float:
    return sum(row["nats"] for row in rows if row["nats"] is not None and math.isfinite(row["nats"]))


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


_COVERED_BY_ALL = has_dimensions({"text": "shared"})


OVERALL = pl.when(_COVERED_BY_ALL.any().over("language")).then(_COVERED_BY_ALL).otherwise(has_dimensions({}))
"""Which rows are over everything: of several models over what all of them cover, of one over all it read."""


_MEASURES = {
    "pll": "bits of pseudo-log-likelihood per byte",
    "infill": "bits per byte that it fills in",
}
"""Names of the measure by objective, where both sides of a subword were seen."""


def _build_header(run: RunData) -> PageHeader | None:
    """Build an answer for each model and language, with the overall numbers."""
    scores = run.scores(lens=LENS, metrics=["bits_per_byte"], where=OVERALL)
    scores = scores.filter(pl.col("model").is_in([model.name for model in run.models]))
    rows = scores.sort(model_order(run), "language", maintain_order=True).to_dicts()
    if not rows:
        return None
    overall = run.scores(lens=LENS, metrics=list(_METRICS), where=has_dimensions({}))
    of_bits = overall.filter(pl.col("metric").is_in(["bits_per_byte", "bits"]))
    methods = {method.partition(",")[0] for method in of_bits["ci_method"].drop_nulls() if method}
    notes = [_COVERAGE_NOTE] * (run.several and len(rows) > 1) + [_CONTEXT_NOTE] * _lacks_context(run)
    return PageHeader(
        headline=_format_headline(run, rows),
        lines=[_describe_score(run, row, single=len(rows) == 1) for row in rows],
        note=" ".join(notes),
        tiles=_build_tiles(run, overall),
        table=_build_scoreboard(run),
        intervals=f"95 %, {', '.join(sorted(methods))} by repository, module or file" if methods else "",
    )


_COVERAGE_NOTE = (
    f"{SEPARATE_INTERVALS} What all models cover is compared, since tokenizers leave different parts of a "
    "text out."
)


_CONTEXT_NOTE = (
    "Each function is read alone, without its file: the model does not see what the file imports and defines "
    "before it."
)


def _format_headline(run: RunData, rows: Sequence[Row]) -> str:
    """Format every number in one line, or how many there are."""
    first, measure = rows[0], _get_measure(rows[0])
    if len(rows) == 1:
        return f"{_format_reading(run, first)} at {number(first['value'])} {measure}"
    if len(rows) > 3:
        models, languages = plural(len(run.models), "model"), plural(len(run.languages), "language")
        return f"{models} on {languages}, in {measure}"
    subjects = [row["shown"] if run.several else format_language(row["language"]) for row in rows]
    values = [number(row["value"]) for row in rows]
    return f"{', '.join(map(' at '.join, zip(subjects, values, strict=True)))} {measure}"


def _get_measure(row: Row) -> str:
    return _MEASURES.get(row["objective"], "bits per byte")


def _format_reading(run: RunData, row: Row) -> str:
    """Format which model read what, such as ``mini-decoder reads Python from local:src``."""
    entries = [entry for entry in run.summary.get("corpus") or () if entry.get("language") == row["language"]]
    corpora = dict.fromkeys(_shorten_corpus(str(entry.get("name"))) for entry in entries)
    source = f" from {' and '.join(corpora)}" if corpora else ""
    return f"{row['shown']} reads {format_language(row['language'])}{source}"


def _describe_score(run: RunData, row: Row, *, single: bool) -> str:
    """Describe the number of one model and language; a single one stands in the headline already."""
    bounds = interval(row)
    if single:
        no_interval = f"No interval can be given for {number(row['value'])} {_get_measure(row)}"
        text = no_interval if bounds == DASH else f"The 95 % interval is {bounds}"
    else:
        text = f"{_format_reading(run, row)} at {with_interval(row)} {_get_measure(row)}"
    text += f", over {_describe_input(run, row)}{verdict_mark(row)}"
    parts = [_describe_extremes(run, row)]
    if context := _describe_file_context(run, row):
        parts.append(f"That is each text alone; {context}")
    if full_text := "" if single else _describe_full_text(run, row):
        text += f"; {full_text}"
    return " ".join(f"{part}." for part in (text, *parts) if part)


def _describe_file_context(run: RunData, row: Row) -> str:
    """Describe what the text of the file before each item changes."""
    rows = run.scores(lens=LENS, metrics=["bits_per_byte"], by="before")
    by_label = {score["label"]: score for score in _filter_subject(rows, row).to_dicts()}
    if len(by_label) < 2:
        return ""
    value, change = (with_interval(by_label[name]) for name in ("file", "file-none"))
    change += verdict_mark(by_label["file-none"])
    return f"after the text of its file {value} bits per byte, a change of {change}"


def _filter_subject(rows: pl.DataFrame, row: Row) -> pl.DataFrame:
    return rows.filter(model=row["model"], language=row["language"])


def _lacks_context(run: RunData) -> bool:
    """Return whether the run's items are functions that were read only without the file around them."""
    selection = (run.summary.get("arguments") or {}).get("selection") or {}
    with_file = run.scores(lens=LENS, metrics=["bits_per_byte"], where=has_dimensions({"before": "file"}))
    return selection.get("unit") == "function" and with_file.is_empty()


def _describe_input(run: RunData, row: Row) -> str:
    size = f"{plural(row['n_clusters'], 'cluster')}, {title.format_size(row)}"
    if row["dimensions"]:
        return f"{size} that all models of the run cover"
    model = next(model for model in run.models if model.name == row["model"])
    # Other lenses of the run may have read other items of the same corpus.
    rows = read_observations(run, model, ["item_id", "language"]).filter(
        pl.col("language") == row["language"]
    )
    items = rows.select(pl.col("item_id").n_unique()).collect(engine="streaming").item()
    return f"{count(items)} items from {size}" if items else size


def _describe_full_text(run: RunData, row: Row) -> str:
    """Describe the number over all that a model read, if `row` is over what all models cover."""
    rows = run.scores(lens=LENS, metrics=["bits_per_byte"], where=has_dimensions({}))
    for score in _filter_subject(rows, row).filter(pl.col("n") > row["n"]).iter_rows(named=True):
        return f"{with_interval(score)} over all {title.format_size(score)} that it read itself"
    return ""


def _shorten_corpus(corpus: str) -> str:
    """Return the name of a corpus, of a long list its first part.

    >>> _shorten_corpus("npm:async@3.2.5,axios@1.6.8,bluebird@3.7.2,commander@12.0.0")
    'npm:async@3.2.5 and 3 more'
    >>> _shorten_corpus("debian:golang-src")
    'debian:golang-src'
    """
    first, *rest = corpus.split(",")
    return f"{first} and {len(rest)} more" if len(rest) > 1 else corpus


def _describe_extremes(run: RunData, row: Row) -> str:
    slices = read_slices(run, "construct")
    rows = _filter_subject(slices.rows, row).filter((pl.col("n") >= MIN_COUNT) & (pl.col("label") != ""))
    return describe_ends(
        rows.to_dicts(),
        lambda score: f"“{score['label'].replace('_', ' ')}”",
        with_interval,
        noun="constructs",
        verbs=SURPRISES,
        unit=slices.unit,
    )


def _build_scoreboard(run: RunData) -> Table:
    """Build the table of every overall number."""
    rows = run.scores(
        lens=LENS, metrics=list(_METRICS), where=has_dimensions({}) | has_dimension_names("text")
    )
    order = pl.col("metric").replace_strict({metric: index for index, metric in enumerate(_METRICS)})
    return Table(
        summary="Every overall number",
        columns=[
            Column(title="Metric", value=lambda row: _METRICS[row["metric"]][0]),
            Column(
                title="Of",
                value=lambda row: {
                    "all": "everything",
                    "code": "code",
                    "layout": "blanks",
                    "first": "what begins a text",
                    "shared": "what all models cover",
                }[row["text"]],
                help="The part of the text.",
            ),
            MODEL,
            LANGUAGE,
            *score_columns(
                "Value",
                digits=lambda row: _METRICS[row["metric"]][2],
                scale=lambda row: _METRICS[row["metric"]][1],
            ),
            Column(title="n counts", value=title.count_noun),
        ],
        rows=rows.with_columns(text=dimension_value("text").fill_null("all"))
        .sort("text", "model", "language")
        .sort(order, maintain_order=True),
    )


def _build_tiles(run: RunData, rows: pl.DataFrame) -> list[StatTile]:
    """Build the few numbers shown large, where the run has one model and one language."""
    if run.several or rows["language"].n_unique() != 1:
        return []
    chosen_binning = rows.filter(pl.col("binning").ne_missing("equal_mass"))
    by_metric = {row["metric"]: row for row in chosen_binning.iter_rows(named=True)}
    return [
        StatTile(
            label=label,
            value=number(by_metric[metric]["value"] * scale, digits),
            interval=interval(by_metric[metric], scale, digits),
        )
        for metric in ("bits_per_byte", "bits", "nats_per_token", "top1", "ece")
        if metric in by_metric
        for label, scale, digits in (_METRICS[metric],)
    ]


def _build_cross_lens_number(
    metric: str, unit: str, units: str, *dimensions: tuple[str, str]
) -> CrossLensNumber:
    """Declare the surprisal of constructs, counted by a unit."""
    return CrossLensNumber(
        title=f"Surprisal, bits per {unit}",
        question=HeadlineMetric(
            subject="Surprisal",
            measure=f"bits per {unit}",
            metrics=(metric,),
            where=has_dimension_names(*(name for name, _ in dimensions), "construct"),
            share=False,
            lower=True,
        ),
        fact=dimension_value("construct"),
        constructs={name: (name,) for name in CONSTRUCT_LABELS},
        against=f"the mean over all {units}",
        level=pl.col("value").filter(has_dimensions(dict(dimensions))).first(),
        same=f"of surprisal, the {units} whose innermost construct it is",
        scale=1.0 if metric == "bits" else BITS_PER_NAT,
    )


title = LensTitle(
    name="Surprisal",
    question="How well does the model predict each piece of code that it reads? Fewer bits are better.",
    counts={
        "": "subword",
        "bits_per_byte": "byte",
        "bits_per_character": "character",
        "coverage": "character",
        "nats_per_token": "code token",
        "preferred": "pair",
    },
    cites=("cooper2023perplexed",),
    method_text=(
        "Every subword is scored once, from the text before it. If a model reads from both sides, a note at "
        "the beginning of the sections of surprisal describes how. Surprisal is the negative logarithm of "
        "the probability that the model gives to the actual subword: 0 bits is certainty, each bit halves "
        "the probability."
    ),
    in_float32="ranks and entropies",
    cross_lens=dataclasses.replace(
        _build_cross_lens_number("bits", "subword", "subwords"),
        of_several=_build_cross_lens_number(
            "nats_per_token", "code token", "code tokens that every model of the run scores", SHARED_TOKENS
        ),
    ),
    tokens=TokenLens(known=_list_item_ids, findings=_read_findings, difficulty=_difficulty),
    top=_build_header,
)
