"""Every architecture of the installed transformers against its own plain forward, with random weights.

A tiny model of each type is built, saved, loaded as a user's would be, and read: attention rows, hidden
states and losses are compared with one unpadded forward pass with eager attention. ``python -m bench
architectures`` writes the table in ``docs/architectures.md``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from jaxtyping import Float

from bench._tiny import HEADS, model_types, save
from sonde.base.errors import SondeError
from sonde.capture.forward import observe
from sonde.capture.requests import (
    AttentionRows,
    HiddenStates,
    Lookups,
    Masked,
    Pass,
    Plain,
    Prepared,
    TokenScores,
    WordAttention,
    WordLookups,
    prepare,
)
from sonde.corpora import Item, item_id
from sonde.models import LoadedModel, ModelSpec, load_model

PAGE = Path(__file__).parents[1] / "docs" / "architectures.md"

NEAR = 1e-3
"""Largest difference that is rounding: in a probability, in nats, in a state by the largest of its layer."""

EXACT, REFUSED = "exact", "refused"
_SECONDS = 60
_TEXTS = ("def f(a, b):\n    return a + b\n", "x = 'fa\u00e7ade'\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Outcome for one model type with one head.

    Attributes:
        model_type: As transformers calls it.
        head: ``causal``, ``masked`` or ``seq2seq``.
        built: Whether a tiny one could be built.
        kind: What sonde takes it for; empty where it does not take it.
        reads: How its attention is read.
        attention: ``exact``, ``refused``, else what is wrong.
        states: The same of hidden states.
        losses: The same of losses.
        reason: Why it was not built, or is refused; the first one.
    """

    model_type: str
    head: str
    built: bool = True
    kind: str = ""
    reads: str = ""
    attention: str = ""
    states: str = ""
    losses: str = ""
    reason: str = ""


class _SlowError(Exception):
    """A type took too long."""


def examine(model_type: str, head: str) -> Verdict:
    """Build, save, load and read one model type."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            _run(save(model_type, head, Path(folder)), _some(head))
        except Exception as error:
            # The error of transformers itself is the reason.
            return Verdict(model_type=model_type, head=head, built=False, reason=_line(error))
        try:
            loaded = load_model(ModelSpec(name=folder, device="cpu"))
        except SondeError as error:
            return _alike(model_type, head, REFUSED, _line(error, folder))
        except Exception as error:
            return _alike(model_type, head, f"crashes: {_line(error)}")
        plain = _plain(folder, head)
        parts: dict[str, str] = {}
        reasons: list[str] = []
        for name, check in (("losses", _losses), ("states", _states), ("attention", _attention)):
            try:
                parts[name] = _verdict(check(loaded, plain, _items(loaded)))
            except SondeError as error:
                parts[name] = REFUSED
                reasons.append(_line(error, folder))
            except _SlowError:
                raise
            except Exception as error:
                parts[name] = f"crashes: {_line(error)}"
        return Verdict(
            model_type=model_type,
            head=head,
            kind=loaded.capabilities.kind,
            reads=loaded.capabilities.attention,
            reason="; ".join(dict.fromkeys(reasons)),
            attention=parts["attention"],
            states=parts["states"],
            losses=parts["losses"],
        )


def _alike(model_type: str, head: str, word: str, reason: str = "") -> Verdict:
    return Verdict(model_type=model_type, head=head, attention=word, states=word, losses=word, reason=reason)


def _verdict(difference: float) -> str:
    return EXACT if difference <= NEAR else f"off by {difference:.2g}"


def _line(error: BaseException, folder: str = "\0") -> str:
    line = " ".join(str(error).split()).replace(folder, "tiny")
    return (f"{line}" if isinstance(error, SondeError) else f"{type(error).__name__}: {line}")[:200]


def _plain(folder: str, head: str) -> Any:
    picker = getattr(transformers, HEADS[head][0])
    return picker.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def _items(loaded: LoadedModel) -> list[Prepared]:
    items = [
        Item(
            item_id=item_id(text, "text", "file"),
            text=text,
            language="text",
            unit="file",
            path="a",
            name="a",
            offset=0,
            cluster="",
            repository="",
        )
        for text in _TEXTS
    ]
    return prepare(loaded, items)


def _arguments(loaded: LoadedModel, prepared: Prepared) -> tuple[dict[str, Any], slice]:
    """One unpadded item as a plain forward takes it, and where its own subwords stand."""
    special, ids = loaded.special, prepared.alignment.subwords.ids.tolist()
    before = [*special.prefix] if loaded.capabilities.kind != "decoder" else _bos(loaded)
    behind = [*special.suffix] if loaded.capabilities.kind != "decoder" else []
    given: dict[str, Any] = {"input_ids": torch.tensor([[*before, *ids, *behind]])}
    if loaded.capabilities.kind == "encoder-decoder":
        start = special.pad if special.bos is None else special.bos
        given["decoder_input_ids"] = torch.tensor([[start, *ids]])
    return given, slice(len(before), len(before) + len(ids))


def _bos(loaded: LoadedModel) -> list[int]:
    return [] if loaded.special.bos is None else [loaded.special.bos]


def _losses(loaded: LoadedModel, plain: Any, items: list[Prepared]) -> float:
    """Largest difference of a subword's nats, by the nats where these are above one."""
    gaps = () if loaded.capabilities.kind == "decoder" else (3, 7)
    variant = Masked({one.item.item_id: tuple((at,) for at in gaps) for one in items}) if gaps else Plain()
    prepared = {one.item.item_id: one for one in items}
    worst = 0.0
    for capture in observe(loaded, items, [Pass(variant, (TokenScores(1),))]):
        if capture.scores is None:
            continue
        ids = prepared[capture.item_id].alignment.subwords.ids.tolist()
        expected = _expected_nats(loaded, plain, ids, gaps[capture.variant - 1] if gaps else None)
        found = capture.scores.nats[capture.scores.scored]
        worst = max(worst, float((np.abs(found - expected) / np.maximum(1, np.abs(expected))).max()))
    return worst


