"""Scores of fine-tuning for its sections: subjects of rows, methods, metrics, and truncation.

Truncation is what of a test set lies beyond the length limit, and how much could be right at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.report.run_tables import RunData
from sonde.report.text import to_chart_record
from sonde.results.schema import REASON, dimension_value, dimensions_text, has_dimensions
from sonde.results.text_format import count, number, with_interval

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


def read_ceilings(run: RunData) -> dict[tuple[Any, ...], float]:
    """The most that any answers could get right, by what a row is about, its metric and its control."""
    rows = read_test_scores(run, ["ceiling"])
    return {
        (*get_row_key(row), row["of_metric"], row["control"]): row["value"]
        for row in rows.iter_rows(named=True)
    }


def list_truncation_notes(run: RunData) -> Iterator[str]:
    """For each task what is left out, or how much is right of what the label can be read from."""
    out = read_test_scores(run, ["out_of_reach"]).filter((pl.col("swept") == "") & (pl.col("value") > 0))
    counted = read_test_scores(run, ["accuracy"]).filter(
        (pl.col("swept") == "") & (pl.col("method") == PRETRAINED)
    )
    size = {get_row_key(row): row["n"] for row in counted.iter_rows(named=True)}
    most = read_ceilings(run)
    for row in out.iter_rows(named=True):
        said = (
            f"{row['subject']}: what the label rests on lies beyond the length limit in "
            f"{number(100 * row['value'], 1)} % of {count(row['n'])} test examples"
        )
        if size.get(get_row_key(row), row["n"]) < row["n"]:
            yield f"{said}, which are left out; the rest is read in full where it matters."
            continue
        ceiling = most.get((*get_row_key(row), "accuracy", None))
        bound = f"; at most {number(100 * ceiling, 1)} % can be right" if ceiling is not None else ""
        yield f"{said}{bound}.{_describe_reachable_examples(run, row)}"


def _describe_reachable_examples(run: RunData, about: dict[str, Any]) -> str:
    """What is right of the other examples."""
    scores = run.scores(metrics=list(METRICS), where=_REACHABLE, lens=LENS, controls=True)
    rows = add_display_names(scores, run).filter(pl.col("subject") == about["subject"])
    parts = [
        f"{row['method']} {with_interval(row, 100, 1)} % {METRICS[row['metric']]}"
        for row in rows.iter_rows(named=True)
    ]
    return f" Of the others: {'; '.join(parts)}." if parts else ""
