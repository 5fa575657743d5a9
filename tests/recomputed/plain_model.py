"""A model of a run as transformers loads it: float32, eager attention, one text at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from jaxtyping import Float, Int
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

BUNDLED = Path(__file__).parents[2] / "src" / "sonde" / "models" / "bundled"

GGUF_SPLITS = {"smollm": Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])}
"""How the tokenizers of GGUF files split texts into words, as the models' own ``tokenizer.json`` has it.

transformers knows one split for all of them, that of GPT-2, which leaves a space to a number.
"""

NEAR_TIE = 1e-4
"""Logits that lie closer count as tied, and ties against the right subword (docs/files.md)."""

_PROJECTIONS = (
    "self_attn.o_proj",
    "attention.output.dense",
    "attention.attn.o",
    "attn.out_proj",
    "attn.c_proj",
)
"""What mixes the outputs of heads, by family."""

Change = Callable[[Tensor], Tensor]
"""Maps the states of a text's subwords, one a row."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A text in subwords, without special tokens."""

    ids: tuple[int, ...]
    start: Int[np.ndarray, " subword"]
    end: Int[np.ndarray, " subword"]

    def sharing(self, start: int, end: int) -> Int[np.ndarray, " subword"]:
        """Return the subwords that share a character with a place."""
        return np.flatnonzero((self.end > start) & (self.start < end))


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Surprisal and rank of each subword; NaN and 0 where nothing stands before a decoder's first one."""

    nats: Float[np.ndarray, " subword"]
    rank: Int[np.ndarray, " subword"]


