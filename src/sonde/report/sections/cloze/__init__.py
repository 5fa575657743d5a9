"""Sections of the lens `cloze`: their title, and the scores, answers and differences that they show.

The queries that are shown have the answers of each model, from masks and from whole statements alike.
Sentences describe paired differences of shares of cloze queries. The token explorer shows the answers to the
queries about the names that single functions call.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.languages import LANGUAGES
from sonde.report.charts import TEMPLATE, TEMPLATES, sort_by_k
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import ANSWER, CrossLensNumber, PlainTitle, Rows, TokenFindings, TokenLens
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import dimension_value, has_dimension_names, scan_files
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import TOO_LITTLE, WithHalfWidth, describe_null_result, with_interval
from sonde.stats.verdict import no_verdict_reason
from sonde.tasks.engine.cloze_queries import path_number, prompt_id
from sonde.tasks.engine.cloze_statements import level_position

LENS = "cloze"


ANSWERERS: Mapping[str, str] = {
    "": "model",
    "majority": "most frequent answers",
    "unigram": "most frequent subtokens",
    "random_weights": "random weights",
    "chance": "chance",
}
"""Controls beside the model itself, in the order in which they are shown."""


COMMON = "model, of what every model was asked"


OF_STATEMENTS = dimension_value(TEMPLATE).is_not_null()
"""Scores of one kind of statement, or of a part of its queries."""


WHOLE = "candidates"
"""The matching where whole statements were scored."""


def read_hits(run: RunData) -> pl.DataFrame:
    """P@k of the single answer by template, controls among the rows, with ``k``, ``who`` and ``subject``."""
    return _add_statement_names(run, select_headline_rows(_read_rates(run))).with_columns(
        who=pl.col("control").fill_null("").replace(dict(ANSWERERS))
    )


def read_common_hits(run: RunData) -> pl.DataFrame:
    """P@k over what every model of the run was asked, as `read_hits`; none where the run has one model."""
    rows = _read_rates(run).filter(pl.col("matching") == "common")
    return _add_statement_names(run, rows).with_columns(who=pl.lit(COMMON))


def _read_rates(run: RunData) -> pl.DataFrame:
    return run.scores(metrics=["p_at_k"], where=OF_STATEMENTS, lens=LENS, controls=True)


def _add_statement_names(run: RunData, rows: pl.DataFrame) -> pl.DataFrame:
    held = rows.filter(has_dimension_names(TEMPLATE)).with_columns(label=dimension_value(TEMPLATE))
    held = held.filter(pl.col("label").is_in(list(TEMPLATES)))
    return sort_by_k(run, held).with_columns(statement=pl.col("label").replace(dict(TEMPLATES)))


def select_headline_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the single answer; of whole statements those by the summed log-probability.

    Where a run ranked among what its models share alone, these are the rows of that ranking.
    """
    summed = rows.filter(pl.col("aggregation").fill_null("sum") == "sum")
    single = summed.filter(pl.col("matching").is_in(["single", WHOLE]))
    return summed.filter(pl.col("matching") == "unified") if single.is_empty() else single


def read_parts(run: RunData, metrics: Sequence[str], cut: str) -> pl.DataFrame:
    """Scores of one cut of each statement, with ``statement``, ``group`` and ``subject``."""
    rows = select_headline_rows(run.scores(metrics=metrics, where=OF_STATEMENTS, lens=LENS))
    rows = rows.filter(has_dimension_names(TEMPLATE, cut))
    rows = rows.with_columns(template=dimension_value(TEMPLATE), group=dimension_value(cut))
    rows = rows.filter(pl.col("template").is_in(list(TEMPLATES)))
    return sort_by_k(run, rows).with_columns(statement=pl.col("template").replace(dict(TEMPLATES)))


