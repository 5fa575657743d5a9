"""Report: one page, without network, from the finished files of a run; and its figures."""

from sonde.report.card import Card, build_card, card_schema, format_entry, format_outcome
from sonde.report.card_exports import check_targets, export_card
from sonde.report.comparison_page import list_sentences as comparison_sentences
from sonde.report.comparison_page import read_comparison, write_comparison_page
from sonde.report.explorer import render_function_page
from sonde.report.export import to_csv, to_latex, to_sized_spec, to_svg
from sonde.report.headlines import LensAnswer, answer_by_lens, answer_by_task
from sonde.report.page import (
    build_section,
    build_sections,
    build_table,
    list_plots,
    list_tables,
    save_figures,
    write_report,
)
from sonde.report.requirements import to_junit_xml, write_card
from sonde.report.run_summary import describe_run
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import PLOTS, Chart, EmbeddedView, Figure, Plot, Section, SectionPlot, SvgImage
from sonde.results.tables import Column, Table

__all__ = [
    "PLOTS",
    "Card",
    "Chart",
    "Column",
    "EmbeddedView",
    "Figure",
    "LensAnswer",
    "ModelInfo",
    "Plot",
    "RunData",
    "Section",
    "SectionPlot",
    "SvgImage",
    "Table",
    "answer_by_lens",
    "answer_by_task",
    "build_card",
    "build_section",
    "build_sections",
    "build_table",
    "card_schema",
    "check_targets",
    "comparison_sentences",
    "describe_run",
    "export_card",
    "format_entry",
    "format_outcome",
    "list_plots",
    "list_tables",
    "read_comparison",
    "render_function_page",
    "save_figures",
    "to_csv",
    "to_junit_xml",
    "to_latex",
    "to_sized_spec",
    "to_svg",
    "write_card",
    "write_comparison_page",
    "write_report",
]