def _expected_nats(
    loaded: LoadedModel, plain: Any, ids: list[int], gap: int | None
) -> Float[np.ndarray, " scored"]:
    """Nats of a text, or of one subword of it that is left out, from one plain forward."""
    special = loaded.special
    if gap is None:
        read = [*_bos(loaded), *ids]
        gold = read[1:]
        logits = _run(plain, {"input_ids": torch.tensor([read])}).logits[0, :-1]
    elif loaded.capabilities.kind == "encoder":
        masked = [*special.prefix, *ids[:gap], special.mask, *ids[gap + 1 :], *special.suffix]
        gold = [ids[gap]]
        logits = _run(plain, {"input_ids": torch.tensor([masked])}).logits[0, len(special.prefix) + gap][None]
    else:
        assert special.gap is not None
        shown = [*special.prefix, *ids[:gap], special.gap.sign, *ids[gap + 1 :], *special.suffix]
        written = [*special.gap.before, *(ids[:gap] if special.gap.repeats else ())]
        given = {"input_ids": torch.tensor([shown]), "decoder_input_ids": torch.tensor([written])}
        gold = [ids[gap]]
        logits = _run(plain, given).logits[0, -1:]
    return -logits.double().log_softmax(-1).numpy()[np.arange(len(gold)), gold]


def _states(loaded: LoadedModel, plain: Any, items: list[Prepared]) -> float:
    """Largest difference in a hidden state, by the largest of its layer."""
    spans = {
        one.item.item_id: tuple((at, at + 1) for at in range(len(one.alignment.subwords))) for one in items
    }
    worst = 0.0
    asked = [Pass(Plain(), (HiddenStates(None, ("spans",), spans),))]
    for item, capture in zip(items, observe(loaded, items, asked), strict=True):
        given, own = _arguments(loaded, item)
        output = _run(plain, given, output_hidden_states=True)
        states = output.get("encoder_hidden_states") or output.hidden_states
        expected = torch.stack([one[0, own] for one in states]).numpy()
        found = capture.states["spans"]
        if found.shape != expected.shape:
            raise ValueError(f"states of shape {found.shape}, not {expected.shape}")
        scale = np.abs(expected).max(axis=(1, 2), keepdims=True)
        worst = max(worst, float((np.abs(found - expected) / np.maximum(scale, 1)).max()))
    return worst


