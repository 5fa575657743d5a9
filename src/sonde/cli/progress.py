"""Results of commands as a person reads them: tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sonde.base.formatting import plural
from sonde.base.options import COLUMNS, OptionDescription, build_option_table
from sonde.base.terminal import print_lines
from sonde.comparison import summary
from sonde.corpora import ItemSet
from sonde.experiments.progress import Outcome
from sonde.report import RunData, build_card, describe_run, read_comparison
from sonde.results.tables import Column
from sonde.results.tables import Table as Declared
from sonde.results.text_format import Format

_STRONGEST = 8
"""Differences of an outcome that are printed."""


_LONGEST_CELL = 40
"""Characters of a cell that are printed."""


_WIDEST = 10_000
"""Width of output that is no terminal: no row is wrapped, so that it can be searched."""


def print_options(groups: Mapping[str, Sequence[OptionDescription]]) -> None:
    """Print options as tables, one per lens: wrapped on a terminal, else one line per option."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDEST)
    for name, options in groups.items():
        titles, rows = build_option_table(options)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for index, title in enumerate(titles):
            table.add_column(title, overflow="fold", no_wrap=index == 0)
        for row in rows:
            table.add_row(*map(Text, row))
        with console.capture() as capture:
            console.print(table)
        heading = f"options of {name}" if rows else f"{name} has no options"
        print_lines(heading, *(line.rstrip() for line in capture.get().splitlines()), "")


def options_data(groups: Mapping[str, Sequence[OptionDescription]]) -> dict[str, list[dict[str, str]]]:
    """Convert options to data: by lens, a mapping per option."""
    names = {title: title.replace(" ", "_") for title in COLUMNS}
    return {
        lens: [{names[title]: cell(option) for title, cell in COLUMNS.items()} for option in options]
        for lens, options in groups.items()
    }


def print_table(table: pl.DataFrame) -> None:
    """Print a table as aligned columns; line breaks inside cells are shown, never obeyed."""
    plain = Format(missing="")
    columns = [Column(title=name, value=name, format=plain) for name in table.columns]
    print_lines(*Declared(summary="", columns=columns, rows=table).lines())


def print_fitted_table(table: pl.DataFrame, *, omitted: Sequence[str] = ()) -> None:
    """Print a table in the width of the terminal; elsewhere only cells over `_LONGEST_CELL` are cut.

    What is cut ends in an ellipsis; numbers are never cut.

    Args:
        table: The table.
        omitted: Columns that are left out if the terminal is too narrow for all.
    """
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDEST)
    grid = _build_grid(table)
    if Measurement.get(console, console.options.update(max_width=_WIDEST), grid).maximum > console.width:
        grid = _build_grid(table.drop(omitted, strict=False))
    with console.capture() as capture:
        console.print(grid)
    print_lines(*(line.rstrip() for line in capture.get().splitlines()))


def _build_grid(table: pl.DataFrame) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for name, kind in table.schema.items():
        is_number = kind.is_numeric()
        grid.add_column(
            name, justify="right" if is_number else "left", no_wrap=is_number, max_width=_LONGEST_CELL
        )
    columns = [Column(title=name, value=name, format=Format(missing="")) for name in table.columns]
    for row in Declared(summary="", columns=columns, rows=table).visible_texts():
        grid.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    return grid


def print_outcome(outcome: Outcome, page: Path | None) -> None:
    """Print the results of a run, lens by lens, and the path of its page."""
    print_lines(*describe_run(RunData(outcome.directory.root)))
    done = _format_counts(outcome)
    report = [f"report: {page}"] if page else []
    print_lines("", done, *report, *outcome.files)


def print_shard(outcome: Outcome, shard: str) -> None:
    """Print what a shard of a run did."""
    print_lines(
        f"shard {shard}: {_format_counts(outcome)}",
        f"when all are done: sonde merge DIR... -o RUN, with {outcome.directory.root} among the folders",
    )


def _format_counts(outcome: Outcome) -> str:
    cache_text = f" ({outcome.cached} of other runs, from the cache)" if outcome.cached else ""
    done = f"{plural(outcome.observed, 'item')} observed, {outcome.reused} taken from the store{cache_text}"
    if outcome.trainings:
        done += f"; {outcome.trained} of {plural(len(outcome.trainings), 'training')} done"
    return done


def shard_data(outcome: Outcome) -> dict[str, Any]:
    """Convert what a run did to data, with its folder."""
    return {
        "directory": outcome.directory.root,
        "observed": outcome.observed,
        "reused": outcome.reused,
        "trained": outcome.trained,
        "trainings": len(outcome.trainings),
    }


def outcome_data(outcome: Outcome, page: Path | None) -> dict[str, Any]:
    """Convert the results of a run to data: its folder, what was done, and its card."""
    return {
        **shard_data(outcome),
        "scores": outcome.directory.scores,
        "page": page,
        "files": outcome.files,
        "card": build_card(RunData(outcome.directory.root)),
    }


def corpus_rows(item_set: ItemSet) -> list[dict[str, Any]]:
    """Count what a corpus contains, one row per language."""
    return [
        {
            "language": language,
            "items": len(language_items),
            "files": len({item.path for item in language_items}),
            "clusters": len({item.cluster for item in language_items}),
            "characters": sum(len(item.text) for item in language_items),
        }
        for language in sorted({item.language for item in item_set.items})
        for language_items in [[item for item in item_set.items if item.language == language]]
    ]


def print_corpus(item_set: ItemSet) -> None:
    """Print what a corpus contains and what was left out."""
    print_table(pl.DataFrame(corpus_rows(item_set)))
    for reason, count in item_set.intake.counts.most_common():
        examples = ", ".join(item_set.intake.examples.get(reason, [])[:2])
        print_lines(f"left out: {count} {reason}{f' ({examples})' if examples else ''}")


def comparison_data(folder: Path, page: Path) -> dict[str, Any]:
    """Convert a comparison to data: pairs of models, counts by lens, and every difference."""
    comparison = read_comparison(folder)
    return {
        "directory": folder,
        "page": page,
        "comparisons": comparison.comparisons,
        "counts": summary.count_outcomes(comparison.differences),
        "differences": comparison.differences.to_dicts(),
    }


def print_comparison(folder: Path, page: Path) -> None:
    """Print a comparison: counts by lens, the overview, and the strongest changes."""
    comparison = read_comparison(folder)
    rows = summary.add_text_columns(comparison.differences)
    for pair in comparison.comparisons:
        print_lines(f"{pair['model']['label']} compared with {pair['base']['label']}")
        condition = (pl.col("model") == pair["model"]["label"]) & (pl.col("base") == pair["base"]["label"])
        pair_rows = rows.filter(condition)
        for row in summary.count_outcomes(pair_rows):
            print_lines(f"  {row['lens']}: {summary.format_counts(row)}")
        for unmatched in pair["unpaired"]:
            print_lines(f"  {unmatched['lens']}: {unmatched['count']:,} not compared: {unmatched['reason']}")
        tables = {"Over everything": summary.select_overview(pair_rows)}
        for outcome in ("worse", "better", "lower", "higher"):
            tables[f"Got {outcome}, largest change first"] = summary.select_outcome(pair_rows, outcome).head(
                _STRONGEST
            )
        for title, table_rows in tables.items():
            if table_rows.height:
                print_lines("", title)
                table = summary.differences_table(
                    title, table_rows, show_models=False, show_outcome=title == "Over everything"
                )
                print_lines(*table.lines(indent=2))
        print_lines("")
    print_lines(f"comparison: {folder / 'comparison.parquet'}", f"report: {page}")
