"""What the whole corpus answers most often, against slow counts."""

import re
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

from sonde.corpora import SourceFile
from sonde.tasks.apis.api_cloze import task
from sonde.tasks.engine.api_names import gather_names
from sonde.tasks.engine.cloze_options import REFERENCE, StatementOptions
from sonde.tasks.engine.cloze_queries import UNSEEN_RANK, FrequentPieces, make_query_table, segments

LIBRARIES = [f"lib{number}" for number in range(6)]


@pytest.fixture(scope="module")
def files() -> list[SourceFile]:
    rng = np.random.default_rng(0)
    names = ["read", "write", "open_file", "close", "getStream", "parse", "x"]
    text = "".join(
        f"import {library} as k{library}\n"
        + "".join(f"k{library}.{name}()\n" for name in rng.choice(names, 4))
        for library in LIBRARIES
    )
    others = "".join(f"import other{number} as o{number}\n" for number in range(12))
    return [SourceFile("a.py", others + text, "python", "r", "r")]


def rows_of(files: list[SourceFile], limit: int | None = None, **wanted: Any) -> list[dict[str, Any]]:
    options = StatementOptions.of_every_name().model_copy(update=wanted)
    found = make_query_table(gather_names(files), options, limit).table
    return list(found.iter_rows(named=True))


def test_the_majority_is_that_of_all_other_libraries_however_few_are_asked_about(
    files: list[SourceFile],
) -> None:
    every = [row for row in rows_of(files) if row["template"] in ("call", "alias")]
    asked = rows_of(files, limit=3)
    assert asked
    for row in asked:
        template = {"import": "call", "adversarial": "alias"}.get(row["template"], row["template"])
        cell = [one for one in every if (one["template"], one["mode"]) == (template, row["mode"])]
        counts = Counter(dict.fromkeys((one["answer"] for one in cell), 0))
        counts.update(one["answer"] for one in cell if one["library"] != row["library"])
        mine = counts[row["answer"]]
        expected = sum(count >= mine for count in counts.values()) if mine else UNSEEN_RANK
        assert row["majority"] == expected


def test_frequent_candidates_leave_the_own_library_out(files: list[SourceFile]) -> None:
    gathered = gather_names(files)
    for row in rows_of(files, objective="candidates", candidates=5, limit=4, templates=("call",)):
        counts = {
            one: sum(
                name.calls
                for name in gathered.names.values()
                if name.library != row["library"] and name.name.split(".")[row["level"]] == one
            )
            for one in row["candidates"]
        }
        assert row["majority"] == sum(count >= counts[row["answer"]] for count in counts.values())
        assert row["unigram"] is None


def test_pieces_are_counted_over_the_corpus_and_look_like_identifiers() -> None:
    texts = ["read(read, write) + 12 == 12 // 12", "# read 12\nopen_file = '12'"]
    words = Counter(re.findall(r"[^\W\d]\w*", "\n".join(texts)))
    counts: Counter[str] = Counter()
    for word, pieces in segments(words).items():
        for piece in pieces:
            counts[piece] += words[word]
    frequent = FrequentPieces(texts, REFERENCE)
    for piece in counts:
        assert frequent.rank(piece) == sum(count >= counts[piece] for count in counts.values())
    assert frequent.rank("12") == frequent.rank("numpy") == UNSEEN_RANK


def test_queries_behind_words_and_in_frames_have_no_controls(files: list[SourceFile]) -> None:
    options = {"frames": 1.0, "templates": "call"}
    drawn = task.draw(files, size=5, seed=0, language="python", options=options)
    framed = drawn.examples.filter(pl.col("frame") != "")
    assert (
        framed.height and framed["majority"].null_count() == framed["unigram"].null_count() == framed.height
    )
    alone = drawn.examples.filter((pl.col("frame") == "") & (pl.col("mode") != "whole"))
    assert alone["unigram"].null_count() == 0
