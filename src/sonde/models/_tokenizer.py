"""A model's tokenizer, read once for each state of its files; no weight is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sonde.base.errors import InputError
from sonde.base.files import FileStamp
from sonde.models._configuration import config_of, tokenizer_stamps, unweighted
from sonde.models._family import ModelSpec
from sonde.models._fetch import fetch
from sonde.models._files import file_of, read_object
from sonde.models._plbart import FILE, plbart_tokenizer
from sonde.models._preflight import check_tokenizer, tokenizer_fault
from sonde.models._resolve import locate
from sonde.models._tokenizer_file import like_its_file, may_be_read_from_file


def load_tokenizer(spec: ModelSpec) -> Any:
    """Return a model's fast tokenizer, which cuts texts as its tokenizer.json does where it has one.

    Raises:
        UnknownNameError: No model has this name.
        InputError: It cannot be reached, or gives no character offsets.
    """
    return _read_tokenizer(unweighted(spec), tokenizer_stamps(spec))[0]


def tokenizer_fact(spec: ModelSpec) -> str:
    """Return which class a model's tokenizer has and how it compares with its tokenizer.json, as a clause."""
    return _read_tokenizer(unweighted(spec), tokenizer_stamps(spec))[1]


@lru_cache(maxsize=4)
def _read_tokenizer(spec: ModelSpec, stamps: tuple[FileStamp, ...]) -> tuple[Any, str]:
    from transformers import AutoTokenizer

    own = _published_by_pieces(spec)
    if own is not None:
        return own, f"made from its {FILE}"
    old = _old_special_tokens(spec)
    try:
        tokenizer = fetch(AutoTokenizer, spec, **old)
    except InputError as error:
        if (reason := tokenizer_fault(spec)) is not None:
            raise InputError(f"model {spec.name!r}: {reason}") from error
        if not may_be_read_from_file(spec):
            raise
        tokenizer = None
    tokenizer, fact = like_its_file(spec, tokenizer, old)
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            f"model {spec.name!r}: {type(tokenizer).__name__} is a tokenizer without offsets; "
            "save a fast one (tokenizer.json) beside the model"
        )
    check_tokenizer(spec, tokenizer)
    return tokenizer, fact


def _published_by_pieces(spec: ModelSpec) -> Any | None:
    """The tokenizer of a model that transformers reads without character offsets, where we can."""
    place = locate(spec)
    if file_of(place, "config.json") is None or config_of(spec).model_type != "plbart":
        return None
    pieces = file_of(place, FILE)
    if pieces is None or file_of(place, "tokenizer.json") is not None:
        return None
    settings = file_of(place, "tokenizer_config.json")
    return plbart_tokenizer(pieces, {} if settings is None else read_object(settings, spec.name), spec.name)


def _old_special_tokens(spec: ModelSpec) -> dict[str, Any]:
    """What transformers 5 does not read by itself: additional tokens written without their type (CodeT5)."""
    path = file_of(locate(spec), "special_tokens_map.json")
    listed = read_object(path, spec.name) if path is not None else {}
    more = listed.get("additional_special_tokens", [])
    if not any(isinstance(token, dict) and "__type" not in token for token in more):
        return {}
    from transformers import AddedToken

    return {
        "extra_special_tokens": [AddedToken(**token) if isinstance(token, dict) else token for token in more]
    }
