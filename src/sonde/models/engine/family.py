"""Types that describe a model: specification, capabilities, loaded model, family, contents.

`LoadedModel` is what a model is to sonde after loading, `Family` what a family file has to provide.
`Contents` records what a checkpoint holds: only the body, or also the head of the class that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from sonde.base.errors import InputError
from sonde.base.fingerprint import NOT_IN_KEYS, OMITTED_AT_DEFAULT
from sonde.base.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Abilities and sizes of a model; plain data, so that plans and lenses need no torch.

    Attributes:
        kind: ``"decoder"``, ``"encoder"`` or ``"encoder-decoder"``.
        layers: Number of layers without the embeddings (of the encoder and decoder side together).
        heads: Attention heads per layer.
        d_model: Width of the hidden states.
        vocab: Size of the output vocabulary.
        context: Positions that the model can take at once.
        attention: ``"interface"`` (a registered attention function is called), ``"eager"`` or ``"none"``.
        masks: Whether it can be asked for what is left out of a text: by a mask token, of an
            encoder-decoder by a gap that its decoder fills, of a decoder by tokens for filling in.
        head: Whether its files hold the head that scores subwords; without it there are states and attention.
    """

    kind: str
    layers: int
    heads: int
    d_model: int
    vocab: int
    context: int
    attention: str
    masks: bool
    head: bool = True

    @property
    def lacks(self) -> str:
        """The part that it lacks to score subwords, such as ``"no mask token"``; empty if it lacks none."""
        if not self.head:
            return "no masked-LM head" if self.kind == "encoder" else "no language-model head"
        if self.masks or self.kind in ("decoder", "endpoint"):
            return ""
        return "no mask token" if self.kind == "encoder" else "no token for a gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The way to ask an encoder-decoder for a gap in a text, as in its pre-training.

    Attributes:
        sign: Id that stands in the encoder's text for all that is left out.
        before: Ids that the decoder reads first.
        repeats: Whether the decoder writes the whole text again, and so reads what stands before the gap
            (BART); else it writes what is left out alone (T5).
    """

    sign: int
    before: tuple[int, ...]
    repeats: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Infill:
    """The way to ask a decoder for a gap in a text: both sides are shown, then it writes.

    Bavarian et al. 2022, "Efficient training of language models to fill in the middle".

    Attributes:
        before: Id that stands before what precedes the gap.
        behind: Id that stands before what follows it.
        write: Id behind which the decoder writes; None where it writes on right behind what was shown last.
        reversed: Whether what follows the gap is shown first.
    """

    before: int
    behind: int
    write: int | None
    reversed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """The special-token policy of a model, explicit because it decides scores.

    Attributes:
        bos: Id that stands before the text of a decoder so that its first subword can be scored; None where
            the model has none, and then the first subword is not scored.
        bos_source: ``"bos"``, ``"eos"`` (used in its place, as in lm-evaluation-harness) or ``"none"``.
        added: Ids that the tokenizer of a decoder puts before a text by itself; often none though the model
            has a start token.
        prefix: Ids that the family puts before the text (``[CLS]``).
        suffix: Ids that the family puts after it (``[SEP]``).
        pad: Id used for padding; always masked out, so its value never matters.
        mask: Id of the mask token, or None.
        gap: How what is left out of a text is asked for, of an encoder-decoder that can be asked so.
        infill: The same of a decoder.
    """

    bos: int | None
    bos_source: str
    added: tuple[int, ...] = ()
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    pad: int = 0
    mask: int | None = None
    gap: Gap | None = None
    infill: Infill | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model as a run names it; plain data that travels to worker processes.

    Attributes:
        name: A path, a hub name or a bundled name (``sonde/mini-decoder``); ``name@revision`` is split, and
            ``./family.py:name`` is read by the model family of that file.
        revision: Hub revision; empty means the default branch.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
        dtype: ``"auto"``, ``"float32"``, ``"float16"``, ``"bfloat16"``; auto is what the weights were saved
            in, but float32 in the place of float16 on a processor.
        trust_remote_code: Off unless the user asks.
        reinitialise: Seed of the random weights of a control; None keeps the trained ones.
        gguf: The GGUF file of a folder or of a name on the hub; empty for a saved model, and where the name
            is the file.
        adapter: A PEFT adapter over the model, by path or hub name; empty for none.
        quantise: ``"8bit"`` or ``"4bit"``: how bitsandbytes holds the linear layers; empty for as they are.
        device_map: Where the parts of the model lie, as accelerate takes it: ``"auto"`` or the like, or a
            JSON object of devices by module; empty for all on the device.
        content: Commit or hash that the files must have when they are loaded; empty takes whatever is
            there. Keys name it by the revision.
    """

    name: str
    revision: str = ""
    device: str = "auto"
    dtype: str = "auto"
    trust_remote_code: bool = False
    reinitialise: int | None = None
    gguf: str = field(default="", metadata=OMITTED_AT_DEFAULT)
    adapter: str = field(default="", metadata=OMITTED_AT_DEFAULT)
    quantise: str = field(default="", metadata=OMITTED_AT_DEFAULT)
    device_map: str = field(default="", metadata=OMITTED_AT_DEFAULT)
    content: str = field(default="", metadata=NOT_IN_KEYS)

    @property
    def full_name(self) -> str:
        """The name with revision, file, adapter and quantisation, which identifies the weights of a run."""
        options = (("gguf", self.gguf), ("adapter", self.adapter), ("quantise", self.quantise))
        suffix = "&".join(f"{option}={value}" for option, value in options if value)
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.name}{revision}{'?' if suffix else ''}{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model ready for capture.

    Attributes:
        spec: What was asked for.
        revision: What was loaded: a hub commit, or a hash of the local weights.
        model: The transformers module in evaluation mode, on its device, with its head.
        tokenizer: A fast tokenizer with character offsets.
        capabilities: What it can be asked for.
        special: Its special-token policy.
        family: Public name of the family file that loaded it.
        takes_padding: Whether a row reads the same beside a longer one; else rows are batched by length.
        alone: Whether what a row gives depends on the rows beside it, so that each is read by itself.
        facts: How its weights were read, for ``run.json``.
    """

    spec: ModelSpec
    revision: str
    model: Any
    tokenizer: Any
    capabilities: Capabilities
    special: SpecialTokens
    family: str
    takes_padding: bool = True
    alone: bool = False
    facts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def device(self) -> Any:
        """The device of inputs: the one that computes the embeddings, wherever their weights are."""
        return computing_device(self.model)


@runtime_checkable
class Family(Protocol):
    """One file per model family: what transformers' configuration does not say by itself."""

    def matches(self, config: Any) -> bool:
        """Return whether this family takes a transformers configuration."""
        ...

    def capabilities(self, config: Any) -> Capabilities:
        """Describe a model by its configuration, before any weight is read."""
        ...

    def load(self, spec: ModelSpec, config: Any) -> Any:
        """Load the transformers module with the head that scores text, from safetensors only."""
        ...

    def special_tokens(self, tokenizer: Any, config: Any) -> SpecialTokens:
        """Return the special-token policy for this tokenizer."""
        ...

    def body_and_head(self, model: Any) -> tuple[Any, Any]:
        """Return the part that gives hidden states, and the callable from states to logits.

        The head is everything between the last hidden state and the logits (a masked model's transform
        layer and bias, a decoder's projection and soft-capping), so that capture can project chosen
        positions only.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The parts of a class that a checkpoint's files contain besides the body.

    Attributes:
        head: Whether there is a head.
        tied: Whether all of its weights are the body's, its input embeddings.
    """

    head: bool
    tied: bool


_of_models: WeakKeyDictionary[Any, Contents] = WeakKeyDictionary()


def set_contents(model: Any, contents: Contents) -> None:
    """Note what the files of a model held when it was read."""
    _of_models[model] = contents


def get_contents(model: Any) -> Contents | None:
    """Return the contents of the files that a model was read from, or None if it is from no file."""
    return _of_models.get(model)


def check_head_available(loaded_model: LoadedModel) -> None:
    """Refuse to score or write with a model whose files hold no head.

    Raises:
        InputError: They hold the body alone.
    """
    if not loaded_model.capabilities.head:
        raise InputError(
            f"model {loaded_model.spec.name!r} has {loaded_model.capabilities.lacks}: its files "
            "have only its body; use its states or attention, or name a checkpoint saved with "
            "its head"
        )


def iterate_hooks(module: Any) -> Iterator[Any]:
    """Yield accelerate's hooks around a module."""
    hook = getattr(module, "_hf_hook", None)
    yield from getattr(hook, "hooks", () if hook is None else (hook,))


def computing_device(model: Any) -> Any:
    """Return the device that a model's inputs go to: where its embeddings compute."""
    import torch

    embeddings = model.get_input_embeddings()
    # Perceiver's are a parameter alone.
    for module in embeddings.modules() if isinstance(embeddings, torch.nn.Module) else ():
        for hook in iterate_hooks(module):
            if (device := getattr(hook, "execution_device", None)) is not None:
                return torch.device(device)
    return next(parameter for parameter in model.parameters() if parameter.device.type != "meta").device


FAMILIES: Registry[Family] = Registry(
    "sonde.models.families", "model family", "family", protocols=(Family,), group="sonde.models"
)
