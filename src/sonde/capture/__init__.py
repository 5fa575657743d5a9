"""Capture: the only place where a model runs; requests in, reduced observations out."""

VERSION = "1"
"""Raised whenever a captured number may change; part of the fingerprint of every observation."""

__all__ = ["VERSION"]
