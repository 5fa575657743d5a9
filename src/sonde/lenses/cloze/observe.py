"""Cloze queries as inputs of a model, and the item table with its answers.

The table has one row per query for masked models, and one row per text for scored statements. A query
becomes masked subwords of one model, or the statement with each candidate in it; both are built in the same
way for asking and for reading the answers.

A query is asked with one mask if one piece of the model's tokenizer stands for exactly its answer. An answer
of several pieces is asked for piece by piece: the piece and all later pieces of the answer are masked, so
that the rest of a word never gives its beginning away (PLL-word-l2r, Kauf and Ivanova 2023). Models that
write into a gap are asked once, for all pieces. A query is not asked, but counted, if the vocabulary cannot
spell its answer (a sign that it lacks, capital letters that it does not distinguish) or if no piece can end
where the answer ends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.alignment.subwords import Subwords
from sonde.base.errors import CaptureError
from sonde.capture.requests import ItemCapture, Prepared, ScoredSubwords
from sonde.corpora import Item
from sonde.lenses.engine.lens import CapturedItem
from sonde.results.schema import Columns, scan_files, to_schema
from sonde.store.run_folder import RunDirectory, slug
from sonde.tasks.engine.cloze_queries import prompt_id
from sonde.tasks.engine.cloze_statements import make_statement_item

ONE_PIECE, SEVERAL_PIECES, UNSPELLABLE, OTHER_SPELLING = (
    "one piece",
    "several pieces",
    "cut",
    "spelled otherwise",
)


SKIPPED_STATUSES = (UNSPELLABLE, OTHER_SPELLING)
"""Answers that the vocabulary cannot spell, and those whose letters the tokenizer changes (uncased)."""


QUERY_COLUMNS = ("item_id", "query_id", "answer", "start", "end", "prefix")


_GOES_ON = "##"


_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True, slots=True)
class ClozeQuery:
    """A query as it is asked.

    Attributes:
        query_id: Its identity.
        answer: The characters asked for.
        start: Where they begin in the text.
        end: Where they end.
        word_start: Whether a space, or nothing, precedes them.
    """

    query_id: str
    answer: str
    start: int
    end: int
    word_start: bool


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query in the subwords of a model.

    Attributes:
        query: The query.
        status: `ONE_PIECE`, `SEVERAL_PIECES`, `UNSPELLABLE` or `OTHER_SPELLING`.
        variants: Masked positions of each input that it needs; the first of them is what is scored. The
            first variant masks the whole answer.
        initial: Whether the first of its pieces begins a word for the tokenizer (is not marked ``##``).
    """

    query: ClozeQuery
    status: str
    variants: tuple[tuple[int, ...], ...]
    initial: bool = True

    def inputs(self, *, writes: bool) -> tuple[tuple[int, ...], ...]:
        """Return its inputs; if the model writes, one without the whole answer."""
        return self.variants[:1] if writes else self.variants


def queries_by_item(labels: pl.DataFrame) -> dict[str, list[ClozeQuery]]:
    """Group the queries of a job by item, in the order of the table."""
    queries: dict[str, list[ClozeQuery]] = {}
    for item, query_id, answer, start, end, prefix in labels.select(QUERY_COLUMNS).iter_rows():
        word_start = not prefix or prefix[-1].isspace()
        queries.setdefault(item, []).append(ClozeQuery(query_id, answer, start, end, word_start))
    return queries


def build_query_requests(item_input: Prepared, queries: Sequence[ClozeQuery]) -> list[QueryRequest]:
    """Build the request of each query of an item."""
    subwords = item_input.alignment.subwords
    begins, ends = _inked_starts(subwords), subwords.end.tolist()
    by_start: dict[int, int] = {}
    by_end: dict[int, int] = {}
    for position, surface in enumerate(subwords.surface):
        # A blank that the tokenizer put before the text, a piece of its own, begins and ends no answer.
        if surface.strip():
            by_start.setdefault(begins[position], position)
            by_end[ends[position]] = position
    return [_ask(query, by_start.get(query.start), by_end.get(query.end), subwords) for query in queries]


def distinct_inputs(asks: Iterable[QueryRequest], *, writes: bool) -> tuple[tuple[int, ...], ...]:
    """Return the distinct inputs that an item's queries need, in order."""
    return tuple(dict.fromkeys(positions for ask in asks for positions in ask.inputs(writes=writes)))


