"""What a command found, for a person or, with ``--json``, for a program; here alone that is decided.

With ``--json`` standard output holds one JSON object and nothing else: whatever else is printed while the
command works goes to standard error, beside its progress.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Set
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sonde.base.errors import UsageError
from sonde.base.terminal import write_text
from sonde.cli.options import with_parameters


@dataclass(frozen=True, slots=True)
class CommandOutput:
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


def with_json_option(command: Callable[..., CommandOutput]) -> Callable[..., None]:
    """A command that prints what it found, with the option ``--json``; its paths are of this machine."""
    return with_addresses()(command)


def with_addresses(*names: str) -> Callable[[Callable[..., CommandOutput]], Callable[..., None]]:
    """Make a command as `with_json_option` does, with parameters that may be addresses (``s3://bucket/run``).

    Args:
        names: These parameters. In place of another path an address would be a folder named ``s3:``.
    """

    def decorate(command: Callable[..., CommandOutput]) -> Callable[..., None]:
        return _wrap_command(command, frozenset(names))

    return decorate


def _wrap_command(command: Callable[..., CommandOutput], addresses: Set[str]) -> Callable[..., None]:
    @functools.wraps(command)
    def with_json(*, as_json: bool, **given: Any) -> None:
        _refuse_addresses({name: value for name, value in given.items() if name not in addresses})
        if as_json:
            with redirect_stdout(sys.stderr):
                found = command(**given)
            write_text(json_text(found.data))
        else:
            found = command(**given)
            found.show()
        if found.exit_code:
            raise typer.Exit(found.exit_code)

    option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Json)
    return with_parameters(with_json, command, [option])


def _refuse_addresses(given: Mapping[str, Any]) -> None:
    from sonde.store.address import parse_address

    for value in given.values():
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path) and (address := parse_address(path)):
                raise UsageError(
                    f"{address} is an address, and here a path of this machine is needed; write there, and "
                    "copy it"
                )


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
