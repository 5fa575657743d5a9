"""Sections of the lens `cloze`."""