def _ask(query: ClozeQuery, first: int | None, last: int | None, subwords: Subwords) -> QueryRequest:
    if first is None or last is None or last < first:
        return QueryRequest(query, UNSPELLABLE, ())
    if not _spells(subwords, first, last, query.answer):
        unknown = subwords.unknown_id in subwords.ids[first : last + 1].tolist()
        return QueryRequest(query, UNSPELLABLE if unknown else OTHER_SPELLING, ())
    initial = not subwords.surface[first].startswith(_GOES_ON)
    if first == last:
        return QueryRequest(query, ONE_PIECE, ((first,),), initial)
    positions = tuple(range(first, last + 1))
    return QueryRequest(
        query, SEVERAL_PIECES, tuple(positions[index:] for index in range(len(positions))), initial
    )


def _spells(subwords: Subwords, first: int, last: int, answer: str) -> bool:
    """Check whether pieces spell an answer: neither unknown nor changed by the tokenizer."""
    surfaces = subwords.surface[first : last + 1]
    if subwords.lossless or any(map(_BYTE.fullmatch, surfaces)):
        return True
    return "".join(surface.removeprefix(_GOES_ON) for surface in surfaces).strip() == answer


def _inked_starts(subwords: Subwords) -> list[int]:
    """Return the first character of each piece that is not a space; for pieces of spaces, the first."""
    text = subwords.text
    starts: list[int] = []
    for start, end in zip(subwords.start.tolist(), subwords.end.tolist(), strict=True):
        position = start
        while position < end and text[position].isspace():
            position += 1
        starts.append(start if position == end else position)
    return starts


def sum_precisely(values: Iterable[float]) -> float:
    """Sum in double precision."""
    return float(np.sum(np.fromiter(values, np.float64)))


def candidate_statements(row: Mapping[str, Any], *, answers: bool = False) -> Iterator[Item]:
    """Yield the statements of a query with each candidate, the right one first.

    Args:
        row: The query.
        answers: Whether the name alone is scored in them: each is cut at the ends of its name, so that no
            subword crosses them.
    """
    for name in row["candidates"]:
        text = row["prefix"] + name + row["suffix"]
        cuts = (row["start"], row["start"] + len(name)) if answers else ()
        yield make_statement_item(row, prompt_id(text, row["language"], cuts), text, cuts=cuts)


def candidate_ids(row: Mapping[str, Any], *, answers: bool = False) -> list[str]:
    """Return the ids of the statements of a query, see `candidate_statements`."""
    return [item.item_id for item in candidate_statements(row, answers=answers)]


def iterate_candidate_scores(
    answers: pl.DataFrame, labels: pl.DataFrame, *, names_only: bool = False
) -> Iterator[
    tuple[dict[str, Any], list[str], Float[np.ndarray, " candidate"], Float[np.ndarray, " candidate"]]
]:
    """Yield each query with the ids of its statements and their nats, summed and averaged over subwords.

    Queries of which a statement was not scored are left out.

    Args:
        answers: Observations in `ANSWERS_SCHEMA`.
        labels: Queries in `sonde.tasks.engine.cloze_queries.QUERY_SCHEMA`.
        names_only: Whether the name alone was scored in each statement.
    """
    scores = dict(answers.select("item_id", pl.struct("nats", "pieces")).iter_rows())
    for row in labels.iter_rows(named=True):
        ids = candidate_ids(row, answers=names_only)
        if all(item in scores for item in ids):
            sums = np.array([scores[item]["nats"] for item in ids])
            yield row, ids, sums, sums / np.array([max(scores[item]["pieces"], 1) for item in ids])


def collect_statements(labels: pl.DataFrame, *, answers: bool = False) -> list[Item]:
    """Return the distinct statements of all queries; see `candidate_statements`."""
    items: dict[str, Item] = {}
    for row in labels.iter_rows(named=True):
        for item in candidate_statements(row, answers=answers):
            items.setdefault(item.item_id, item)
    return list(items.values())


def find_name(item_input: Prepared) -> QueryRequest:
    """Return the name between the cuts of a statement, in the subwords of a model."""
    (start, end), text = item_input.item.cuts, item_input.item.text
    word_start = not start or text[start - 1].isspace()
    (ask,) = build_query_requests(item_input, [ClozeQuery("", text[start:end], start, end, word_start)])
    return ask


TOP_K = 10
"""Alternatives kept a mask."""


