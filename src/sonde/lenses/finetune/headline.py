"""What a run prints of fine-tuning: a line a task and model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sonde.lenses.finetune.bias import BIGRAMS, NGRAM
from sonde.lenses.finetune.data import EXTERNAL, TESTED
from sonde.lenses.finetune.enough import enough_lines
from sonde.lenses.finetune.options import BAG, SCRATCH
from sonde.lenses.finetune.reach import CEILING, OUT_OF_REACH, REACHABLE
from sonde.lenses.finetune.score import ACCURACY, SEED
from sonde.results.dimensions import REASON, dimension, in_words
from sonde.results.scores import LEFT_OUT
from sonde.results.words import figures, standing

NAMES = {
    SCRATCH: "the same architecture from scratch",
    BAG: "a bag of tokens",
    BIGRAMS: "tokens and their neighbours",
    NGRAM: "n-gram surprisal",
    "word2vec_cbow_ns": "a BiLSTM on CBOW (ns)",
    "word2vec_cbow_hs": "a BiLSTM on CBOW (hs)",
    "word2vec_skipgram_ns": "a BiLSTM on skip-grams (ns)",
    "word2vec_skipgram_hs": "a BiLSTM on skip-grams (hs)",
    "bilstm": "a BiLSTM",
    "transformer": "a Transformer",
    "lstm_pointer": "an LSTM with pointers",
}


def headline_lines(scores: pl.DataFrame) -> Iterator[str]:
    """Accuracy of the pretrained model with its gains; of a pointer, the errors found and repaired."""
    part = pl.any_horizontal(dimension(name).is_not_null() for name in (SEED, "gold", REACHABLE[0]))
    own = scores.filter(pl.col("split").is_in(TESTED) & ~part).with_columns(swept=in_words(between="="))
    for (model, task, language, swept, split), rows in own.partition_by(
        "model", "task", "language", "swept", "split", as_dict=True, maintain_order=True
    ).items():
        pretrained = rows.filter(pl.col("control").is_null())
        repaired = pretrained.filter(pl.col("metric") == "localisation_repair")
        found = pretrained.filter(pl.col("metric") == ACCURACY)
        if found.is_empty():
            continue
        about = "localisation_repair" if repaired.height else ACCURACY
        said = "errors located and repaired" if repaired.height else "accuracy"
        row = (repaired if repaired.height else found).row(0, named=True)
        parts = [f"{task} ({language})", str(model)]
        parts += [str(swept)] if swept else []
        parts += ["external test set"] if split == EXTERNAL else []
        line = f"{', '.join(parts)}: {said} {_interval(row)}{_reach(pretrained, found['n'][0], about)}"
        gains = rows.filter((pl.col("metric") == "gain") & (pl.col("of_metric") == about))
        for method, shown in NAMES.items():
            for gain in gains.filter(pl.col("control") == method).iter_rows(named=True):
                line += f"; {_points(gain)} over {shown}"
        yield line
    yield from enough_lines(scores)
    left_out = scores.filter(pl.col("metric") == LEFT_OUT).select("task", "control", dimension(REASON))
    for task, method, reason in left_out.unique(maintain_order=True).iter_rows():
        yield f"{task}: method {method} is left out: {reason}"


def _reach(rows: pl.DataFrame, size: int, metric: str) -> str:
    """How much the limit leaves out, or how much can be right within it."""
    named = rows.filter((pl.col("metric") == CEILING) & (pl.col("of_metric") == metric))
    most = f", at most {100 * named['value'][0]:.1f} %" if named.height and named["value"][0] < 1 else ""
    for row in rows.filter((pl.col("metric") == OUT_OF_REACH) & (pl.col("value") > 0)).iter_rows(named=True):
        left = "left out" if size < row["n"] else "asked as well"
        most += (
            f", {100 * row['value']:.1f} % of the examples rest on what is beyond the length and are {left}"
        )
    return most


def _interval(row: dict[str, Any]) -> str:
    return f"{figures(row, 100)} %{standing(row)}"


def _points(row: dict[str, Any]) -> str:
    return f"{figures(row, 100, sign='+')} points{standing(row)}"
