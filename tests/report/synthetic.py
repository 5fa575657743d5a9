"""A run directory as `sonde run` writes it: real code, syntax and scoring, made-up surprisal."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from sonde.base.fingerprint import derive_seed, fingerprint, unit_hash
from sonde.languages import LANGUAGES, TOKEN_KINDS
from sonde.lenses import LENSES, LensSettings, ScoringContext
from sonde.results.schema import FILE_COLUMNS, OBSERVATIONS_SCHEMA, Dimensions
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory, slug

PIECE = re.compile(
    "[\U00010000-\U0010ffff]|"
    r"\n[ \t]*|[ \t]+(?=[\n#])| ?[A-Za-z_]{1,6}| ?[0-9]+| ?[^\sA-Za-z0-9_\U00010000-\U0010ffff]{1,2}|\s"
)
SECOND = "<0xB3>"
HOSTILE = (
    'def f(x):\n    return "</script><script>alert(1)</script><img src=x onerror=alert(2)> & <!-- 𝒳 é"\n'
)
_DIFFICULTY = {
    "identifier": 3.1,
    "literal": 3.4,
    "comment": 2.8,
    "layout": 0.6,
    "keyword": 1.2,
    "merged": 1.9,
}


@dataclass(frozen=True)
class Source:
    path: str
    name: str
    cluster: str
    text: str

    @property
    def item_id(self) -> str:
        return fingerprint(self.path, self.name, self.text)


def functions_of(*modules: Any, limit: int = 12) -> list[Source]:
    """The first functions of some modules of the standard library."""
    found: list[Source] = []
    python = LANGUAGES.load("python")
    for module in modules:
        text = inspect.getsource(module)
        for function in python.functions(text)[:limit]:
            body = text[function.start : function.end]
            found.append(Source(f"{module.__name__}.py", function.qualified_name, module.__name__, body))
    return found


def observe(source: Source, model: str, shift: float, cut: re.Pattern[str] = PIECE) -> pl.DataFrame:
    """Rows of the item table; kind, tag and construct from the real tree, surprisal from a seeded draw."""
    python = LANGUAGES.load("python")
    tree, text = python.parse(source.text), source.text
    tokens = python.tokens(tree)
    owner = np.full(len(text), -1)
    for row, (start, end) in enumerate(zip(tokens.start, tokens.end, strict=True)):
        owner[start:end] = row
    inner = np.full(len(text), "", object)
    for construct in sorted(python.constructs(tree), key=lambda c: c.start - c.end):
        inner[construct.start : construct.end] = construct.label
    rng = np.random.default_rng(derive_seed(source.item_id, model))
    rows: list[dict[str, Any]] = []
    for piece in _pieces(text, cut):
        rows.append(_row(piece, source, text, tokens, tree, owner, inner, rng, shift, len(rows)))
    _add_units(rows, text, tokens, tree, inner)
    return pl.DataFrame(rows, schema=dict(OBSERVATIONS_SCHEMA), orient="row")


def _add_units(rows: list[dict[str, Any]], text: str, tokens: Any, tree: Any, inner: np.ndarray) -> None:
    """Code tokens with the whitespace before them, as a server that gives no logits has them."""
    begin = 0
    for index, (start, end) in enumerate(zip(tokens.start.tolist(), tokens.end.tolist(), strict=True)):
        whole = [row for row in rows if begin <= row["start"] and row["end"] <= end]
        is_cut = sum(row["end"] - row["start"] for row in whole if row["subword"] != SECOND) == end - begin
        is_first = rows[0]["end"] > begin
        word, role, node = text[start:end], tokens.role[index], int(tokens.node[index])
        origin = ("internal", "external")[unit_hash(word) < 0.5] if role == "call" else ""
        unit = {
            "unit": index,
            "start": start,
            "end": end,
            "bytes": len(text[begin:end].encode()),
            "word": word,
            "kind": TOKEN_KINDS[tokens.kind[index]],
            "role": role,
            "tag": f"{tree.kind_name(int(tree.parent[node]))} -> {tree.kind_name(node)}",
            "construct": str(inner[start]),
            "ancestors": "module/function_definition",
            "origin": origin,
            "origin_part": "name" if origin else "",
            "call_form": "bare" if origin else "",
            "library": word if role == "call" else "",
            "user_tag": "",
            "line_place": "1",
            # Each subword counts once, where it begins.
            "nats": math.fsum(row["nats"] for row in rows if begin <= row["start"] < end),
            "part": "first" if is_first else "mixed",
            "piece_nats": math.fsum(row["nats"] for row in whole) if is_cut and not is_first else None,
        }
        last = next(row for row in rows if row["end"] >= end)
        last["units"] = [*(last["units"] or []), unit]
        begin = end


def _pieces(text: str, cut: re.Pattern[str]) -> Iterable[tuple[int, int, str, int]]:
    """Spans with surface and bytes; a character beyond the first plane comes in two pieces of its bytes."""
    for match in cut.finditer(text):
        size = len(match[0].encode())
        if len(match[0]) == 1 and size == 4:
            yield match.start(), match.end(), "<0xF0>", 2
            yield match.start(), match.end(), SECOND, 2
        else:
            yield match.start(), match.end(), match[0].replace(" ", "␣").replace("\n", "↵"), size


def _row(
    piece: tuple[int, int, str, int],
    source: Source,
    text: str,
    tokens: Any,
    tree: Any,
    owner: np.ndarray,
    inner: np.ndarray,
    rng: np.random.Generator,
    shift: float,
    position: int,
) -> dict[str, Any]:
    start, end, surface, size = piece
    # Blanks belong to no piece's tokens, as where sonde aligns.
    inked = [place for place in range(start, end) if not text[place].isspace()] or [start]
    held = sorted({int(owner[place]) for place in inked if owner[place] >= 0 and not text[place].isspace()})
    kind = "layout" if not held else "merged" if len(held) > 1 else TOKEN_KINDS[tokens.kind[held[0]]]
    node = int(tokens.node[held[0]]) if held else -1
    tag, role, word, origin = "layout", "", "", ""
    if held:
        tag = f"{tree.kind_name(int(tree.parent[node]))} -> {tree.kind_name(node)}"
        role = tokens.role[held[0]] if len(held) == 1 else ""
        word = text[tokens.start[held[0]] : tokens.end[held[0]]] if len(held) == 1 else ""
    if role == "call":
        origin = ("internal", "external")[unit_hash(word) < 0.5]
    mean = _DIFFICULTY.get(kind, 1.5) * shift * (0.6 + 0.8 * unit_hash("hard", tag))
    nats = float(rng.gamma(0.7, mean / 0.7)) * math.log(2)
    rank = 1 + int(rng.geometric(min(0.99, max(0.002, math.exp(-nats)))) - 1)
    best = nats if rank == 1 else nats * float(rng.uniform(0.2, 0.9))
    return {
        "item_id": source.item_id,
        "file": source.path,
        "cluster": source.cluster,
        "language": "python",
        "position": position,
        "start": start,
        "end": end,
        "subword": surface,
        "subword_id": int(unit_hash(surface) * 8000),
        "nats": nats,
        "rank": rank,
        "entropy": float(rng.gamma(2.0, 0.8)),
        "context": position,
        "bytes": size,
        # Of a character in two pieces, the second one answers for none.
        "text_characters": 0 if surface == SECOND else end - start,
        "text_bytes": size,
        "covered": 0 if surface == SECOND else end - start,
        **dict.fromkeys(FILE_COLUMNS),
        "kind": kind,
        "role": role,
        "tag": tag,
        "merged": len(held),
        "token": held[0] if held else -1,
        "word": word,
        "construct": str(inner[inked[0]]) if held else "",
        "ancestors": "module/function_definition",
        "origin": origin,
        "origin_part": "name" if origin else "",
        "call_form": "bare" if origin else "",
        "library": word if role == "call" else "",
        "user_tag": "",
        "units": None,
        "top": [surface if rank == 1 else "self", "␣return", "(", "</script>", "None"],
        "top_nats": [best, best + 0.7, best + 1.5, best + 2.2, best + 2.6],
    }


def dims(**names: str) -> Dimensions:
    """Dimensions of a score written by hand."""
    return tuple(names.items())


def scores_of(model: str, rows: pl.DataFrame, beside: list[pl.DataFrame], texts: pl.DataFrame) -> list[Score]:
    """What the lens itself makes of the rows, beside those of the other models."""
    template = Score(model=model, lens="surprisal", metric="", value=0.0, n=0, n_clusters=0)
    scoring = ScoringContext(
        observations=rows.lazy(),
        items=pl.DataFrame(),
        template=template,
        settings=LensSettings(mode="corrected"),
        texts=texts.lazy().select("item_id", "text"),
        beside=tuple(one.lazy() for one in beside),
    )
    return LENSES.load("surprisal").score(scoring)


def write_run(
    root: Path,
    sources: list[Source],
    models: dict[str, float],
    cuts: Mapping[str, re.Pattern[str]] = MappingProxyType({}),
) -> Path:
    """Write a whole run.

    Args:
        root: Where to.
        sources: The items.
        models: Name to a factor on every made-up surprisal.
        cuts: Name to what a piece of its tokenizer is, where it is not `PIECE`.
    """
    run = RunDirectory(root)
    root.mkdir(parents=True, exist_ok=True)
    tables: dict[str, pl.DataFrame] = {}
    for model, shift in models.items():
        folder = root / run.observations("surprisal", model)
        folder.mkdir(parents=True)
        frames = [observe(source, model, shift, cuts.get(model, PIECE)) for source in sources]
        rows = pl.concat(frames) if frames else pl.DataFrame(schema=dict(OBSERVATIONS_SCHEMA))
        rows.write_parquet(folder / "part-0.parquet")
        tables[model] = rows
    scores: list[Score] = []
    for model, rows in tables.items():
        beside = [other for name, other in tables.items() if name != model]
        if rows.height:
            scores += scores_of(model, rows, beside, items_of(sources))
    scores_to_frame(scores).write_parquet(run.scores)
    items_of(sources).write_parquet(run.items)
    run.write_summary(summary(root.name, sources, models))
    return root


def items_of(sources: list[Source]) -> pl.DataFrame:
    rows = [
        {
            "item_id": source.item_id,
            "identifier": f"{source.path}:{source.name}",
            "language": "python",
            "unit": "function",
            "path": source.path,
            "name": source.name,
            "cluster": source.cluster,
            "repository": "stdlib",
            "licence": "PSF-2.0",
            "text": source.text,
            "bytes": len(source.text.encode()),
            "characters": len(source.text),
        }
        for source in sources
    ]
    schema = {
        **dict.fromkeys(("item_id", "identifier", "language", "unit", "path", "name", "cluster"), pl.String)
    }
    schema |= {
        **dict.fromkeys(("repository", "licence", "text"), pl.String),
        "bytes": pl.Int64,
        "characters": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def summary(name: str, sources: list[Source], models: dict[str, float]) -> dict[str, Any]:
    counts = {"characters": 90_000, "covered": 90_000, "subwords": 24_000, "merged": 900, "layout": 5_100}
    return {
        "name": name,
        "fingerprint": fingerprint(name, list(models)),
        "arguments": {
            "models": list(models),
            "lenses": ["surprisal"],
            "corpora": ["stdlib"],
            "mode": "corrected",
            "selection": {"unit": "function", "limit": len(sources), "languages": [], "seed": 0},
        },
        "models": [
            {
                "name": model,
                "slug": slug(model),
                "revision": "3f1c9e07",
                "kind": "decoder",
                "layers": 4,
                "d_model": 256,
                "vocab": 8000,
                "context": 512,
                "parameters": 5_200_000,
                "special": {"bos": "<s>", "policy": "one start token, never scored"},
                "seen": 0,
                "seen_excluded": True,
                "card": "",
            }
            for model in models
        ],
        "corpus": [
            {
                "name": "stdlib",
                "hash": fingerprint("corpus"),
                "language": "python",
                "items": len(sources),
                "files": len({source.path for source in sources}),
                "clusters": len({source.cluster for source in sources}),
                "skipped": {"near-duplicate": 31, "over the cap of its cluster": 204},
            }
        ],
        "mode": "corrected",
        "quirks": [],
        "seed": 0,
        "versions": {"sonde": "0.1.0", "python": "3.11.2", "torch": "2.13.0", "polars": "2.1.0"},
        "hardware": {"machine": "x86_64", "cores": 2},
        "timing": {"selecting": 3.2, "observing": 71.4, "scoring": 2.0},
        "forwards": {"run": len(sources), "shared": 0},
        "alignment": {
            slug(model): {**counts, "unknown": 0, "tokens": 18_000, "tokens_whole": 17_300}
            for model in models
        },
    }


def rewrite_summary(root: Path, **changes: Any) -> None:
    """Change or (with None) drop keys of ``run.json``."""
    held = {**RunDirectory(root).read_summary(), **changes}
    RunDirectory(root).write_summary({k: v for k, v in held.items() if v is not None})
