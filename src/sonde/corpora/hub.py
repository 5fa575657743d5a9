"""A data set of the Hugging Face hub, or a folder that holds one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qsl

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.corpora._columns import ColumnMap, column_map
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._decode import is_usable
from sonde.corpora._splits import SPLIT_OF
from sonde.languages import LANGUAGES

_OPTIONS = ("config", "split", "streaming")


@dataclass(frozen=True, slots=True)
class _Request:
    """``NAME[@REV][?config=..&split=..&streaming=..]``, parsed."""

    name: str
    revision: str | None
    config: str | None
    split: str | None
    streaming: bool


def _parse(argument: str) -> _Request:
    location, _, query = argument.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(options.keys() - set(_OPTIONS))
    if unknown:
        raise UsageError(
            f"corpus 'hub:{argument}': unknown option {unknown[0]!r}; known: {', '.join(_OPTIONS)}"
        )
    if not location:
        raise UsageError("corpus 'hub' needs a data set; name it as hub:NAME[@REV][?config=..&split=..]")
    name, at, revision = location.partition("@")
    if expand_home(location).is_dir():
        name, at, revision = str(expand_home(location)), "", ""
    streaming = options.get("streaming", "no").lower() in ("", "1", "true", "yes")
    return _Request(name, revision if at else None, options.get("config"), options.get("split"), streaming)


class Hub:
    """`hub:NAME[@REV][?config=..&split=..&streaming=..]`, where NAME may be a folder.

    Known are CodeSearchNet, github-code, ETH Py150 Open and JEMMA, by their columns. Without a split, all
    of them are read. Rows in a language that sonde does not know are counted as ``other language``.
    Cluster and repository are the row's repository; rows without one are clusters of their own. Rows of
    CodeSearchNet keep the split that they were published with.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """Yield one file a row, splits by name and rows in order.

        Raises:
            InputError: The data set cannot be loaded, or no column map fits it.
            UsageError: An unknown option.
        """
        request = _parse(argument)
        corpus = f"hub:{argument}"
        known = {name.casefold(): name for name in languages or LANGUAGES.names()}
        for split, rows in sorted(_load(corpus, request).items()):
            mapping: ColumnMap | None = None
            for number, row in enumerate(rows):
                mapping = mapping or column_map(corpus, row)
                file = _file(row, mapping, f"{split}/{number}", known)
                if file is None:
                    intake.note("other language", f"{split}/{number}")
                elif is_usable(file.text, file.path, intake):
                    yield file


def _file(
    row: Mapping[str, Any], mapping: ColumnMap, number: str, known: dict[str, str]
) -> SourceFile | None:
    def value(column: str) -> str:
        return str(row.get(column) or "") if column else ""

    language = known.get((mapping.only or value(mapping.language)).casefold())
    if language is None:
        return None
    repository = value(mapping.repository)
    if not repository and mapping.unit == "file":
        # The paths of ETH Py150 begin with owner and repository.
        repository = "/".join(PurePosixPath(value(mapping.path)).parts[:2])
    place = "/".join(filter(None, (number, value(mapping.repository), value(mapping.path))))
    return SourceFile(
        path=place,
        text=value(mapping.code),
        language=language,
        cluster=repository or place,
        repository=repository or place,
        licence=value(mapping.licence),
        unit=mapping.unit,
        name=value(mapping.name),
        split=SPLIT_OF.get(value(mapping.split).casefold(), ""),
    )


def _load(corpus: str, request: _Request) -> dict[str, Any]:
    """Splits by name. `datasets` is imported here alone: it takes a second and no other source needs it."""
    import datasets

    folder = Path(request.name)
    try:
        if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
            loaded = datasets.load_from_disk(request.name)
            if request.split is not None and isinstance(loaded, datasets.DatasetDict):
                loaded = loaded[request.split]
        else:
            loaded = datasets.load_dataset(
                request.name,
                request.config,
                split=request.split,
                revision=request.revision,
                streaming=request.streaming,
            )
    except Exception as error:
        # The library raises its own, the hub client's, pyarrow's and the network's errors alike.
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"corpus {corpus!r} cannot be loaded: {reason}") from error
    if isinstance(loaded, dict):
        return {str(split): rows for split, rows in loaded.items()}
    return {request.split or "all": loaded}


source = Hub()
