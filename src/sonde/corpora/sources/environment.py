"""The distributions installed for this interpreter, without their tests.

``environment:attrs,rich`` reads these distributions; without names, all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import cast

from packaging.utils import canonicalize_name

from sonde.base.errors import UsageError
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.releases import is_test, parse_licence, select_safe_paths
from sonde.corpora.engine.source_files import find_language, read_text, suffix_table

SYNONYMS = ("site packages", "installed packages")

_OWN_NAME = "sonde"


def _metadata(distribution: Distribution) -> Message:
    # Typed as a protocol of its own, but an `email.message.Message` in every interpreter.
    return cast(Message, distribution.metadata)


def _is_editable(distribution: Distribution) -> bool:
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    return isinstance(origin, dict) and bool(origin.get("dir_info", {}).get("editable"))


def _find_distributions() -> dict[str, Distribution]:
    """Find distributions by normalised name; of two with the same name, the first on the path counts."""
    by_name: dict[str, Distribution] = {}
    for distribution in distributions():
        name = _metadata(distribution).get("Name")
        if name and canonicalize_name(name) != _OWN_NAME and not _is_editable(distribution):
            by_name.setdefault(canonicalize_name(name), distribution)
    return by_name


class Environment:
    """`environment`: cluster and repository are the distribution, by its normalised name."""

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield the distributions' files, read as text and never imported.

        Args:
            argument: Normalised names of distributions, joined by commas; empty means all.
            languages: Public names; empty means all.
            intake: Counts what is skipped, and files that two distributions claim as ``listed twice``.

        Raises:
            UsageError: A distribution that is not installed.
        """
        table = suffix_table(languages)
        distributions_by_name = _find_distributions()
        names = [canonicalize_name(name) for name in argument.split(",") if name]
        names = names or list(distributions_by_name)
        for name in names:
            if name not in distributions_by_name:
                raise UsageError(
                    f"corpus 'environment:{argument}': no distribution {name!r} is installed here"
                )
        paths: set[str] = set()
        for name in sorted(set(names)):
            distribution = distributions_by_name[name]
            # Parsed whenever it is asked for, which is not to be done for every file.
            metadata = _metadata(distribution)
            licence, version = parse_licence(metadata), str(metadata["Version"])
            for path in sorted(select_safe_paths(str(file) for file in distribution.files or ())):
                language = find_language(path, table)
                if language is None or is_test(path):
                    continue
                if path in paths:
                    intake.note("listed twice", path)
                    continue
                paths.add(path)
                text = read_text(Path(str(distribution.locate_file(path))), path, intake)
                if text is not None:
                    yield SourceFile(
                        path=path,
                        text=text,
                        language=language,
                        cluster=name,
                        repository=name,
                        licence=licence,
                        version=version,
                    )


source = Environment()
