"""Sections of the lens `probe`."""
