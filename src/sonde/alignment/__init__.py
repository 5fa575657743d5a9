"""Many-to-many alignment of subwords with characters, code tokens and syntax nodes."""

from sonde.alignment.align import VERSION, align, align_table, is_token_label
from sonde.alignment.subwords import (
    Alignment,
    Coverage,
    Subwords,
    encode,
    encode_batch,
    get_surfaces,
    split_segments,
)

__all__ = [
    "VERSION",
    "Alignment",
    "Coverage",
    "Subwords",
    "align",
    "align_table",
    "encode",
    "encode_batch",
    "get_surfaces",
    "is_token_label",
    "split_segments",
]