def _attention(loaded: LoadedModel, plain: Any, items: list[Prepared]) -> float:
    """Largest difference in an attention probability, on every side of the model."""
    every = {one.item.item_id: tuple(range(len(one.alignment.subwords))) for one in items}
    seq2seq = loaded.capabilities.kind == "encoder-decoder"
    worst = 0.0
    captures = list(observe(loaded, items, [Pass(Plain(), (AttentionRows(every),))]))
    references = [_attentions(loaded, plain, item) for item in items]
    for expected, capture in zip(references, captures, strict=True):
        assert capture.rows is not None
        whole = expected["encoder" if seq2seq else loaded.capabilities.kind]
        worst = max(worst, _apart(capture.rows, whole))
    if not seq2seq:
        return worst
    asked = [Pass(Plain(), (WordAttention(_lookups(items, references)),))]
    for expected, capture in zip(references, observe(loaded, items, asked), strict=True):
        for side in ("decoder", "cross"):
            found = capture.words[side].attention
            assert found is not None
            # Skip entries that are no candidates, by their own word or by the word after it.
            known = np.isfinite(found)
            worst = max(worst, _apart(np.where(known, found, 0), np.where(known, _flat(expected[side]), 0)))
    return worst


def _apart(found: Float[np.ndarray, "*axes"], expected: Float[np.ndarray, "*axes"]) -> float:
    if found.shape != expected.shape:
        raise ValueError(f"attention of shape {found.shape}, not {expected.shape}")
    return float(np.abs(found - expected).max())


def _flat(matrices: Float[np.ndarray, "layer head word word"]) -> Float[np.ndarray, "head word word"]:
    return matrices.reshape(-1, *matrices.shape[2:])


def _lookups(
    items: Sequence[Prepared], references: Sequence[Mapping[str, Float[np.ndarray, "layer head word word"]]]
) -> dict[str, WordLookups]:
    """Each subword a word of its own, and all heads of the decoder's two sides."""
    found: dict[str, WordLookups] = {}
    for item, expected in zip(items, references, strict=True):
        place = np.arange(len(item.alignment.subwords))
        one = Lookups(place[1:2], place[1:2], place[:1], place[:1])
        heads = {side: tuple(np.ndindex(*expected[side].shape[:2])) for side in ("decoder", "cross")}
        found[item.item.item_id] = WordLookups(
            place, place + 1, np.ones(len(place), np.bool_), one, one, heads=heads
        )
    return found


def _attentions(
    loaded: LoadedModel, plain: Any, item: Prepared
) -> dict[str, Float[np.ndarray, "layer head word word"]]:
    """Return the matrices of each side over an item's own subwords, as eager attention gives them."""
    given, own = _arguments(loaded, item)
    output = _run(plain, given, output_attentions=True)
    if loaded.capabilities.kind != "encoder-decoder":
        return {loaded.capabilities.kind: _matrices(output.attentions, own, own)}
    written = slice(1, 1 + own.stop - own.start)
    return {
        "encoder": _matrices(output.encoder_attentions, own, own),
        "decoder": _matrices(output.decoder_attentions, written, written),
        "cross": _matrices(output.cross_attentions, written, own),
    }


def _matrices(attentions: Any, query: slice, key: slice) -> Float[np.ndarray, "layer head word word"]:
    held = [one for one in attentions or () if one is not None]
    if not held:
        raise ValueError("eager attention returns no attentions")
    return torch.stack([one[0, :, query, key] for one in held]).numpy()


