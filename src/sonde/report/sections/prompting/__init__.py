"""Sections of the lens `prompting`."""

from __future__ import annotations

from sonde.report.section import LensTitle

title = LensTitle(
    name="Names of APIs, asked in words",
    question="Does the model know the names of libraries when it is asked in words, as a chatbot is?",
    counts={"": "query"},
    cites=("zhuo2023ink",),
)
