"""Labels, token tables and loaded models without a run.

The token table of a file is that of ``sonde align``.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Unpack

import polars as pl

from sonde.alignment import align_table
from sonde.base.errors import InputError, UsageError
from sonde.base.files import write_atomic
from sonde.corpora import SkipCounter, find_path_language, read_text
from sonde.experiments.arguments import (
    LabellingArguments,
    ModelArguments,
    Names,
    StrPath,
    collect_arguments,
)
from sonde.experiments.label_files import LabelOptions, Labels
from sonde.experiments.label_files import label_corpora as label_corpora
from sonde.languages import LANGUAGES
from sonde.models import LoadedModel, full_name, load_tokenizer, parse_spec
from sonde.models import load_model as load
from sonde.models.engine.model_names import NONE


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


class LabelArguments(LabellingArguments, total=False):
    """Keywords of `label`; None stands for "not given"."""

    raw: bool | None
    output: StrPath | None
    format: str | None


def label(task: StrPath, corpora: Names | None = None, **arguments: Unpack[LabelArguments]) -> pl.DataFrame:
    """Label corpora as ``sonde label`` does; needs no model.

        sonde.label("jft", "local:src", limit=100)

    Args:
        task: Public name, or a ``.py`` file.
        corpora: One corpus by name, or several.
        corpus: One corpus; the same as ``corpora``.
        languages: Only these.
        language: One language; the same as ``languages``.
        unit: What an item is: ``"function"`` or ``"file"``.
        limit: Examples of a data set; with ``raw`` the first items of each language.
        seed: Seed of sampling.
        raw: Label every item in order; balance nothing and leave nothing out.
        mode: ``"corrected"``, or ``"paper"``: as published, quirks included.
        quirks: Single quirks of a paper that are switched on.
        quirk: One quirk; the same as ``quirks``.
        executor: Where items are labelled; this machine by default. The labels are the same.
        address: Address of a Ray cluster, as ``HOST:PORT``; by default ``RAY_ADDRESS``, else this machine.
        workers: Processes at a time, by default 1.
        output: File to write as well; None for no file.
        format: That of the file: ``"sonde"`` (JSON lines) or that of a published data set.

    Returns:
        One row per label, in the columns of the JSON lines: ``id, label, value``; places in a text add
        ``span, start, end``, data sets (without ``raw``) ``split`` and ``text``, and other rows ``path``,
        ``name`` and ``line`` of what is labelled.

    Raises:
        UnknownNameError: A task, corpus, quirk, format or argument does not exist.
        UsageError: No corpus is given, or an argument is given in both forms.
        InputError: A class has too few examples for a data set, a corpus cannot be read, or there is nothing
            to label.
    """
    names = ("task", "corpora", *LabelArguments.__annotations__)
    values = collect_arguments("sonde.label", names, {"corpora": corpora, **arguments})
    if "corpora" not in values:
        raise UsageError("sonde.label takes a task and a corpus, as in sonde.label('jft', 'local:src')")
    labels = label_corpora(LabelOptions.from_arguments(str(task), values))
    if "output" in values:
        labels.write(values["output"])
    return _to_frame(labels)


def _to_frame(labels: Labels) -> pl.DataFrame:
    """Convert labels to a table; classes are text and values numbers, even if the first rows are null."""
    frame = pl.DataFrame(labels.rows(), infer_schema_length=None)
    kinds = {"label": pl.String, "value": pl.Float64}
    return frame.cast({name: kind for name, kind in kinds.items() if name in frame.columns})


def align(model: str, text: str | Path, *, language: str | None = None, merged: bool = False) -> pl.DataFrame:
    """Return the token table of one text: subwords, characters, code tokens, syntax nodes and tags.

    Args:
        model: Model whose tokenizer to use.
        text: A text, or the `Path` of a file.
        language: Public name, or the folder of a language; by default that of the file's suffix, and for a
            text without one ``text``, prose, which has no syntax.
        merged: One row per syntax leaf, as CODETOKENIZERS merges subwords.

    Returns:
        One row per subword; columns as `sonde.alignment.align_table` has them.

    Raises:
        UnknownNameError: No model or language has this name.
        InputError: The file is missing or cannot be decoded, or the tokenizer gives no offsets.
    """
    content, language_name = _read_source(text, language)
    return align_table(load_tokenizer(parse_spec(model)), content, language_name, merge_leaves=merged)


def align_functions(
    model: str, file: Path, *, language: str | None = None, merged: bool = False
) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Return the token table of a file, and the rows of each of its functions.

    Args:
        model: Model whose tokenizer to use.
        file: The file.
        language: As for `align`.
        merged: As for `align`.

    Returns:
        The table as `align` returns it, and its rows by qualified name of the function, in the order of the
        file. A row that lies partly outside a function belongs to it too. Of several functions with one name
        only the first is listed.

    Raises:
        UnknownNameError: As `align`.
        InputError: As `align`.
    """
    content, language_name = _read_source(file, language)
    table = align_table(load_tokenizer(parse_spec(model)), content, language_name, merge_leaves=merged)
    rows: dict[str, pl.DataFrame] = {}
    for function in LANGUAGES.load(language_name).functions(content):
        inside = (pl.col("start") < function.end) & (pl.col("end") > function.start)
        rows.setdefault(function.qualified_name, table.filter(inside))
    return table, rows


def _read_source(source: str | Path, language: str | None) -> tuple[str, str]:
    """Return a text and the public name of its language."""
    language_name = LANGUAGES.hand_in(language) if language else None
    if isinstance(source, Path):
        return _read_file(source), language_name or find_path_language(str(source)) or "text"
    return source, language_name or "text"


def _read_file(file: Path) -> str:
    if not file.is_file():
        raise InputError(f"file {str(file)!r}: no such file")
    intake = SkipCounter()
    text = read_text(file, str(file), intake)
    if text is None:
        raise InputError(f"file {str(file)!r}: {', '.join(intake.counts)}")
    return text


def load_model(name: str, **arguments: Unpack[ModelArguments]) -> LoadedModel:
    """Load a model with its tokenizer for `sonde.capture`, checked against a plain forward pass.

    Args:
        name: A path, hub name (``name@revision``) or bundled name (``sonde/mini-decoder``);
            ``name?adapter=PATH&quantise=8bit`` as for a run.
        device: ``"auto"`` by default, ``"cpu"``, ``"cuda"``, ...
        dtype: ``"auto"`` by default (that of its weights, but float32 for float16 on a CPU),
            ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"tf32"``.
        device_map: Placement of the parts of a model: ``"auto"``, or devices by module (also as a JSON file),
            ``"cpu"`` and ``"disk"`` among them; by default all on the device.
        adapter: A PEFT adapter over each model.
        quantise: ``"8bit"`` or ``"4bit"``: quantise linear layers with bitsandbytes.
        trust_remote_code: Let a hub model run its code.

    Raises:
        UnknownNameError: No model or argument has this name.
        InputError: It cannot be reached or read.
    """
    names = ("name", *ModelArguments.__annotations__)
    values = collect_arguments("sonde.load_model", names, arguments)
    full_model_name = full_name(
        name, adapter=values.pop("adapter", ""), quantise=values.pop("quantise", NONE)
    )
    return load(parse_spec(full_model_name, **values))
