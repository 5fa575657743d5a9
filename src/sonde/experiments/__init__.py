"""Experiments: a plan of jobs, and the run that carries it out."""

from sonde.experiments.arguments import default_output, overridden, written_options
from sonde.experiments.experiment import Execution, Experiment, load_experiment
from sonde.experiments.progress import Advance, Progress, Silent

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
