"""A card as a section of a model card in Markdown; every text of the run is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sonde.report._card.card import Card, CardEntry, Provenance, RequirementOutcome
from sonde.report._card.words import figures, in_words, metric, required, subject
from sonde.results.formats import count, legible, number
from sonde.results.words import plain_words

_INTRODUCTION = (
    "Numbers are in the units of `scores.parquet`, shares from 0 to 1, with their 95 % intervals, which take "
    "each cluster (a repository, package, module or file) as one. A verdict is drawn only where enough "
    "independent code is behind a number."
)
_COLUMNS = ("Model", "Language", "Task", "Number", "n", "Effective clusters", "Best control", "Verdict")


def markdown(card: Card) -> str:
    """The section, from its heading to its end."""
    parts = ["## Measured with sonde", "", _INTRODUCTION]
    for lens in dict.fromkeys(one.number.lens for one in card.headlines):
        rows = [_cells(one) for one in card.headlines if one.number.lens == lens]
        parts += ["", f"### {_text(plain_words(lens).capitalize())}", "", *_table(_COLUMNS, rows)]
    if card.requirements:
        rows = [_outcome(one) for one in card.requirements]
        parts += ["", "### Requirements", "", *_table(("Number", "Required", "Outcome"), rows)]
    parts += ["", "### Where the numbers come from", "", *_provenance(card.provenance)]
    if card.left_out:
        parts += ["", "### What was left out", ""]
        parts += [
            f"- {_text(one.what)}: {_text(one.why)}{'.' if one.remedy else ''} {_text(one.remedy)}".rstrip()
            for one in card.left_out
        ]
    return "\n".join([*parts, ""])


def _cells(one: CardEntry) -> list[str]:
    held = one.number
    among = ""
    if one.among > 1:
        tied = f", of which {one.tied} cannot be told from it" if one.tied > 1 else ""
        among = f", the highest of {one.among}{tied}"
    control = "" if one.control is None else f"{one.control.control}: {figures(one.control)}"
    clusters = number(held.effective_clusters, 1)
    of = (held.model, ", ".join(filter(None, (held.language, held.side))), held.task)
    return [*of, f"{metric(held)}{among}: {figures(held)}", count(held.n), clusters, control, in_words(one)]


def _outcome(one: RequirementOutcome) -> list[str]:
    met = "met" if one.met else "not met"
    return [
        f"{subject(one.number)} {figures(one.number)}",
        required(one.bound, one.threshold),
        f"{met}: {one.why}",
    ]


def _provenance(held: Provenance) -> Iterator[str]:
    for model in held.models:
        weights = f", read in {model.weights}" if model.weights else ""
        yield f"- Model {_text(model.name)}, revision `{_code(model.revision)}`{_text(weights)}"
    for corpus in held.corpora:
        yield (
            f"- Corpus {_text(corpus.name)} ({_text(corpus.language)}), hash `{_code(corpus.hash)}`, "
            f"{count(corpus.items)} items in {count(corpus.clusters)} clusters"
        )
    quirks = ", ".join(held.quirks) or "none"
    yield (
        f"- Mode {_text(held.mode)}, quirks {_text(quirks)}, seed {held.seed}, "
        f"run `{_code(held.fingerprint)}`"
    )
    for lens, options in held.options.items():
        given = ", ".join(f"{name} = {value}" for name, value in options.items())
        yield f"- Options of {_text(lens)}: {_text(given)}"
    yield f"- Versions: {_text(', '.join(f'{name} {one}' for name, one in held.versions.items()))}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table without the columns that are empty in every row."""
    kept = [place for place in range(len(titles)) if any(row[place] for row in rows)]
    lines = [[titles[place] for place in kept], ["---"] * len(kept)]
    lines += [[_text(row[place]) for place in kept] for row in rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _text(text: str) -> str:
    """A text on one line that neither Markdown nor HTML takes for a mark."""
    plain = " ".join(legible(text).split())
    escaped = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(?<!\w)_|_(?!\w)|[\\`*\[\]|~]", r"\\\g<0>", escaped)


def _code(text: str) -> str:
    return re.sub(r"[^\w.:@/+-]", "\N{REPLACEMENT CHARACTER}", text)
