"""What a command found, for a person or, with ``--json``, for a program; here alone that is decided.

With ``--json`` standard output holds one JSON object and nothing else: whatever else is printed while the
command works goes to standard error, beside its progress.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from sonde._options import with_parameters


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command found.

    Attributes:
        data: It as plain data; paths, tuples, dataclasses and models of pydantic may be in it.
        show: Prints it for a person.
        exit_code: How the command ends when it has been shown.
    """

    data: Mapping[str, Any]
    show: Callable[[], object]
    exit_code: int = 0


_Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]


def shown(command: Callable[..., Shown]) -> Callable[..., None]:
    """A command that prints what it found, with the option ``--json``."""

    @functools.wraps(command)
    def with_json(*, as_json: bool, **given: Any) -> None:
        if as_json:
            with redirect_stdout(sys.stderr):
                found = command(**given)
            sys.stdout.write(json_text(found.data))
        else:
            found = command(**given)
            found.show()
        if found.exit_code:
            raise typer.Exit(found.exit_code)

    option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Json)
    return with_parameters(with_json, command, [option])


def json_text(data: Mapping[str, Any]) -> str:
    r"""Data as JSON in ASCII, with null for what is not finite.

    >>> print(json_text({"value": float("nan"), "name": "\udc80"}), end="")
    {
      "value": null,
      "name": "\udc80"
    }
    """
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(data, inf_nan_mode="null", serialize_unknown=True)
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"
