"""Sweeps: one option after the other takes several values, and each is trained and evaluated by itself."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.options import Option, guessed
from sonde.lenses._lens import LensSettings, Method
from sonde.results.dimensions import Dimensions

SWEPT = frozenset(
    {
        *("fraction", "examples", "length", "epochs", "batch", "rates", "frozen", "pooling"),
        *("warmup", "decay"),
        *("dropout", "patience", "precision", "cut", "head", "class_weights", "pointer_epochs", "lora_rank"),
        *("scratch_rates", "scratch_epochs"),
        *("baseline_rates", "baseline_epochs", "subwords", "vocabulary", "embedding", "lstm_layers"),
        *("lstm_width", "lstm_dropout", "transformer_layers", "transformer_width", "word2vec_epochs"),
    }
)
"""Options that may take several values in one run."""

_WHOLE = ("examples", "all")
"""The value of an option that means no limit, as it is written in a sweep."""

_APART = frozenset({"methods", "seeds", "sweep", "external_test"})
"""Options that say what is trained, not how."""


@dataclass(frozen=True, slots=True)
class SweepVariant:
    """One value for each swept option.

    Attributes:
        name: As ``fraction=0.33;epochs=2``; empty where nothing is swept.
        options: The values.
    """

    name: str
    options: Mapping[str, Option]

    @property
    def dimensions(self) -> Dimensions:
        """Its dimensions of the scores; none where nothing is swept."""
        return tuple((name, value_text(name, value)) for name, value in self.options.items())

    def settings(self, base: LensSettings) -> LensSettings:
        """Settings with these values."""
        return dataclasses.replace(base, options={**base.options, **self.options})


def variants(settings: LensSettings) -> tuple[SweepVariant, ...]:
    """Every combination of swept values, the first option's values outermost.

    The option ``sweep`` reads ``NAME: VALUE, VALUE; NAME: VALUE, VALUE``.

    Raises:
        UsageError: The sweep cannot be read, or names an option or a value twice.
        UnknownNameError: An option that cannot be swept.
    """
    written = settings.options.get("sweep", "")
    if not isinstance(written, str):
        raise _unreadable(written)
    swept: dict[str, list[Option]] = {}
    for part in filter(None, map(str.strip, written.split(";"))):
        name, colon, values = (one.strip() for one in part.partition(":"))
        given = [value.strip() for value in values.split(",")]
        if not colon or not all(given):
            raise _unreadable(written)
        if name not in SWEPT:
            raise UnknownNameError("option to sweep in lens 'finetune'", name, SWEPT)
        if name in swept or len(set(given)) < len(given):
            raise UsageError(f"lens 'finetune': option sweep = {written!r} names something twice")
        swept[name] = [0 if (name, value) == _WHOLE else guessed(value) for value in given]
    return tuple(
        SweepVariant(
            ";".join(f"{name}={value_text(name, value)}" for name, value in zip(swept, values, strict=True)),
            dict(zip(swept, values, strict=True)),
        )
        for values in itertools.product(*swept.values())
    )


def arm_of(
    name: str,
    task: str,
    settings: LensSettings,
    variant: SweepVariant,
    *,
    number: int = 0,
    needs_model: bool = True,
    only: frozenset[str] | None = None,
) -> Method:
    """A method with the options that its training depends on.

    Args:
        name: What is trained.
        task: On which task.
        settings: What the user chose.
        variant: The values of what is swept.
        number: Which of several seeds, from 0.
        needs_model: See `Method`.
        only: Names of all options that it knows; None for every option of a training.
    """
    known = {
        option: value
        for option, value in variant.settings(settings).options.items()
        if option not in _APART and (only is None or option in only)
    }
    kept = [part for part in variant.name.split(";") if part.partition("=")[0] in known]
    return Method(
        name=name,
        task=task,
        seed=settings.seed + number,
        needs_model=needs_model,
        variant=";".join(kept),
        options=tuple(sorted(known.items())),
    )


def within(part: str, whole: str) -> bool:
    """Whether every value of one variant is among those of another.

    >>> within("fraction=0.5", "fraction=0.5;epochs=2"), within("", "epochs=2"), within("epochs=2", "")
    (True, True, False)
    """
    return set(filter(None, part.split(";"))) <= set(whole.split(";"))


def _unreadable(written: object) -> UsageError:
    return UsageError(
        f"lens 'finetune': option sweep = {written!r}: expected NAME: VALUE, VALUE, for example "
        "fraction: 0.33, 0.66, 1"
    )


def value_text(name: str, value: Option) -> str:
    """A swept value of an option as scores and item tables name it."""
    if (name, value) == (_WHOLE[0], 0):
        return _WHOLE[1]
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
