"""Shared by all tasks: labels, data sets, sampling, faults, pairs and the baselines of the surface."""
