"""Sections of the lens `cloze`: their title, and the scores, answers and differences that they show.

The queries that are shown have the answers of each model, from masks and from whole statements alike.
Sentences describe paired differences of shares of cloze queries. The token explorer shows the answers to the
queries about the names that single functions call.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.languages import LANGUAGES
from sonde.report.charts import TEMPLATE, TEMPLATES, group_by_k, sort_by_k
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import ANSWER, Chart, CrossLensNumber, LensTitle, Rows, TokenFindings, TokenLens
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import dimension_value, has_dimension_names, scan_files
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import TOO_LITTLE, Unit, WithHalfWidth, with_interval
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


OF_STATEMENTS = dimension_value(TEMPLATE).is_not_null()
"""Scores of one kind of statement, or of a part of its queries."""


WHOLE = "candidates"
"""The matching where whole statements were scored."""


COMMON = "model, of what every model was asked"


def read_hits(run: RunData, *, common: bool = False) -> pl.DataFrame:
    """Read P@k of the single answer by template, controls included, with ``k``, ``who`` and ``subject``.

    Args:
        run: The run.
        common: Whether over what every model of the run was asked; none where the run has one model.
    """
    rows = run.scores(metrics=["p_at_k"], where=OF_STATEMENTS, lens=LENS, controls=True)
    rows = rows.filter(pl.col("matching") == "common") if common else select_headline_rows(rows)
    rows = _add_statements(run, rows.filter(has_dimension_names(TEMPLATE)))
    who = pl.lit(COMMON) if common else pl.col("control").fill_null("").replace(dict(ANSWERERS))
    return rows.with_columns(who=who)


def _add_statements(run: RunData, rows: pl.DataFrame) -> pl.DataFrame:
    """Add the ``template`` of rows and its name as ``statement``."""
    rows = rows.with_columns(template=dimension_value(TEMPLATE))
    rows = rows.filter(pl.col("template").is_in(list(TEMPLATES)))
    return sort_by_k(run, rows).with_columns(statement=pl.col("template").replace(dict(TEMPLATES)))


def select_headline_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Select rows of the single answer; of whole statements those by the summed log-probability.

    Where a run ranked among what its models share alone, these are the rows of that ranking.
    """
    rows = rows.filter(pl.col("aggregation").fill_null("sum") == "sum")
    single = rows.filter(pl.col("matching").is_in(["single", WHOLE]))
    return rows.filter(pl.col("matching") == "unified") if single.is_empty() else single


def read_parts(run: RunData, metrics: Sequence[str], dimension: str) -> pl.DataFrame:
    """Read the scores of each statement by a dimension, with ``statement``, ``group`` and ``subject``."""
    rows = select_headline_rows(run.scores(metrics=metrics, where=OF_STATEMENTS, lens=LENS))
    rows = rows.filter(has_dimension_names(TEMPLATE, dimension))
    return _add_statements(run, rows.with_columns(group=dimension_value(dimension)))


def plot_statements(
    rows: pl.DataFrame, name: str, plot: Callable[[pl.DataFrame], dict[str, Any]], title: str = ""
) -> list[Chart]:
    """Plot a chart a kind of statement.

    Args:
        rows: Scores with their ``template``.
        name: Beginning of the charts' names.
        plot: Draws the rows of one.
        title: End of their titles.
    """
    return [
        Chart(name=f"{name}-{template}", title=f"{words.capitalize()}{title}", spec=plot(part))
        for template, words in TEMPLATES.items()
        if (part := rows.filter(pl.col("template") == template)).height
    ]


