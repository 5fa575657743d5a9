"""Sections of the lens `surprisal`."""

from __future__ import annotations

from sonde.report.sections.surprisal._title import title

__all__ = ["title"]
