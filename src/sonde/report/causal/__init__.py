"""Sections of the lens `causal`."""

from __future__ import annotations

from sonde.report._shared.title import PlainTitle

title = PlainTitle(name="Interventions", cites=())
