"""Local cues: planted, absent, lined up with the marked characters, and against scikit-learn itself."""

from __future__ import annotations

import functools
import itertools
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.contracts.test_every_language import SOURCES

from sonde.corpora import Item, SourceFile, item_id
from sonde.languages import LANGUAGES
from sonde.tasks import EXAMPLE_SCHEMA, Dataset, Repository, build, index_imports, repositories
from sonde.tasks.engine.spans import label_spans
from sonde.tasks.engine.surface import CUES_SCHEMA, WINDOWS, Parts, bag_words, predict_local_cues, read_cues
from sonde.tasks.engine.task import TASKS
from sonde.tasks.engine.user_labels import UserLabels

SECOND = {
    "go": "package p\n\nfunc g{0}(items []int, low int) int {{\n\tseen := len(items)\n"
    "\tkeep := func(key int) bool {{ return key > low }}\n\tif keep(seen) {{\n\t\treturn {0}\n"
    "\t}}\n\treturn seen\n}}\n",
    "java": "import java.util.List;\n\nclass D {{\n    int g{0}(List<Integer> items, int low) {{\n"
    "        int seen = Math.abs(items.size());\n        items.removeIf(key -> key > low);\n"
    "        return seen + {0};\n    }}\n}}\n",
    "javascript": "function g{0}(items, low) {{\n  let seen = parseInt(items.length);\n"
    "  const kept = items.filter((key) => key > low);\n  return seen + kept.length + {0};\n}}\n",
    "php": "<?php\nfunction g{0}($items, $low)\n{{\n    $seen = count($items);\n"
    "    $keep = function ($key) {{ $near = $key; return $near > {0}; }};\n"
    "    return $seen + strlen($low);\n}}\n",
    "python": "def g{0}(items, low):\n    seen = len(items)\n    kept = [abs(key) for key in items]\n"
    "    keep = lambda near, far: near + far > {0}\n    return seen, kept, keep, low\n",
    "ruby": "def g{0}(items, low)\n  seen = Integer(items.size)\n"
    "  items.each do |key|\n    near = key\n    puts(near + {0})\n  end\n  return seen + low\nend\n",
}
"""A function in each language with another scope, and with calls that leave the repository."""

Place = tuple[int, int]

TOKEN_TASKS = [
    name
    for name in TASKS.names()
    if (task := TASKS.load(name)).target in ("span", "pair")
    and not isinstance(task, UserLabels)
    and len(task.labels) > 1
]
"""Those that a probe may be about: `argument_names` has one class."""


def word(draw: random.Random) -> str:
    return "".join(draw.choices("abcdefghijklmnop", k=8))


def thirds(number: int) -> list[Parts]:
    parts = [np.arange(number)[np.arange(number) % 3 == part] for part in range(3)]
    return [(parts[one], parts[(one + 1) % 3], parts[(one + 2) % 3]) for one in range(3)]


def data_set(
    texts: Sequence[str],
    places: Sequence[tuple[Place, Place | None]],
    labels: Sequence[str],
    values: Sequence[float | None] | None = None,
    language: str = "python",
) -> tuple[Dataset, list[Item]]:
    """Examples at marked places of texts."""
    names = [item_id(text, language, "function") for text in texts]
    rows: list[dict[str, object]] = [
        {
            "example_id": f"example{at}",
            "item_id": names[at],
            "source_id": names[at],
            "start": first[0],
            "end": first[1],
            "other_start": other and other[0],
            "other_end": other and other[1],
            "label": labels[at],
            "value": values and values[at],
            "split": "train",
            "cluster": f"cluster{at}",
            "type": "" if other else text[slice(*first)],
            "characters": len(text),
            "tokens": len(text.split()),
            "matched": True,
            "given_split": False,
        }
        for at, (text, (first, other)) in enumerate(zip(texts, places, strict=True))
    ]
    frame = pl.DataFrame(rows, schema=dict(EXAMPLE_SCHEMA))
    items = [
        Item(name, text, language, "function", "a.py", "f", 0, name, "r")
        for name, text in zip(names, texts, strict=True)
    ]
    return Dataset("task", "1", frame, ()), items


Write = Callable[[random.Random, bool], tuple[str, str, str]]
"""The text before a word, the word and the text behind it, for a class."""

PLANTED: dict[str, Write] = {
    "the word behind": lambda draw, yes: (word(draw), f" {word(draw)} ", "red" if yes else "blue"),
    "the word before": lambda draw, yes: ("red" if yes else "blue", f" {word(draw)} ", word(draw)),
    "the second word behind": lambda draw, yes: ("", f"{word(draw)} ", f"= {'red' if yes else 'blue'}"),
    "the character behind": lambda draw, yes: ("", word(draw), "\t" if yes else "\n"),
    "the character before": lambda draw, yes: ("\t" if yes else "\n", word(draw), " ="),
    "the end of the text": lambda draw, yes: (word(draw), f" {word(draw)}", "" if yes else f" {word(draw)}"),
    "the spelling": lambda draw, yes: ("", f"{word(draw)}{'Z' if yes else 'Y'}", f" {word(draw)}"),
}


