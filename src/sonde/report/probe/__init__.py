"""Sections of the lens `probe`."""

from __future__ import annotations

from sonde.report._shared.title import PlainTitle

title = PlainTitle()