def _some(head: str) -> dict[str, Any]:
    """Any input of a model's own forward."""
    ids = torch.arange(10, 30)[None]
    return {"input_ids": ids, "decoder_input_ids": ids[:, :7]} if head == "seq2seq" else {"input_ids": ids}


@torch.no_grad()
def _run(plain: Any, given: Mapping[str, Any], **more: bool) -> Any:
    # Some models decide by the padding id what is text where they are given no mask.
    return plain(**given, attention_mask=torch.ones_like(given["input_ids"]), use_cache=False, **more)


def _worker(asked: Iterable[tuple[str, str]]) -> None:
    """Examine types one after the other and print a line each."""

    def give_up(*_: object) -> None:
        raise _SlowError(f"more than {_SECONDS} s")

    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, give_up)
    for model_type, head in asked:
        signal.alarm(_SECONDS)
        try:
            verdict = examine(model_type, head)
        except _SlowError as error:
            verdict = _alike(model_type, head, str(error))
        signal.alarm(0)
        print(json.dumps(asdict(verdict)), flush=True)


def examined(asked: Sequence[tuple[str, str]]) -> list[Verdict]:
    """Examine types in a process of their own, and go on in a new one where it dies."""
    found: list[Verdict] = []
    while len(found) < len(asked):
        left = [f"{model_type}:{head}" for model_type, head in asked[len(found) :]]
        command = [sys.executable, "-W", "ignore", "-m", "bench.architectures", *left]
        done = subprocess.run(command, capture_output=True, text=True, cwd=PAGE.parents[1], check=False)
        found += [Verdict(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]
        if len(found) < len(asked):
            found.append(_alike(*asked[len(found)], f"ends the process with {done.returncode}"))
    return found


def run() -> list[dict[str, Any]]:
    """Examine every type, write the page and count what became of them."""
    found = examined(model_types())
    PAGE.write_text(page(found), encoding="utf-8")
    built = [one for one in found if one.built]
    types = len({one.model_type for one in built})
    rows = [{"name": "model types built", "value": types, "unit": "types", "target": 100}]
    for part in ("attention", "states", "losses"):
        words = Counter(getattr(one, part) for one in built)
        rows += [
            {"name": f"{part}, {word}", "value": words.pop(word, 0), "unit": "models", "target": None}
            for word in (EXACT, REFUSED)
        ]
        rows.append({"name": f"{part}, else", "value": words.total(), "unit": "models", "target": 0})
    return rows


def page(found: Sequence[Verdict]) -> str:
    """Format the page with a row for each model type and head."""
    built = [one for one in found if one.built]
    types, exact = len({one.model_type for one in built}), sum(one.attention == EXACT for one in built)
    lines = [
        "# Architectures",
        "",
        f"Written by `python -m bench architectures` with transformers {transformers.__version__}. A tiny",
        "model of every type that has a causal, masked or sequence-to-sequence head is built with random",
        "weights, saved, loaded as yours would be, and read.",
        "",
        "*Exact* means within 1e-3 of one unpadded forward pass of transformers with eager attention, in",
        "float32. Compared are attention probabilities, hidden states (by the largest of the layer) and",
        "losses in nats. *Refused* means that sonde refuses the model with one line.",
        "",
        f"Built: {types} types, {len(built)} models; attention is exact in {exact} of them.",
        "",
        "| type | head | read as | attention | states | losses | why refused |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [row(one) for one in built]
    lines += ["", "## Not built", "", "| type | head | why |", "|---|---|---|"]
    lines += [f"| {one.model_type} | {one.head} | {_cell(one.reason)} |" for one in found if not one.built]
    return "\n".join(lines) + "\n"


def row(one: Verdict) -> str:
    """Return the row of a model that was built."""
    cells = (one.model_type, one.head, one.kind, one.attention, one.states, one.losses, _cell(one.reason))
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    plain = text.replace("|", "\\|").replace("[", "\\[")
    return plain.replace("model 'tiny': ", "").replace("model 'tiny' ", "")


if __name__ == "__main__":
    _worker([(model_type, head) for model_type, _, head in (one.partition(":") for one in sys.argv[1:])])
