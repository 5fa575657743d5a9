"""``sonde corpus``: build corpora, fix the items of a run, count what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sonde._options import Languages, Limit, Seed, Unit

corpus_app = typer.Typer(
    help="Build corpora, look at them, and fix the items of a run.", no_args_is_help=True
)


@corpus_app.command("lock")
def corpus_lock(
    corpus: Annotated[str, typer.Option("-c", "--corpus", help="A corpus by name.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The lock file.")],
    language: Languages = None,
    unit: Unit = None,
    limit: Limit = None,
    seed: Seed = None,
) -> None:
    """Write paths and hashes of the items that a run would take, for `sonde run --lock`."""
    from sonde.corpora import select, write_lock
    from sonde.experiments.overrides import selection_of

    selection = selection_of({"unit": unit, "languages": language, "limit": limit, "seed": seed})
    chosen = select(corpus, selection)
    write_lock(chosen, output)
    typer.echo(f"{len(chosen.items)} items of {corpus} in {output}")


@corpus_app.command("stats")
def corpus_stats(
    corpus: Annotated[str, typer.Option("-c", "--corpus", help="A corpus by name.")],
    language: Languages = None,
    unit: Unit = None,
    limit: Limit = None,
    seed: Seed = None,
) -> None:
    """Count what a corpus holds, and what is left out and why."""
    from sonde._console import print_corpus
    from sonde.corpora import select
    from sonde.experiments.overrides import selection_of

    selection = selection_of({"unit": unit, "languages": language, "limit": limit, "seed": seed})
    print_corpus(select(corpus, selection))
