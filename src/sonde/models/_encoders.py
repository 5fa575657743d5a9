"""Encoders from outside: whatever gives a vector a text, handed in as a file or offered by a package.

    class Mine:
        weights = "all-MiniLM-L6-v2@c9745ed1"

        def encode(self, texts):
            return ...  # one row a text

    encoder = Mine()

``-m ./my_encoder.py`` reads it, and ``-m mine`` where a package offers it by the entry point `GROUP`. It has
no subwords, layers or heads: probes on whole functions read its vectors as those of one layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from sonde.base.errors import CaptureError, InputError, UsageError, not_finite
from sonde.base.files import expand_home
from sonde.base.fingerprint import fingerprint
from sonde.base.outside import content_hash, module_of, module_offered, offered, source_of
from sonde.models._family import Capabilities, ModelSpec

GROUP = "sonde.encoders"
"""Entry points of encoders, by the name that ``-m`` takes."""

VECTORS = Capabilities(
    kind="vectors", layers=0, heads=0, d_model=0, vocab=0, context=0, attention="none", masks=False
)


@runtime_checkable
class OutsideEncoder(Protocol):
    """An encoder; what it has as ``weights``, a text, is part of its revision beside its file."""

    def encode(self, texts: list[str], /) -> Any:
        """A vector a text, in order: an array of shape (text, width), or what becomes one."""
        ...


def is_encoder(spec: ModelSpec) -> bool:
    """Whether a model is an encoder from outside."""
    return spec.name.endswith(".py") or spec.name in offered(GROUP)


def load_encoder(spec: ModelSpec) -> OutsideEncoder:
    """The encoder that a name means.

    Raises:
        InputError: There is none, or it is no encoder.
        UsageError: Something is asked of its weights.
    """
    what = f"encoder {spec.name!r}"
    if spec.adapter or spec.quantise or spec.device_map:
        raise UsageError(f"{what} holds its weights itself; leave out adapter, quantise and device map")
    by_name = offered(GROUP)
    if spec.name in by_name:
        module = module_offered(by_name[spec.name], what)
    else:
        module = module_of(expand_home(spec.name), "sonde.models", what)
    encoder = getattr(module, "encoder", None)
    if isinstance(encoder, type) or not isinstance(encoder, OutsideEncoder):
        raise InputError(f"{what}: its file defines no `encoder`, an object with encode(texts)")
    return encoder


def encoder_revision(spec: ModelSpec) -> str:
    """Hash of the encoder's file and of what it says of its weights."""
    by_name = offered(GROUP)
    source = source_of(by_name[spec.name]) if spec.name in by_name else expand_home(spec.name)
    said = str(getattr(load_encoder(spec), "weights", ""))
    return fingerprint("encoder", "" if source is None else content_hash(source), said)[:32]


def encoded(spec: ModelSpec, texts: Sequence[str]) -> Float[np.ndarray, "text width"]:
    """What the encoder gives for some texts.

    Raises:
        InputError: It fails.
        CaptureError: It gives something else than a vector of finite numbers a text.
    """
    what = f"encoder {spec.name!r}"
    encoder = load_encoder(spec)
    try:
        found = np.asarray(encoder.encode(list(texts)), dtype=np.float32)
    except Exception as error:
        raise InputError(f"{what}: {type(error).__name__}: {error}".splitlines()[0]) from error
    if found.ndim != 2 or len(found) != len(texts):
        shape = " x ".join(map(str, found.shape))
        raise CaptureError(f"{what}: {len(texts)} texts gave an array of {shape}, not a row a text")
    if not np.isfinite(found).all():
        raise CaptureError(f"{what}: a vector is not finite; {not_finite()}")
    return found
