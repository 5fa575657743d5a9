"""``sonde.show``: surprisal, attention and tree of one function without a run, and its HTML page.

Everything shown is about one text only. A head is called the best because it is the best in this very text,
so nothing of it is a finding; a run selects heads on other functions and has intervals and controls.

The HTML page fills the report's token explorer with the models' scores of the function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.alignment.align import trim_spans
from sonde.api.predictions import InputFunction, read_functions
from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.fingerprint import hash_text
from sonde.base.formatting import legible
from sonde.capture.requests import (
    Pass,
    Plain,
    Prepared,
    RankRules,
    ScoredSubwords,
    TokenEndScores,
    WordAttention,
    WordLookups,
    WordRanks,
)
from sonde.experiments.arguments import Names, StrPath, collect_arguments
from sonde.languages import has_facet
from sonde.languages.engine.relations import Words
from sonde.languages.engine.text import whitespace_mask
from sonde.lenses import DEFAULT_LENS, LensSettings, load_reading_lens
from sonde.lenses.attention.observe import FACET, Edges, find_word_subwords, read_item
from sonde.lenses.engine.observations import combine_masked_scores
from sonde.lenses.surprisal.options import select_objective
from sonde.lenses.surprisal.units import compute_unit_costs
from sonde.models import (
    describe_model,
    find_training_file,
    load_model,
    parse_spec,
    resolve_auto,
    seen_items,
)
from sonde.report import render_function_page
from sonde.report.explorer import FUNCTION_ID, read_slug
from sonde.report.section import (
    AMOUNT,
    COLOURINGS,
    LINK,
    LINK_COLUMNS,
    WAYS,
    TokenFindings,
    unit_cells,
)
from sonde.results.units import compare_units, select_changed_places
from sonde.tasks.syntax.syntax_relations import task as relations_task

if TYPE_CHECKING:
    from sonde.models import LoadedModel

MOST_WORDS = 400
"""Words between which attention is read: it grows with their square."""


@dataclass(frozen=True, slots=True)
class ModelView:
    """A function as one model reads it.

    Attributes:
        model: Its name.
        objective: ``"causal"`` (each subword from the text before it), ``"pll"`` (from both sides, it and
            the rest of its word hidden) or ``"infill"`` (its word left out and written): numbers of two are
            not comparable. Empty where there is no surprisal.
        bits_per_byte: Surprisal of the whole in bits a byte of UTF-8; None where there is none.
        tokens: One row per subword: ``start, end`` (characters), ``text, bits, rank`` (1 is what the model
            expected most; 0 of what is not scored), ``entropy`` (bits), ``expected`` (the likeliest subwords,
            best first), ``kind`` (the syntax node that it stands in).
        relations: One row a relation of the language that occurs: ``relation, edges``, and of the head that
            finds most of them in this text ``side, layer, head, found``.
        arcs: One row an edge, with what the head of its relation attends to most: ``relation, side, layer,
            head, asked, expected, picked`` (characters where the words begin, with ``*_text``) and ``found``.
        nodes: One row a named syntax node in pre-order: ``depth, kind, start, end, bits``, the sum over the
            subwords that begin in it; NaN where there is no surprisal.
        units: One row per code token with the whitespace before it, which is the same text for any tokenizer:
            the costs of `sonde.results.schema.UNIT_FIELDS`; empty without surprisal.
        without: Why there is no attention, empty where there is.
        unscored: Why there is no surprisal, empty where there is.
        head: What its head is, where its configuration names no language model.
        seen: Whether it was trained on this very function, as far as it says what it was trained on.
        training_file: The file that held the function in its training data, if that has the same text as the
            file shown: distribution, version and path. Else empty.
    """

    model: str
    objective: str
    bits_per_byte: float | None
    tokens: pl.DataFrame
    relations: pl.DataFrame
    arcs: pl.DataFrame
    nodes: pl.DataFrame
    units: pl.DataFrame
    without: str = ""
    unscored: str = ""
    head: str = ""
    seen: bool = False
    training_file: str = ""


@dataclass(frozen=True, slots=True)
class FunctionView:
    """One function, as models read it.

    Attributes:
        file: Its file.
        name: Its name; that of the file where it has no functions.
        line: Its first line in the file, from 1.
        language: Public name.
        text: Its text.
        others: Names of the other functions of the file.
        reads: What each model makes of it.
        differences: The code tokens at which a model and the first one differ most, at most two in either
            direction: ``base, model, start, end, text, base_bits, bits, difference`` (above 0 the model is
            less sure than the base). Tokenizers may differ; models that read from other sides have none.
    """

    file: str
    name: str
    line: int
    language: str
    text: str
    others: tuple[str, ...]
    reads: tuple[ModelView, ...]
    differences: pl.DataFrame


def show(
    file: StrPath,
    models: Names | None = None,
    *,
    model: Names | None = None,
    function: str | None = None,
    device: str = "auto",
) -> FunctionView:
    """Show one function of a file as models read it; the file is parsed and never run.

    Args:
        file: A file of code or text.
        models: One model by name, or several.
        model: One model; the same as ``models``.
        function: Which function; by default the first one, or the whole file if it has none.
        device: Where the models run.

    Returns:
        The function with the surprisal of its subwords, the attention along its relations, and its tree.

    Raises:
        InputError: The file cannot be read, or a model gives no finite number.
        UnknownNameError: There is no such function or model.
        UsageError: No model is given, or both ``models`` and ``model``.
    """
    model_arguments = {"models": models, "model": model}
    names: tuple[str, ...] = collect_arguments("sonde.show", model_arguments, model_arguments).get(
        "models", ()
    )
    if not names:
        raise UsageError("sonde.show takes a file and a model, as in sonde.show('a.py', 'gpt2')")
    target, other_names = _select_function(Path(file), function)
    specs = {name: resolve_auto(parse_spec(name, device=device), attention=True) for name in names}
    for spec in specs.values():
        # What is going to be refused is refused before another model has been read.
        describe_model(spec)
    reads = tuple(_read_function(load_model(spec), target, name) for name, spec in specs.items())
    item = target.item
    differences = pl.concat([pl.DataFrame(schema=_DIFFERENCES), *_find_differences(reads, item.text)])
    return FunctionView(
        target.file, item.name, target.line, item.language, item.text, other_names, reads, differences
    )


_DIFFERENCES = {
    "base": pl.String,
    "model": pl.String,
    "start": pl.Int32,
    "end": pl.Int32,
    "text": pl.String,
    "base_bits": pl.Float64,
    "bits": pl.Float64,
    "difference": pl.Float64,
}


def _find_differences(reads: Sequence[ModelView], text: str) -> Iterator[pl.DataFrame]:
    """Yield for each model the code tokens at which it and the first model differ most."""
    base, *others = reads
    for read in others:
        if base.objective != read.objective or base.units.is_empty() or read.units.is_empty():
            continue
        costs = [view.units.with_columns(item_id=pl.lit("")) for view in (base, read)]
        places = compare_units(*costs).with_columns(difference=pl.col("bits") - pl.col("base_bits"))
        rows = select_changed_places(places.lazy()).sort("difference", "start", descending=[True, False])
        spans = rows.select("start", "end").collect().rows()
        yield (
            rows.with_columns(
                pl.lit(base.model).alias("base"),
                pl.lit(read.model).alias("model"),
                pl.Series("text", [text[start:end] for start, end in spans], pl.String),
            )
            .select(pl.col(name).cast(kind) for name, kind in _DIFFERENCES.items())
            .collect()
        )


def _select_function(file: Path, function: str | None) -> tuple[InputFunction, tuple[str, ...]]:
    messages: list[str] = []
    functions = read_functions([file], messages)
    if not functions:
        raise InputError(f"nothing to show: {messages[0] if messages else file}")
    names = [candidate.item.name for candidate in functions]
    if function is not None and function not in names:
        raise UnknownNameError("function", function, sorted(set(names)))
    index = 0 if function is None else names.index(function)
    return functions[index], tuple(name for position, name in enumerate(names) if position != index)


def _read_function(loaded_model: LoadedModel, target: InputFunction, name: str) -> ModelView:
    from sonde.alignment import get_surfaces
    from sonde.capture import observe_lenses, prepare
    from sonde.capture.attention_backend import unreadable_reason

    (prepared_item,) = prepare(loaded_model, [target.item])
    words, edges, attention_reason = _find_relations(loaded_model, prepared_item)
    capabilities = loaded_model.capabilities
    score_reason = f"this {capabilities.kind} has {capabilities.lacks}" if capabilities.lacks else ""
    passes: dict[str, Sequence[Pass]] = {}
    if not score_reason:
        lens = load_reading_lens(DEFAULT_LENS)
        settings = LensSettings(options=lens.resolve_options({name: capabilities}, {}))
        passes["scores"] = lens.input_requests([prepared_item], {}, settings)
    if words is not None and edges is not None:
        attention_reason = unreadable_reason(loaded_model)
        if not attention_reason:
            passes["attention"] = [_attention_pass(prepared_item, words, edges)]
    (observed_item,) = observe_lenses(loaded_model, [prepared_item], passes)
    # The one item is read, or nothing is: then that is what was raised.
    assert not observed_item.unread
    bits, scores = np.full(len(prepared_item.alignment.subwords), np.nan), None
    units = pl.DataFrame()
    if not score_reason:
        captures = observed_item.captures["scores"]
        is_causal = capabilities.kind == "decoder"
        scores = captures[0].scores if is_causal else combine_masked_scores(captures)
        if scores is None or not np.isfinite(scores.nats[scores.scored]).all():
            raise InputError(f"model {name!r} gives no finite surprisal for {target.file!r}")
        bits = np.where(scores.scored, scores.nats, np.nan) / math.log(2)
        ends = captures[0].extra.get(TokenEndScores.answer)
        units = compute_unit_costs(prepared_item, scores, ends, causal=is_causal).drop("row")
    word_ranks = observed_item.captures["attention"][0].words if "attention" in passes else {}
    if not word_ranks and not attention_reason:
        attention_reason = "it is longer than the model can read at once"
    relations, arcs = _relation_tables(word_ranks, words, edges, target.item.text)
    is_seen = bool(seen_items(loaded_model.spec.name, [target.item.item_id]))
    size = max(len(target.item.text.encode("utf-8", "replace")), 1)
    return ModelView(
        model=name,
        objective="" if score_reason else select_objective({name: capabilities}, {}),
        bits_per_byte=None if score_reason else float(np.nansum(bits)) / size,
        tokens=_token_table(
            prepared_item, scores, bits, get_surfaces(loaded_model.tokenizer, capabilities.vocab)
        ),
        relations=relations,
        arcs=arcs,
        nodes=_node_table(prepared_item, bits).with_columns(
            pl.lit(float("nan")).alias("bits") if score_reason else pl.col("bits")
        ),
        units=units,
        without=attention_reason,
        unscored=score_reason,
        head=loaded_model.facts.get("head", ""),
        seen=is_seen,
        training_file=find_training_file(loaded_model.spec.name, hash_text(target.file_text))
        if is_seen
        else "",
    )


def _find_relations(
    loaded_model: LoadedModel, prepared_item: Prepared
) -> tuple[Words | None, Edges | None, str]:
    """Return the words and relations of a function, or the reason that no attention is shown."""
    item = prepared_item.item
    if loaded_model.capabilities.attention not in ("interface", "eager"):
        return None, None, "this model shows no attention weights"
    if not has_facet(item.language, FACET):
        return None, None, f"no syntactic relations are declared for {item.language}"
    rows = relations_task.label([item], {})[item.item_id]
    if rows["label"].null_count():
        return None, None, f"it does not parse as {item.language}"
    if rows.is_empty():
        return None, None, "it has no syntactic relations"
    words, edges = read_item(item, rows, LensSettings())
    if len(words) > MOST_WORDS:
        return None, None, f"it has {len(words)} words; attention is read between at most {MOST_WORDS}"
    return words, edges, ""


def _attention_pass(prepared_item: Prepared, words: Words, edges: Edges) -> Pass:
    first, stop = find_word_subwords(words, prepared_item.alignment.subwords)
    lookups = WordLookups(
        first, stop, words.candidate, edges.bidirectional_lookups, edges.causal_lookups, RankRules(picks=True)
    )
    return Pass(Plain(), (WordAttention({prepared_item.item.item_id: lookups}),))


def _token_table(
    prepared_item: Prepared,
    scores: ScoredSubwords | None,
    bits: Float[np.ndarray, " subword"],
    surfaces: Sequence[str],
) -> pl.DataFrame:
    subwords = prepared_item.alignment.subwords
    starts, ends = subwords.start.tolist(), subwords.end.tolist()
    rank, entropy = np.zeros(len(bits), np.int64), np.full(len(bits), np.nan)
    alternatives: list[list[str]] = [[] for _ in starts]
    if scores is not None:
        rank = np.where(scores.scored, scores.rank, 0)
        entropy = np.where(scores.scored, scores.entropy, np.nan)
        alternatives = [
            [str(surfaces[token_id]) for token_id in row] if has_score else []
            for row, has_score in zip(scores.top_ids.tolist(), scores.scored.tolist(), strict=True)
        ]
    return pl.DataFrame(
        {
            "start": starts,
            "end": ends,
            "text": [subwords.text[start:end] for start, end in zip(starts, ends, strict=True)],
            "bits": bits,
            "rank": rank,
            "entropy": entropy / math.log(2),
            "expected": pl.Series(alternatives, dtype=pl.List(pl.String)),
            "kind": list(prepared_item.alignment.tag),
        }
    )


_HEAD = {"relation": pl.String, "side": pl.String, "layer": pl.Int64, "head": pl.Int64}


_RELATIONS = {**_HEAD, "edges": pl.Int64, "found": pl.Int64}


_ENDS = {
    f"{end}{part}": kind
    for end in ("asked", "expected", "picked")
    for part, kind in (("", pl.Int64), ("_text", pl.String))
}


_ARCS = {**_HEAD, **_ENDS, "found": pl.Boolean}


def _relation_tables(
    word_ranks: Mapping[str, WordRanks], words: Words | None, edges: Edges | None, text: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Find for each relation the head that finds most of its edges, and list what that head picks."""
    relations: list[dict[str, object]] = []
    arcs: list[dict[str, object]] = []
    if not word_ranks or words is None or edges is None:
        return pl.DataFrame(schema=_RELATIONS), pl.DataFrame(schema=_ARCS)
    names = np.array(edges.relation)
    for relation in sorted(set(edges.relation)):
        rows = np.flatnonzero(names == relation)
        best = max(
            (
                (int((side_ranks.ranks[layer, head, rows, 0] == 1).sum()), side, layer, head)
                for side, side_ranks in sorted(word_ranks.items())
                if side != "cross"
                for layer in range(side_ranks.ranks.shape[0])
                for head in range(side_ranks.ranks.shape[1])
            ),
            key=lambda candidate: (candidate[0], -candidate[2], -candidate[3]),
        )
        hits, side, layer, head = best
        head_columns = {"relation": relation, "side": side, "layer": layer, "head": head}
        relations.append({**head_columns, "edges": len(rows), "found": hits})
        ranks, lookups = (
            word_ranks[side],
            edges.causal_lookups if side == "decoder" else edges.bidirectional_lookups,
        )
        assert ranks.picks is not None
        for row in rows.tolist():
            ends = {
                "asked": int(lookups.query[row]),
                "expected": int(lookups.first[row]),
                "picked": int(ranks.picks[layer, head, row]),
            }
            arc: dict[str, object] = {**head_columns, "found": bool(ranks.ranks[layer, head, row, 0] == 1)}
            for name, word in ends.items():
                is_word = 0 <= word < len(words)
                arc[name] = int(words.start[word]) if is_word else None
                arc[f"{name}_text"] = text[words.start[word] : words.end[word]] if is_word else ""
            arcs.append(arc)
    relation_table = pl.DataFrame(relations, schema=_RELATIONS).sort(
        ["found", "relation"], descending=[True, False]
    )
    return relation_table, pl.DataFrame(arcs, schema=_ARCS).sort("asked", "relation")


