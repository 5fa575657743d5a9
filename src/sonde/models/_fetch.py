"""What transformers reads by a model's name, and one line where it cannot."""

from __future__ import annotations

from typing import Any

from sonde.base.errors import InputError, UnknownNameError
from sonde.models._catalogue import known_models
from sonde.models._family import ModelSpec
from sonde.models._files import revision_of
from sonde.models._quiet import one_line, quiet
from sonde.models._resolve import locate

_ABSENT = ("RepositoryNotFoundError", "GatedRepoError", "RevisionNotFoundError")


def fetch(auto_class: Any, spec: ModelSpec, **more: Any) -> Any:
    place = locate(spec)
    try:
        with quiet():
            return auto_class.from_pretrained(
                place.name,
                revision=revision_of(place),
                trust_remote_code=spec.trust_remote_code,
                **more,
            )
    except Exception as error:
        raise _fault(spec, error, local=place.local) from error


def _fault(spec: ModelSpec, error: BaseException, *, local: bool) -> Exception:
    line = one_line(error)
    # What transformers says begins with the name of the folder, which may be longer than a line.
    if "trust_remote_code" in str(error):
        return InputError(
            f"model {spec.name!r} brings code of its own, which only `sonde run --trust-remote-code` and, in "
            "Python, trust_remote_code=True let run"
        )
    if local:
        return InputError(f"model {spec.name!r}: cannot be read: {line}")
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ in _ABSENT:
            known = [header.name for header in known_models()]
            return UnknownNameError("model", spec.name, known, "or it is private: log in to the hub")
        cause = cause.__cause__ or cause.__context__
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:
        revision = f" at {spec.revision!r}" if spec.revision else ""
        return InputError(
            f"model {spec.name!r}: HF_HUB_OFFLINE is set, and the cache of the hub on this machine does not "
            f"hold it{revision}; fetch it once with a network, or name a folder"
        )
    return InputError(
        f"model {spec.name!r}: no folder or bundled model has this name and the hub gave none: {line}; "
        "see `sonde list models`"
    )
