"""What no bundled model may be trained on, by name alone."""

from __future__ import annotations

from sonde.base.fingerprint import unit_hash

_SHARE = 0.3


def reserved(name: str) -> bool:
    """Whether a distribution or JDK package is held out of every training run: 30 % of names, by hash.

    The name decides, so that a later version, and a package nobody has seen yet, falls the same way.

    Args:
        name: The normalised name of a distribution or the name of a JDK package: the ``cluster`` that
            the sources `environment`, `pypi` and `jdk` give.
    """
    return unit_hash("reserved", name) < _SHARE
