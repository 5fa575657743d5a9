"""Sections of the lens `attention`."""
