"""The card of a run: its headline results as data that outlives the run, and as part of a model card.

For each lens and task a card holds the headline metric and its provenance. The fields are the contract of
``card.json``; ``docs/card.schema.json`` is generated from them. The same wording of numbers and outcomes of
requirements is used wherever they are read. `render_markdown` writes a section of a model card in Markdown;
every text of the run is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sonde.base.errors import InputError
from sonde.base.formatting import count, format_name, legible, number
from sonde.report.header import list_missing_results
from sonde.report.headlines import LensAnswer, answer_by_task
from sonde.report.run_tables import RunData
from sonde.results.layers import LayerSummary, Status
from sonde.results.local_cues import describe_cues
from sonde.results.schema import get_dimensions
from sonde.results.scores import SCORES_COLUMNS
from sonde.results.text_format import format_estimate
from sonde.store.run_folder import RunDirectory

CARD_VERSION = 1


class _StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CardNumber(_StrictModel):
    """A row of ``scores.parquet``, in its units; what does not apply is null or empty."""

    model: str
    revision: str
    lens: str
    task: str
    language: str
    corpus: str = Field(description="the corpus by name, as the run was asked for it")
    corpus_hash: str
    item_set: str
    split: str
    slice: dict[str, str] = Field(description="what else the number is about: value by name of a dimension")
    side: str
    layer: int | None
    head: int | None
    pooling: str
    metric: str
    of_metric: str | None
    compared_to: str | None
    k: int | None
    method: str | None
    matching: str | None
    aggregation: str | None
    objective: str | None
    weighting: str | None
    binning: str | None
    unit: str | None
    value: float | None
    ci_low: float | None
    ci_high: float | None
    ci_method: str
    n: int
    n_clusters: int
    effective_clusters: float | None
    n_eff: float | None
    seeds: int | None
    seed: int | None
    control: str | None
    mode: str


class CardLayers(_StrictModel):
    """At which layers a task is encoded, as page and terminal say it."""

    status: Status = Field(
        description="encoded at the layer that validation chose, at other layers only, beyond the control by "
        "less than matters, not beyond it, too little data, or no control"
    )
    chosen: int = Field(description="the layer that validation chose; of folds, that of most")
    not_worse: list[int] = Field(
        description="the chosen layer and those that are not surely less accurate; empty where layers were "
        "not compared"
    )
    beyond: list[int] = Field(
        description="where the chosen layer is not surely beyond the control, the layers that surely are"
    )
    text: str = Field(description="the same in plain words")


class CardEntry(_StrictModel):
    """The number that speaks for a task of a lens, of one model, language and corpus."""

    number: CardNumber
    among: int = Field(
        description="of how many values of its slice the number is the highest; 1: it is alone"
    )
    tied: int = Field(
        default=1, description="how many of these cannot be told from the highest, itself among them"
    )
    control: CardNumber | None = Field(description="the best control that answers the same question")
    difference: CardNumber | None = Field(description="the paired difference of both, where they were paired")
    local_cues: CardNumber | None = Field(
        default=None,
        description="what the word itself and its neighbours tell, of a number about tokens; it takes no "
        "part in the verdict",
    )
    cues_difference: CardNumber | None = Field(
        default=None, description="the paired difference of the number and `local_cues`"
    )
    conclusion: Literal["above", "below", "slight", "level", "alone", "open"] = Field(
        description="better than its control, worse, apart from it by less than matters, not to be told from "
        "it, a number without a control, or no verdict; of a lens that does not say whether more is better, "
        "higher for better"
    )
    verdict: str = Field(description="the same in plain words")
    beside: str = Field(
        default="", description="what local cues tell beside the number, in plain words; empty without them"
    )
    why_no_verdict: str = Field(description="why nothing may be concluded; empty where something may")
    layers: CardLayers | None = Field(
        default=None, description="at which layers the task is encoded; null where the number is of no layer"
    )


class CardModel(_StrictModel):
    """A model of the run."""

    name: str
    revision: str
    weights: str = Field(description="the precision in which it was read; empty where that is not known")


class CardCorpus(_StrictModel):
    """What was read of a corpus in one language."""

    name: str
    language: str
    hash: str
    items: int
    clusters: int


class Provenance(_StrictModel):
    """Where the numbers come from."""

    run: str = Field(description="name of the run's folder")
    fingerprint: str = Field(description="key of all that was asked for")
    models: list[CardModel]
    corpora: list[CardCorpus]
    mode: str
    quirks: list[str] = Field(description="oddities of published code that were switched on")
    seed: int | None
    options: dict[str, dict[str, Any]] = Field(description="options of lenses that were given")
    versions: dict[str, str] = Field(description="of what can change a number")


class LeftOut(_StrictModel):
    """Something that was asked for and not scored, or numbers that allow no verdict."""

    what: str
    why: str
    remedy: str = Field(description="what would change it; empty for nothing")


class RequirementOutcome(_StrictModel):
    """Whether a number meets a requirement."""

    number: CardNumber
    bound: Literal["ci_low", "ci_high"] = Field(description="the end of the interval that was held to it")
    threshold: float
    met: bool
    why: str = Field(description="in words")


class Card(_StrictModel):
    """The card of a run."""

    card_version: Literal[1]
    headlines: list[CardEntry]
    provenance: Provenance
    left_out: list[LeftOut]
    requirements: list[RequirementOutcome] = Field(
        description="outcomes of `--require`, in the order of the file"
    )

    @property
    def met(self) -> bool:
        """Return whether every requirement is met."""
        return all(one.met for one in self.requirements)

    @property
    def numbers(self) -> list[CardNumber]:
        """Return the numbers that a later run may be compared with: headlines, differences, requirements."""
        of_headlines = [
            one
            for held in self.headlines
            for one in (held.number, held.difference, held.cues_difference)
            if one
        ]
        return of_headlines + [one.number for one in self.requirements]

    def json_text(self) -> str:
        """Return the content of ``card.json``."""
        return self.model_dump_json(indent=2) + "\n"

    def _repr_markdown_(self) -> str:

        return render_markdown(self)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a card.

        Raises:
            InputError: There is no such file, or it is no card of this version.
            StoreError: The file is not what was written.
        """
        try:
            return cls.model_validate_json(RunDirectory(path.parent).intact(path).read_bytes())
        except OSError as error:
            raise InputError(f"card {str(path)!r}: {error.strerror}; `sonde card DIR` writes one") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise InputError(
                f"card {str(path)!r}: no card of version {CARD_VERSION} ({place}: {first['msg']}); "
                "`sonde card DIR` writes one"
            ) from None


