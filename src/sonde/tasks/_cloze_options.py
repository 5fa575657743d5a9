"""What a user may choose about quizzes, from options by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.tasks._cloze_quizzes import Wanted
from sonde.tasks._cloze_segments import REFERENCE
from sonde.tasks._cloze_statements import TEMPLATES

OPTIONS: Mapping[str, str] = {
    "templates": f"which statements are asked about, with commas (default {','.join(TEMPLATES)})",
    "reference": f"tokenizer that cuts names into pieces: a bundled model or a tokenizer.json ({REFERENCE})",
    "within": "'file' for every call, 'function' for those inside functions alone (default file)",
    "contexts": "at most so many lines of words before a statement, each a quiz of its own (default 0)",
    "queries": "JSON file of words by name, in place of the first lines of documentation",
    "separator": "what stands between words and statement (default a newline)",
}


def wanted_of(options: Mapping[str, Any], size: int, seed: int) -> Wanted:
    """The quizzes that options describe.

    Raises:
        UsageError: An option that makes no sense.
        InputError: The file of queries cannot be read.
    """
    contexts = options.get("contexts", 0)
    if isinstance(contexts, bool) or not isinstance(contexts, int) or contexts < 0:
        raise UsageError(f"option contexts = {contexts!r} is not a whole number; give 0 for none")
    named = str(options.get("templates", ",".join(TEMPLATES)))
    return Wanted(
        templates=tuple(one.strip() for one in named.split(",") if one.strip()),
        reference=str(options.get("reference", REFERENCE)),
        contexts=contexts,
        queries=_queries(str(options["queries"])) if "queries" in options else {},
        separator=str(options.get("separator", "\n")),
        limit=size,
        seed=seed,
    )


def within_of(options: Mapping[str, Any]) -> str:
    """Which calls count."""
    return str(options.get("within", "file"))


def _queries(name: str) -> Mapping[str, Sequence[str]]:
    path = Path(name).expanduser()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"queries {name!r}: no such file") from None
    except ValueError:
        raise InputError(f"queries {name!r}: not JSON") from None
    if not isinstance(found, dict) or not all(_is_words(words) for words in found.values()):
        raise InputError(f'queries {name!r}: not of the form {{"name": ["words", ...]}}')
    return found


def _is_words(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)
