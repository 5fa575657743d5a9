"""Experiments: a plan of jobs, and the run that carries it out."""
