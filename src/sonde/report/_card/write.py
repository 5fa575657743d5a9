"""The files of a card: ``card.json`` for programs, ``card.md`` for a model card, JUnit XML for servers."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from sonde.report._card.card import Card
from sonde.report._card.entries import card_of
from sonde.report._card.gate import held_to
from sonde.report._card.markdown import markdown
from sonde.report._card.words import figures, required, subject
from sonde.report._shared.run import RunData
from sonde.results.formats import legible
from sonde.store.receipts import write_with_receipt


def build_card(directory: Path, require: Path | None = None) -> Card:
    """Write ``card.json`` and ``card.md`` into the folder of a finished run; torch is not needed.

    Args:
        directory: The folder of the run.
        require: A file of requirements that its numbers are held to.

    Raises:
        InputError: There is no run in the folder, or the requirements or an earlier card cannot be read.
        UsageError: A requirement is none, or says of no single number what it is; nothing is written.
        StoreError: A file cannot be written.
    """
    run = RunData(directory)
    card = card_of(run)
    if require is not None:
        card = held_to(card, run, require)
    for path, text in ((run.directory.card, card.json_text()), (run.directory.card_section, markdown(card))):
        write_with_receipt(run.directory.root, path.name, text)
    return card


def junit(card: Card) -> str:
    """The outcomes of requirements as JUnit XML: one test suite with a test case a requirement."""
    failed = sum(not one.met for one in card.requirements)
    counts = {"tests": str(len(card.requirements)), "failures": str(failed), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "sonde card", **counts})
    for one in card.requirements:
        names = {
            "classname": legible(f"sonde.{one.number.lens}"),
            "name": legible(f"{subject(one.number)}, {required(one.bound, one.threshold)}"),
        }
        case = ElementTree.SubElement(suite, "testcase", names)
        said = legible(f"{figures(one.number)}: {one.why}")
        if one.met:
            ElementTree.SubElement(case, "system-out").text = said
        else:
            ElementTree.SubElement(case, "failure", {"message": said, "type": "requirement"}).text = said
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
