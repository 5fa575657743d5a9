"""The section and the title of a lens that has none of its own: from its rows of ``scores.parquet`` alone."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sonde.report._any_lens.chart import charts
from sonde.report._any_lens.table import CONTROL_WORDS, table
from sonde.report._drawing.clean import legible
from sonde.report._shared.numbers import DASH, count, interval, number, spelled
from sonde.report._shared.plot import Figure
from sonde.report._shared.run import RunData
from sonde.report._shared.title import Tile, Top
from sonde.results.findings import Finding, dimension_names, findings, metric_words, sentence
from sonde.results.verdict import verdict_allowed
from sonde.results.words import TOO_LITTLE, digits_of, plain_words

PREFIX = "numbers_"
"""Before the name of a lens: the public name of its section."""

_TILES = 5


@dataclass(frozen=True, slots=True)
class Numbers:
    """A chart of the number that speaks for a lens, and a table of all that it scored."""

    lens: str
    order: int = 1000

    @property
    def title(self) -> str:
        """The lens by name."""
        return f"{plain_words(self.lens).capitalize()}: every number"

    @property
    def caption(self) -> str:
        """How to read any number."""
        return (
            "Dots are values with their 95 % intervals; they are hollow where too little independent code is "
            f"behind them for a verdict. {CONTROL_WORDS}"
        )

    def draw(self, run: RunData) -> Figure | None:
        """A figure; None where the lens has no number."""
        rows = rows_of(run, self.lens)
        if rows.is_empty():
            return None
        found = findings(rows)
        shown, notes = charts(run, self.lens, rows, found)
        lines = [f"{text}." for text in _sentences(run, found)]
        return Figure(
            lead=f"{plain_words(self.lens).capitalize()}, {lines[0]}" if lines else "",
            answer="\n".join(lines),
            charts=shown,
            table=table(run, rows),
            notes=[*notes, *_standing(rows)],
        )


def rows_of(run: RunData, lens: str) -> pl.DataFrame:
    """The numbers of a lens, those of controls included, with the name of each model as shown."""
    names = {model.name: model.label for model in run.models}
    held = run.every_score.filter(pl.col("lens") == lens)
    return held.with_columns(shown=pl.col("model").replace(names))


def top(run: RunData, lens: str) -> Top | None:
    """The headline of a page on which no other finding stands; None where the lens has no number."""
    found = findings(rows_of(run, lens))
    if not found:
        return None
    first = found[0]
    return Top(
        headline=legible(_headline(run, found)),
        template="_any_lens/title.html.j2",
        context={
            "lines": [legible(text) for text in _sentences(run, found)],
            "corpora": list(
                dict.fromkeys(str(entry.get("name")) for entry in run.summary.get("corpus") or ())
            ),
            "lens": legible(plain_words(lens)),
        },
        tiles=_tiles(run, lens, first) if len(found) == 1 else (),
        intervals=_intervals(rows_of(run, lens)),
    )


def _headline(run: RunData, found: list[Finding]) -> str:
    first = found[0].row
    what = metric_words(first)
    what = f"{what[:1].upper()}{what[1:]}"
    if len(found) > 3:
        models, languages = (len({one.row[name] for one in found}) for name in ("model", "language"))
        return f"{what} of {models} model{'s' * (models > 1)} on {languages} language{'s' * (languages > 1)}"
    if len(found) > 1:
        return f"{what}: {'; '.join(f'{_who(run, one)} at {_value(one)}' for one in found)}"
    on = f" on {spelled(plain_words(first['language']))}" if first["language"] else ""
    return f"{what} of {_label(run, first['model'])}{on}: {_value(found[0])}"


def _who(run: RunData, finding: Finding) -> str:
    row = finding.row
    parts = [_label(run, row["model"])] if run.several else []
    return ", ".join([*parts, *([spelled(plain_words(row["language"]))] if len(run.languages) > 1 else [])])


def _value(finding: Finding) -> str:
    row = finding.row
    if finding.among == 1:
        return number(row["value"], digits_of(row))
    lowest = min(finding.values, key=lambda value: value["value"])
    if finding.tied == finding.among:
        return f"{finding.among:,} values, none told from the others"
    return f"{number(lowest['value'], digits_of(lowest))} to {number(row['value'], digits_of(row))}"


def _label(run: RunData, model: str) -> str:
    return plain_words(next((one.label for one in run.models if one.name == model), model))


def _sentences(run: RunData, found: list[Finding]) -> list[str]:
    return [sentence(one, _label(run, one.row["model"])) for one in found]


def _tiles(run: RunData, lens: str, first: Finding) -> list[Tile]:
    """The overall numbers of the one model and language, that of the headline first."""
    whole = [
        row
        for row in rows_of(run, lens).filter(pl.col("control").is_null()).iter_rows(named=True)
        if not dimension_names(row) and interval(row) != DASH
    ]
    whole.sort(key=lambda row: row["metric"] != first.row["metric"])
    return [
        Tile(
            label=legible(f"{metric_words(row)}{', ' + plain_words(row['task']) if row['task'] else ''}"),
            value=number(row["value"], digits_of(row)),
            interval=interval(row, 1.0, digits_of(row)),
        )
        for row in whole[:_TILES]
    ]


def _intervals(rows: pl.DataFrame) -> str:
    methods = {plain_words(one.partition(",")[0]) for one in rows["ci_method"].drop_nulls().to_list() if one}
    return f"95 %, {', '.join(sorted(methods))}" if methods else ""


def _standing(rows: pl.DataFrame) -> list[str]:
    """How many of its numbers may be called a finding."""
    own = list(rows.filter(pl.col("control").is_null()).iter_rows(named=True))
    firm = sum(verdict_allowed(row) for row in own)
    if firm == len(own):
        return []
    which = "None" if not firm else f"{count(firm)} of them"
    numbers = "number" if len(own) == 1 else "numbers"
    return [
        f"The lens has {count(len(own))} {numbers}. {which} rest{'s' * (firm <= 1)} on enough independent "
        f"code for a verdict: of {'all' if not firm else 'the others'} there is {TOO_LITTLE}, and their "
        "estimates alone are shown."
    ]
