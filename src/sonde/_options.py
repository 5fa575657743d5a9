"""Options that several commands take, each said once."""

from __future__ import annotations

from typing import Annotated

import typer

Models = Annotated[list[str] | None, typer.Option("-m", "--model", help="Path, hub name or bundled name.")]
Corpora = Annotated[
    list[str] | None,
    typer.Option("-c", "--corpus", help="stdlib, local:DIR, jdk, ...; see `sonde list corpora`."),
]
Languages = Annotated[list[str] | None, typer.Option("--language", help="Only this language.")]
Unit = Annotated[str | None, typer.Option("--unit", help="What an item is: function or file.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most this many items a language.")]
PerCluster = Annotated[
    int | None,
    typer.Option(
        "--per-cluster", min=0, help="At most this many items a cluster, 200 by default; 0 for no cap."
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of sampling and of everything random.")]
Mode = Annotated[
    str | None, typer.Option("--mode", help="corrected, or paper: as published, quirks included.")
]
Quirks = Annotated[list[str] | None, typer.Option("--quirk", help="Switch on one quirk of a paper.")]
