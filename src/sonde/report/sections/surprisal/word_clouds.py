"""Names of internal and external calls: size by count, colour by surprisal."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from xml.etree import ElementTree

import polars as pl
from PIL import ImageFont
from wordcloud import WordCloud

from sonde.base.formatting import count, number
from sonde.report.charts import create_svg
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Figure, SectionPlot, SvgImage
from sonde.report.sections.surprisal._scores import (
    BITS_PER_NAT,
    LENS,
    is_first_subword,
    list_first_subword_notes,
    read_observations,
)
from sonde.report.theme import HEAT_STEPS, WORD_COLOURS
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT, Number

_WIDTH, _HEIGHT = 640, 340


_NAMES_SHOWN = 70


_TABLE_NAMES = 100


_SIDES = ("internal", "external")


def _draw(run: RunData, frames: Sequence[tuple[ModelInfo, pl.DataFrame]]) -> Figure:
    """Draw one cloud per model and side, with a table of the most called names."""
    names = pl.concat(frame.with_columns(model=pl.lit(model.label)) for model, frame in frames)
    table_rows = names.sort("calls", descending=True).head(_TABLE_NAMES)
    return Figure(
        drawings=[
            _draw_cloud(
                frame,
                f"names-{frame['origin'][0]}{'-' + model.slug if run.several else ''}",
                f"{frame['origin'][0].capitalize()} calls{', ' + model.label if run.several else ''}",
            )
            for model, frame in frames
        ],
        table=Table(
            summary=f"The {table_rows.height} names called most",
            columns=[
                Column(title="Name", value="word"),
                Column(
                    title="Calls go", value="origin", help="Whether it is defined in the same repository."
                ),
                *([Column(title="Model", value="model")] if run.several else []),
                Column(
                    title="Bits per name", value="bits", format=Number(), help="How unexpected the name is."
                ),
                Column(title="Calls", value="calls", format=COUNT),
            ],
            rows=table_rows,
        ),
        notes=list_first_subword_notes(run),
    )


def _read_clouds(run: RunData) -> list[tuple[ModelInfo, pl.DataFrame]]:
    """Read the called names of each model, internal and external calls apart."""
    calls = [(model, _read_calls(run, model)) for model in run.models if run.table(LENS, model) is not None]
    return [
        (model, part)
        for model, model_calls in calls
        for names in (_add_colour_steps(_count_names(model_calls, [frame for _, frame in calls])),)
        for side in _SIDES
        if (part := names.filter(pl.col("origin") == side)).height
    ]


def _read_calls(run: RunData, model: ModelInfo) -> pl.LazyFrame:
    """Read the called names that share no subword with their neighbours.

    The columns are ``item_id, token, origin, word, bits, first``.
    """
    columns = ["item_id", "token", "merged", "origin", "origin_part", "word", "nats", "context"]
    rows = read_observations(run, model, columns)
    row_filter = pl.col("origin").is_in(_SIDES) & (pl.col("origin_part") == "name") & (pl.col("word") != "")
    names = (
        rows.filter(row_filter & pl.col("nats").is_finite())
        .group_by("item_id", "token", "origin", "word")
        .agg(
            bits=pl.col("nats").cast(pl.Float64).sum() * BITS_PER_NAT,
            first=is_first_subword(run, model).any(),
        )
        .filter(~pl.col("first"))
    )
    stop = pl.col("token") + pl.col("merged")
    in_part = rows.filter(pl.col("merged") > 1).select("item_id", pl.int_ranges("token", stop).alias("token"))
    return names.join(in_part.explode("token").cast({"token": pl.Int32}), on=["item_id", "token"], how="anti")


def _count_names(calls: pl.LazyFrame, calls_by_model: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """Count calls and average the bits of the whole name, by origin and name, most called first.

    Args:
        calls: Calls of a model.
        calls_by_model: Calls of all models; only calls that all of them have whole are counted.
    """
    for model_calls in calls_by_model:
        calls = calls.join(model_calls, on=["item_id", "token"], how="semi")
    return (
        calls.group_by("origin", "word")
        .agg(calls=pl.len(), bits=pl.col("bits").mean())
        .sort(["calls", "word"], descending=[True, False])
        .collect(engine="streaming")
    )


def _add_colour_steps(names: pl.DataFrame) -> pl.DataFrame:
    """Select the displayed names and add a colour step, their rank by bits among those displayed."""
    top_names = names.group_by("origin", maintain_order=True).head(_NAMES_SHOWN)
    rank = pl.col("bits").rank("ordinal") - 1
    return top_names.with_columns(step=(rank * HEAT_STEPS // max(top_names.height, 1)).cast(pl.Int64))


def _draw_cloud(names: pl.DataFrame, stem: str, title: str) -> SvgImage:
    bits = dict(zip(names["word"].to_list(), names["bits"].to_list(), strict=True))
    frequencies = dict(zip(names["word"].to_list(), names["calls"].to_list(), strict=True))
    top_words = ", ".join(names["word"].head(5).to_list())
    cloud = WordCloud(
        width=_WIDTH,
        height=_HEIGHT,
        prefer_horizontal=1.0,
        max_words=_NAMES_SHOWN,
        relative_scaling=0.5,  # pyright: ignore[reportArgumentType]  annotated as its default, "auto"
        min_font_size=10,
        max_font_size=64,
        margin=3,
        random_state=0,
        collocations=False,
        color_func=_dummy_colour,
    ).generate_from_frequencies(frequencies)
    return SvgImage(
        name=stem,
        title=title,
        svg=_render_svg(cloud, bits, frequencies, dict(zip(names["word"], names["step"], strict=True))),
        description=f"{title}: {count(len(frequencies))} names, most often {top_words}",
    )


def _dummy_colour(*_: object, random_state: Random, **__: object) -> str:
    """Return a colour that is never shown, so that wordcloud does not import matplotlib for one.

    It draws the same random number as wordcloud's own function, so that the layout stays the same.
    """
    random_state.uniform(0, 1)
    return "black"


def _render_svg(
    cloud: WordCloud, bits: dict[str, float], calls: dict[str, int], steps: dict[str, int]
) -> str:
    """Render the layout of `cloud` as SVG text, coloured through the report's CSS variables."""
    root = create_svg(_WIDTH, _HEIGHT)
    colours = WORD_COLOURS["light"]
    for (word, _), size, position, _, _ in cloud.layout_:
        step = steps[word]
        width = float(ImageFont.truetype(cloud.font_path, size).getlength(word))
        element = ElementTree.SubElement(
            root,
            "text",
            {
                "x": str(position[1]),
                "y": str(round(position[0] + size * 0.82, 1)),
                "font-size": str(size),
                "textLength": str(round(width, 1)),
                "lengthAdjust": "spacingAndGlyphs",
                "fill": f"var(--word-{step}, {colours[step]})",
            },
        )
        element.text = word
        title = ElementTree.SubElement(element, "title")
        title.text = f"{word}: {count(calls[word])} calls, {number(bits[word])} bits"
    return ElementTree.tostring(root, encoding="unicode")


plot = SectionPlot(
    title="Names: those it knows, those it does not",
    lens=LENS,
    order=85,
    caption=(
        "Called names: larger means called more often; cool colours are expected names, warm ones "
        "surprising. The colour ranks the names shown by the surprisal of the whole name, averaged over "
        "its calls. Names that share a subword with their neighbours (in any of several models) are left "
        "out."
    ),
    select=_read_clouds,
    figure=_draw,
)
