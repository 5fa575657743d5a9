"""Sections of the lens `prompting`."""

from __future__ import annotations

from sonde.report.section import LensTitle

title = LensTitle(
    name="Names of APIs, asked in words",
    cites=("zhuo2023ink",),
)
