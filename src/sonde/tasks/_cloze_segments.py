"""The reference segmentation: which pieces of a level are asked for, the same for all models.

Levels are cut by one named tokenizer, each level alone, once. Its pieces only fix characters; what a model's
own tokenizer makes of the same characters is seen when the model is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from tokenizers import Tokenizer

from sonde.base.errors import InputError
from sonde.base.files import FileStamp, expand_home, file_stamps

REFERENCE = "sonde/mini-encoder"

FULL, FIRST, MIDDLE, LAST, WHOLE = "full", "first", "middle", "last", "whole"
MODES = (FULL, FIRST, MIDDLE, LAST, WHOLE)

_BUNDLED = "sonde/"


def segments(levels: Iterable[str], reference: str = REFERENCE) -> dict[str, tuple[str, ...]]:
    """The pieces of each level; a level whose pieces do not spell it is left out.

    Args:
        levels: Levels of names.
        reference: A bundled model's name, or a ``tokenizer.json`` or the folder that holds one.

    Raises:
        InputError: There is no such tokenizer.
    """
    tokenizer = _tokenizer(reference)
    wanted = sorted(set(levels))
    unknown = getattr(tokenizer.model, "unk_token", None)
    unknown_id = None if unknown is None else tokenizer.token_to_id(unknown)
    found: dict[str, tuple[str, ...]] = {}
    for level, encoding in zip(wanted, tokenizer.encode_batch(wanted, add_special_tokens=False), strict=True):
        changed = tokenizer.normalizer is not None and tokenizer.normalizer.normalize_str(level) != level
        pieces = tuple(level[start:end] for start, end in encoding.offsets)
        if not changed and unknown_id not in encoding.ids and all(pieces) and "".join(pieces) == level:
            found[level] = pieces
    return found


def blanks(pieces: tuple[str, ...]) -> Mapping[str, tuple[int, int]]:
    """For each masking mode the characters of a level that it asks for.

    One piece is asked for in full. Of several the first and the last are asked for (INK), of three or more
    also the one in the middle, and the level as a whole, whose answer then has several pieces.

    >>> dict(blanks(("zer", "os", "_like")))
    {'first': (0, 3), 'middle': (3, 5), 'last': (5, 10), 'whole': (0, 10)}
    """
    bounds = [0]
    for piece in pieces:
        bounds.append(bounds[-1] + len(piece))
    if len(pieces) == 1:
        return {FULL: (0, bounds[-1])}
    asked = {FIRST: (0, bounds[1])}
    if len(pieces) > 2:
        middle = len(pieces) // 2
        asked[MIDDLE] = (bounds[middle], bounds[middle + 1])
    return asked | {LAST: (bounds[-2], bounds[-1]), WHOLE: (0, bounds[-1])}


def _tokenizer(reference: str) -> Tokenizer:
    if reference.startswith(_BUNDLED):
        path = Path(str(files("sonde"))) / "models" / "bundled" / reference.removeprefix(_BUNDLED)
    else:
        path = expand_home(reference)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise InputError(
            f"reference segmentation {reference!r}: no tokenizer.json there; name {REFERENCE} or such a file"
        )
    return _read_tokenizer(path, reference, file_stamps([path]))


@lru_cache(maxsize=4)
def _read_tokenizer(path: Path, reference: str, stamps: tuple[FileStamp, ...]) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        reason = str(error).splitlines()[0][:80]
        raise InputError(f"reference segmentation {reference!r}: not a tokenizer ({reason})") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
