"""Sections of the lens `prompting`."""

from __future__ import annotations

from sonde.report.section import LensTitle

title = LensTitle(
    name="Names of APIs, asked in words",
    question="Does the model know the names of libraries if it is prompted like a chatbot?",
    counts={"": "query"},
    cites=("zhuo2023ink",),
)
