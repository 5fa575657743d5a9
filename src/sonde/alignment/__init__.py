"""Alignment: characters, subwords, code tokens and syntax nodes, many to many."""

from sonde.alignment.align import VERSION, align
from sonde.alignment.spans import Alignment, Coverage, Subwords
from sonde.alignment.subwords import encode, stretches, surfaces
from sonde.alignment.table import align_table

__all__ = [
    "VERSION",
    "Alignment",
    "Coverage",
    "Subwords",
    "align",
    "align_table",
    "encode",
    "stretches",
    "surfaces",
]
