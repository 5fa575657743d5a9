"""Bugs that people make, put into functions."""
