"""Models: any checkpoint that transformers loads, by path, hub name or bundled name."""

from sonde.models.engine.architectures import DecoderFamily, EncoderDecoderFamily, EncoderFamily
from sonde.models.engine.catalogue import (
    CELLS,
    Checkpoint,
    LocalCopy,
    known_checkpoints,
    locate_checkpoints,
)
from sonde.models.engine.configuration import tokenizer_stamps
from sonde.models.engine.convert import convert_checkpoint
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
    derive_checkpoint,
    describe_checkpoint,
    describe_model,
    describe_special,
    is_trainable,
    load_model,
    resolve_auto,
    resolve_revision,
    wrap_model,
)
from sonde.models.engine.locate import pin_revision, point_to_folder
from sonde.models.engine.model_names import (
    QUANTISATIONS,
    bundled_names,
    find_training_file,
    full_name,
    manifest,
    parse_spec,
    read_frequencies,
    seen_items,
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
    "LocalCopy",
    "ModelSpec",
    "SpecialTokens",
    "bundled_names",
    "convert_checkpoint",
    "derive_checkpoint",
    "describe_checkpoint",
    "describe_model",
    "describe_special",
    "device_map_text",
    "find_training_file",
    "full_name",
    "is_trainable",
    "known_checkpoints",
    "load_model",
    "load_tokenizer",
    "locate_checkpoints",
    "manifest",
    "parse_spec",
    "pin_revision",
    "point_to_folder",
    "read_frequencies",
    "resolve_auto",
    "resolve_revision",
    "seen_items",
    "split_family",
    "split_revision",
    "tokenizer_stamps",
    "wrap_model",
]
