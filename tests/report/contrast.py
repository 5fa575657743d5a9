"""Contrast of colours as the Web Content Accessibility Guidelines (WCAG 2.2) define it."""

from __future__ import annotations


def compute_luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb``."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def compute_contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21; text needs 4.5."""
    high, low = sorted((compute_luminance(first), compute_luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)
