"""Sections of the lens `finetune`: their title, and the scores and test examples that they show.

Truncation is what of a test set lies beyond the length limit, and how much could be right at most. Test
examples are chosen for reading, cut to size, and marked where something is wrong or pointed at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.base.formatting import count, number, plural
from sonde.languages.engine.text import common_prefix_length
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import LensTitle
from sonde.report.text import Differences, list_first, sort_differences, to_chart_record
from sonde.results.schema import REASON, dimension_value, dimensions_text, has_dimensions, scan_files
from sonde.results.text_format import Row, with_interval

LENS = "finetune"


PRETRAINED = "pre-trained"


SCRATCH = "scratch"


METHODS = {
    "": PRETRAINED,
    SCRATCH: "from scratch",
    "bilstm": "BiLSTM from scratch",
    "word2vec_cbow_ns": "BiLSTM, CBOW ns",
    "word2vec_cbow_hs": "BiLSTM, CBOW hs",
    "word2vec_skipgram_ns": "BiLSTM, skip-gram ns",
    "word2vec_skipgram_hs": "BiLSTM, skip-gram hs",
    "lstm_pointer": "LSTM + pointer",
    "transformer": "Transformer from scratch",
    "bag_of_tokens": "bag of tokens",
    "bag_of_bigrams": "bag of bigrams",
    "ngram_surprisal": "n-gram surprisal",
    "majority": "majority",
    "length": "length",
    "parse_error": "parse error",
    "artefacts": "artefacts",
}
"""Methods by the name of their control, in the order in which they are shown."""


METRICS = {
    "accuracy": "right",
    "true_positive": "left alone, of the clean",
    "classification": "classified",
    "localisation": "located, of the errors",
    "localisation_repair": "located and repaired, of the errors",
}


POINTERS = ("misuse_repair",)
"""Tasks that ask for places rather than for a class."""


SPLITS = {"test": "", "external": "external test set"}
"""Splits that are told, with what stands behind a task's name."""


KEY = ("model", "task", "language", "split", "swept")
"""Columns that tell one measurement from another, method and metric aside."""


_PART_DIMENSIONS = ("seed", "gold", "predicted", "reachable")
"""Dimensions of what is not over all seeds and examples."""


def read_test_scores(run: RunData, metrics: Sequence[str]) -> pl.DataFrame:
    """Read the rows of both test sets; those of a sweep have its values as ``swept``."""
    is_part = pl.any_horizontal(dimension_value(name).is_not_null() for name in _PART_DIMENSIONS)
    condition = pl.col("split").is_in(list(SPLITS)) & ~is_part
    return add_display_names(run.scores(metrics=metrics, lens=LENS, controls=True, where=condition), run)


def add_display_names(rows: pl.DataFrame, run: RunData) -> pl.DataFrame:
    """Add ``subject``, ``method`` and ``swept``, the values of a sweep, in words of a reader."""
    parts = [pl.col("task").str.replace_all("_", " ")]
    parts += [pl.col("shown")] if run.several else []
    parts += [pl.col("language")] if len(run.languages) > 1 else []
    second = (
        pl.when(pl.col("split") == "external").then(pl.lit(f", {SPLITS['external']}")).otherwise(pl.lit(""))
    )
    # A method that is not known keeps its own name.
    method = pl.col("control").fill_null("").replace(METHODS).str.replace_all("_", " ")
    return rows.with_columns(
        subject=pl.concat_str(pl.concat_str(parts, separator=", "), second),
        method=method,
        swept=dimensions_text(exclude=(*_PART_DIMENSIONS, "epoch", "setting", REASON)),
    )


def order_methods(rows: pl.DataFrame) -> list[str]:
    """List the methods among some rows, in the order in which they are shown."""
    methods = set(rows["method"])
    order = dict.fromkeys([*METHODS.values(), *rows["method"].unique(maintain_order=True)])
    return [method for method in order if method in methods]


