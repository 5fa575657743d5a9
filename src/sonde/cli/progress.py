"""Progress and results of commands: bars and tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from sonde.base.formatting import duration, format_parameters
from sonde.base.options import COLUMNS, OptionDescription, build_option_table
from sonde.base.progress import Advance
from sonde.base.registry import Header
from sonde.base.terminal import escape_text, print_lines, print_note
from sonde.comparison import summary
from sonde.corpora import ItemSet
from sonde.experiments.progress import Outcome
from sonde.models import Checkpoint
from sonde.report import RunData, build_card, describe_run, read_comparison
from sonde.results.tables import Column
from sonde.results.tables import Table as Declared
from sonde.results.text_format import Format

_SECONDS_BETWEEN_LINES = 10.0


_STRONGEST = 8
"""Differences of an outcome that are printed."""


_WIDEST = 10_000
"""Width of output that is no terminal: no row is wrapped, so that it can be searched."""


class TerminalProgress:
    """Progress bars that stay when they are done."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Generator[Advance]:
        """See `sonde.base.progress.Progress.stage`."""
        columns = (
            TextColumn("{task.description:<10}", markup=False),
            BarColumn(bar_width=36),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=self._console) as bars:
            bar = bars.add_task(escape_text(title), total=total)

            def advance(count: int = 1, /) -> None:
                bars.advance(bar, count)

            yield advance
            if total is None:
                bars.update(bar, total=1, completed=1)

    def note(self, line: str) -> None:
        """See `sonde.base.progress.Progress.note`."""
        self._console.print(escape_text(line), markup=False, highlight=False, soft_wrap=True)


class PlainProgress:
    """Progress as lines: at the start of each stage, now and then, and at its end."""

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Generator[Advance]:
        """See `sonde.base.progress.Progress.stage`."""
        begin = last = time.monotonic()
        done = 0

        def advance(count: int = 1, /) -> None:
            nonlocal done, last
            done += count
            now = time.monotonic()
            if now - last >= _SECONDS_BETWEEN_LINES:
                last = now
                left = (
                    f", about {duration((now - begin) * (total - done) / done)} left"
                    if total and done
                    else ""
                )
                self.note(f"{title}: {done}/{total or '?'} after {now - begin:.0f} s{left}")

        self.note(f"{title}: begins")
        yield advance
        self.note(f"{title}: done in {time.monotonic() - begin:.1f} s")

    def note(self, line: str) -> None:
        """See `sonde.base.progress.Progress.note`."""
        print_note(line)


def make_progress() -> TerminalProgress | PlainProgress:
    """Create the progress that fits standard error."""
    return TerminalProgress(Console(stderr=True)) if sys.stderr.isatty() else PlainProgress()


