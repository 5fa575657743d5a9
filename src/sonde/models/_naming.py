"""A model as a user names it: ``[FAMILY.py:]NAME[@REVISION][?gguf=FILE&adapter=PATH&quantise=8bit]``."""

from __future__ import annotations

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.files import expand_home
from sonde.models._family import ModelSpec

PREFIX = "openai:"
"""What stands before the name of a model that a server with OpenAI's protocol runs."""

NONE = "none"
QUANTISATIONS = (NONE, "8bit", "4bit")
"""How bitsandbytes may hold the weights of linear layers: as they are, in 8 bits (LLM.int8) or in 4 (NF4)."""

_OPTIONS = ("gguf", "adapter", "quantise")
"""What may stand behind the question mark, in the order in which names in tables have it."""


def split_revision(name: str) -> tuple[str, str]:
    """Split ``name@revision``; a folder whose path holds an ``@`` is a name.

    >>> split_revision("bigcode/santacoder@dedup")
    ('bigcode/santacoder', 'dedup')
    >>> split_revision("gpt2")
    ('gpt2', '')
    """
    if "@" not in name or expand_home(name).is_dir():
        return name, ""
    bare, _, revision = name.rpartition("@")
    return bare, revision


def split_family(name: str) -> tuple[str, str]:
    """Split ``FAMILY.py:MODEL`` into the file of a model family and the model; the file is empty without one.

    >>> split_family("./my_family.py:./checkpoint")
    ('./my_family.py', './checkpoint')
    >>> split_family("gpt2")
    ('', 'gpt2')
    """
    stem, found, model = name.partition(".py:")
    return (f"{stem}.py", model) if found else ("", name)


def split_options(name: str) -> tuple[str, dict[str, str]]:
    """Split what stands behind the question mark of a name; a folder whose path holds one is a name.

    >>> split_options("gpt2?quantise=8bit")
    ('gpt2', {'quantise': '8bit'})

    Raises:
        UnknownNameError: An option or a quantisation that there is not.
        UsageError: Something else than ``option=value`` stands there.
    """
    if "?" not in name or name.startswith(PREFIX) or expand_home(split_family(name)[1]).is_dir():
        return name, {}
    bare, _, written = name.partition("?")
    options: dict[str, str] = {}
    for part in written.split("&"):
        option, equals, value = part.partition("=")
        if option not in _OPTIONS:
            raise UnknownNameError(f"option of model {name!r}", option, _OPTIONS)
        if not equals or not value or option in options:
            raise UsageError(
                f"model {name!r}: {part!r} is not OPTION=VALUE, each once; for example {bare}?quantise=8bit"
            )
        options[option] = value
    if (asked := options.get("quantise", NONE)) not in QUANTISATIONS:
        raise UnknownNameError(f"quantise of model {name!r}", asked, QUANTISATIONS)
    return bare, options


def full_name(name: str, *, adapter: str = "", quantise: str = NONE) -> str:
    """A name with what holds for all models of a run, unless the name says otherwise by itself.

    >>> full_name("gpt2?adapter=./lora", quantise="8bit")
    'gpt2?adapter=./lora&quantise=8bit'
    >>> full_name("gpt2?quantise=none", quantise="8bit")
    'gpt2'

    Raises:
        UsageError: The name cannot be read, or is that of a model behind a server.
    """
    bare, own = split_options(name)
    if name.startswith(PREFIX):
        if adapter or quantise != NONE:
            raise UsageError(
                f"model {name!r} is behind a server, which holds its weights; leave out --adapter and "
                "--quantise"
            )
        return name
    held = {"gguf": NONE, "adapter": adapter or NONE, "quantise": quantise} | own
    asked = [f"{option}={held[option]}" for option in _OPTIONS if held[option] != NONE]
    return f"{bare}?{'&'.join(asked)}" if asked else bare


def spec_of(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    device_map: str = "",
    trust_remote_code: bool = False,
) -> ModelSpec:
    """What is loaded for a name.

    Args:
        name: As a user writes it.
        device: Where it runs.
        dtype: Type of its numbers.
        device_map: Where its parts lie, as text; empty for all on the device.
        trust_remote_code: Whether a model's own code may run.

    Raises:
        UsageError: The name cannot be read.
    """
    bare, options = split_options(name)
    bare, revision = split_revision(bare)
    held = {option: value for option, value in options.items() if value != NONE}
    return ModelSpec(
        name=bare,
        revision=revision,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        gguf=held.get("gguf", ""),
        adapter=held.get("adapter", ""),
        quantise=held.get("quantise", ""),
        device_map=device_map,
    )
