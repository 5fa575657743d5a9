"""Experiments: a plan of jobs, and the run that carries it out."""

from sonde.experiments._experiment import Execution, Experiment, load_experiment
from sonde.experiments._progress import Advance, Progress, Silent
from sonde.experiments.overrides import default_output, overridden, parse_option

__all__ = [
    "Advance",
    "Execution",
    "Experiment",
    "Progress",
    "Silent",
    "default_output",
    "load_experiment",
    "overridden",
    "parse_option",
]
