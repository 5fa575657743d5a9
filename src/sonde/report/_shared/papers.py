"""The papers that the lenses' methods are from: one file of BibTeX entries, which lenses name by key."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from sonde.results.formats import join_names

_FIELD = re.compile(r"^  (\w+) = \{(.*)\},?$", re.MULTILINE)


@cache
def entries() -> dict[str, str]:
    """Every entry by its key, in the order of the file."""
    text = (files("sonde.report") / "_shared/papers.bib").read_text(encoding="utf-8")
    return {
        part.partition("{")[2].partition(",")[0]: part.strip() for part in text.split("\n\n") if part.strip()
    }


def bibtex(keys: Iterable[str]) -> str:
    """Entries one below the other, each once.

    Raises:
        KeyError: No entry has this key.
    """
    return "\n\n".join(entries()[key] for key in dict.fromkeys(keys))


def reference(key: str) -> str:
    """An entry as a line for a reader.

    >>> reference("hewitt2019control").partition(". ")[0]
    'John Hewitt and Percy Liang (2019)'

    Raises:
        KeyError: No entry has this key.
    """
    held = {name: re.sub(r"[{}]", "", value) for name, value in _FIELD.findall(entries()[key])}
    names = [" ".join(reversed(name.split(", "))) for name in held["author"].split(" and ")]
    who = join_names(names)
    where = held.get("journal") or held["booktitle"]
    stop = "" if held["title"].endswith("?") else "."
    return f"{who} ({held['year']}). {held['title']}{stop} {where}."
