"""The definitions of a repository by name: what decides whether a call stays inside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, MutableMapping

from sonde.base.errors import InputError
from sonde.corpora import Item, SourceFile, content_key
from sonde.corpora._spread import AHEAD, ONE, ItemChunk, Spread, together
from sonde.languages import LANGUAGES, Definition, facet_of, has_facet
from sonde.languages._tagging import Tagging
from sonde.tasks._task import Repository, Task


def repositories(
    files: Iterable[SourceFile],
    spread: Spread = ONE,
    *,
    known: MutableMapping[str, list[Definition]] | None = None,
) -> dict[str, Repository]:
    """Index every function, method and class of the files by repository and name.

    Definitions whose name begins and ends with two underscores do not count: they are called by the
    language, and every repository has them (PERPLEXED, data preparation).

    Args:
        files: Files of a corpus, in any order; the answer does not depend on it.
        spread: Processes that read them; any number gives the same.
        known: What files were found to define before, by `sonde.corpora.content_key`; new ones are added.

    Returns:
        One repository for every name that a file has in ``repository``, empty ones included.
    """
    known = {} if known is None else known
    found: dict[str, dict[str, list[tuple[str, Definition]]]] = {}
    for some in together(files, times=AHEAD * spread.workers):
        keyed = [(content_key(file), file) for file in some]
        missing = {key: file for key, file in keyed if key not in known}
        answers = spread.of_files.over(_definitions, None, missing.values())
        known.update(zip(missing, (definitions for _, definitions in answers), strict=True))
        for key, file in keyed:
            names = found.setdefault(file.repository, defaultdict(list))
            for definition in known[key]:
                if not is_dunder(definition.name):
                    names[definition.name].append((file.path, definition))
    return {
        repository: Repository({name: tuple(sorted(places, key=_place)) for name, places in names.items()})
        for repository, names in found.items()
    }


def importing(
    files: Iterable[SourceFile], *, spread: Spread = ONE, known: MutableMapping[str, str] | None = None
) -> dict[str, Repository]:
    """Gather the import statements of the files by repository and path; no definition is indexed.

    Args:
        files: Files of a corpus.
        spread: Processes that read them; any number gives the same.
        known: Import statements that were found before, by `sonde.corpora.content_key`; new ones are added.
    """
    known = {} if known is None else known
    keyed = [(content_key(file), file) for file in files if has_facet(file.language, "tagging")]
    missing = {key: file for key, file in keyed if key not in known}
    answers = spread.of_files.over(_imports, None, missing.values())
    known.update(zip(missing, (imports for _, imports in answers), strict=True))
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for key, file in keyed:
        if known[key]:
            found[file.repository][file.path] = known[key]
    return {repository: Repository({}, imports) for repository, imports in found.items()}


def _definitions(part: ItemChunk[None, SourceFile]) -> list[list[Definition]]:
    """What some files define; runs in any process."""
    return [list(LANGUAGES.load(file.language).definitions(file.text)) for file in part.items]


def _imports(part: ItemChunk[None, SourceFile]) -> list[str]:
    """The import statements of some files; runs in any process."""
    return [facet_of(file.language, "tagging", Tagging).imports(file.text) for file in part.items]


def needs_imports(task: Task) -> bool:
    """Whether a task looks at what the items' files import, and at nothing else around them."""
    return bool(getattr(task, "needs_imports", False))


def is_dunder(name: str) -> bool:
    """Whether a name begins and ends with two underscores."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def repository_of(item: Item, known: Mapping[str, Repository]) -> Repository:
    """The repository of an item.

    Raises:
        InputError: The repository was not indexed, so that every call would wrongly look external.
    """
    if item.repository not in known:
        raise InputError(
            f"item {item.path!r}: repository {item.repository!r} is not indexed; "
            "pass its files to sonde.tasks.repositories"
        )
    return known[item.repository]


def elsewhere(name: str, path: str, repository: Repository) -> bool:
    """Whether a file other than ``path`` defines the name."""
    return any(where != path for where, _ in repository.definitions.get(name, ()))


def _place(entry: tuple[str, Definition]) -> tuple[str, int]:
    path, definition = entry
    return path, definition.start
