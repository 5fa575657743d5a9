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
from sonde.base.formatting import count, number
from sonde.languages.engine.text import common_prefix_length
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import LensTitle
from sonde.report.text import to_chart_record
from sonde.results.schema import REASON, dimension_value, dimensions_text, has_dimensions, scan_files
from sonde.results.text_format import with_interval

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


_OF_PARTS = ("seed", "gold", "predicted", "reachable")
"""Dimensions of what is not over all seeds and examples."""


_NOT_SWEPT = (*_OF_PARTS, "epoch", "setting", REASON)


def read_test_scores(run: RunData, metrics: Sequence[str]) -> pl.DataFrame:
    """Rows of both test sets; those of a sweep have its values as ``swept``."""
    part = pl.any_horizontal(dimension_value(name).is_not_null() for name in _OF_PARTS)
    told = pl.col("split").is_in(list(SPLITS)) & ~part
    return add_display_names(run.scores(metrics=metrics, lens=LENS, controls=True, where=told), run)


def add_display_names(rows: pl.DataFrame, run: RunData) -> pl.DataFrame:
    """Rows with whom they are about, as a reader knows it, and ``swept``: the values of a sweep in words."""
    parts = [pl.col("task").str.replace_all("_", " ")]
    parts += [pl.col("shown")] if run.several else []
    parts += [pl.col("language")] if len(run.languages) > 1 else []
    second = (
        pl.when(pl.col("split") == "external").then(pl.lit(f", {SPLITS['external']}")).otherwise(pl.lit(""))
    )
    return rows.with_columns(
        subject=pl.concat_str(pl.concat_str(parts, separator=", "), second),
        method=name_methods(pl.col("control")),
        swept=dimensions_text(exclude=_NOT_SWEPT),
    )


def name_methods(control: pl.Expr) -> pl.Expr:
    """Names of methods; one that is not known keeps its own."""
    return control.fill_null("").replace(METHODS).str.replace_all("_", " ")


def order_methods(rows: pl.DataFrame) -> list[str]:
    """The methods among some rows, in the order in which they are shown."""
    held = rows["method"].unique(maintain_order=True).to_list()
    known = [name for name in METHODS.values() if name in held]
    return [*known, *(name for name in held if name not in known)]


def sort_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows by subject and metric as they first appear, and by method; values stay as they were swept."""
    methods = order_methods(rows)
    pairs = rows.select("subject", "metric").unique(maintain_order=True).rows()
    return sorted(
        rows.to_dicts(),
        key=lambda row: (pairs.index((row["subject"], row["metric"])), methods.index(row["method"])),
    )


def match_rows(rows: Iterable[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], Any]:
    """Look up the difference or bound of another row: the one about the same, its metric and its control."""
    found = {(*get_row_key(row), row["of_metric"], row["control"]): row for row in rows}
    return lambda row: found.get((*get_row_key(row), row["metric"], row["control"]))


def is_main_metric(row: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a difference is in its task's own metric: of a pointer, errors located and repaired."""
    metrics = {other["of_metric"] for other in rows if other["task"] == row["task"]}
    return row["of_metric"] == ("localisation_repair" if "localisation_repair" in metrics else "accuracy")


def to_stem(subject: str) -> str:
    """A subject as part of the names of charts."""
    return "-".join(subject.replace(",", "").split())


def get_row_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a row is about; see `KEY`."""
    return tuple(row[name] for name in KEY)


def select_chart_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that are drawn: of a pointer what its parts are, not whether all is right; the table has that."""
    return rows.filter((pl.col("metric") != "accuracy") | ~pl.col("task").is_in(list(POINTERS)))


def to_chart_records(rows: pl.DataFrame, *beside: str) -> list[dict[str, Any]]:
    """What a chart draws of each row: its method, its value with the interval (also in words), its size."""
    return [
        {
            **{name: row[name] for name in beside},
            "method": row["method"],
            **to_chart_record(row),
        }
        for row in rows.iter_rows(named=True)
    ]


def to_label(variant: str) -> str:
    """In words the values that a change is held against, or that a row of the item table was trained with.

    >>> to_label("epochs=2;fraction=0.33")
    'epochs 2, fraction 0.33'
    """
    return variant.replace("=", " ").replace(";", ", ")


_REACHABLE = has_dimensions({"reachable": "true"})


def list_truncation_notes(run: RunData) -> Iterator[str]:
    """For each task what is left out, or how much is right of what the label can be read from."""
    plain = pl.col("swept") == ""
    out = read_test_scores(run, ["out_of_reach"]).filter(plain & (pl.col("value") > 0))
    counted = read_test_scores(run, ["accuracy"]).filter(plain & (pl.col("method") == PRETRAINED))
    size = {get_row_key(row): row["n"] for row in counted.iter_rows(named=True)}
    most = match_rows(read_test_scores(run, ["ceiling"]).iter_rows(named=True))
    scores = run.scores(metrics=list(METRICS), where=_REACHABLE, lens=LENS, controls=True)
    reachable = add_display_names(scores, run)
    for row in out.iter_rows(named=True):
        said = (
            f"{row['subject']}: what the label rests on lies beyond the length limit in "
            f"{number(100 * row['value'], 1)} % of {count(row['n'])} test examples"
        )
        if size.get(get_row_key(row), row["n"]) < row["n"]:
            yield f"{said}, which are left out; the rest is read in full where it matters."
            continue
        if ceiling := most({**row, "metric": "accuracy", "control": None}):
            said += f"; at most {number(100 * ceiling['value'], 1)} % can be right"
        parts = [
            f"{other['method']} {with_interval(other, 100, 1)} % {METRICS[other['metric']]}"
            for other in reachable.filter(subject=row["subject"]).iter_rows(named=True)
        ]
        yield f"{said}.{' Of the others: ' + '; '.join(parts) + '.' if parts else ''}"


