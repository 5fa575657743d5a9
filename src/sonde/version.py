"""The version of sonde, below everything else, so that any module can ask for it."""

__version__ = "0.1.0"