def print_options(groups: Mapping[str, Sequence[OptionDescription]]) -> None:
    """Print options as tables, one per lens: wrapped on a terminal, else one line per option."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDEST)
    for name, options in groups.items():
        titles, rows = build_option_table(options)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for place, title in enumerate(titles):
            table.add_column(title, overflow="fold", no_wrap=place == 0)
        for row in rows:
            table.add_row(*map(Text, row))
        with console.capture() as printed:
            console.print(table)
        heading = f"options of {name}" if rows else f"{name} has no options"
        print_lines(heading, *(line.rstrip() for line in printed.get().splitlines()), "")


def options_data(groups: Mapping[str, Sequence[OptionDescription]]) -> dict[str, list[dict[str, str]]]:
    """Convert options to data: by lens, a mapping per option."""
    names = {title: title.replace(" ", "_") for title in COLUMNS}
    return {
        lens: [{names[title]: cell(one) for title, cell in COLUMNS.items()} for one in options]
        for lens, options in groups.items()
    }


def print_table(table: pl.DataFrame) -> None:
    """Print a table as aligned columns; line breaks inside cells are shown, never obeyed."""
    plain = Format(missing="")
    columns = [Column(title=name, value=name, format=plain) for name in table.columns]
    _print(Declared(summary="", columns=columns, rows=table))


def _print(table: Declared, *, headed: bool = True) -> None:
    print_lines(*table.lines(header=headed))


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
    cached = f" ({outcome.cached} of other runs, from the cache)" if outcome.cached else ""
    done = f"{outcome.observed} items observed, {outcome.reused} taken from the store{cached}"
    if outcome.trainings:
        done += f"; {outcome.trained} of {len(outcome.trainings)} trainings done"
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


def corpus_rows(chosen: ItemSet) -> list[dict[str, Any]]:
    """Count what a corpus contains, one row per language."""
    return [
        {
            "language": language,
            "items": len(mine),
            "files": len({item.path for item in mine}),
            "clusters": len({item.cluster for item in mine}),
            "characters": sum(len(item.text) for item in mine),
        }
        for language in sorted({item.language for item in chosen.items})
        for mine in [[item for item in chosen.items if item.language == language]]
    ]


def print_corpus(chosen: ItemSet) -> None:
    """Print what a corpus contains and what was left out."""
    print_table(pl.DataFrame(corpus_rows(chosen)))
    for reason, count in chosen.intake.counts.most_common():
        examples = ", ".join(chosen.intake.examples.get(reason, [])[:2])
        print_lines(f"left out: {count} {reason}{f' ({examples})' if examples else ''}")


def print_catalogue(headers: Sequence[Header]) -> None:
    """Print names with their summaries."""
    columns = [Column(title=name, value=name) for name in ("name", "summary")]
    rows = [{"name": header.name, "summary": header.summary} for header in headers]
    _print(Declared(summary="", columns=columns, rows=rows), headed=False)


def print_checkpoints(checkpoints: Sequence[Checkpoint]) -> None:
    """Print known checkpoints, one per line; ``--json`` has all columns and the sources."""
    columns = [
        Column(title="name", value="name"),
        Column(title="family", value="family"),
        Column(title="size", value=lambda row: row["parameters"] and format_parameters(row["parameters"])),
        Column(title="cut-off", value="cut_off"),
        Column(title="licence", value="licence"),
    ]
    _print(Declared(summary="", columns=columns, rows=[one.data() for one in checkpoints]))


def comparison_data(folder: Path, page: Path) -> dict[str, Any]:
    """Convert a comparison to data: pairs of models, counts by lens, and every difference."""
    compared = read_comparison(folder)
    return {
        "directory": folder,
        "page": page,
        "comparisons": compared.comparisons,
        "counts": summary.count_outcomes(compared.differences),
        "differences": compared.differences.to_dicts(),
    }


def print_comparison(folder: Path, page: Path) -> None:
    """Print a comparison: counts by lens, the overview, and the strongest changes."""
    compared = read_comparison(folder)
    rows = summary.add_text_columns(compared.differences)
    for one in compared.comparisons:
        print_lines(f"{one['model']['label']} held against {one['base']['label']}")
        own = (pl.col("model") == one["model"]["label"]) & (pl.col("base") == one["base"]["label"])
        mine = rows.filter(own)
        for row in summary.count_outcomes(mine):
            print_lines(f"  {row['lens']}: {summary.format_counts(row)}")
        for alone in one["unpaired"]:
            print_lines(f"  {alone['lens']}: {alone['count']:,} not compared: {alone['reason']}")
        shown = {"Over everything": summary.select_overview(mine)}
        for outcome in ("worse", "better", "lower", "higher"):
            shown[f"What got {outcome}, the strongest first"] = summary.select_outcome(mine, outcome).head(
                _STRONGEST
            )
        for title, some in shown.items():
            if some.height:
                print_lines("", title)
                found = summary.differences_table(
                    title, some, show_models=False, show_outcome=title == "Over everything"
                )
                print_lines(*found.lines(indent=2))
        print_lines("")
    print_lines(f"comparison: {folder / 'comparison.parquet'}", f"report: {page}")
