"""Capture: the only place where a model runs; requests in, reduced observations out."""

from sonde.capture.settings import VERSION, CaptureOptions, CaptureSettings

__all__ = ["VERSION", "CaptureOptions", "CaptureSettings"]
