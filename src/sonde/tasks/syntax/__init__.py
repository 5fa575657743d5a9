"""Syntax: constructs, relations and trees."""