def build_k_table(summary: str, rows: pl.DataFrame, lead: Mapping[str, str]) -> Table:
    """Build a table as INK prints them: a line a group, a column a k, in %, with half of its interval.

    Seven intervals do not fit beside each other; these are even on both sides, so half of one says all.

    Args:
        summary: What it holds.
        rows: Scores with ``k``.
        lead: Heading and column of whatever makes a group.
    """
    return Table(
        summary=f"{summary}, ± half of the 95 % interval",
        columns=[
            *(Column(title=title, value=name) for title, name in lead.items()),
            *(
                Column(
                    title=f"P@{k}, %",
                    value=lambda row, k=k: row["by_k"].get(k),
                    format=WithHalfWidth(digits=1, scale=100),
                    help=f"The name that was asked for is among the first {k} answers.",
                )
                for k in sorted(rows["k"].drop_nulls().unique().to_list())
            ),
            *size_columns("Queries", "Libraries"),
        ],
        rows=group_by_k(rows, list(lead.values())),
    )


ANSWERS = 5
"""Answers shown a query."""


_WRONG, _RIGHT = 90, 30
"""Queries shown of each model and kind of statement."""


_COLUMNS = [
    "query_id", "template", "mode", "prefix", "answer", "suffix", "calls", "level", "levels", "language",
    "candidates", "paths",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class QueryAnswers:
    """Answers of a model to the queries that stand alone.

    Attributes:
        model: The model.
        queries: A row a query that it was asked, with the ``rank`` of the right answer.
        nats: Of each whole statement that was scored in place of a mask; empty where masks were asked.
    """

    model: ModelInfo
    queries: pl.DataFrame
    nats: Mapping[str, float]

    def list_top(self, row: Mapping[str, Any]) -> list[tuple[str, float, bool]]:
        """List the likeliest answers to a query, their share of the probability, and which is right."""
        if not self.nats:
            # A piece spells the answer, marks of vocabularies aside.
            pairs: list[tuple[str, float]] = list(zip(row["top"] or (), row["top_nats"] or (), strict=False))
            return [
                (text, math.exp(-nats), text.strip().removeprefix("##") == row["answer"])
                for text, nats in pairs[:ANSWERS]
            ]
        nats = _candidate_nats(row, self.nats)
        best = min(nats)
        # Where the vocabulary can spell none of them, none is likelier.
        weights = [math.exp(best - value) if math.isfinite(best) else 1.0 for value in nats]
        order = sorted(range(len(nats)), key=nats.__getitem__)[:ANSWERS]
        return [(row["candidates"][index], weights[index] / sum(weights), index == 0) for index in order]

    def list_examples(self) -> Iterator[dict[str, Any]]:
        """List queries with what the model answers, wrong ones first, of each kind of statement alike.

        ``place`` is where in the name the level stands; ``competing`` how many candidates it is ranked among,
        0 for all pieces of a vocabulary.
        """
        for row in _select_queries(self.queries).iter_rows(named=True):
            yield {
                "model": self.model.label,
                **{name: row[name] for name in ("template", "mode", "answer", "rank", "calls")},
                "place": level_position(row["level"], row["levels"]),
                "before": row["prefix"],
                "behind": row["suffix"],
                "competing": len(row["candidates"]) if self.nats else 0,
                "top": self.list_top(row),
            }


def read_answers(run: RunData) -> list[QueryAnswers]:
    """Read the answers of each model that was asked anything."""
    queries = _read_queries(run)
    tables = [(model, run.table(LENS, model)) for model in run.models]
    return [
        _read_model_answers(model, table, queries)
        for model, table in tables
        if table is not None and queries is not None
    ]


def _read_model_answers(model: ModelInfo, answers: pl.LazyFrame, queries: pl.DataFrame) -> QueryAnswers:
    pieces = answers.filter(pl.col("rank").is_not_null()).select("query_id", "rank", "top", "top_nats")
    masked = pieces.collect().join(queries, on="query_id", maintain_order="left")
    with_candidates = queries.filter(pl.col("candidates").list.len() > 1)
    if masked.height or with_candidates.is_empty():
        return QueryAnswers(model, masked, {})
    texts = answers.filter(pl.col("query_id").is_null()).select("item_id", "nats").drop_nulls().collect()
    nats = dict(texts.iter_rows())
    candidates = [_candidate_nats(row, nats) for row in with_candidates.iter_rows(named=True)]
    # As in the scores: a tie counts against the right one, which comes first.
    ranks = [sum(value <= row[0] + 1e-4 for value in row) if row else None for row in candidates]
    ranked_queries = with_candidates.with_columns(rank=pl.Series(ranks, dtype=pl.Int32))
    return QueryAnswers(model, ranked_queries.filter(pl.col("rank").is_not_null()), nats)


def _candidate_nats(row: Mapping[str, Any], nats: Mapping[str, float]) -> list[float]:
    """Look up each candidate's statement, the right one first; empty where one was not scored."""
    start = len(row["prefix"])
    # Scored whole, or else by the name alone: such statements are cut at its ends.
    for is_whole in (True, False):
        identifiers = [
            prompt_id(
                row["prefix"] + name + row["suffix"],
                row["language"],
                *([] if is_whole else [(start, start + len(name))]),
            )
            for name in row["candidates"]
        ]
        if all(identifier in nats for identifier in identifiers):
            return [nats[identifier] for identifier in identifiers]
    return []


def _read_queries(run: RunData) -> pl.DataFrame | None:
    files = run.directory.label_tables("api_cloze", LENS)
    if not files:
        return None
    # Queries after words and in frames repeat others.
    is_plain = (pl.col("context") == "") & (pl.col("frame") == "")
    queries = scan_files(files).filter(is_plain & pl.col("template").is_in(list(TEMPLATES)))
    return queries.select(_COLUMNS).collect()


def _select_queries(queries: pl.DataFrame) -> pl.DataFrame:
    """Select wrong ones first, of each kind of statement those whose names are called most."""
    order = queries.sort("calls", "query_id", descending=[True, False])
    wrong = pl.col("rank") > 1
    parts = [
        order.filter(side & (pl.col("template") == template)).head(size)
        for side, size in ((wrong, _WRONG), (~wrong, _RIGHT))
        for template in TEMPLATES
    ]
    return pl.concat(parts).sort(wrong, "calls", "query_id", descending=[True, True, False])


def describe_difference(model: str, clause: str, row: Mapping[str, Any], comparison: str = "") -> str:
    """Say in a sentence whether a share of cloze queries is larger or smaller, as far as its interval tells.

    Args:
        model: The model.
        clause: What is larger or smaller, up to the verb.
        row: The paired difference of two shares.
        comparison: What it is compared with.
    """
    low, high = row["ci_low"], row["ci_high"]
    points = f"{with_interval(row, 100, 1)} percentage points"
    topic = f"{clause} in more or fewer of the cloze queries{comparison}"
    if reason := no_verdict_reason(row):
        return f"{model}: {TOO_LITTLE} on whether {topic} ({reason}): difference {points}."
    if low <= 0 <= high:
        null_result = Unit(100.0, 1, difference=" percentage points").null_result(row)
        return f"{model}: {null_result} by which {topic}: {points}."
    if low > 0:
        return f"{model}: {clause} in {points} more of the cloze queries{comparison}."
    size = with_interval({"value": -row["value"], "ci_low": -high, "ci_high": -low}, 100, 1)
    return f"{model}: {clause} in {size} percentage points fewer of the cloze queries{comparison}."


def list_differences(
    rows: pl.DataFrame, clause: str | Callable[[Mapping[str, Any]], str], comparison: str
) -> Iterator[str]:
    """Describe each paired difference among the first ten answers, see `describe_difference`."""
    for row in rows.filter(pl.col("k") == 10).iter_rows(named=True):
        yield describe_difference(
            row["subject"], clause if isinstance(clause, str) else clause(row), row, comparison
        )


_BY_NAME = (
    (pl.col("template") == "call") & (pl.col("mode") == "whole") & (pl.col("level") == pl.col("levels") - 1)
)
"""Queries after the called name itself, asked as a whole."""


_NamedQueries = Mapping[tuple[int, str], Sequence[Mapping[str, Any]]]
"""Queries by file and called name."""


def _group_by_name(answers: QueryAnswers) -> _NamedQueries:
    """Group the queries that were asked by file and called name."""
    queries: defaultdict[tuple[int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in answers.queries.filter(_BY_NAME).iter_rows(named=True):
        for path in row["paths"]:
            queries[path, row["answer"]].append(row)
    return queries


def _list_item_ids(run: RunData) -> list[str]:
    """List functions that call a name that was asked of their file."""
    names: defaultdict[int, set[str]] = defaultdict(set)
    for answers in read_answers(run):
        for path, name in _group_by_name(answers):
            names[path].add(name)
    if not names or not run.directory.holds(run.directory.items):
        return []
    items = scan_files(run.directory.items).select("item_id", "path", "text", "language")
    paths = items.select(pl.col("path").unique().drop_nulls()).collect()["path"].to_list()
    files = {path: names[number] for path in paths if (number := path_number(path)) in names}
    rows = items.filter(pl.col("path").is_in(sorted(files))).collect().iter_rows()
    return [item for item, path, text, language in rows if _calls_name(text or "", language, files[path])]


def _calls_name(text: str, language: str | None, names: Set[str]) -> bool:
    # Most functions spell none of the names, and are not parsed.
    if not language or language not in LANGUAGES.names() or not any(name in text for name in names):
        return False
    return any(call.name in names for call in LANGUAGES.load(language).calls(text))


def _read_findings(run: RunData, items: Sequence[str], characters: int) -> TokenFindings | None:
    texts = run.items(items).to_dicts()
    rows = {
        answers.model.slug: {
            row["item_id"]: _list_answers(row, answers, queries, characters) for row in texts
        }
        for answers in read_answers(run)
        for queries in (_group_by_name(answers),)
    }
    if not rows:
        return None
    return TokenFindings(
        lens=LENS,
        label="Names of APIs",
        kind=ANSWER,
        columns=("group", "said", "right", "hit", "rank", "top"),
        texts=frozenset({"group", "said", "right"}),
        group="name",
        rows=rows,
        note=(
            "a name was asked for in a statement of its own, not in the function; it is shown at the calls "
            "of that name in the files that were found to call it"
        ),
    )


def _list_answers(
    row: Mapping[str, Any], answers: QueryAnswers, queries_by_name: _NamedQueries, characters: int
) -> Rows:
    """List a row per call in a function of a name that was asked, and was asked but once."""
    language = row["language"]
    if not language or language not in LANGUAGES.names():
        return []
    path = path_number(row["path"] or "")
    rows: list[list[Any]] = []
    for call in LANGUAGES.load(language).calls(row["text"] or ""):
        queries = queries_by_name.get((path, call.name), ())
        if len(queries) == 1 and call.start < characters:
            (query,) = queries
            top = answers.list_top(query)
            shares = [part for answer, share, _ in top for part in (answer, round(1000 * share, 1))]
            answer, rank = top[0][0] if top else "", query["rank"]
            rows.append(
                [
                    call.start,
                    call.end,
                    "names that are called",
                    answer,
                    query["answer"],
                    int(rank == 1),
                    rank,
                    shares,
                ]
            )
    return rows


title = LensTitle(
    name="Names of APIs",
    question="Does the model know the names of libraries? It fills in names that are left out of statements.",
    counts={"": "query", "preferred": "statement", "known_by_use": "use", "asked_by_use": "use"},
    in_float32="ranks",
    cites=("zhuo2023ink",),
    cross_lens=CrossLensNumber(
        title="API names right at the first try",
        question=HeadlineMetric(
            subject="Guesses at API names",
            measure="names",
            metrics=("p_at_k",),
            where=has_dimension_names(TEMPLATE)
            & (pl.col("k") == 1)
            & pl.col("matching").is_in(["single", WHOLE, "unified"])
            & (pl.col("aggregation").fill_null("sum") == "sum"),
        ),
        fact=dimension_value(TEMPLATE),
        constructs={"call": ("call",), "import": ("import",)},
        against="the best control",
        same="of names of APIs, the statements that call or import one",
    ),
    tokens=TokenLens(known=_list_item_ids, findings=_read_findings),
)