def _node_table(prepared_item: Prepared, bits: Float[np.ndarray, " subword"]) -> pl.DataFrame:
    tree, subwords = prepared_item.tree, prepared_item.alignment.subwords
    # A blank before a word belongs to its subword and to no node of the word.
    left, right = trim_spans(subwords.start, subwords.end, ~whitespace_mask(subwords.text))
    starts = np.maximum.accumulate(np.where(left < right, left, subwords.start))
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(bits))])
    named_nodes = np.flatnonzero(tree.named)
    first, stop = (np.searchsorted(starts, side[named_nodes], side="left") for side in (tree.start, tree.end))
    depth = np.zeros(len(tree), np.int64)
    for node in range(1, len(tree)):
        depth[node] = depth[tree.parent[node]] + 1
    return pl.DataFrame(
        {
            "depth": depth[named_nodes],
            "kind": [tree.kind_name(int(node)) for node in named_nodes],
            "start": tree.start[named_nodes],
            "end": tree.end[named_nodes],
            "bits": total[stop] - total[first],
        }
    )


def render_page(view: Mapping[str, Any]) -> str:
    """Render the page.

    Args:
        view: A function with its ``reads``, as ``sonde show --json`` prints it.
    """
    reads = {read_slug(number): read for number, read in enumerate(view["reads"])}
    attention_reads = {slug: read for slug, read in reads.items() if read["arcs"]}
    scored_reads = {slug: read for slug, read in reads.items() if not read["unscored"]}
    findings = [
        *([_surprisal_findings(scored_reads)] if scored_reads else []),
        *([_attention_findings(attention_reads)] if attention_reads else []),
    ]
    return render_function_page(view, findings)