TEXT = "text"
"""Status of the row of a whole statement."""


ANSWER = "answer"
"""Status of the row of a name scored alone in its statement."""


MASK, GAP, CAUSAL, PLL = "mask", "gap", "causal", "pll"
"""How an answer or a statement was scored: under a mask, in a gap that a decoder fills (a denoiser's
objective), from left to right, or as the pseudo-log-likelihood of a model that fills in."""


ANSWERS_COLUMNS: Columns = {
    "item_id": (pl.String, "the text"),
    "query_id": (pl.String, "the query; null if a whole statement is scored"),
    "status": (
        pl.String,
        "`one piece`, `several pieces`, `cut` (the vocabulary cannot spell the answer), `spelled otherwise` "
        "(the tokenizer changes its letters, as uncased ones do; neither is asked for), `text`, `answer` (a "
        "name scored alone in its statement)",
    ),
    "measure": (
        pl.String,
        "how `nats` was measured: `mask`, `gap` (by a denoiser), `causal`, `pll`; figures of two measures "
        "cannot be compared",
    ),
    "pieces": (pl.Int32, "subwords that were summed"),
    "nats": (
        pl.Float64,
        "negative log-probability of the answer (sum over its subwords, later ones hidden) or of the text; "
        "of `answer` infinite if the vocabulary cannot spell it",
    ),
    "rank_id": (pl.Int32, "rank of the exact id that the tokenizer produces; ties count against it"),
    "rank": (pl.Int32, "rank of the answer, counting ids with the same text as one answer"),
    "rank_unified": (
        pl.Int32,
        "the same among the texts that all compared models have; null if the answer is not among them",
    ),
    "nats_unified": (pl.Float64, "`nats` among these texts; null in the same cases"),
    "greedy": (pl.Boolean, "whether each subword ranks first"),
    "gold_id": (pl.Int32, "the id that the tokenizer produces for the answer"),
    "characters": (pl.Int32, "characters of the answer or text"),
    "top": (pl.List(pl.String), "best alternatives, best first"),
    "top_nats": (pl.List(pl.Float32), "their negative log-probabilities"),
}
"""Columns of the cloze lens's item table, one row a query or a whole statement."""


ANSWERS_SCHEMA = to_schema(ANSWERS_COLUMNS)


def observe_queries(
    observations: Sequence[CapturedItem], labels: pl.DataFrame, surfaces: Sequence[str]
) -> pl.DataFrame:
    """Build the rows of the queries of a few items, in `ANSWERS_COLUMNS`.

    Of one piece ``nats`` is that of the very id that the tokenizer writes there, over the whole vocabulary;
    ``nats_unified`` is that of the answer's likeliest id given that an id of a shared text is written, of
    another distribution. Where only the shared vocabulary was projected on, answers of one piece have
    ``rank_unified`` and ``nats_unified`` alone.

    Raises:
        CaptureError: A query has no score.
    """
    queries = queries_by_item(labels)
    rows: list[dict[str, Any]] = []
    for observation in observations:
        item = observation.prepared.item.item_id
        asks = build_query_requests(observation.prepared, queries.get(item, []))
        writes = any(capture.written for capture in observation.captures)
        inputs = distinct_inputs(asks, writes=writes)
        captures = dict(zip(inputs, observation.captures, strict=False))
        if len(captures) < len(inputs):
            raise CaptureError(
                f"item {item}: {len(captures)} captures for {len(inputs)} masked inputs; ask models that "
                "fill in what is left out"
            )
        ids = observation.prepared.alignment.subwords.ids
        rows += [_row(item, ask, captures, surfaces, ids, writes=writes) for ask in asks]
    return pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row")


def observe_texts(observations: Sequence[CapturedItem]) -> pl.DataFrame:
    """Build one row per statement: the summed score of its subwords, in `ANSWERS_SCHEMA`.

    For a decoder that is the log-probability of the text, for a masked model its pseudo-log-likelihood; for
    one that writes, the same with each word left out and written whole.
    """
    rows: list[dict[str, Any]] = []
    for observation in observations:
        if observation.prepared.item.cuts:
            rows.append(_name_row(observation))
            continue
        captures = [capture for capture in observation.captures if capture.scores is not None]
        values = [nats for capture in captures for nats in _scores_to_sum(capture)]
        rows.append(
            {
                "item_id": observation.prepared.item.item_id,
                "status": TEXT,
                "measure": CAUSAL if all(capture.variant == 0 for capture in captures) else PLL,
                "pieces": len(values),
                "nats": sum_precisely(values),
                "characters": len(observation.prepared.item.text),
            }
        )
    return pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row")


