"""Bugs that people make, inserted into functions."""
