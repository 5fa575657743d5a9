"""What several lenses say of the same constructs of a language, side by side.

Each lens declares which of its numbers is about constructs and which of its facts belongs to which; here they
are only put together. Numbers of one row are about one construct, not about the same tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from sonde.report._shared.against import LensQuestion, Row, compared, concluded
from sonde.report._shared.run import RunData


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedNumber:
    """The number that a lens offers for the table over lenses.

    Attributes:
        title: What it is, as a heading and an axis, without its unit.
        question: Which rows of the lens hold it, its controls among them, and whether less is better.
        fact: Expression of what a row is about as the lens has it, such as a relation.
        constructs: The constructs that each fact belongs to, of those that all languages share.
        against: In words what the number is held against.
        level: Expression, over the rows of one metric, of what the number is held against where it has no
            controls; None where it has.
        inside: Whether it is read from what the model computes on the way, and not from what it predicts.
        same: A sentence: what of the lens is counted under a construct.
        scale: What the number, which is no share, is multiplied by where it is shown.
        of_several: What stands in its place where the run has it: the number of several models over the same
            text.
    """

    title: str
    question: LensQuestion
    fact: pl.Expr
    constructs: Mapping[str, Sequence[str]]
    against: str
    level: pl.Expr | None = None
    inside: bool = False
    same: str = ""
    scale: float = 1.0
    of_several: JoinedNumber | None = None

    def in_run(self, run: RunData, lens: str) -> JoinedNumber:
        """The number that a run has of the lens."""
        other = self.of_several
        if (
            other is None
            or run.scores(metrics=other.question.metrics, lens=lens, where=other.question.where).is_empty()
        ):
            return self
        return other


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedCell:
    """The number of one lens about one construct.

    Attributes:
        fact: What it is about, as the lens has it; of several the one with most observations behind it.
        row: The score.
        level: What it is held against; None where there is nothing.
        kind: What may be concluded, a key of `sonde.report._shared.against.VERDICTS`.
        among: How many facts of the lens belong to the construct.
    """

    fact: str
    row: Row
    level: float | None
    kind: str
    among: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRow:
    """What the lenses say of one construct in one model and language."""

    model: str
    language: str
    construct: str
    cells: Mapping[str, JoinedCell]


def joined_rows(run: RunData, offered: Mapping[str, JoinedNumber]) -> list[JoinedRow]:
    """A row a model, language and construct that two lenses or more say something of.

    Args:
        run: The run.
        offered: What each lens offers.
    """
    cells: dict[tuple[str, str, str], dict[str, JoinedCell]] = {}
    for lens, number in offered.items():
        for key, cell in _cells(run, lens, number):
            cells.setdefault(key, {})[lens] = cell
    places = {model.name: place for place, model in enumerate(run.models)}
    order = sorted(cells, key=lambda key: (places.get(key[0], len(places)), *key[1:]))
    return [
        JoinedRow(model=model, language=language, construct=construct, cells=held)
        for model, language, construct in order
        if len(held := cells[model, language, construct]) > 1
    ]


def _cells(run: RunData, lens: str, number: JoinedNumber) -> list[tuple[tuple[str, str, str], JoinedCell]]:
    question = number.question
    rows = run.scores(metrics=question.with_gains, lens=lens, controls=True)
    if rows.is_empty():
        return []
    level = pl.lit(None, pl.Float64) if number.level is None else number.level
    subject = ("model", "language")
    rows = rows.with_columns(level=level.over("metric", "task", *subject)).filter(question.where)
    rows = rows.with_columns(fact=number.fact).filter(pl.col("fact").is_in(list(number.constructs)))
    # A side of an encoder-decoder is another question: the first answers.
    found: dict[tuple[str, str, str], list[tuple[str, JoinedCell]]] = {}
    for (model, language, fact), part in rows.partition_by(
        *subject, "fact", as_dict=True, maintain_order=True
    ).items():
        first = part.filter(pl.col("side") == part["side"][0])
        cell = _cell(str(fact), first.to_dicts(), question)
        if cell is None:
            continue
        for construct in number.constructs[str(fact)]:
            found.setdefault((str(model), str(language), construct), []).append((str(fact), cell))
    return [(key, _largest(held)) for key, held in found.items()]


def _cell(fact: str, rows: Sequence[Row], question: LensQuestion) -> JoinedCell | None:
    held = compared(rows, question)
    if held is None:
        return None
    row, control, kind = held.row, held.control, held.kind
    level = row["level"] if control is None else control["value"]
    if control is None and level is not None:
        # A level is as a control without an interval, so that the one rule decides.
        known = {**row, "value": level, "ci_low": level, "ci_high": level}
        kind, _ = concluded(row, known, None, lower=question.lower)
    return JoinedCell(fact=fact, row=row, level=level, kind=kind, among=1)


def _largest(cells: Sequence[tuple[str, JoinedCell]]) -> JoinedCell:
    """The fact with most observations: a choice that does not look at the numbers."""
    _, cell = min(cells, key=lambda one: (-one[1].row["n"], one[0]))
    return replace(cell, among=len(cells))
