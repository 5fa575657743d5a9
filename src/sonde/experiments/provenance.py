"""Where a number comes from: versions of what can change it, and the machine it was computed on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from sonde.languages import LANGUAGES, get_language_version
from sonde.version import __version__

_COMPUTING = ("torch", "transformers", "tokenizers", "tree-sitter")
_SCORING = ("polars", "numpy", "scipy")


def list_versions() -> dict[str, str]:
    """Versions of sonde, of the libraries that compute, and of each language's grammar and rules."""
    found = {"sonde": __version__, "python": platform.python_version()}
    found |= {name: _find_version(name) for name in (*_COMPUTING, *_SCORING)}
    return found | {f"language {name}": get_language_version(name) for name in LANGUAGES.names()}


def list_computing_versions(language: str) -> dict[str, str]:
    """Versions of what an observation in one language depends on."""
    return {name: _find_version(name) for name in _COMPUTING} | {"language": get_language_version(language)}


def _find_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def describe_hardware() -> dict[str, str | int]:
    """What computed: architecture, cores, system. No host name, no user name."""
    return {
        "machine": platform.machine(),
        "processor": _processor_name(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
    }


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123  a device file, not a path of ours
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
