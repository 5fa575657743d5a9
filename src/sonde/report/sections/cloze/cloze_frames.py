"""The same queries in other code and behind words: how much an answer hangs on the prompt."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import TEMPLATE, TEMPLATES, plot_curves, plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.cloze import LENS, build_k_table, describe_difference, read_parts, to_percent
from sonde.results.text_format import caveat, with_interval

_PLAIN, _EVERY = "plain", "every"


_FRAMES: Mapping[str, str] = {_PLAIN: "the statement alone", _EVERY: "mean over all"}


_WORDS: Mapping[str, str] = {
    "without": "without words",
    "with": "behind words",
    "with-without": "difference, paired",
}


_IMPORTS: Mapping[str, Mapping[str, str]] = {
    "imports": {
        "without": "without imports",
        "with": "behind its file's imports",
        "with-without": "imports: difference, paired",
    },
    "imports_hide": {
        "without": "answer not in the imports: without them",
        "with": "answer not in the imports: behind them",
        "with-without": "answer not in the imports: difference, paired",
    },
}


_K = 10


class ClozeFrames:
    """A dot a frame, curves with and without words, and the spread over frames."""

    title = "Names of APIs: asked otherwise"
    lens = LENS
    order = 415
    caption = (
        "A share of the names is also asked with other code around the statement (assigned, returned, behind "
        "a comment, indented, ...), and, where the run asks for it, behind words of documentation and behind "
        "the imports of a file that makes the call. Only "
        "cloze queries answered in every frame count. Intervals are 95 %, clustered by library."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Nothing where queries were asked in one way alone."""
        frames = read_parts(run, ["p_at_k"], "frame")
        words = read_parts(run, ["p_at_k"], "words")
        imports = pl.concat(
            [
                found.with_columns(way=pl.col("group").replace(dict(ways)))
                for cut, ways in _IMPORTS.items()
                if (found := read_parts(run, ["p_at_k"], cut)).height
            ]
            or [words.clear().with_columns(way=pl.lit(""))]
        )
        if frames.is_empty() and words.is_empty() and imports.is_empty():
            return None
        frames = frames.with_columns(way=pl.col("group").replace(dict(_FRAMES)))
        words = words.with_columns(way=pl.col("group").replace(dict(_WORDS)))
        charts: list[Chart] = []
        for template, part in _by_template(frames.filter(pl.col("k") == _K)):
            shown = to_percent(part).with_columns(name=pl.col("way"), shown="subject")
            ways = shown.filter(~pl.col("group").is_in(list(_FRAMES)))["name"].unique().sort().to_list()
            order = [_FRAMES[_PLAIN], *ways, _FRAMES[_EVERY]]
            title = f"{TEMPLATES[template].capitalize()}: other code around them"
            charts.append(
                Chart(
                    name=f"cloze-frames-{template}", title=title, spec=plot_dots(shown, order, f"P@{_K}, %")
                )
            )
        for template, part in _by_template(words.filter(pl.col("group") != "with-without")):
            shown = part.with_columns(who="way")
            title = f"{TEMPLATES[template].capitalize()}: behind words"
            spec = plot_curves(shown, list(_WORDS.values())[:2])
            charts.append(Chart(name=f"cloze-words-{template}", title=title, spec=spec))
        both = pl.concat([frames, words, imports]).sort("template", "place", "subject", maintain_order=True)
        lead = {"Statement": "statement", "Of": "subject", "Asked": "way"}
        return Figure(
            answer="\n".join([*_describe_variation(run), *_in_words(words), *_behind_imports(imports)]),
            charts=charts,
            table=build_k_table("Every frame and k, in %", both, lead),
        )


def _by_template(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    return [
        (template, part)
        for template in TEMPLATES
        if (part := rows.filter(pl.col("template") == template)).height
    ]


def _describe_variation(run: RunData) -> list[str]:
    spread, reach = "p_at_k_sd", "p_at_k_range"
    rows = run.scores(metrics=[spread, reach], by=TEMPLATE, lens=LENS)
    rows = rows.with_columns(subject=run.subject)
    rows = rows.filter((pl.col("k") == _K) & pl.col("label").is_in(list(TEMPLATES)))
    found = {(row["subject"], row["label"], row["metric"]): row for row in rows.iter_rows(named=True)}
    return [
        f"{subject}: over the frames of {TEMPLATES[template]}, P@{_K} has a standard deviation of "
        f"{with_interval(row, 100, 1)} and a range of "
        f"{with_interval(found[subject, template, reach], 100, 1)} percentage points "
        f"({plural(row['n'], 'cloze query', 'cloze queries')}){caveat(row)}."
        for (subject, template, metric), row in found.items()
        if metric == spread and (subject, template, reach) in found
    ]


def _in_words(words: pl.DataFrame) -> list[str]:
    pairs = words.filter((pl.col("group") == "with-without") & (pl.col("k") == _K))
    return [
        describe_difference(
            row["subject"],
            f"after words, {row['statement']} are answered among the first ten",
            row,
            " than without them",
        )
        for row in pairs.iter_rows(named=True)
    ]


def _behind_imports(imports: pl.DataFrame) -> list[str]:
    pairs = imports.filter((pl.col("group") == "with-without") & (pl.col("k") == _K))
    said = {
        "imports: difference, paired": "",
        _IMPORTS["imports_hide"]["with-without"]: " that do not show it",
    }
    return [
        describe_difference(
            row["subject"],
            f"after the imports of their file{said[row['way']]}, {row['statement']} are "
            "answered among the first ten",
            row,
            " than without them",
        )
        for row in pairs.iter_rows(named=True)
    ]


plot = ClozeFrames()
