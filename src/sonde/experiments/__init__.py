"""Experiments: a plan of jobs, and the run that carries it out."""

from sonde.experiments._experiment import Execution, Experiment, load_experiment
from sonde.experiments._progress import Advance, Progress, Silent
from sonde.experiments.overrides import default_output, overridden, written_options

__all__ = [
    "Advance",
    "Execution",
    "Experiment",
    "Progress",
    "Silent",
    "default_output",
    "load_experiment",
    "overridden",
    "written_options",
]