def written(write: Write, number: int, *, pair: bool) -> tuple[Dataset, list[Item]]:
    """Texts of two classes in turn; of a pair the second place is the one that something is planted at."""
    draw = random.Random(3)
    texts: list[str] = []
    places: list[tuple[Place, Place | None]] = []
    for at in range(number):
        before, marked, behind = write(draw, at % 2 == 0)
        first = f"{word(draw)} {word(draw)}; " if pair else ""
        text = f"{first}{before}{marked}{behind}"
        start = len(first) + len(before) + len(marked) - len(marked.lstrip())
        place = start, start + len(marked.strip())
        texts.append(text)
        places.append(((0, 8), place) if pair else (place, None))
    return data_set(texts, places, ["no" if at % 2 else "yes" for at in range(number)])


def accuracy(dataset: Dataset, items: list[Item]) -> float:
    table = predict_local_cues(dataset, items, thirds(dataset.examples.height))
    assert dict(table.schema) == dict(CUES_SCHEMA)
    joined = dataset.examples.join(table, on="example_id", validate="1:1")
    assert joined.height == dataset.examples.height
    assert (joined["correct"] == (joined["prediction"] == joined["label"])).all()
    return float(joined["correct"].mean())  # type: ignore[arg-type]


@pytest.mark.parametrize("pair", [False, True], ids=["token", "pair"])
@pytest.mark.parametrize("name", PLANTED)
def test_what_stands_at_a_place_tells_its_class(name: str, pair: bool) -> None:
    assert accuracy(*written(PLANTED[name], 240, pair=pair)) > 0.97


@pytest.mark.parametrize("pair", [False, True], ids=["token", "pair"])
def test_nothing_planted_is_nothing_told(pair: bool) -> None:
    def write(draw: random.Random, yes: bool) -> tuple[str, str, str]:
        return f"{word(draw)} ", word(draw), f" {word(draw)} {word(draw)}"

    assert abs(accuracy(*written(write, 900, pair=pair)) - 0.5) < 0.07


def test_what_stands_further_off_is_no_local_cue() -> None:
    def write(draw: random.Random, yes: bool) -> tuple[str, str, str]:
        return f"{word(draw)} ", word(draw), f" + {word(draw)} {'red' if yes else 'blue'}"

    assert abs(accuracy(*written(write, 900, pair=False)) - 0.5) < 0.07