class PlainModel:
    """A model with its tokenizer.

    Args:
        facts: What ``run.json`` says of the model.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        name = str(facts["name"])
        place = BUNDLED / name.removeprefix("sonde/") if name.startswith("sonde/") else Path(name)
        source, more = str(place), {}
        if place.suffix == ".gguf":
            source, more = str(place.parent), {"gguf_file": place.name}
        self.decoder = facts["kind"] == "decoder"
        self.has_head = bool(facts["head"])
        self.context = int(facts["context"])
        self.tokenizer: Any = AutoTokenizer.from_pretrained(source, **more)
        if more and (split := GGUF_SPLITS.get(_read_split(place))) is not None:
            self.tokenizer.backend_tokenizer.pre_tokenizer = split
        family: Any = AutoModelForCausalLM if self.decoder else AutoModelForMaskedLM
        self.model: Any = (family if self.has_head else AutoModel).from_pretrained(
            source, dtype=torch.float32, attn_implementation="eager", **more
        )
        self.model.eval()
        self.before, self.behind = self._special_tokens()
        count = self.model.config.num_hidden_layers
        self.blocks: Any = next(
            module
            for module in self.model.modules()
            if isinstance(module, nn.ModuleList) and len(module) == count
        )

    def _special_tokens(self) -> tuple[list[int], list[int]]:
        """Return what is read before a text and behind it."""
        if self.decoder:
            start = self.tokenizer.bos_token_id
            start = self.tokenizer.eos_token_id if start is None else start
            return ([] if start is None else [start]), []
        inner = self.tokenizer("x", add_special_tokens=False)["input_ids"]
        full = self.tokenizer("x")["input_ids"]
        at = next(at for at in range(len(full)) if full[at : at + len(inner)] == inner)
        return full[:at], full[at + len(inner) :]

    def encode(self, text: str) -> Encoded:
        """Cut a text into subwords."""
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        spans = np.array(found["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        return Encoded(tuple(found["input_ids"]), spans[:, 0], spans[:, 1])

    def fits(self, encoded: Encoded) -> bool:
        """Return whether the model reads a text at once."""
        return 0 < len(encoded.ids) <= self.context - len(self.before) - len(self.behind)

    def read(
        self, ids: tuple[int, ...] | list[int], hooks: tuple[Hook, ...] | list[Hook] = (), **asked: bool
    ) -> Any:
        """Read one text, and return what transformers does."""
        tokens = torch.tensor([[*self.before, *ids, *self.behind]])
        with torch.no_grad(), self._hooked(hooks, len(ids)):
            return self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), **asked)

    def inside(self, rows: Tensor, size: int) -> Tensor:
        """Return the part of rows that the text's own subwords have, on the last axis but one."""
        return rows[..., len(self.before) : len(self.before) + size, :]

    def states(self, ids: tuple[int, ...] | list[int]) -> Float[np.ndarray, "layer subword width"]:
        """Return the states of a text, embeddings first."""
        layers = self.read(ids, output_hidden_states=True).hidden_states
        return np.stack([self.inside(layer[0], len(ids)).numpy() for layer in layers])

    def head_outputs(self, ids: tuple[int, ...] | list[int]) -> Float[np.ndarray, "layer subword width"]:
        """Return what the heads of each layer give, one after the other, before they are mixed."""
        seen: list[np.ndarray] = []

        def keep(states: Tensor) -> Tensor:
            seen.append(states.numpy().copy())
            return states

        self.read(ids, [Hook(self.projection(layer), keep) for layer in range(len(self.blocks))])
        return np.stack(seen)

    def score(
        self,
        ids: tuple[int, ...] | list[int],
        hooks: tuple[Hook, ...] | list[Hook] = (),
        masked: tuple[int, ...] | list[int] = (),
    ) -> Scored:
        """Score the subwords of a text: of a decoder all, else those that are hidden, all at once."""
        size = len(ids)
        shown = np.array(ids)
        if self.decoder:
            at = np.arange(0 if self.before else 1, size)
        else:
            at = np.array(sorted(masked))
            shown[at] = self.tokenizer.mask_token_id
        rows = len(self.before) + at - (1 if self.decoder else 0)
        logits = self.read(shown.tolist(), hooks).logits[0, rows].float()
        own = logits.gather(1, torch.tensor(np.array(ids)[at])[:, None])
        nats, rank = np.full(size, np.nan), np.zeros(size, dtype=np.int64)
        nats[at] = (logits.logsumexp(1) - own[:, 0]).numpy()
        rank[at] = (logits >= own - NEAR_TIE).sum(1).numpy()
        return Scored(nats, rank)

    def score_all(self, ids: tuple[int, ...] | list[int]) -> Scored:
        """Score every subword of a text, of a masked model each hidden by itself."""
        if self.decoder:
            return self.score(ids)
        single = [self.score(ids, masked=(at,)) for at in range(len(ids))]
        nats = np.array([one.nats[at] for at, one in enumerate(single)])
        return Scored(nats, np.array([one.rank[at] for at, one in enumerate(single)]))

    def projection(self, layer: int) -> Any:
        """Return the module whose input is what the heads of a layer give."""
        modules = dict(self.blocks[layer].named_modules())
        return next(modules[name] for name in _PROJECTIONS if name in modules)

    def residual(self, layer: int) -> Any:
        """Return the module whose input is the state behind a layer, 0 the embeddings."""
        return self.blocks[layer] if layer < len(self.blocks) else self.model.get_output_embeddings()

    @contextmanager
    def _hooked(self, hooks: tuple[Hook, ...] | list[Hook], size: int) -> Generator[None]:
        with ExitStack() as stack:
            for hook in hooks:
                handle = hook.module.register_forward_pre_hook(self._changing(hook, size), with_kwargs=True)
                stack.callback(handle.remove)
            yield

    def _changing(self, hook: Hook, size: int) -> Callable[..., Any]:
        begin = len(self.before)

        def change(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
            states = arguments[0] if arguments else named["hidden_states"]
            states = states.clone()
            states[0, begin : begin + size] = hook.change(states[0, begin : begin + size])
            if arguments:
                return (states, *arguments[1:]), named
            return arguments, {**named, "hidden_states": states}

        return change


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """A change of what goes into a module."""

    module: Any
    change: Change


def _read_split(file: Path) -> str:
    """Return llama.cpp's name of how a GGUF file's tokenizer splits texts; empty where it has none."""
    field = GGUFReader(file).fields.get("tokenizer.ggml.pre")
    return "" if field is None else str(field.contents())