def sort_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Sort rows by subject and metric as they first appear, and by method; values stay as they were swept."""
    methods = order_methods(rows)
    pairs = rows.select("subject", "metric").unique(maintain_order=True).rows()
    return sorted(
        rows.to_dicts(),
        key=lambda row: (pairs.index((row["subject"], row["metric"])), methods.index(row["method"])),
    )


def match_rows(rows: Iterable[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], Any]:
    """Look up the difference or bound of another row: the one about the same, its metric and its control."""
    differences = {(*get_row_key(row), row["of_metric"], row["control"]): row for row in rows}
    return lambda row: differences.get((*get_row_key(row), row["metric"], row["control"]))


def select_main_differences(rows: Iterable[Row]) -> Differences:
    """Sort the differences in each task's own metric: of a pointer, errors located and repaired."""
    differences = list(rows)
    metrics = {(row["task"], row["of_metric"]) for row in differences}
    return sort_differences(
        row
        for row in differences
        if row["of_metric"]
        == ("localisation_repair" if (row["task"], "localisation_repair") in metrics else "accuracy")
    )


def describe_open_differences(differences: Differences, label: str) -> str:
    """Describe differences of which none allows a verdict: why, and the first with their estimates."""
    texts = [f"{row[label]} {with_interval(row, 100, 1)}" for row in differences.inconclusive]
    return f"({differences.reasons}): {list_first(texts, LISTED_ROWS)}"


LISTED_ROWS = 5
"""Rows that a sentence names."""


def to_stem(subject: str) -> str:
    """Convert a subject to a part of the names of charts."""
    return "-".join(subject.replace(",", "").split())


def get_row_key(row: Row) -> tuple[Any, ...]:
    """Return the values of `KEY` in a row."""
    return tuple(row[name] for name in KEY)


def select_chart_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Select rows to draw: of a pointer its parts, not whether all is right; the table has that."""
    return rows.filter((pl.col("metric") != "accuracy") | ~pl.col("task").is_in(list(POINTERS)))


def to_chart_records(rows: pl.DataFrame, *columns: str) -> list[dict[str, Any]]:
    """Convert rows to records of a chart: method and `columns`, the value with its interval, the n."""
    return [
        {name: row[name] for name in (*columns, "method")} | to_chart_record(row)
        for row in rows.iter_rows(named=True)
    ]


def list_truncation_notes(run: RunData) -> Iterator[str]:
    """Yield for each task what is left out, or how much is right of what the label can be read from."""
    is_plain = pl.col("swept") == ""
    truncated = read_test_scores(run, ["out_of_reach"]).filter(is_plain & (pl.col("value") > 0))
    accuracies = read_test_scores(run, ["accuracy"]).filter(is_plain & (pl.col("method") == PRETRAINED))
    sizes = {get_row_key(row): row["n"] for row in accuracies.iter_rows(named=True)}
    get_maximum = match_rows(read_test_scores(run, ["ceiling"]).iter_rows(named=True))
    scores = run.scores(
        metrics=list(METRICS), where=has_dimensions({"reachable": "true"}), lens=LENS, controls=True
    )
    reachable = add_display_names(scores, run)
    for row in truncated.iter_rows(named=True):
        sentence = (
            f"{row['subject']}: what the label rests on lies beyond the length limit in "
            f"{number(100 * row['value'], 1)} % of {count(row['n'])} test examples"
        )
        if sizes.get(get_row_key(row), row["n"]) < row["n"]:
            yield f"{sentence}, which are left out; the rest is read in full where it matters."
            continue
        if maximum := get_maximum({**row, "metric": "accuracy", "control": None}):
            sentence += f"; at most {number(100 * maximum['value'], 1)} % can be right"
        parts = [
            f"{score['method']} {with_interval(score, 100, 1)} % {METRICS[score['metric']]}"
            for score in reachable.filter(subject=row["subject"]).iter_rows(named=True)
        ]
        yield f"{sentence}.{' Of the others: ' + '; '.join(parts) + '.' if parts else ''}"


title = LensTitle(
    name="Fine-tuning",
    question="What does the model learn from a task's own examples that the same model, untrained, does not?",
    counts={"": "example"},
    cites=("kanade2020cubert",),
)


WRONG, RIGHT = 10, 4
"""Examples a task and test set: those answered wrongly with most confidence, and some answered rightly."""


MARK_LINES, HEAD_LINES, MAX_LINES = 6, 3, 24
"""Lines that are shown around a mark and at the beginning of a function; one of so many is shown whole."""


GAP = "gap"
"""Stands for the marks of a stretch that says how many lines are left out."""


MARKS = ("error", "repair", "pointed", "chosen")
"""What is marked: the error, what would be right, and what the model points at for each."""


Span = tuple[int, int, str]


def read_predictions(run: RunData, model: ModelInfo) -> pl.DataFrame:
    """Read the answers of the fine-tuned model to the test examples: first seed, last values swept."""
    table = run.table(LENS, model)
    if table is None or "pointed_start" not in table.collect_schema().names():
        return pl.DataFrame()
    rows = table.filter((pl.col("method") == "pretrained") & (pl.col("kind") == "example")).collect()
    if rows.is_empty():
        return rows
    rows = rows.filter(pl.col("split").is_in(list(SPLITS)) & (pl.col("seed") == rows["seed"].min()))
    return rows.filter(pl.col("variant") == get_last_values(run, rows))


def get_last_values(run: RunData, rows: pl.DataFrame) -> str:
    """Return the values of a sweep that the others are compared with; empty where nothing is swept."""
    changes = run.scores(metrics=["change"], lens=LENS)
    return str(rows["variant"][0] if changes.is_empty() else changes["compared_to"][0])


def select_examples(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Select the examples that are shown: wrong ones first, the most confident of them at the top."""
    examples = [
        {**row, "confidence": float(row["probability"][row["classes"].index(row["predicted"])])}
        for row in rows.to_dicts()
    ]
    wrong = [row for row in examples if not row["correct"]]
    wrong.sort(key=lambda row: (-row["confidence"], row["example_id"]))
    right = [row for row in examples if row["correct"]]
    right.sort(key=lambda row: (row["label"] == "Correct", unit_hash("shown", row["example_id"])))
    return [*wrong[:WRONG], *right[:RIGHT]]


