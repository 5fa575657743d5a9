"""Sections of the lens `surprisal`."""
