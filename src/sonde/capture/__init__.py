"""Capture: the only place where a model runs; requests in, reduced observations out."""
