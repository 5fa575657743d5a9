"""Sections of the lens `prompting`."""
