"""Cache of what functions give data sets: their length, why they are left out, and their labelled places.

The splits of a data set are dealt by the classes of all functions of a corpus, so a small data set labels as
many functions as a large one. That is done once on a machine: another limit, lens, model or run, and the run
after its plan, find the labels here. There is a file per task, seed and set of repositories, with an entry
per function. A function that has changed is labelled again; rules that have changed have a file of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from operator import attrgetter
from typing import Any, TypeVar

from sonde.base.fingerprint import fingerprint, hash_text
from sonde.corpora import Item
from sonde.corpora.engine.content_cache import hash_sources, open_cache
from sonde.languages import LANGUAGES
from sonde.store.parts import TableCache
from sonde.tasks.engine.task import Repository

_FOLDER = "labels"


_MINIMUM_ITEMS = 500
"""Functions below which labelling takes less than a second."""


_MAXIMUM_GROWTH = 4
"""Entries per function of the pool above which a new file is begun."""


Answer = TypeVar("Answer")


@contextmanager
def cached_labels(
    items: Sequence[Item],
    decode: Callable[[Any], Answer],
    encode: Callable[[Answer], Any],
    *rules: Any,
) -> Generator[MutableMapping[str, Answer]]:
    """Open the answers about the functions of a pool, by `label_keys`.

    Nothing is kept of a small pool, of a user's own language, or if the machine keeps no tables of runs
    (``SONDE_CACHE_SIZE=0``).

    Args:
        items: The functions, all of one language.
        decode: Converts a JSON value to an answer.
        encode: Converts an answer to a JSON value.
        rules: What else the answers depend on, besides the sources of sonde's languages, corpora and tasks.
    """
    is_own = bool(items) and LANGUAGES.is_own(items[0].language)
    if len(items) < _MINIMUM_ITEMS or not is_own or not TableCache.from_environment().maximum:
        yield {}
        return
    repositories = sorted({item.repository for item in items})
    with open_cache(decode, encode, _FOLDER, repositories, *rules, _hash_task_sources()) as answers:
        if len(answers) > _MAXIMUM_GROWTH * len(items):
            # Most of them are of functions that have changed since.
            answers.clear()
        yield answers


_get_other_fields = attrgetter(*[field.name for field in dataclasses.fields(Item) if field.name != "text"])


def hash_items(items: Iterable[Item]) -> dict[str, str]:
    """Return a hash of all that is known of each item, by item id."""
    # The text as it is: its representation takes longer than its hash.
    return {item.item_id: hash_text(f"{_get_other_fields(item)!r}{item.text}") for item in items}


def label_keys(
    items: Iterable[Item], hashes: Mapping[str, str], repositories: Mapping[str, Repository] = {}
) -> dict[str, str]:
    """Return the key of each item's answer, by item id: the item and what its file imports.

    Args:
        items: The items.
        hashes: Their hashes; see `hash_items`.
        repositories: What the task may know of the files around.
    """
    import_hashes = {
        (name, path): hash_text(imports)
        for name, repository in repositories.items()
        for path, imports in repository.imports.items()
    }
    return {
        item.item_id: hashes[item.item_id] + import_hashes.get((item.repository, item.path), "")
        for item in items
    }


@cache
def _hash_task_sources() -> str:
    return fingerprint([hash_sources(files(package)) for package in ("sonde.tasks", "sonde.corpora")])
