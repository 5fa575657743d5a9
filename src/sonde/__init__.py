"""sonde: what does a language model of code know, where does it keep it, and how sure can we be?

    import sonde

    run = sonde.run("sonde/mini-decoder", "local:src", lens="surprisal", limit=50)
    run.scores       # a polars frame, one row per number
    run.page         # the page, one file

Everything here is imported when it is first used, so that ``import sonde`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sonde.version import __version__ as __version__

if TYPE_CHECKING:
    from sonde import capture
    from sonde.api.compare import card, compare
    from sonde.api.gate import gate
    from sonde.api.gate_callback import GateCallback
    from sonde.api.label import align, label, load_model
    from sonde.api.results import Run, read_scores
    from sonde.api.run import run
    from sonde.api.show import show
    from sonde.experiments.experiment import Experiment
    from sonde.training.finetune.predict import FineTuned

__all__ = [
    "Experiment",
    "FineTuned",
    "GateCallback",
    "Run",
    "align",
    "capture",
    "card",
    "compare",
    "gate",
    "label",
    "load_model",
    "read_scores",
    "run",
    "show",
]

_MODULES = {
    "Experiment": "sonde.experiments",
    "FineTuned": "sonde.training.finetune.predict",
    "GateCallback": "sonde.api.gate_callback",
    "Run": "sonde.api.results",
    "align": "sonde.api.label",
    "card": "sonde.api.compare",
    "compare": "sonde.api.compare",
    "gate": "sonde.api.gate",
    "label": "sonde.api.label",
    "load_model": "sonde.api.label",
    "read_scores": "sonde.api.results",
    "run": "sonde.api.run",
    "show": "sonde.api.show",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    # A package becomes an attribute by its import; what a module defines is kept, so that this is asked once.
    value = (
        getattr(import_module(_MODULES[name]), name) if name in _MODULES else import_module(f"sonde.{name}")
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
