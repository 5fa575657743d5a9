"""From a finished run to its card: the number that speaks for each task, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sonde.report._card.card import (
    CARD_VERSION,
    Card,
    CardCorpus,
    CardEntry,
    CardLayers,
    CardModel,
    CardNumber,
    LeftOut,
    Provenance,
)
from sonde.report._page.missing import missing
from sonde.report._shared.run import RunData
from sonde.report._shared.task_answers import TaskAnswer, task_answers
from sonde.results.formats import legible
from sonde.results.layers import LayerAccount
from sonde.results.local_cues import describe_cues


def card_of(run: RunData) -> Card:
    """The card of a run, held to no requirement.

    Args:
        run: The run; nothing is written.
    """
    return Card(
        card_version=CARD_VERSION,
        headlines=[_headline(run, one) for one in task_answers(run)],
        provenance=_provenance(run.summary),
        left_out=[
            LeftOut(what=_text(one.what), why=_text(one.why), remedy=_text(one.remedy))
            for one in missing(run)
        ],
        requirements=[],
    )


def number_of(run: RunData, row: Mapping[str, Any]) -> CardNumber:
    """A row of scores as a card holds it."""
    names = {_text(one.get("hash")): _text(one.get("name")) for one in run.summary.get("corpus") or ()}
    held: dict[str, Any] = {
        name: row[name] for name in CardNumber.model_fields if name not in ("corpus", "slice")
    }
    dimensions = {one["name"]: one["value"] for one in row["dimensions"]}
    return CardNumber(**held, slice=dimensions, corpus=names.get(held["corpus_hash"], ""))


def _headline(run: RunData, one: TaskAnswer) -> CardEntry:
    cues, cues_gain = one.cues or (None, None)
    return CardEntry.model_validate(
        {
            "number": number_of(run, one.row),
            "among": one.among,
            "tied": one.tied,
            "control": None if one.control is None else number_of(run, one.control),
            "difference": None if one.gain is None else number_of(run, one.gain),
            "local_cues": None if cues is None else number_of(run, cues),
            "cues_difference": None if cues_gain is None else number_of(run, cues_gain),
            "beside": "" if one.cues is None else describe_cues(one.row, *one.cues),
            "conclusion": one.kind,
            "verdict": one.verdict,
            "why_no_verdict": one.why,
            "layers": None if one.layers is None else _layers(one.layers),
        }
    )


def _layers(account: LayerAccount) -> CardLayers:
    return CardLayers(
        status=account.status,
        chosen=account.chosen,
        not_worse=list(account.tied or ()),
        beyond=list(account.beyond),
        text=account.describe(),
    )


def _provenance(summary: Mapping[str, Any]) -> Provenance:
    arguments = summary.get("arguments") or {}
    return Provenance(
        run=_text(summary.get("name")),
        fingerprint=_text(summary.get("fingerprint")),
        models=[
            CardModel(
                name=_text(one["name"]),
                revision=_text(one.get("revision")),
                weights=_text((one.get("reading") or {}).get("weights")),
            )
            for one in summary.get("models") or ()
        ],
        corpora=[
            CardCorpus(
                name=_text(one.get("name")),
                language=_text(one.get("language")),
                hash=_text(one.get("hash")),
                items=int(one.get("items") or 0),
                clusters=int(one.get("clusters") or 0),
            )
            for one in summary.get("corpus") or ()
        ],
        mode=_text(summary.get("mode")),
        quirks=[_text(one) for one in summary.get("quirks") or ()],
        seed=summary.get("seed"),
        options={
            _text(lens): {
                name: _text(value) if isinstance(value, str) else value for name, value in given.items()
            }
            for lens, given in (arguments.get("options") or {}).items()
        },
        versions={_text(name): _text(one) for name, one in (summary.get("versions") or {}).items()},
    )


def _text(value: object) -> str:
    """A text of ``run.json``, which may hold names that are not Unicode."""
    return "" if value is None else legible(str(value))
