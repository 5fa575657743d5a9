"""What a lens says of each of its tasks: the number that speaks for it, its best control, and the verdict.

The page's first screen says the same of all tasks of a lens in one row (`sonde.report._shared.answers`), by
the same declarations and the same rule.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import polars as pl

from sonde.report._shared.against import HeldAgainst, LensQuestion, Row, compared
from sonde.report._shared.answers import held_against, sentence_of, sentence_of_finding
from sonde.report._shared.run import RunData
from sonde.report._shared.title import titles
from sonde.results.findings import Finding, findings
from sonde.results.layers import LayerAccount, account_layers
from sonde.results.local_cues import cues_by_key


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnswer:
    """What a lens says of one task, model, language, corpus and side.

    Attributes:
        row: The score that speaks for the task.
        control: The best control that answers the same question; None where there is none.
        gain: The paired difference to it; None where it was not paired.
        kind: What may be concluded, a key of `sonde.report._shared.against.VERDICTS`.
        why: Why nothing may be concluded; empty where something may.
        verdict: The conclusion in a sentence without its full stop.
        among: Of how many values of a dimension or places in the model the number is the highest.
        tied: How many of these cannot be told from the highest, itself among them.
        layers: Where in the model the task is encoded; None where the number is of no layer.
        cues: What local cues reach and the paired difference to it, of a number about tokens; else None. They
            take no part in the verdict.
    """

    row: Row
    control: Row | None
    gain: Row | None
    kind: str
    why: str
    verdict: str
    among: int = 1
    tied: int = 1
    layers: LayerAccount | None = None
    cues: tuple[Row, Row] | None = None


_SUBJECT = ("model", "language", "corpus_hash", "task")


def task_answers(run: RunData) -> list[TaskAnswer]:
    """Every task's answer, lens by lens; where a lens declares nothing of a task, by `findings`."""
    declared = titles(run)
    said: list[TaskAnswer] = []
    for lens in run.scored_lenses:
        question = declared[lens].question if lens in declared else None
        rows = run.every_score.filter(pl.col("lens") == lens)
        for part in rows.partition_by(_SUBJECT, maintain_order=True):
            said += _declared(part, question) or [_found(finding) for finding in findings(part)]
    return said


def _with_cues(answer: TaskAnswer, part: pl.DataFrame) -> TaskAnswer:
    """Add what local cues reach on the same examples."""
    same = part.filter(pl.col("pooling") == answer.row["pooling"])
    return dataclasses.replace(answer, cues=next(iter(cues_by_key(same).values()), None))


def _declared(part: pl.DataFrame, question: LensQuestion | None) -> list[TaskAnswer]:
    said: list[TaskAnswer] = []
    while question and not said:
        sides = part.filter(question.where).partition_by("side", maintain_order=True)
        held = [compared(rows.to_dicts(), question) for rows in sides]
        said = [_with_cues(_answer(one, _declared_sentence(question, one)), part) for one in held if one]
        if question.of_layer:
            layers = next(iter(account_layers(part)), None)
            said = [dataclasses.replace(one, layers=layers) for one in said]
        question = question.otherwise
    return said


def _declared_sentence(question: LensQuestion, one: HeldAgainst) -> str:
    control = "" if one.control is None else question.controls[one.control["control"]]
    return sentence_of(question, one, control, 100.0 if question.share else 1.0)


def _found(finding: Finding) -> TaskAnswer:
    one = held_against(finding)
    answer = _answer(one, sentence_of_finding(finding, one))
    return dataclasses.replace(answer, row=finding.row, among=finding.among, tied=finding.tied)


def _answer(one: HeldAgainst, verdict: str) -> TaskAnswer:
    return TaskAnswer(
        row=one.row,
        control=one.control,
        gain=one.gain,
        kind=one.kind,
        why=one.why,
        verdict=verdict,
    )
