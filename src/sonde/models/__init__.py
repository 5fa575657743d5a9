"""Models: any checkpoint that transformers loads, by path, hub name or bundled name."""

from sonde.models.engine.architectures import DecoderFamily, EncoderDecoderFamily, EncoderFamily
from sonde.models.engine.catalogue import CELLS, Checkpoint, known_checkpoints, known_models, size_text
from sonde.models.engine.configuration import tokenizer_stamps
from sonde.models.engine.convert import convert
from sonde.models.engine.derive import derive
from sonde.models.engine.device_map import device_map_text
from sonde.models.engine.family import (
    FAMILIES,
    Capabilities,
    Family,
    Gap,
    Infill,
    LoadedModel,
    ModelSpec,
    SpecialTokens,
)
from sonde.models.engine.load import (
    describe,
    describe_checkpoint,
    describe_special,
    load_model,
    resolve_revision,
    settle,
    trainable,
)
from sonde.models.engine.locate import pin, stored
from sonde.models.engine.model_names import (
    QUANTISATIONS,
    bundled_names,
    frequencies,
    full_name,
    manifest,
    seen_items,
    spec_of,
    split_family,
    split_revision,
)
from sonde.models.engine.tokenizer import load_tokenizer

__all__ = [
    "CELLS",
    "FAMILIES",
    "QUANTISATIONS",
    "Capabilities",
    "Checkpoint",
    "DecoderFamily",
    "EncoderDecoderFamily",
    "EncoderFamily",
    "Family",
    "Gap",
    "Infill",
    "LoadedModel",
    "ModelSpec",
    "SpecialTokens",
    "bundled_names",
    "convert",
    "derive",
    "describe",
    "describe_checkpoint",
    "describe_special",
    "device_map_text",
    "frequencies",
    "full_name",
    "known_checkpoints",
    "known_models",
    "load_model",
    "load_tokenizer",
    "manifest",
    "pin",
    "resolve_revision",
    "seen_items",
    "settle",
    "size_text",
    "spec_of",
    "split_family",
    "split_revision",
    "stored",
    "tokenizer_stamps",
    "trainable",
]
