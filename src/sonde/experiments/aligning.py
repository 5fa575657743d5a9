"""``sonde align``: the token table of one file."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from sonde.alignment import align_table
from sonde.base.errors import InputError, UsageError
from sonde.base.files import write_atomic
from sonde.corpora import Intake, language_of_path, read_text
from sonde.languages import LANGUAGES
from sonde.models import load_tokenizer, spec_of


def token_table(file: Path, model: str, language: str | None, *, merged: bool) -> pl.DataFrame:
    """The token table of a file for a model's tokenizer.

    Args:
        file: A file of code or text.
        model: Whose tokenizer.
        language: Public name; None takes it from the suffix, ``text`` where no language has that suffix.
        merged: One row a syntax leaf, as CODETOKENIZERS merges subwords.

    Raises:
        InputError: The file is missing or cannot be decoded, or the tokenizer gives no offsets.
    """
    if not file.is_file():
        raise InputError(f"file {str(file)!r}: no such file")
    intake = Intake()
    text = read_text(file, str(file), intake)
    if text is None:
        raise InputError(f"file {str(file)!r}: {', '.join(intake.counts)}")
    named = LANGUAGES.hand_in(language) if language else language_of_path(str(file))
    return text_table(text, model, named or "text", merged=merged)


def text_table(text: str, model: str, language: str, *, merged: bool) -> pl.DataFrame:
    """The token table of a text for a model's tokenizer; arguments and errors as of `token_table`."""
    return align_table(load_tokenizer(spec_of(model)), text, language, merged=merged)


def write_table(table: pl.DataFrame, output: Path) -> None:
    """Write a token table as CSV or Parquet, by suffix.

    Raises:
        UsageError: The suffix is another.
        StoreError: The file cannot be written.
    """
    if output.suffix == ".parquet":
        content = io.BytesIO()
        table.write_parquet(content)
        write_atomic(output, content.getvalue())
    elif output.suffix == ".csv":
        write_atomic(output, table.write_csv())
    else:
        raise UsageError(f"output {str(output)!r}: unknown suffix; write to .csv or .parquet")
