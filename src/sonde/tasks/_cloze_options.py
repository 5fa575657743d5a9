"""What a user may choose about quizzes, from options by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.tasks._cloze_candidates import MOST
from sonde.tasks._cloze_quizzes import Wanted
from sonde.tasks._cloze_segments import REFERENCE
from sonde.tasks._cloze_statements import TEMPLATES

PER_LIBRARY = 50
FRAMED = 0.05

MASKED, CANDIDATES, PLL = "masked", "candidates", "pll"
OBJECTIVES = (MASKED, CANDIDATES, PLL)

OPTIONS: Mapping[str, str] = {
    "templates": f"which statements are asked about, with commas (default {','.join(TEMPLATES)})",
    "reference": f"tokenizer that cuts names into pieces: a bundled model or a tokenizer.json ({REFERENCE})",
    "per_library": f"names of a library at most, so that no large one decides (default {PER_LIBRARY})",
    "within": "'file' for every call, 'function' for those inside functions alone (default file)",
    "propagate": "true: calls on what an imported name gave count, one step far (default false)",
    "training": "a corpus by name: names of its libraries count as seen, for models that do not say what "
    "they were trained on",
    "frames": "share of the names whose calls and imports are also asked with other code around them, for "
    f"the spread (default {FRAMED})",
    "contexts": "at most so many lines of words before a statement, each a quiz of its own (default 0)",
    "queries": "JSON file of words by name, in place of the first lines of documentation",
    "separator": "what stands between words and statement (default a newline)",
    "objective": "masked: a piece is left out; candidates: whole statements with each of several names, "
    "which decoders score from left to right and other models by pseudo-log-likelihood (default where a "
    "decoder is among the models); pll: the same, without decoders",
    "candidates": f"names for each level at most, with candidates and pll (default {MOST})",
}


def wanted_of(options: Mapping[str, Any], size: int, seed: int) -> Wanted:
    """The quizzes that options describe.

    Raises:
        UsageError: An option that makes no sense.
        InputError: The file of queries cannot be read.
    """
    contexts = _whole(options, "contexts", 0, least=0)
    per_library = _whole(options, "per_library", PER_LIBRARY, least=1)
    named = str(options.get("templates", ",".join(TEMPLATES)))
    return Wanted(
        templates=tuple(one.strip() for one in named.split(",") if one.strip()),
        reference=str(options.get("reference", REFERENCE)),
        contexts=contexts,
        queries=_queries(str(options["queries"])) if "queries" in options else {},
        separator=str(options.get("separator", "\n")),
        framed=_share(options, "frames", FRAMED),
        per_library=per_library,
        candidates=0 if objective_of(options) == MASKED else _candidates(options),
        limit=size,
        seed=seed,
    )


def objective_of(options: Mapping[str, Any]) -> str:
    """How answers are scored.

    Raises:
        UnknownNameError: There is no such objective.
    """
    objective = str(options.get("objective", MASKED))
    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, OBJECTIVES)
    return objective


def _candidates(options: Mapping[str, Any]) -> int:
    value = _whole(options, "candidates", MOST, least=2)
    if value > MOST:
        raise UsageError(f"option candidates = {value!r} is more than {MOST}")
    return value


def _whole(options: Mapping[str, Any], name: str, default: int, *, least: int) -> int:
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"option {name} = {value!r} is not a whole number of at least {least}")
    return value


def _share(options: Mapping[str, Any], name: str, default: float) -> float:
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(f"option {name} = {value!r} is not a share between 0 and 1")
    return float(value)


def propagate_of(options: Mapping[str, Any]) -> bool:
    """Whether calls on what an imported name gave count.

    Raises:
        UsageError: The option is neither true nor false.
    """
    value = options.get("propagate", False)
    if not isinstance(value, bool):
        raise UsageError(f"option propagate = {value!r} is neither true nor false")
    return value


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