def to_percent(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with value and interval in %."""
    return rows.with_columns(pl.col("value", "ci_low", "ci_high") * 100)


def build_k_table(summary: str, rows: pl.DataFrame, lead: Mapping[str, str]) -> Table:
    """A table as INK prints them: a line a group, a column a k, in %, with half the width of its interval.

    Seven intervals do not fit beside each other; these are even on both sides, so half of one says all.

    Args:
        summary: What it holds.
        rows: Scores with ``k``.
        lead: Heading and column of whatever makes a group.
    """
    records: list[dict[str, Any]] = []
    for part in rows.partition_by(list(lead.values()), maintain_order=True):
        by_k = {row["k"]: row for row in part.iter_rows(named=True)}
        records.append({**by_k[min(by_k)], "by_k": by_k})
    return Table(
        summary=f"{summary}, ± half of the 95 % interval",
        columns=[
            *(Column(title=title, value=name) for title, name in lead.items()),
            *(
                Column(
                    title=f"P@{k}",
                    value=lambda row, k=k: row["by_k"].get(k),
                    format=WithHalfWidth(digits=1, scale=100),
                    help=f"The name that was asked for is among the first {k} answers.",
                )
                for k in sorted(rows["k"].drop_nulls().unique().to_list())
            ),
            *size_columns(clusters="Libraries"),
        ],
        rows=records,
    )


ANSWERS = 5
"""Answers shown a query."""


_WRONG, _RIGHT = 90, 30
"""Queries shown of each model and kind of statement."""


_COLUMNS = [
    "query_id", "template", "mode", "prefix", "answer", "suffix", "calls", "level", "levels", "language",
    "candidates", "paths",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryExample:
    """A query with what one model answers.

    Attributes:
        model: The model as shown.
        template: Of `sonde.report.sections.cloze.TEMPLATES`.
        mode: What is masked.
        place: Where in the name the level stands.
        before: The statement up to the gap.
        answer: What was asked for.
        behind: The statement behind it.
        rank: Rank of the right answer.
        calls: Calls of the name in the corpus.
        competing: Candidates that it is ranked among; 0 for all pieces of a vocabulary.
        top: Best answers with their probability and whether each is the right one.
    """

    model: str
    template: str
    mode: str
    place: str
    before: str
    answer: str
    behind: str
    rank: int
    calls: int
    competing: int
    top: tuple[tuple[str, float, bool], ...]


def list_query_examples(run: RunData, model: ModelInfo) -> Iterator[QueryExample]:
    """The queries shown of a model, wrong ones first, of each kind of statement alike."""
    held = QueryAnswers.of(run, model)
    if held is not None:
        yield from (held.shown(row) for row in _select_queries(held.ranked).iter_rows(named=True))


@dataclass(frozen=True, slots=True, eq=False)
class QueryAnswers:
    """What a model answers to the queries that stand alone.

    Attributes:
        model: The model.
        ranked: A row a query that it was asked, with the ``rank`` of the right answer.
        nats: Of each whole statement that was scored in place of a mask; empty where masks were asked.
    """

    model: ModelInfo
    ranked: pl.DataFrame
    nats: Mapping[str, float]

    @classmethod
    def of(cls, run: RunData, model: ModelInfo) -> QueryAnswers | None:
        """The answers of a model; None where it was asked nothing."""
        answers, queries = run.table(LENS, model), _read_queries(run)
        if answers is None or queries is None:
            return None
        pieces = answers.filter(pl.col("rank").is_not_null()).select("query_id", "rank", "top", "top_nats")
        masked = pieces.collect().join(queries, on="query_id", maintain_order="left")
        listed = queries.filter(pl.col("candidates").list.len() > 1)
        if masked.height or listed.is_empty():
            return cls(model, masked, {})
        texts = answers.filter(pl.col("query_id").is_null()).select("item_id", "nats").collect()
        nats = dict(texts.iter_rows())
        ranks: list[int | None] = []
        for row in listed.iter_rows(named=True):
            held = _candidate_nats(row, nats)
            # As in the scores: a tie counts against the right one, which comes first.
            ranks.append(sum(one <= held[0] + 1e-4 for one in held) if held else None)
        ranked = listed.with_columns(rank=pl.Series(ranks, dtype=pl.Int32))
        return cls(model, ranked.filter(pl.col("rank").is_not_null()), nats)

    def shown(self, row: Mapping[str, Any]) -> QueryExample:
        """A row of `ranked`, with the likeliest answers and their share of the probability."""
        if not self.nats:
            return _build_example(self.model, row, 0, _pieces(row))
        held = _candidate_nats(row, self.nats)
        best = min(held)
        # Where the vocabulary can spell none of them, none is likelier.
        weights = [math.exp(best - one) if math.isfinite(best) else 1.0 for one in held]
        order = sorted(range(len(held)), key=lambda at: (held[at], at))[:ANSWERS]
        top = tuple((row["candidates"][at], weights[at] / sum(weights), at == 0) for at in order)
        return _build_example(self.model, row, len(held), top)


def _candidate_nats(row: Mapping[str, Any], nats: Mapping[str, float]) -> list[float]:
    """Of each candidate's statement, the right one first; empty where one was not scored."""
    texts = [row["prefix"] + name + row["suffix"] for name in row["candidates"]]
    found = [nats.get(prompt_id(text, row["language"])) for text in texts]
    if None in found:
        # Scored by the name alone, if at all: such statements are cut at its ends.
        start = len(row["prefix"])
        ends = [(start, start + len(name)) for name in row["candidates"]]
        found = [
            nats.get(prompt_id(text, row["language"], end)) for text, end in zip(texts, ends, strict=True)
        ]
    held = [one for one in found if one is not None]
    return held if len(held) == len(found) else []


def _read_queries(run: RunData) -> pl.DataFrame | None:
    files = run.directory.label_tables("api_cloze", LENS)
    if not files:
        return None
    # Queries behind words and in frames repeat others.
    alone = (pl.col("context") == "") & (pl.col("frame") == "")
    frame = scan_files(files).filter(alone & pl.col("template").is_in(list(TEMPLATES)))
    return frame.select(_COLUMNS).collect()


def _select_queries(queries: pl.DataFrame) -> pl.DataFrame:
    """Wrong ones first, of each kind of statement those whose names are called most."""
    order = queries.sort("calls", "query_id", descending=[True, False])
    wrong = pl.col("rank") > 1
    parts = [
        order.filter(side & (pl.col("template") == template)).head(size)
        for side, size in ((wrong, _WRONG), (~wrong, _RIGHT))
        for template in TEMPLATES
    ]
    return pl.concat(parts).sort(wrong, "calls", "query_id", descending=[True, True, False])


def _pieces(row: Mapping[str, Any]) -> tuple[tuple[str, float, bool], ...]:
    pairs = list(zip(row["top"] or (), row["top_nats"] or (), strict=False))[:ANSWERS]
    return tuple((text, math.exp(-nats), _spells_answer(text, row["answer"])) for text, nats in pairs)


def _spells_answer(piece: str, answer: str) -> bool:
    """Whether a piece spells the answer, marks of vocabularies aside."""
    return piece.strip().removeprefix("##") == answer


def _build_example(
    model: ModelInfo,
    row: Mapping[str, Any],
    competing: int,
    top: Sequence[tuple[str, float, bool]],
) -> QueryExample:
    return QueryExample(
        model=model.label,
        template=row["template"],
        mode=row["mode"],
        place=level_position(row["level"], row["levels"]),
        before=row["prefix"],
        answer=row["answer"],
        behind=row["suffix"],
        rank=row["rank"],
        calls=row["calls"],
        competing=competing,
        top=tuple(top),
    )


def describe_difference(who: str, before: str, row: Mapping[str, Any], after: str = "") -> str:
    """Say in a sentence whether a share of cloze queries is larger or smaller, as far as its interval tells.

    Args:
        who: The model.
        before: What is larger or smaller, up to the verb.
        row: The paired difference of two shares.
        after: What it is compared with.
    """
    low, high = row["ci_low"], row["ci_high"]
    points = f"{with_interval(row, 100, 1)} percentage points"
    if why := no_verdict_reason(row):
        of = f"on whether {before} in more or fewer of the cloze queries{after}"
        return f"{who}: {TOO_LITTLE} {of} ({why}): difference {points}."
    if low > 0:
        return f"{who}: {before} in {points} more of the cloze queries{after}."
    if high < 0:
        fewer = {"value": -row["value"], "ci_low": -high, "ci_high": -low}
        points = f"{with_interval(fewer, 100, 1)} percentage points"
        return f"{who}: {before} in {points} fewer of the cloze queries{after}."
    found = describe_null_result(row, 100, 1, " percentage points")
    return f"{who}: {found} by which {before} in more or fewer of the cloze queries{after}: {points}."


_TOKEN_COLUMNS = ("group", "said", "right", "hit", "rank", "top")


_GROUP = "names that are called"


_BY_NAME = (
    (pl.col("template") == "call") & (pl.col("mode") == "whole") & (pl.col("level") == pl.col("levels") - 1)
)
"""Queries after the called name itself, asked as a whole."""


_QueriesByName = Mapping[tuple[int, str], Sequence[Mapping[str, Any]]]
"""By file and called name, the queries that were asked."""


def _group_by_name(held: QueryAnswers) -> _QueriesByName:
    found: defaultdict[tuple[int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in held.ranked.filter(_BY_NAME).iter_rows(named=True):
        for path in row["paths"]:
            found[path, row["answer"]].append(row)
    return found


def _list_item_ids(run: RunData) -> list[str]:
    """Functions that call a name that was asked of their file."""
    names: defaultdict[int, set[str]] = defaultdict(set)
    for model in run.models:
        for path, name in _group_by_name(held) if (held := QueryAnswers.of(run, model)) is not None else ():
            names[path].add(name)
    if not names or not run.directory.holds(run.directory.items):
        return []
    items = scan_files(run.directory.items).select("item_id", "path", "text", "language")
    paths = items.select(pl.col("path").unique().drop_nulls()).collect()["path"].to_list()
    files = {path: found for path in paths if (found := names.get(path_number(path)))}
    rows = items.filter(pl.col("path").is_in(sorted(files))).collect().iter_rows()
    return [item for item, path, text, language in rows if _calls_name(text or "", language, files[path])]


def _calls_name(text: str, language: str | None, names: Set[str]) -> bool:
    # Most functions spell none of the names, and are not parsed.
    if not language or language not in LANGUAGES.names() or not any(name in text for name in names):
        return False
    return any(call.name in names for call in LANGUAGES.load(language).calls(text))


def _read_findings(run: RunData, items: Sequence[str], characters: int) -> TokenFindings | None:
    rows: dict[str, dict[str, Rows]] = {}
    texts = run.items(items).to_dicts()
    for model in run.models:
        held = QueryAnswers.of(run, model)
        if held is not None:
            asked = _group_by_name(held)
            rows[model.slug] = {row["item_id"]: _list_answers(row, asked, held, characters) for row in texts}
    if not rows:
        return None
    return TokenFindings(
        lens=LENS,
        label="Names of APIs",
        kind=ANSWER,
        columns=_TOKEN_COLUMNS,
        texts=frozenset({"group", "said", "right"}),
        group="name",
        rows=rows,
        note=(
            "a name was asked in a statement of its own, not in the function; it is shown at the calls of "
            "that name in the files that were found to call it"
        ),
    )


def _list_answers(row: Mapping[str, Any], asked: _QueriesByName, held: QueryAnswers, characters: int) -> Rows:
    """A row a call in a function whose name was asked, and was asked but once."""
    language = row["language"]
    if not language or language not in LANGUAGES.names():
        return []
    path = path_number(row["path"] or "")
    found: list[list[Any]] = []
    for call in LANGUAGES.load(language).calls(row["text"] or ""):
        queries = asked.get((path, call.name), ())
        if len(queries) != 1 or call.start >= characters:
            continue
        shown = held.shown(queries[0])
        top: list[str | float] = []
        for answer, share, _ in shown.top:
            top += [answer, round(1000 * share, 1)]
        said = shown.top[0][0] if shown.top else ""
        found.append(
            [call.start, call.end, _GROUP, said, shown.answer, int(shown.rank == 1), shown.rank, top]
        )
    return found


tokens = TokenLens(known=_list_item_ids, findings=_read_findings)


_MATCHING = pl.col("matching").is_in(["single", WHOLE, "unified"])


title = PlainTitle(
    name="Names of APIs",
    in_float32="ranks",
    cites=("zhuo2023ink",),
    joined=CrossLensNumber(
        title="API names right at the first try",
        question=HeadlineMetric(
            subject="Guesses at API names",
            measure="names",
            metrics=("p_at_k",),
            where=has_dimension_names(TEMPLATE)
            & (pl.col("k") == 1)
            & _MATCHING
            & (pl.col("aggregation").fill_null("sum") == "sum"),
        ),
        fact=dimension_value(TEMPLATE),
        constructs={"call": ("call",), "import": ("import",)},
        against="the best control",
        same="of names of APIs, the statements that call or import one",
    ),
    tokens=tokens,
)
