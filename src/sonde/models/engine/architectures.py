"""The three kinds of language model, where their parts are in a loaded model, and infilling tokens.

`DecoderFamily`, `EncoderFamily` and `EncoderDecoderFamily` cover what kinds of models share; the file of a
family states how its architecture differs. `Sites` name the places where a model can be changed during a
forward pass: its layers, the heads in them, and the module that produces its last states.
`find_infill_tokens` finds the tokens by which a decoder fills in what is left out of a text, by the names
that tokenizers give them. A tokenizer that has such tokens does not show that its model was trained with
them: the model's card does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from sonde.base.errors import CaptureError, InputError
from sonde.models.engine import config_values
from sonde.models.engine.family import Capabilities, Gap, Infill, ModelSpec, SpecialTokens
from sonde.models.engine.weights import read_weights

_SIGNS: tuple[tuple[str, str, str | None], ...] = (
    # StarCoder, StarCoder2, StableCode, Refact, Granite Code.
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    # SantaCoder.
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    # Qwen2.5-Coder, CodeGemma.
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    # DeepSeek-Coder: begin, hole, end.
    ("<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"),
    # Code Llama.
    ("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"),
    # Codestral, which is shown what follows the gap first and writes right behind what precedes it.
    ("[PREFIX]", "[SUFFIX]", None),
)
"""What stands before the text that precedes a gap, before what follows it, and before what is written."""


def find_infill_tokens(tokenizer: Any, vocab: int) -> Infill | None:
    """Return the tokens by which a decoder is asked to fill in, or None if the tokenizer has none.

    Args:
        tokenizer: A tokenizer of transformers.
        vocab: Ids that the model has an embedding for.
    """
    for names in _SIGNS:
        prefix_id, suffix_id, write = (
            None if name is None else find_token_id(tokenizer, name, vocab) for name in names
        )
        if prefix_id is not None and suffix_id is not None and (write is not None or names[2] is None):
            return Infill(before=prefix_id, behind=suffix_id, write=write, reversed=names[2] is None)
    return None


def find_token_id(tokenizer: Any, name: str, vocab: int) -> int | None:
    """Return the id of a token, or None if the tokenizer or the model does not have it."""
    token_id = tokenizer.convert_tokens_to_ids(name)
    is_known = (
        isinstance(token_id, int) and token_id < vocab and tokenizer.convert_ids_to_tokens(token_id) == name
    )
    return token_id if is_known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNames:
    """Names of one side's parts, below the body; of several names the first that the model has counts.

    Attributes:
        layers: The list of layers.
        heads: In a layer, the projection that mixes what its heads give; its input is one slice a head.
        cross: The same of attention to the other side, in the same layers.
        final: What gives the last states behind all layers, a norm; where there is none, the last layer does.
        count: Fields of the configuration that say how many query heads a layer has.
    """

    layers: tuple[str, ...]
    heads: tuple[str, ...]
    cross: tuple[str, ...] = ()
    final: tuple[str, ...] = ()
    count: tuple[str, ...] = ("num_attention_heads", "n_head", "num_heads")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelStack:
    """One side of a loaded model.

    Attributes:
        layers: Its layers, in order.
        heads: Output projections of their attention.
        cross: Output projections of their attention to the other side; empty where there is none.
        final: The module whose output the last states are, where that is not the last layer.
        count: Query heads per layer.
    """

    layers: tuple[Any, ...]
    heads: tuple[Any, ...]
    cross: tuple[Any, ...]
    final: Any | None
    count: int


Sites = Mapping[str, ModelStack]
"""The sides of a model: ``"encoder"``, ``"decoder"``."""


def find_sites(body: Any, module_names: Mapping[str, ModuleNames], model: Any) -> Sites:
    """Find the layers and heads of each side of a model.

    Args:
        body: What their names begin at.
        module_names: Of each side.
        model: The whole, for its configuration.

    Raises:
        CaptureError: The model has no such modules.
    """
    return {side: _side(body, names, model) for side, names in module_names.items()}


def _side(body: Any, module_names: ModuleNames, model: Any) -> ModelStack:
    layers = _first(body, module_names.layers)
    if layers is None or not len(layers):
        raise CaptureError(
            f"model class {type(model).__name__}: its family does not declare its layers, so it "
            "cannot be changed; read it unchanged"
        )
    heads = tuple(_first(layer, module_names.heads) for layer in layers)
    cross = tuple(_first(layer, module_names.cross) for layer in layers) if module_names.cross else ()
    return ModelStack(
        layers=tuple(layers),
        heads=heads,
        cross=cross,
        final=_first(body, module_names.final),
        count=config_values.number(config_values.text_config(model.config), *module_names.count),
    )


def _first(module: Any, names: tuple[str, ...]) -> Any | None:
    """Return the first of several parts that a module has, or None."""
    for name in names:
        submodule = module
        for part in name.split("."):
            submodule = getattr(submodule, part, None)
            if submodule is None:
                break
        else:
            return submodule
    return None


_DECODER = {
    "decoder": ModuleNames(
        layers=("layers", "h", "decoder.layers", "blocks"),
        heads=(
            *("self_attn.o_proj", "self_attn.out_proj", "self_attn.dense", "attn.c_proj", "attn.out_proj"),
            *("attn.attention.out_proj", "attention.dense", "self_attention.dense", "attention.o_proj"),
        ),
        final=(
            *("norm", "ln_f", "final_layernorm", "final_layer_norm", "norm_f"),
            *("decoder.final_layer_norm", "decoder.layer_norm"),
        ),
    )
}
"""Decoders as transformers builds them."""


_ENCODER = {
    "encoder": ModuleNames(
        layers=("encoder.layer", "layers", "transformer.layer"),
        heads=("attention.output.dense", "attn.Wo", "attention.out_lin"),
        final=("final_norm",),
    )
}
"""Encoders as transformers builds them."""


_BART = {
    "encoder": ModuleNames(
        layers=("encoder.layers",),
        heads=("self_attn.out_proj",),
        final=("encoder.layer_norm",),
        count=("encoder_attention_heads",),
    ),
    "decoder": ModuleNames(
        layers=("decoder.layers",),
        heads=("self_attn.out_proj",),
        cross=("encoder_attn.out_proj",),
        final=("decoder.layer_norm",),
        count=("decoder_attention_heads",),
    ),
}


def _width(config: Any) -> int:
    return config_values.number(config, "hidden_size", "n_embd", "d_model")


def _pad(tokenizer: Any, vocab: int) -> int:
    for candidate in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if candidate is not None and candidate < vocab:
            return int(candidate)
    return 0


def _template(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that the tokenizer puts before and after a text, read off its post-processing."""
    ids = tokenizer("a")["input_ids"]
    text_ids = tokenizer("a", add_special_tokens=False)["input_ids"]
    prefix_length = next(
        (start for start in range(len(ids)) if ids[start : start + len(text_ids)] == text_ids), 0
    )
    return tuple(ids[:prefix_length]), tuple(ids[prefix_length + len(text_ids) :])


