"""Sections of the lens `cloze`."""

from __future__ import annotations

from sonde.report._shared.title import PlainTitle

title = PlainTitle(in_float32="ranks")
