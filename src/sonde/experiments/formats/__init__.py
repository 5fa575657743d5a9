"""File formats of ``sonde label``: ours and those of the published data sets."""

from sonde.base.registry import Registry
from sonde.experiments.formats._form import FileFormat, Labelled

FORMATS: Registry[FileFormat] = Registry(
    "sonde.experiments.formats", "label format", "form", protocols=(FileFormat,)
)

__all__ = ["FORMATS", "FileFormat", "Labelled"]
