"""Shared code of lenses: the protocol, its defaults, tables of observations."""