def card_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of ``card.json``."""
    schema = Card.model_json_schema(mode="serialization")
    properties = schema["$defs"]["CardNumber"]["properties"]
    for name, described in properties.items():
        described.setdefault("description", SCORES_COLUMNS[name][1] if name in SCORES_COLUMNS else "")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "The card of a run of sonde",
    }


def build_card(run: RunData) -> Card:
    """Build the card of a run, without requirements.

    Args:
        run: The run; nothing is written.
    """
    return Card(
        card_version=CARD_VERSION,
        headlines=[_build_entry(run, one) for one in answer_by_task(run)],
        provenance=_read_provenance(run.summary),
        left_out=[
            LeftOut(what=_to_unicode(one.what), why=_to_unicode(one.why), remedy=_to_unicode(one.remedy))
            for one in list_missing_results(run)
        ],
        requirements=[],
    )


def to_card_number(run: RunData, row: Mapping[str, Any]) -> CardNumber:
    """Convert a row of scores to a number of a card."""
    names = {
        _to_unicode(one.get("hash")): _to_unicode(one.get("name")) for one in run.summary.get("corpus") or ()
    }
    held: dict[str, Any] = {
        name: row[name] for name in CardNumber.model_fields if name not in ("corpus", "slice")
    }
    dimensions = get_dimensions(row)
    return CardNumber(**held, slice=dimensions, corpus=names.get(held["corpus_hash"], ""))


def _build_entry(run: RunData, one: LensAnswer) -> CardEntry:
    cues, cues_gain = one.cues or (None, None)
    return CardEntry.model_validate(
        {
            "number": to_card_number(run, one.row),
            "among": one.n_values,
            "tied": one.n_tied,
            "control": None if one.control is None else to_card_number(run, one.control),
            "difference": None if one.gain is None else to_card_number(run, one.gain),
            "local_cues": None if cues is None else to_card_number(run, cues),
            "cues_difference": None if cues_gain is None else to_card_number(run, cues_gain),
            "beside": "" if one.cues is None else describe_cues(one.row, *one.cues),
            "conclusion": one.kind,
            "verdict": one.verdict,
            "why_no_verdict": one.why,
            "layers": None if one.layers is None else _summarise_layers(one.layers),
        }
    )


def _summarise_layers(account: LayerSummary) -> CardLayers:
    return CardLayers(
        status=account.status,
        chosen=account.chosen,
        not_worse=list(account.tied or ()),
        beyond=list(account.beyond),
        text=account.describe(),
    )


def _read_provenance(summary: Mapping[str, Any]) -> Provenance:
    arguments = summary.get("arguments") or {}
    return Provenance(
        run=_to_unicode(summary.get("name")),
        fingerprint=_to_unicode(summary.get("fingerprint")),
        models=[
            CardModel(
                name=_to_unicode(one["name"]),
                revision=_to_unicode(one.get("revision")),
                weights=_to_unicode((one.get("reading") or {}).get("weights")),
            )
            for one in summary.get("models") or ()
        ],
        corpora=[
            CardCorpus(
                name=_to_unicode(one.get("name")),
                language=_to_unicode(one.get("language")),
                hash=_to_unicode(one.get("hash")),
                items=int(one.get("items") or 0),
                clusters=int(one.get("clusters") or 0),
            )
            for one in summary.get("corpus") or ()
        ],
        mode=_to_unicode(summary.get("mode")),
        quirks=[_to_unicode(one) for one in summary.get("quirks") or ()],
        seed=summary.get("seed"),
        options={
            _to_unicode(lens): {
                name: _to_unicode(value) if isinstance(value, str) else value for name, value in given.items()
            }
            for lens, given in (arguments.get("options") or {}).items()
        },
        versions={
            _to_unicode(name): _to_unicode(one) for name, one in (summary.get("versions") or {}).items()
        },
    )


def _to_unicode(value: object) -> str:
    """Convert a text of ``run.json`` to valid Unicode, since names there may be none; None is empty."""
    return "" if value is None else legible(str(value))


def describe_subject(one: CardNumber) -> str:
    """Describe a number: lens, task, model and language, then its metric."""
    whom = ", ".join(filter(None, (one.lens, one.task, one.model, one.side, one.language)))
    return f"{whom}: {describe_card_metric(one)}"


def describe_card_metric(one: CardNumber) -> str:
    """Describe the metric of a number with its qualifiers."""
    of = f" of {one.of_metric}" if one.of_metric else ""
    over = f" over {one.compared_to or one.control}" if one.compared_to or one.control else ""
    named = [f"{name} {value}" for name, value in one.slice.items()]
    named += [
        f"{name} {held}"
        for name, held in (("k", one.k), ("layer", one.layer), ("head", one.head))
        if held is not None
    ]
    return f"{one.metric}{of}{over}" + (f" ({', '.join(named)})" if named else "")


def format_card_number(one: CardNumber) -> str:
    """Format a number with its interval."""
    return format_estimate(one.model_dump(include={"value", "ci_low", "ci_high"}))


def format_requirement(bound: str, threshold: float) -> str:
    """Format a bound for an end of an interval, ``"ci_low"`` or ``"ci_high"``."""
    if bound == "ci_low":
        return f"lower end of the interval at least {threshold:.4g}"
    return f"upper end of the interval at most {threshold:.4g}"


def describe_verdict(one: CardEntry) -> str:
    """Describe the conclusion about a headline, its local cues, and the layers that encode it."""
    return "; ".join(filter(None, (one.verdict, one.beside, one.layers and one.layers.text)))


def format_entry(one: CardEntry) -> str:
    """Format a headline of a card as one line for the terminal."""
    return legible(
        f"{describe_subject(one.number)} {format_card_number(one.number)}: {describe_verdict(one)}"
    )


def format_outcome(one: RequirementOutcome) -> str:
    """Format the outcome of a requirement in one line: the number, its interval and the threshold."""
    met = "met" if one.met else "not met"
    return legible(f"{met}: {describe_subject(one.number)} {format_card_number(one.number)}: {one.why}")


_INTRODUCTION = (
    "Numbers are in the units of `scores.parquet`, shares from 0 to 1, with their 95 % intervals, which take "
    "each cluster (a repository, package, module or file) as one. A verdict is drawn only where enough "
    "independent code is behind a number."
)


_COLUMNS = ("Model", "Language", "Task", "Number", "n", "Effective clusters", "Best control", "Verdict")


def render_markdown(card: Card) -> str:
    """Render a card as a section of Markdown."""
    parts = ["## Measured with sonde", "", _INTRODUCTION]
    for lens in dict.fromkeys(one.number.lens for one in card.headlines):
        rows = [_entry_cells(one) for one in card.headlines if one.number.lens == lens]
        parts += ["", f"### {_escape(format_name(lens).capitalize())}", "", *_markdown_table(_COLUMNS, rows)]
    if card.requirements:
        rows = [_outcome_cells(one) for one in card.requirements]
        parts += ["", "### Requirements", "", *_markdown_table(("Number", "Required", "Outcome"), rows)]
    parts += ["", "### Where the numbers come from", "", *_provenance_lines(card.provenance)]
    if card.left_out:
        parts += ["", "### What was left out", ""]
        parts += [
            (
                f"- {_escape(one.what)}: {_escape(one.why)}{'.' if one.remedy else ''} {_escape(one.remedy)}"
            ).rstrip()
            for one in card.left_out
        ]
    return "\n".join([*parts, ""])


def _entry_cells(one: CardEntry) -> list[str]:
    held = one.number
    among = ""
    if one.among > 1:
        tied = f", of which {one.tied} cannot be told from it" if one.tied > 1 else ""
        among = f", the highest of {one.among}{tied}"
    control = "" if one.control is None else f"{one.control.control}: {format_card_number(one.control)}"
    clusters = number(held.effective_clusters, 1)
    of = (held.model, ", ".join(filter(None, (held.language, held.side))), held.task)
    return [
        *of,
        f"{describe_card_metric(held)}{among}: {format_card_number(held)}",
        count(held.n),
        clusters,
        control,
        describe_verdict(one),
    ]


def _outcome_cells(one: RequirementOutcome) -> list[str]:
    met = "met" if one.met else "not met"
    return [
        f"{describe_subject(one.number)} {format_card_number(one.number)}",
        format_requirement(one.bound, one.threshold),
        f"{met}: {one.why}",
    ]


def _provenance_lines(held: Provenance) -> Iterator[str]:
    for model in held.models:
        weights = f", read in {model.weights}" if model.weights else ""
        yield f"- Model {_escape(model.name)}, revision `{_code(model.revision)}`{_escape(weights)}"
    for corpus in held.corpora:
        yield (
            f"- Corpus {_escape(corpus.name)} ({_escape(corpus.language)}), hash `{_code(corpus.hash)}`, "
            f"{count(corpus.items)} items in {count(corpus.clusters)} clusters"
        )
    quirks = ", ".join(held.quirks) or "none"
    yield (
        f"- Mode {_escape(held.mode)}, quirks {_escape(quirks)}, seed {held.seed}, "
        f"run `{_code(held.fingerprint)}`"
    )
    for lens, options in held.options.items():
        given = ", ".join(f"{name} = {value}" for name, value in options.items())
        yield f"- Options of {_escape(lens)}: {_escape(given)}"
    yield f"- Versions: {_escape(', '.join(f'{name} {one}' for name, one in held.versions.items()))}"


def _markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a Markdown table, without columns that are empty in every row."""
    kept = [place for place in range(len(titles)) if any(row[place] for row in rows)]
    lines = [[titles[place] for place in kept], ["---"] * len(kept)]
    lines += [[_escape(row[place]) for place in kept] for row in rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _escape(text: str) -> str:
    """Escape a text for Markdown and HTML, on one line."""
    plain = " ".join(legible(text).split())
    escaped = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(?<!\w)_|_(?!\w)|[\\`*\[\]|~]", r"\\\g<0>", escaped)


def _code(text: str) -> str:
    return re.sub(r"[^\w.:@/+-]", "\N{REPLACEMENT CHARACTER}", text)
