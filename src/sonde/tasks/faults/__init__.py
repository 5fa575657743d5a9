"""Faults inserted into functions by rule."""
