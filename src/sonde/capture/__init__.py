"""Capture: the only place where a model runs; requests in, reduced observations out."""

from sonde.capture.settings import VERSION, CaptureSettings

__all__ = ["VERSION", "CaptureSettings"]
