"""Cloze queries: what is projected, how batches are sorted, what is read once, and queries a second.

Ratios are of CPU time, runs interleaved, the median of pairs: a busy machine slows both sides alike.
"""

from __future__ import annotations

import statistics
import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import transformers
from jaxtyping import Int

from sonde.alignment import align, encode, get_surfaces
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Prepared
from sonde.capture.settings import CaptureSettings
from sonde.capture.windows import batch_by_length, pad_rows
from sonde.corpora import Item, SourceFile
from sonde.languages import LANGUAGES
from sonde.lenses import CapturedItem, LensSettings, load_reading_lens
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.models.engine.family import FAMILIES
from sonde.tasks import Dataset
from sonde.tasks.apis.api_cloze import task

_FILES = ("argparse.py", "ast.py", "calendar.py", "inspect.py", "pdb.py", "shutil.py", "tarfile.py")
_REPEATS = 5
_BATCH = 64
_LENGTH = 16
_NAMES = 120
_SHARED = 8192
_CANDIDATES = 100
_STATEMENTS = 512


def run() -> list[dict[str, str | float | None]]:
    """Measure them; rows of name, value, unit, target."""
    data, loaded = _data_set(), load_model(ModelSpec(name="sonde/mini-encoder", device="cpu"))
    prepared = _prepared(loaded, data.inputs)
    name = f"full / gathered projection, 6x512 encoder, 50k vocabulary, {_LENGTH} tokens"
    return [
        _row(name, _full_over_gathered(), "x", 1.5),
        _row(
            f"whole / {_SHARED:,} of 50k ids projected on, gathered, 6x512 encoder",
            _whole_over_narrowed(),
            "x",
            None,
        ),
        _row(
            "unsorted / sorted batches, bundled encoder", _unsorted_over_sorted(loaded, prepared), "x", None
        ),
        _row(
            f"statements read whole / beginnings read once, {_CANDIDATES} candidates each, bundled decoder",
            _whole_over_shared(),
            "x",
            None,
        ),
        _row(
            "masked queries per second of CPU time, bundled encoder",
            _rate(loaded, prepared, data),
            "queries/s",
            None,
        ),
    ]


def _row(name: str, value: float, unit: str, target: float | None) -> dict[str, str | float | None]:
    return {"name": name, "value": round(value, 2), "unit": unit, "target": target}


def _data_set(**chosen: str | int) -> Dataset:
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts = [(folder / name).read_text(encoding="utf-8") for name in _FILES]
    files = [SourceFile(name, text, "python", "c", "r") for name, text in zip(_FILES, texts, strict=True)]
    options = {"templates": "call,import", **chosen}
    return task.draw(files, size=_NAMES, seed=0, language="python", options=options)


def _prepared(loaded: LoadedModel, items: Sequence[Item]) -> list[Prepared]:
    language = LANGUAGES.load("python")
    found: list[Prepared] = []
    for item in items:
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        found.append(
            Prepared(item, tree, tokens, align(encode(loaded.tokenizer, item.text, item.cuts), tree, tokens))
        )
    return found


def _encoder() -> transformers.RobertaForMaskedLM:
    config = transformers.RobertaConfig(
        vocab_size=50265,
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=6,
        num_attention_heads=8,
        max_position_embeddings=130,
    )
    return transformers.RobertaForMaskedLM(config).eval()


@torch.inference_mode()
def _full_over_gathered() -> float:
    model = _encoder()
    body, head = FAMILIES.load("roberta").body_and_head(model)
    ids = torch.randint(5, model.config.vocab_size, (_BATCH, _LENGTH))
    at = torch.randint(1, _LENGTH - 1, (_BATCH,))
    rows = torch.arange(_BATCH)

    def full() -> None:
        head(body(input_ids=ids).last_hidden_state)[rows, at].log_softmax(-1)

    def gathered() -> None:
        head(body(input_ids=ids).last_hidden_state[rows, at]).log_softmax(-1)

    return _ratio(full, gathered)


@torch.inference_mode()
def _whole_over_narrowed() -> float:
    """Leave the body out: what is projected is all that differs."""
    model = _encoder()
    _, head = FAMILIES.load("roberta").body_and_head(model)
    narrow = head.restrict_to_ids(torch.randperm(model.config.vocab_size)[:_SHARED].sort().values)
    states = torch.randn(_BATCH, model.config.hidden_size)
    return _ratio(lambda: head(states).log_softmax(-1), lambda: narrow(states).log_softmax(-1))


def _whole_over_shared() -> float:
    data = _data_set(objective="candidates", candidates=_CANDIDATES)
    loaded = load_model(ModelSpec(name="sonde/mini-decoder", device="cpu"))
    lens, settings = load_reading_lens("cloze"), LensSettings(options={"objective": "candidates"})
    labels = {"api_cloze": data.examples}
    prepared = _prepared(loaded, lens.inputs(data.inputs, labels, settings)[:_STATEMENTS])
    passes = {"cloze": lens.input_requests(prepared, labels, settings)}

    def observed(*, share: bool) -> None:
        for _ in observe_lenses(loaded, prepared, passes, settings=CaptureSettings(share=share)):
            pass

    return _ratio(lambda: observed(share=False), lambda: observed(share=True))


@torch.inference_mode()
def _unsorted_over_sorted(loaded: LoadedModel, prepared: Sequence[Prepared]) -> float:
    rows = [np.asarray(one.alignment.subwords.ids, np.int64) for one in prepared]
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    budget = _BATCH * int(np.mean([len(row) for row in rows]))
    by_length = batch_by_length([len(row) for row in rows], [one.item.item_id for one in prepared], budget)
    shuffled = [order[at : at + _BATCH] for at in range(0, len(order), _BATCH)]
    body, _ = FAMILIES.load(loaded.family).body_and_head(loaded.model)

    def forward(batches: Sequence[Sequence[int]]) -> Callable[[], None]:
        made = [_tensors([rows[index] for index in batch]) for batch in batches]

        def work() -> None:
            for ids, mask in made:
                body(input_ids=ids, attention_mask=mask)

        return work

    return _ratio(forward(shuffled), forward(by_length))


def _tensors(rows: Sequence[Int[np.ndarray, " token"]]) -> tuple[torch.Tensor, torch.Tensor]:
    mask = pad_rows([np.ones(len(row), dtype=np.int64) for row in rows], 0)
    return torch.from_numpy(pad_rows(rows, 0)), torch.from_numpy(mask)


def _ratio(first: Callable[[], None], second: Callable[[], None]) -> float:
    ratios: list[float] = []
    for repeat in range(_REPEATS + 1):
        begun = time.process_time()
        first()
        between = time.process_time()
        second()
        ended = time.process_time()
        if repeat:  # the first round warms caches
            ratios.append((between - begun) / (ended - between))
    return statistics.median(ratios)


def _rate(loaded: LoadedModel, prepared: Sequence[Prepared], data: Dataset) -> float:
    lens, settings, labels = load_reading_lens("cloze"), LensSettings(), {"api_cloze": data.examples}
    names = get_surfaces(loaded.tokenizer, loaded.capabilities.vocab)
    taken: list[float] = []
    for _ in range(2):
        begun = time.process_time()
        passes = {"cloze": lens.input_requests(prepared, labels, settings)}
        observed = [
            CapturedItem(one.prepared, one.captures["cloze"])
            for one in observe_lenses(loaded, prepared, passes)
        ]
        lens.observe(observed, labels, settings, names)
        taken.append(time.process_time() - begun)
    return data.examples.height / min(taken)
