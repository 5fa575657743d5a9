"""Sections of the lens `finetune`."""

from __future__ import annotations

from sonde.report._shared.title import PlainTitle

title = PlainTitle()