def build_examples(run: RunData, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each example as the page shows it.

    Its ``segments`` are its text in stretches, each with its marks; `GAP` stands in place of lines that are
    left out. ``found`` is, for a pointer, what became of the error; ``edit`` what was done to the function.
    """
    labels = read_example_labels(run, rows)
    items = read_example_items(run, labels)
    for row in rows:
        label, item = labels.get(row["example_id"]), items.get(row["item_id"])
        if label is None or item is None:
            continue
        text = item["text"]
        spans = list(_iterate_spans(row, label, text, items.get(label["source_id"], item)["text"]))
        name, _, edit = (item["name"] or "").partition("/")
        yield {
            "name": name or item["path"],
            "path": item["path"],
            "gold": row["label"],
            "said": row["predicted"],
            "confidence": row["confidence"],
            "right": bool(row["correct"]),
            "found": _describe_outcome(row),
            "edit": edit,
            "truncated": _describe_truncation(row),
            "segments": tuple(cut_excerpt(text, spans)),
        }


def read_example_items(run: RunData, labels: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Read the items of examples and those that they were made from, by id."""
    paths = run.directory.texts()
    if not paths:
        return {}
    names = {label[name] for label in labels.values() for name in ("item_id", "source_id")}
    items = scan_files(paths).filter(pl.col("item_id").is_in(sorted(names)))
    table = items.select("item_id", "path", "name", "text").collect()
    return {row["item_id"]: row for row in table.iter_rows(named=True)}


def read_example_labels(run: RunData, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Read the rows of examples among those of their tasks, by id."""
    names = {row["example_id"] for row in rows}
    tables = [
        scan_files(path).filter(pl.col("example_id").is_in(sorted(names))).collect()
        for task in sorted({row["task"] for row in rows})
        for path in run.directory.label_tables(task, LENS)
    ]
    return {row["example_id"]: row for table in tables for row in table.iter_rows(named=True)}


def _describe_truncation(row: Mapping[str, Any]) -> str:
    if not row["truncated"]:
        return ""
    if row["located"] is None:
        return "longer than the limit, not read to its end"
    return "the error or all of what would be right lies beyond the limit"


def _describe_outcome(row: Mapping[str, Any]) -> str:
    if row["located"] is None:
        return ""
    if not row["buggy"]:
        return "left alone" if row["correct"] else "an error is seen where there is none"
    if not row["located"]:
        return "error missed" if row["predicted"] == "nothing" else "error looked for elsewhere"
    return "error located, repaired rightly" if row["repaired"] else "error located, repaired wrongly"


def _iterate_spans(
    row: Mapping[str, Any], label: Mapping[str, Any], text: str, source: str
) -> Iterator[Span]:
    """Yield the marked spans of a text."""
    if (span := locate_error(label, text, source)) is not None:
        yield (*span, "error")
    if row["located"] is None:
        return
    if label["other_start"] is not None:
        yield label["other_start"], label["other_end"], "repair"
    for name, mark in (("pointed", "pointed"), ("repair", "chosen")):
        if row[f"{name}_start"] is not None:
            yield row[f"{name}_start"], row[f"{name}_end"], mark


def locate_error(label: Mapping[str, Any], text: str, source: str) -> tuple[int, int] | None:
    """Locate what is wrong, or hidden, in a text.

    Args:
        label: Its row among the examples of its task.
        text: The text.
        source: The function that it was made from.
    """
    start, end, repair = label["start"], label["end"], label["other_start"]
    if 0 < end - start < len(text) and not (repair is not None and start == 0 and repair >= end):
        return start, end
    return _locate_change(text, source) if source != text and repair is None and end > start else None


def _locate_change(text: str, source: str) -> tuple[int, int]:
    """Locate the change of a text from what it was made from; at least one character."""
    start = common_prefix_length(text, source)
    suffix = min(min(len(text), len(source)) - start, common_prefix_length(text[::-1], source[::-1]))
    # A name whose beginning or end is left as it was is still another name.
    while start and text[start - 1 : start + 1].isidentifier():
        start -= 1
    end = len(text) - suffix
    while end < len(text) and f"_{text[end - 1 : end + 1]}".isidentifier():
        end += 1
    return start, max(end, start + 1)


def cut_excerpt(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """Yield the lines around what is marked, and the first; what is left out is counted."""
    lines = text.splitlines(keepends=True)
    ends = list(accumulate(map(len, lines)))
    starts = [end - len(line) for end, line in zip(ends, lines, strict=True)]
    visible = set(range(MAX_LINES))
    if spans and len(lines) > MAX_LINES:
        visible = set(range(HEAD_LINES))
        for start, end, _ in spans:
            first, last = bisect_right(starts, start) - 1, bisect_right(starts, max(start, end - 1)) - 1
            visible |= set(range(max(0, first - MARK_LINES), min(len(lines), last + MARK_LINES + 1)))
    for is_visible, numbers in groupby(range(len(lines)), key=visible.__contains__):
        run = list(numbers)
        if is_visible:
            yield from split_segments(text, spans, starts[run[0]], ends[run[-1]])
        else:
            yield f"… {plural(len(run), 'line')} …", GAP


def split_segments(text: str, spans: Sequence[Span], first: int, last: int) -> Iterator[tuple[str, str]]:
    """Cut a stretch of a text at every mark, with the marks of each piece separated by blanks.

    >>> list(split_segments("a = b", [(0, 1, "repair"), (4, 5, "error"), (4, 5, "pointed")], 0, 5))
    [('a', 'repair'), (' = ', ''), ('b', 'error pointed')]
    """
    last = min(last, len(text))
    inside = [(max(start, first), min(end, last), mark) for start, end, mark in spans]
    cuts = {first, last, *(cut for start, end, _ in inside if start < end for cut in (start, end))}
    for start, end in pairwise(sorted(cuts)):
        marks = [mark for mark in MARKS if any(a <= start and end <= b and m == mark for a, b, m in inside)]
        yield text[start:end], " ".join(marks)
