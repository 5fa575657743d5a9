"""Experiments: a plan of jobs, and the run that carries it out."""

from sonde.experiments.arguments import default_output, merge_overrides, parse_options
from sonde.experiments.experiment import Execution, Experiment, load_experiment

__all__ = ["Execution", "Experiment", "default_output", "load_experiment", "merge_overrides", "parse_options"]
