"""The command line of sonde, a file a group of commands."""

from sonde.cli.commands import app, main

__all__ = ["app", "main"]