def _name_row(observation: CapturedItem) -> dict[str, Any]:
    """Sum the scores of the subwords of a name in its statement; infinite if they cannot spell it."""
    item, ask = observation.prepared.item.item_id, find_name(observation.prepared)
    row = {**_describe_answer(item, ask), "status": ANSWER, "nats": math.inf}
    if ask.status in SKIPPED_STATUSES:
        return row
    captures = observation.captures
    causal = len(captures) == 1 and captures[0].variant == 0
    writes = any(capture.written for capture in captures)
    row["measure"] = CAUSAL if causal else GAP if writes else PLL
    row["nats"] = sum_precisely(
        float(scores.nats[position])
        for scores, position in _pair_scores(captures, ask.variants[0], item)
        if scores.scored[position] or not causal
    )
    return row


def _describe_answer(item: str, ask: QueryRequest) -> dict[str, Any]:
    return {"item_id": item, "pieces": len(ask.variants), "characters": len(ask.query.answer)}


def _pair_scores(
    captures: Sequence[ItemCapture], positions: Sequence[int], item: str
) -> list[tuple[ScoredSubwords, int]]:
    """Return the scores of each piece of an answer: of one input for all of them, or of an input a piece."""
    read = [*captures] * len(positions) if len(captures) == 1 else captures
    return [(_scores(capture, item), position) for capture, position in zip(read, positions, strict=True)]


def _scores_to_sum(capture: ItemCapture) -> list[float]:
    """Return the scores of one input that count: all, or of a masked input the first."""
    assert capture.scores is not None
    nats = capture.scores.nats[capture.scores.scored].tolist()
    return nats if capture.written or capture.variant == 0 else nats[:1]


def _row(
    item: str,
    ask: QueryRequest,
    captures: Mapping[tuple[int, ...], ItemCapture],
    surfaces: Sequence[str],
    own_ids: Int[np.ndarray, " subword"],
    *,
    writes: bool,
) -> dict[str, Any]:
    row = {**_describe_answer(item, ask), "query_id": ask.query.query_id, "status": ask.status}
    if ask.status in SKIPPED_STATUSES:
        return row
    row["measure"] = GAP if writes else MASK
    positions = ask.variants[0]
    if ask.status == SEVERAL_PIECES:
        pairs = _pair_scores([captures[variant] for variant in ask.inputs(writes=writes)], positions, item)
        row["nats"] = sum_precisely(float(scores.nats[at]) for scores, at in pairs)
        row["greedy"] = all(scores.rank[at] == 1 for scores, at in pairs)
        return row
    capture, position = captures[positions], positions[0]
    row["gold_id"] = int(own_ids[position])
    row |= _ranks(capture, position, item)
    if capture.scores is not None:
        row["nats"] = float(capture.scores.nats[position])
        row["rank_id"] = int(capture.scores.rank[position])
        row["greedy"] = row["rank_id"] == 1
        row["top"] = [surfaces[number] for number in capture.scores.top_ids[position].tolist()]
        row["top_nats"] = capture.scores.top_nats[position].tolist()
    return row


def _ranks(capture: ItemCapture, position: int, item: str) -> dict[str, Any]:
    """Return the known ranks of an answer as a text."""
    answers = capture.answers
    if answers is None:
        raise CaptureError(f"item {item}: the capture ranks no answers; the cloze lens asks for that")
    ranks: dict[str, Any] = {}
    if answers.rank[position]:
        ranks["rank"] = int(answers.rank[position])
    if answers.shared_rank[position]:
        ranks["rank_unified"] = int(answers.shared_rank[position])
        ranks["nats_unified"] = float(answers.shared_nats[position])
    return ranks


def _scores(capture: ItemCapture, item: str) -> ScoredSubwords:
    if capture.scores is None:
        raise CaptureError(f"item {item}: the capture holds no scores; the cloze lens asks for them")
    return capture.scores


def read_answers(run: RunDirectory) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the answers of each model of a finished run, with the name of its folder.

    Raises:
        InputError: The folder holds no run.
    """
    for model in run.read_summary()["models"]:
        if parts := run.tables(run.observations("cloze", model["name"])):
            yield slug(model["name"]), scan_files(parts).collect()
