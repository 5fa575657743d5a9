"""Alignment against a per-token loop over nodes, as CODETOKENIZERS aligns, on the same subwords and trees."""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from sonde.alignment.align import align
from sonde.alignment.subwords import Subwords, encode
from sonde.languages import LANGUAGES, Tree

_FILES = ("ast.py", "csv.py", "heapq.py", "json/decoder.py", "shlex.py", "textwrap.py")
_REPEATS = 3
_EVERY = 8


def run() -> list[dict[str, str | float | None]]:
    """Measure alignment on files and functions of the standard library; rows of name, value, unit, target."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts = [(folder / name).read_text(encoding="utf-8") for name in _FILES]
    tokenizer = _tokenizer(texts)
    python = LANGUAGES.load("python")
    functions = [text[one.start : one.end] for text in texts for one in python.functions(text)][::_EVERY]
    rows: list[dict[str, str | float | None]] = []
    for unit, chosen in (("files", texts), ("functions", functions)):
        encoded = [encode(tokenizer, text) for text in chosen]
        trees = [python.parse(text) for text in chosen]
        tokens = [python.tokens(tree) for tree in trees]
        ours, lean = _seconds(align, encoded, trees, tokens), _seconds(_loop, encoded, trees)
        rows.append(_row(f"alignment, {unit}", sum(map(len, encoded)) / ours, "subwords/s", None))
        rows.append(
            _row(f"loop over nodes, leaves' borders at hand / alignment, {unit}", lean / ours, "x", None)
        )
        if unit == "functions":
            published = _seconds(_published_loop, encoded, trees)
            rows.append(
                _row("loop over nodes as published / alignment, functions", published / ours, "x", 50)
            )
        else:
            rows[-1]["target"] = 50
    begun = time.perf_counter()
    encoded = [encode(tokenizer, text) for text in texts]
    rate = sum(map(len, encoded)) / (time.perf_counter() - begun)
    rows.append(_row("tokenization with exact spans, files", rate, "subwords/s", None))
    return rows


def _seconds(work: Callable[..., object], *columns: Sequence[object]) -> float:
    """CPU time of the fastest of a few runs over all texts."""
    taken: list[float] = []
    for _ in range(_REPEATS):
        begun = time.process_time()
        for parts in zip(*columns, strict=True):
            work(*parts)
        taken.append(time.process_time() - begun)
    return min(taken)


def _row(name: str, value: float, unit: str, target: float | None) -> dict[str, str | float | None]:
    return {"name": name, "value": round(value, 1), "unit": unit, "target": target}


def _tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=8000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def _loop(subwords: Subwords, tree: Tree) -> list[str]:
    """For each piece, every leaf from the first on, until one holds an end of it."""
    leaves = [
        (
            int(tree.start[row]),
            int(tree.end[row]),
            f"{tree.kind_name(int(tree.parent[row]))} -> {tree.kind_name(row)}",
        )
        for row in tree.leaves.tolist()
    ]
    found: list[str] = []
    for start, end in zip(subwords.start.tolist(), subwords.end.tolist(), strict=True):
        tag = "< N/A >"
        for first, last, name in leaves:
            if first <= start < last or first < end <= last:
                tag = name
                break
        found.append(tag)
    return found


def _published_loop(subwords: Subwords, tree: Tree) -> list[str]:
    """Do the same as published: add up the lines before a leaf again for each piece and each leaf."""
    lines = tree.text.split("\n")
    borders = [
        (tree.text.count("\n", 0, int(at)), tree.text.rfind("\n", 0, int(at)) + 1, int(at))
        for at in _borders(tree)
    ]
    points = [(row, at - line) for row, line, at in borders]
    names = [
        f"{tree.kind_name(int(tree.parent[row]))} -> {tree.kind_name(row)}" for row in tree.leaves.tolist()
    ]
    found: list[str] = []
    for start, end in zip(subwords.start.tolist(), subwords.end.tolist(), strict=True):
        tag = "< N/A >"
        for leaf, name in enumerate(names):
            first, last = (_offset(points[2 * leaf + side], lines) for side in (0, 1))
            if first <= start < last or first < end <= last:
                tag = name
                break
        found.append(tag)
    return found


def _borders(tree: Tree) -> list[int]:
    return np.stack([tree.start[tree.leaves], tree.end[tree.leaves]], axis=1).reshape(-1).tolist()


def _offset(point: tuple[int, int], lines: list[str]) -> int:
    row, column = point
    return sum(len(line) + 1 for line in lines[:row]) + column
