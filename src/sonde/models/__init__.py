"""Models: any checkpoint that transformers loads, by path, hub name or bundled name."""

from sonde.base.registry import Registry
from sonde.models._bundled import bundled_names, frequencies, manifest, seen_items
from sonde.models._catalogue import CELLS, Checkpoint, known_checkpoints, known_models, size_text
from sonde.models._configuration import tokenizer_stamps
from sonde.models._convert import convert
from sonde.models._derive import derive
from sonde.models._family import Capabilities, Family, Gap, Infill, LoadedModel, ModelSpec, SpecialTokens
from sonde.models._kinds import DecoderFamily, EncoderDecoderFamily, EncoderFamily
from sonde.models._load import (
    describe,
    describe_checkpoint,
    describe_special,
    load_model,
    resolve_revision,
    settle,
    trainable,
)
from sonde.models._naming import QUANTISATIONS, full_name, spec_of, split_family, split_revision
from sonde.models._placing import device_map_text
from sonde.models._revision import pin
from sonde.models._stored import stored
from sonde.models._tokenizer import load_tokenizer

FAMILIES: Registry[Family] = Registry("sonde.models", "model family", "family", protocols=(Family,))

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
