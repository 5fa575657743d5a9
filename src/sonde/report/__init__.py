"""Report: one page, without network, from the finished files of a run; and its figures."""

from sonde.report.card import Card, card_of, card_schema, entry_line, outcome_line
from sonde.report.comparison_page import build_comparison, read_compared
from sonde.report.comparison_page import sentences as comparison_sentences
from sonde.report.explorer import page_of_function
from sonde.report.export import as_svg, sized_spec
from sonde.report.headlines import LensAnswer, first_screen, task_answers
from sonde.report.page import build_report, draw, save_figures
from sonde.report.requirements import build_card, junit
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import PLOTS, Chart, Drawing, Embed, Figure, Plot, Section
from sonde.results.tables import Column, Table

__all__ = [
    "PLOTS",
    "Card",
    "Chart",
    "Column",
    "Drawing",
    "Embed",
    "Figure",
    "LensAnswer",
    "ModelInfo",
    "Plot",
    "RunData",
    "Section",
    "Table",
    "as_svg",
    "build_card",
    "build_comparison",
    "build_report",
    "card_of",
    "card_schema",
    "comparison_sentences",
    "draw",
    "entry_line",
    "first_screen",
    "junit",
    "outcome_line",
    "page_of_function",
    "read_compared",
    "save_figures",
    "sized_spec",
    "task_answers",
]