def _surprisal_findings(reads: Mapping[str, Mapping[str, Any]]) -> TokenFindings:
    return TokenFindings(
        lens="surprisal",
        label="Surprisal",
        kind=AMOUNT,
        columns=("bits", "rank", "entropy", "subword", "tag", "top"),
        texts=frozenset({"subword", "tag"}),
        facts=(("rank", "rank", ""), ("entropy", "entropy", "bits"), ("in", "tag", "")),
        colourings=COLOURINGS,
        rows={
            slug: {FUNCTION_ID: [_token_cells(row) for row in read["tokens"]]} for slug, read in reads.items()
        },
        units={
            slug: {FUNCTION_ID: [unit_cells(row) for row in read["units"]]} for slug, read in reads.items()
        },
        summaries={slug: {FUNCTION_ID: round(read["bits_per_byte"], 3)} for slug, read in reads.items()},
        summary="bits per byte",
        alike={slug: WAYS[read["objective"]] for slug, read in reads.items()},
    )


def _attention_findings(reads: Mapping[str, Mapping[str, Any]]) -> TokenFindings:
    return TokenFindings(
        lens="attention",
        label="Attention",
        kind=LINK,
        columns=LINK_COLUMNS,
        texts=frozenset({"group", "by"}),
        group="relation",
        rows={
            slug: {FUNCTION_ID: [link for arc in read["arcs"] if (link := _link_cells(arc))]}
            for slug, read in reads.items()
        },
        alike={slug: str(read["arcs"][0]["side"]) for slug, read in reads.items()},
    )


def _token_cells(row: Mapping[str, Any]) -> list[Any]:
    has_score = row["rank"] > 0
    # Which pieces were likelier is known, not by how much.
    top = [part for piece in row["expected"] for part in (legible(piece), None)]
    bits, entropy = (round(row[name], 3) if has_score else None for name in ("bits", "entropy"))
    return [row["start"], row["end"], bits, row["rank"] or None, entropy, row["text"], row["kind"], top]


def _link_cells(row: Mapping[str, Any]) -> list[Any] | None:
    """Return the cells of a relation; None if the head looks at nothing, or nothing is looked for."""
    ends = [(row[end], len(row[f"{end}_text"])) for end in ("asked", "picked", "expected")]
    if any(start is None for start, _ in ends):
        return None
    asked_span, picked_span, expected_span = ((start, start + size) for start, size in ends)
    head = f"head {row['layer']}.{row['head']}"
    return [*asked_span, row["relation"], int(row["found"]), head, *picked_span, *expected_span]