def _framed_text(tokenizer: Any, config: Any) -> SpecialTokens:
    """Return the ids around a text that is read from both sides, and the mask."""
    prefix, suffix = _template(tokenizer)
    pad = _pad(tokenizer, config_values.number(config, "vocab_size"))
    return SpecialTokens(
        bos=None, bos_source="none", prefix=prefix, suffix=suffix, pad=pad, mask=tokenizer.mask_token_id
    )


def _saved_as_decoder(config: Any) -> bool:
    class_names = config_values.architectures(config)
    return any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in class_names)


def _by_prefix(model: Any) -> tuple[Any, Any]:
    """Return the body, by the name that its class has for it, and the model's own head."""
    from sonde.models.engine.lm_head import build_head

    body = getattr(model, model.base_model_prefix, None)
    if body is None:
        raise InputError(
            f"model class {type(model).__name__} has no body apart from its head; sonde cannot read it"
        )
    return body, build_head(model, model.base_model_prefix)


def _like_bart(model: Any) -> tuple[Any, Any]:
    """Return body and head of a model whose encoder and decoder are together in ``model``."""
    from sonde.models.engine.lm_head import build_head

    return model.model, build_head(model, "model", states="decoder_inputs_embeds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureFamily:
    """Base of the families of all three kinds.

    Attributes:
        kind: ``"decoder"``, ``"encoder"`` or ``"encoder-decoder"``.
        auto_class: The class of transformers that picks the architecture.
        model_types: Of transformers' configurations; None takes every model of the kind.
        context: Positions by configuration, where it is not simply named there.
        separate: From a model to its body and head.
        places: Where the layers and heads of each side are.
    """

    kind: ClassVar[str]
    auto_class: ClassVar[str]

    model_types: frozenset[str] | None = None
    context: Callable[[Any], int] = config_values.context
    separate: Callable[[Any], tuple[Any, Any]] = _by_prefix
    places: Mapping[str, ModuleNames]

    def load(self, spec: ModelSpec, config: Any) -> Any:
        """Load the model with its head."""
        return read_weights(self.auto_class, spec, config)

    def body_and_head(self, model: Any) -> tuple[Any, Any]:
        """Return the body, whose states are those of the last side, and the head from states to logits."""
        return self.separate(model)

    def sites(self, model: Any) -> Sites:
        """Return the places where a model can be changed during a forward pass."""
        return find_sites(getattr(model, model.base_model_prefix, model), self.places, model)

    def _class(self, config: Any) -> Any:
        return config_values.model_class(self.kind, config)

    def _single_stack(self, config: Any, *, head: bool = True) -> Capabilities:
        """Describe a model with only a decoder or only an encoder."""
        text = config_values.text_config(config)
        return Capabilities(
            kind=self.kind,
            layers=config_values.number(text, "num_hidden_layers", "n_layer", "num_layers"),
            heads=config_values.number(text, "num_attention_heads", "n_head", "num_heads"),
            d_model=_width(text),
            vocab=config_values.number(text, "vocab_size"),
            context=self.context(text),
            attention=config_values.attention(self._class(config), text),
            masks=True,
            head=head,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderFamily(ArchitectureFamily):
    """Models that read from left to right and predict the next subword."""

    kind: ClassVar[str] = "decoder"
    auto_class: ClassVar[str] = "AutoModelForCausalLM"

    places: Mapping[str, ModuleNames] = field(default_factory=lambda: _DECODER)

    def matches(self, config: Any) -> bool:
        """Return whether this family takes a configuration."""
        if self.model_types is not None:
            return config.model_type in self.model_types
        if self.auto_class in (getattr(config, "auto_map", None) or {}):
            return True
        # The decoder of an encoder-decoder is a causal model only where it was saved as one.
        is_encoder_decoder = getattr(config, "is_encoder_decoder", False) and not _saved_as_decoder(config)
        return not is_encoder_decoder and self._class(config) is not None

    def capabilities(self, config: Any) -> Capabilities:
        """Describe a model by its configuration."""
        return self._single_stack(config)

    def special_tokens(self, tokenizer: Any, config: Any) -> SpecialTokens:
        """Return BOS if the tokenizer has it, else EOS, else nothing; and the infilling tokens."""
        vocab = config_values.number(config_values.text_config(config), "vocab_size")
        tokens = ((source, getattr(tokenizer, f"{source}_token_id")) for source in ("bos", "eos"))
        candidates = [(source, int(token)) for source, token in tokens if token is not None and token < vocab]
        source, bos = candidates[0] if candidates else ("none", None)
        return SpecialTokens(
            bos=bos,
            bos_source=source,
            added=_template(tokenizer)[0],
            pad=_pad(tokenizer, vocab),
            infill=find_infill_tokens(tokenizer, vocab),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderFamily(ArchitectureFamily):
    """Models that see both sides; those with a masked head predict what stands under a mask."""

    kind: ClassVar[str] = "encoder"
    auto_class: ClassVar[str] = "AutoModelForMaskedLM"

    places: Mapping[str, ModuleNames] = field(default_factory=lambda: _ENCODER)

    def matches(self, config: Any) -> bool:
        """Return whether this family takes a configuration."""
        if getattr(config, "is_decoder", False) or getattr(config, "is_encoder_decoder", False):
            return False
        if self.model_types is not None:
            return config.model_type in self.model_types
        return not _saved_as_decoder(config) and self._class(config) is not None

    def capabilities(self, config: Any) -> Capabilities:
        """Describe a model by its configuration; its files tell later whether there is a head."""
        class_names = config_values.architectures(config)
        return self._single_stack(
            config, head=not class_names or config_values.names_language_model(class_names)
        )

    def special_tokens(self, tokenizer: Any, config: Any) -> SpecialTokens:
        """Return the ids that the tokenizer puts around a text, and its mask."""
        return _framed_text(tokenizer, config_values.text_config(config))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderFamily(ArchitectureFamily):
    """Models with an encoder that sees both sides and a decoder that writes.

    Attributes:
        gap: From tokenizer, configuration, and the ids put before and after a text, to how a gap is filled;
            None where the tokenizer has no sign for one, or pre-training left none.
    """

    kind: ClassVar[str] = "encoder-decoder"
    auto_class: ClassVar[str] = "AutoModelForSeq2SeqLM"

    separate: Callable[[Any], tuple[Any, Any]] = _like_bart
    gap: Callable[[Any, Any, tuple[int, ...], tuple[int, ...]], Gap | None]
    places: Mapping[str, ModuleNames] = field(default_factory=lambda: _BART)

    def matches(self, config: Any) -> bool:
        """Return whether this family takes a configuration."""
        is_known_type = self.model_types is not None and config.model_type in self.model_types
        return is_known_type and bool(getattr(config, "is_encoder_decoder", True))

    def capabilities(self, config: Any) -> Capabilities:
        """Describe a model by its configuration; layers of both sides are counted together.

        Raises:
            InputError: The decoder writes with a vocabulary of its own.
        """
        if not getattr(config, "share_encoder_decoder_embeddings", True):
            raise InputError(
                f"model {config.name_or_path!r}: its decoder has a vocabulary of its own, and sonde gives "
                "both sides the same subwords"
            )
        encoder = config_values.number(config, "encoder_layers", "num_layers")
        decoder = config_values.number(config, "decoder_layers", "num_decoder_layers", default=encoder)
        return Capabilities(
            kind=self.kind,
            layers=encoder + decoder,
            heads=config_values.number(config, "encoder_attention_heads", "num_heads"),
            d_model=_width(config),
            vocab=config_values.number(config, "vocab_size"),
            context=self.context(config),
            attention=config_values.attention(self._class(config), config),
            masks=True,
        )

    def special_tokens(self, tokenizer: Any, config: Any) -> SpecialTokens:
        """Return the ids around a text; the decoder starts from its configured id."""
        text_tokens = _framed_text(tokenizer, config)
        start = getattr(config, "decoder_start_token_id", None)
        gap = self.gap(tokenizer, config, text_tokens.prefix, text_tokens.suffix)
        return replace(text_tokens, bos=start, bos_source="none" if start is None else "bos", gap=gap)
