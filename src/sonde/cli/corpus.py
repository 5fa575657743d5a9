"""``sonde corpus``: build corpora, fix the items of a run, count what is there."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sonde.base.errors import UsageError
from sonde.base.formatting import plural
from sonde.base.terminal import print_lines, print_note
from sonde.cli.help import Application
from sonde.cli.options import CORPUS_FLAG, DeclaredCommand, with_run_options
from sonde.cli.output import CommandOutput, with_output

if TYPE_CHECKING:
    from sonde.corpora import Manifest

corpus_app = Application(
    help="Build corpora, count their content, and lock the items of a run.", no_args_is_help=True
)


_TOLD_EACH = 12
"""Corpora up to which each is told by itself."""


Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        rich_help_panel="Machine",
        help="Number of processes; default: one per core. Same result.",
    ),
]


@corpus_app.command("build", cls=DeclaredCommand)
@with_output()
@with_run_options("corpora", "languages", "seed", "executor", "address")
def corpus_build(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder of the corpus.")],
    *,
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            "--held-out",
            metavar="CORPUS",
            rich_help_panel="What",
            help="Leave out the files of this corpus and their near-duplicates.",
        ),
    ] = None,
    licence: Annotated[
        list[str] | None,
        typer.Option(
            "--licence",
            metavar="LICENCE",
            rich_help_panel="How much",
            help="Keep only this licence: SPDX name, family (BSD) or permissive.",
        ),
    ] = None,
    min_chars: Annotated[
        int,
        typer.Option(
            "--min-chars", min=0, metavar="N", rich_help_panel="How much", help="Leave out shorter files."
        ),
    ] = 1,
    max_chars: Annotated[
        int,
        typer.Option(
            "--max-chars", min=0, metavar="N", rich_help_panel="How much", help="Leave out longer files."
        ),
    ] = 1_000_000,
    unparsed: Annotated[
        bool,
        typer.Option("--keep-unparsed", rich_help_panel="How much", help="Keep files that do not parse."),
    ] = False,
    generated: Annotated[
        bool,
        typer.Option("--keep-generated", rich_help_panel="How much", help="Keep files that look generated."),
    ] = False,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="METHOD",
            rich_help_panel="How much",
            help="How near-duplicates are found: exact or minhash.",
        ),
    ] = "exact",
    splits: Annotated[
        str, typer.Option("--splits", metavar="N,N,N", help="Shares of train, valid and test, in per cent.")
    ] = "60,20,20",
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            metavar="N",
            rich_help_panel="How much",
            help="At most this many files per language.",
        ),
    ] = None,
    workers: Workers = None,
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--manifest",
            metavar="FILE",
            rich_help_panel="What",
            help="Rebuild the corpus of this manifest; -c names where its files are now.",
        ),
    ] = None,
    **arguments: Any,
) -> CommandOutput:
    """Filter corpora, leave out near-duplicates, split by cluster; read the result as built:DIR."""
    from sonde.corpora import BuildOptions, build_corpus, rebuild_corpus
    from sonde.executors import connect_executor, count_cores

    options = BuildOptions(
        corpora=tuple(arguments.get("corpora", ())),
        held_out=tuple(held_out or ()),
        languages=tuple(arguments.get("languages", ())),
        licences=tuple(licence or ()),
        parses=not unparsed,
        written=not generated,
        min_chars=min_chars,
        max_chars=max_chars,
        limit=limit,
        method=method,
        fractions=_parse_shares(splits),
        seed=arguments.get("seed", 0),
    )
    if manifest is None:
        executor, processes = arguments.get("executor", "local"), workers or count_cores()
        options.check()
        connect_executor(executor, arguments.get("address", ""), processes)
        built = build_corpus(options, output, executor=executor, workers=processes, report=print_note)
        return _build_output(built, output)
    if (
        dataclasses.replace(options, corpora=()) != BuildOptions(corpora=())
        or {"executor", "address"} & arguments.keys()
    ):
        raise UsageError("--manifest fixes how the corpus is built; with it, give only -c, -o and --workers")
    return _build_output(rebuild_corpus(manifest, output, corpora=options.corpora, report=print_note), output)


@corpus_app.command("lock", cls=DeclaredCommand)
@with_output()
@with_run_options("languages", "unit", "limit", "per_cluster", "cut_off", "seed")
def corpus_lock(
    corpus: Annotated[str, CORPUS_FLAG],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The lock file.")],
    **arguments: Any,
) -> CommandOutput:
    """Write paths and hashes of the items that a run would take, for `sonde run --lock`."""
    from sonde.corpora import select, write_lock
    from sonde.experiments.arguments import build_selection

    item_set = select(corpus, build_selection(arguments))
    write_lock(item_set, output)
    line = f"{plural(len(item_set.items), 'item')} of {corpus} in {output}"
    return CommandOutput(
        {"items": len(item_set.items), "corpus": corpus, "file": output}, lambda: print_lines(line)
    )


@corpus_app.command("stats", cls=DeclaredCommand)
@with_output()
@with_run_options("languages", "unit", "limit", "seed", "executor", "address")
def corpus_stats(
    corpus: Annotated[str, CORPUS_FLAG],
    *,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "-t",
            "--task",
            metavar="TASK",
            rich_help_panel="What",
            help="Count the labels of this task by split.",
        ),
    ] = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Count the labels of CuBERT's six tasks by split.")
    ] = False,
    workers: Workers = None,
    **arguments: Any,
) -> CommandOutput:
    """Count what a corpus holds, by split; what a run would take; and the labels of tasks."""
    from sonde.cli.progress import corpus_rows, print_corpus, print_table
    from sonde.corpora import select
    from sonde.executors import count_cores
    from sonde.experiments.arguments import build_selection
    from sonde.experiments.corpus_stats import BUG_TASKS, count_corpus
    from sonde.tasks import ParallelMap

    selection = build_selection(arguments)
    tasks = tuple(dict.fromkeys([*(task or ()), *(BUG_TASKS if labels else ())]))
    counts = count_corpus(
        corpus,
        languages=selection.languages,
        tasks=tasks,
        seed=selection.seed,
        parallel=ParallelMap(executor=arguments.get("executor", "local"), workers=workers or count_cores()),
        address=arguments.get("address", ""),
    )
    item_set = select(corpus, selection)
    tables = {"sizes": counts.sizes, "licences": counts.licences, "labels": counts.labels}

    def show() -> None:
        for table in tables.values():
            if len(table):
                print_table(table)
                print_lines("")
        for reason in counts.refused:
            print_lines(f"left out: {reason}")
        print_lines("a run takes:")
        print_corpus(item_set)

    run_items = {"languages": corpus_rows(item_set), "left_out": dict(item_set.intake.counts)}
    rows = {name: table.to_dicts() for name, table in tables.items()}
    return CommandOutput({**rows, "refused": counts.refused, "taken": run_items}, show)


def _build_output(manifest: Manifest, folder: Path) -> CommandOutput:
    summary = {"folder": folder, "corpora": manifest.head["corpora"], "splits": manifest.splits()}
    return CommandOutput(summary, lambda: _print_manifest(manifest, folder))


def _print_manifest(manifest: Manifest, folder: Path) -> None:
    """Print what was left out and why, and the size of the corpus."""
    corpora = manifest.head["corpora"]
    for corpus in corpora if len(corpora) <= _TOLD_EACH else [_sum_corpora(corpora)]:
        print_lines(f"{corpus['name']}: {corpus['kept']} of {corpus['files']} files")
        for reason, count in sorted(corpus["left_out"].items(), key=lambda entry: (-entry[1], entry[0])):
            print_lines(f"  left out: {count} {reason} ({', '.join(corpus['examples'][reason][:2])})")
    for name, split in manifest.splits().items():
        clusters = len({row.cluster for row in manifest.rows if row.split == name})
        counts = [plural(split["files"], "file"), plural(clusters, "cluster"), plural(split["bytes"], "byte")]
        print_lines(f"{name}: {', '.join(counts)}")
    print_lines(f"corpus: {folder} (read it as built:{folder})")


def _sum_corpora(corpora: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum the counts of many corpora into those of one."""
    left_out: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for corpus in corpora:
        left_out.update(corpus["left_out"])
        for reason, paths in corpus["examples"].items():
            examples.setdefault(reason, []).extend(paths[:1])
    kept_files, files = (sum(corpus[count] for corpus in corpora) for count in ("kept", "files"))
    name = f"{len(corpora)} corpora (manifest.jsonl has each)"
    return {"name": name, "kept": kept_files, "files": files, "left_out": left_out, "examples": examples}


def _parse_shares(text: str) -> tuple[float, float, float]:
    """Parse three shares in per cent.

    Raises:
        UsageError: The text is something else.
    """
    try:
        train, valid, test = (float(part) / 100 for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"splits {text!r}: expected three shares in per cent, for example 60,20,20"
        ) from None
    return train, valid, test