def test_numbers_are_told_by_the_neighbour() -> None:
    draw = random.Random(1)
    number = 300
    values = [float(draw.randrange(5)) for _ in range(number)]
    texts = [f"{word(draw)} {'abcde'[int(value)]}" for value in values]
    dataset, items = data_set(texts, [((0, 8), None)] * number, ["no", "yes"] * (number // 2), values)
    table = dataset.examples.join(predict_local_cues(dataset, items, thirds(number)), on="example_id")
    rest = (table["number"] - table["value"]).to_numpy()
    assert 1 - np.mean(rest**2) / np.var(values) > 0.8
    without = data_set(texts, [((0, 8), None)] * number, ["no", "yes"] * (number // 2))
    assert predict_local_cues(*without, thirds(number))["number"].null_count() == number


def test_whole_functions_have_no_local_cues() -> None:
    dataset, items = written(PLANTED["the spelling"], 60, pair=False)
    whole = dataset.examples.with_columns(type=pl.lit(""))
    table = predict_local_cues(Dataset("task", "1", whole, ()), items, thirds(60))
    assert table.is_empty() and dict(table.schema) == dict(CUES_SCHEMA)
    # Where only functions with a bug have marks, the mark is the label.
    other = pl.when(pl.col("label") == "yes").then(pl.lit(0, pl.Int32))
    marked = whole.with_columns(other_start=other, other_end=other)
    assert predict_local_cues(Dataset("task", "1", marked, ()), items, thirds(60)).is_empty()


def test_predictions_are_those_of_scikit_learn() -> None:
    """The same features by a vectoriser of names, the same choice on validation by other solvers."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    draw = random.Random(9)
    number = 900
    labels = [draw.choice(["call", "name"]) for _ in range(number)]
    signs = [
        ("(" if label == "call" else "=") if draw.random() < 0.8 else draw.choice("(=") for label in labels
    ]
    texts = [f"{word(draw)} {draw.choice('xyz')} {sign} 1" for sign in signs]
    dataset, items = data_set(texts, [((9, 10), None)] * number, labels)
    gold = np.array(labels)
    folds = thirds(number)
    own = predict_local_cues(dataset, items, folds)
    named = [
        {
            "word": text[9],
            "before": text[8],
            "after": text[10],
            "two after": text[10:12],
            "sign": text[11],
            "left": text[:8],
            "digit": text[13],
        }
        for text in texts
    ]
    matrix = DictVectorizer().fit_transform(named)
    for train, valid, test in folds:
        models = [
            LogisticRegression(C=strength).fit(matrix[train], gold[train]) for strength in (0.03, 0.3, 3)
        ]
        best = max(models, key=lambda model: model.score(matrix[valid], gold[valid]))
        said = dict(own.select("example_id", "prediction").iter_rows())
        mine = np.array([said[f"example{row}"] for row in test])
        assert np.mean(mine == best.predict(matrix[test])) > 0.97


@functools.cache
def code(language: str) -> tuple[list[Item], dict[str, Repository], dict[str, Repository]]:
    """Functions of a language with what is known of the files around."""
    draw = random.Random(5)
    suffix = LANGUAGES.load(language).suffixes[0]
    written = [SOURCES[language] % (number, number * 7, (number + 1) % 60) for number in range(60)]
    written += [SECOND[language].format(number) for number in range(60)]
    files = [
        SourceFile(f"p{number % 24}/f{number}{suffix}", text, language, f"p{number % 24}", "r")
        for number, text in enumerate(written)
    ]
    items = [
        Item(
            item_id(file.text, language, "function"), file.text, language, "function", file.path, "f", 0,
            file.cluster, file.repository, docstring=f"Sum {word(draw)} of {word(draw)}.",
        )
        for file in files
    ]  # fmt: skip
    return items, dict(repositories(files)), dict(index_imports(files))


def labelled(task: str, language: str) -> tuple[Dataset, list[Item]]:
    """Every place of the functions that a task labels, or the data set of one that makes its own texts."""
    items, around, imports = code(language)
    asked = TASKS.load(task)
    if task == "function_docstring":
        made = build(task, items, size=40, language=language)
        return made, [*items, *made.inputs]
    known = around if asked.needs_repository else imports
    texts: list[str] = []
    places: list[tuple[Place, Place | None]] = []
    labels: list[str] = []
    for item in items:
        for one in label_spans(asked, item, known):
            other = None if one.other_start is None else (one.other_start, one.other_end or 0)
            texts.append(item.text)
            places.append(((one.start, one.end), other))
            labels.append(one.label)
    return data_set(texts, places, labels, language=language)


@pytest.mark.parametrize("language", SOURCES)
@pytest.mark.parametrize("task", TOKEN_TASKS)
def test_cues_line_up_with_the_marked_characters_of_every_task(task: str, language: str) -> None:
    dataset, items = labelled(task, language)
    texts = {item.item_id: item.text for item in items}
    rows = dataset.examples.to_dicts()
    assert len(rows) >= 30 and dataset.examples["label"].n_unique() > 1
    for row in rows[:200]:
        text = texts[row["item_id"]]
        for start, end in [(row["start"], row["end"]), (row["other_start"], row["other_end"])]:
            if start is None:
                continue
            for window in WINDOWS:
                cues = dict(
                    cue.rsplit(f" {window} ", 1)
                    if not cue.startswith("characters")
                    else cue.split(f" {window} ", 1)
                    for cue in read_cues(text, start, end, window)
                )
                assert cues["characters before"] == text[:start][-window:]
                assert cues["characters after"] == text[end:][:window]
                words = {
                    "before": [*reversed(bag_words(text[:start]))],
                    "after": bag_words(text[end:]),
                    "first": bag_words(text[start:end]),
                    "last": [*reversed(bag_words(text[start:end]))],
                }
                for name, told in words.items():
                    assert cues[name] == (told[window - 1] if len(told) >= window else "\0"), name


@pytest.mark.slow
@pytest.mark.parametrize("language", SOURCES)
@pytest.mark.parametrize("task", TOKEN_TASKS)
def test_predictions_of_every_task_know_nothing_of_the_tested_labels(task: str, language: str) -> None:
    dataset, items = labelled(task, language)
    rows = np.random.default_rng(0).permutation(dataset.examples.height)[:90]
    train, valid, test = np.array_split(rows, 3)
    before = predict_local_cues(dataset, items, [(train, valid, test)])
    assert sorted(before["example_id"]) == sorted(dataset.examples["example_id"][test])
    tested = pl.int_range(pl.len()).is_in(test.tolist())
    turned = pl.when(tested).then(pl.lit("another")).otherwise("label")
    changed = Dataset(task, "1", dataset.examples.with_columns(label=turned), dataset.inputs)
    after = predict_local_cues(changed, items, [(train, valid, test)])
    assert after["prediction"].to_list() == before["prediction"].to_list()
    assert not after["correct"].any()


def test_the_table_of_the_page_has_every_task_in_every_language() -> None:
    path = Path(__file__).parents[2] / "docs" / "measured" / "cues.json"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert {(cell["task"], cell["language"]) for cell in cells} == set(
        itertools.product(TOKEN_TASKS, SOURCES)
    )
    for cell in cells:
        assert cell["why"] or cell["low"] <= cell["value"] <= cell["high"]