title = LensTitle(
    name="Fine-tuning",
    cites=("kanade2020cubert",),
)


WRONG, RIGHT = 10, 4
"""Examples a task and test set: those answered wrongly with most confidence, and some answered rightly."""


AROUND, BEGINNING, WHOLE = 6, 3, 24
"""Lines that are shown around a mark and at the beginning of a function; one of so many is shown whole."""


GAP = "gap"
"""Stands for the marks of a stretch that says how many lines are left out."""


MARKS = ("error", "repair", "pointed", "chosen")
"""What is marked: the error, what would be right, and what the model points at for each."""


Span = tuple[int, int, str]


def read_predictions(run: RunData, model: ModelInfo) -> pl.DataFrame:
    """What the fine-tuned model says of the test examples: of the first seed and the last values swept."""
    table = run.table(LENS, model)
    if table is None or "pointed_start" not in table.collect_schema().names():
        return pl.DataFrame()
    rows = table.filter((pl.col("method") == "pretrained") & (pl.col("kind") == "example")).collect()
    if rows.is_empty():
        return rows
    rows = rows.filter(pl.col("split").is_in(list(SPLITS)) & (pl.col("seed") == rows["seed"].min()))
    return rows.filter(pl.col("variant") == get_last_values(run, rows))


def get_last_values(run: RunData, rows: pl.DataFrame) -> str:
    """The values of a sweep that the others are held against; empty where nothing is swept."""
    changes = run.scores(metrics=["change"], lens=LENS)
    return str(rows["variant"][0] if changes.is_empty() else changes["compared_to"][0])


def select_examples(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The examples that are shown: wrong ones first, the most confident of them at the top."""
    listed = [
        {**row, "confidence": float(row["probability"][row["classes"].index(row["predicted"])])}
        for row in rows.to_dicts()
    ]
    wrong = sorted(
        (row for row in listed if not row["correct"]), key=lambda row: (-row["confidence"], row["example_id"])
    )
    right = sorted(
        (row for row in listed if row["correct"]),
        key=lambda row: (row["label"] == "Correct", unit_hash("shown", row["example_id"])),
    )
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
    """The items of examples and those that they were made from, by id."""
    paths = run.directory.texts()
    if not paths:
        return {}
    names = {label[name] for label in labels.values() for name in ("item_id", "source_id")}
    items = scan_files(paths).filter(pl.col("item_id").is_in(sorted(names)))
    table = items.select("item_id", "path", "name", "text").collect()
    return {row["item_id"]: row for row in table.iter_rows(named=True)}


def read_example_labels(run: RunData, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of examples among those of their tasks, by id."""
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
    """What is marked in a text."""
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
    """Where something is wrong, or hidden, in a text.

    Args:
        label: Its row among the examples of its task.
        text: The text.
        source: The function that it was made from.
    """
    start, end, other = label["start"], label["end"], label["other_start"]
    if 0 < end - start < len(text) and not (other is not None and start == 0 and other >= end):
        return start, end
    return _difference(text, source) if source != text and other is None and end > start else None


def _difference(text: str, source: str) -> tuple[int, int]:
    """Where a text differs from what it was made from; at least one character."""
    before = common_prefix_length(text, source)
    least = min(len(text), len(source)) - before
    behind = min(least, common_prefix_length(text[::-1], source[::-1]))
    # A name whose beginning or end is left as it was is still another name.
    while before and text[before - 1 : before + 1].isidentifier():
        before -= 1
    end = len(text) - behind
    while end < len(text) and f"_{text[end - 1 : end + 1]}".isidentifier():
        end += 1
    return before, max(end, before + 1)


def cut_excerpt(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """The lines around what is marked, and those with which a text begins; what is left out is counted."""
    lines = text.splitlines(keepends=True)
    ends = list(accumulate(map(len, lines)))
    starts = [end - len(line) for end, line in zip(ends, lines, strict=True)]
    if len(lines) <= WHOLE:
        kept = set(range(len(lines)))
    elif spans:
        kept = set(range(BEGINNING))
        for start, end, _ in spans:
            first, last = bisect_right(starts, start) - 1, bisect_right(starts, max(start, end - 1)) - 1
            kept |= set(range(max(0, first - AROUND), min(len(lines), last + AROUND + 1)))
    else:
        kept = set(range(WHOLE))
    for held, numbers in groupby(range(len(lines)), key=kept.__contains__):
        run = list(numbers)
        if held:
            yield from split_segments(text, spans, starts[run[0]], ends[run[-1]])
        else:
            yield f"… {len(run)} {'line' if len(run) == 1 else 'lines'} …", GAP


def split_segments(text: str, spans: Sequence[Span], first: int, last: int) -> Iterator[tuple[str, str]]:
    """A stretch of a text cut at every mark, with the marks of each piece separated by blanks.

    >>> list(split_segments("a = b", [(0, 1, "repair"), (4, 5, "error"), (4, 5, "pointed")], 0, 5))
    [('a', 'repair'), (' = ', ''), ('b', 'error pointed')]
    """
    last = min(last, len(text))
    inside = [(max(start, first), min(end, last), mark) for start, end, mark in spans]
    cuts = {first, last, *(at for start, end, _ in inside if start < end for at in (start, end))}
    for start, end in pairwise(sorted(cuts)):
        marks = [mark for mark in MARKS if any(a <= start and end <= b and m == mark for a, b, m in inside)]
        yield text[start:end], " ".join(marks)
