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
from sonde.base.formatting import count, format_name, legible
from sonde.report.header import LeftOut, list_missing_results
from sonde.report.headlines import LensAnswer, answer_by_task, load_title
from sonde.report.run_tables import RunData
from sonde.results.layers import LayerSummary, Status
from sonde.results.local_cues import describe_cues
from sonde.results.schema import get_dimensions
from sonde.results.scores import SCORES_COLUMNS
from sonde.results.text_format import format_estimate
from sonde.stats.verdict import format_effective_clusters
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
    """Layers that encode a task, as page and terminal say it."""

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
        default=1, description="how many of these, itself included, are not distinguishable from the highest"
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
        description="better than its control, worse, different by less than matters, not distinguishable "
        "from it, a number without a control, or no verdict. If the lens does not say whether more is "
        "better, better means higher"
    )
    verdict: str = Field(description="the same in plain words")
    beside: str = Field(
        default="",
        description="how the number compares with local cues, in plain words; empty without them",
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
    """The items of a corpus in one language."""

    name: str
    language: str
    hash: str
    items: int
    clusters: int


class Provenance(_StrictModel):
    """Provenance of the numbers."""

    run: str = Field(description="name of the run's folder")
    fingerprint: str = Field(description="key of all that was asked for")
    models: list[CardModel]
    corpora: list[CardCorpus]
    mode: str
    quirks: list[str] = Field(description="oddities of published code that were switched on")
    seed: int | None
    options: dict[str, dict[str, Any]] = Field(description="options of lenses that were given")
    versions: dict[str, str] = Field(description="of what can change a number")


class RequirementOutcome(_StrictModel):
    """Outcome of a requirement on a number."""

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
        return all(outcome.met for outcome in self.requirements)

    @property
    def numbers(self) -> list[CardNumber]:
        """Return the numbers that a later run may be compared with: headlines, differences, requirements."""
        headline_numbers = [
            number
            for entry in self.headlines
            for number in (entry.number, entry.difference, entry.cues_difference)
            if number
        ]
        return headline_numbers + [outcome.number for outcome in self.requirements]

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
            location = ".".join(map(str, first["loc"])) or "the file"
            raise InputError(
                f"card {str(path)!r}: no card of version {CARD_VERSION} ({location}: {first['msg']}); "
                "`sonde card DIR` writes one"
            ) from None


def card_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of ``card.json``."""
    schema = Card.model_json_schema(mode="serialization")
    properties = schema["$defs"]["CardNumber"]["properties"]
    for name, field_schema in properties.items():
        field_schema.setdefault("description", SCORES_COLUMNS[name][1] if name in SCORES_COLUMNS else "")
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
        headlines=[_build_entry(run, answer) for answer in answer_by_task(run)],
        provenance=_read_provenance(run.summary),
        left_out=list_missing_results(run),
        requirements=[],
    )


def to_card_number(run: RunData, row: Mapping[str, Any]) -> CardNumber:
    """Convert a row of scores to a number of a card."""
    names = {
        _to_unicode(entry.get("hash")): _to_unicode(entry.get("name"))
        for entry in run.summary.get("corpus") or ()
    }
    fields: dict[str, Any] = {
        name: row[name] for name in CardNumber.model_fields if name not in ("corpus", "slice")
    }
    dimensions = get_dimensions(row)
    return CardNumber(**fields, slice=dimensions, corpus=names.get(fields["corpus_hash"], ""))


def _build_entry(run: RunData, answer: LensAnswer) -> CardEntry:
    cues, cues_gain = answer.cues or (None, None)
    return CardEntry.model_validate(
        {
            "number": to_card_number(run, answer.row),
            "among": answer.n_values,
            "tied": answer.n_tied,
            "control": None if answer.control is None else to_card_number(run, answer.control),
            "difference": None if answer.gain is None else to_card_number(run, answer.gain),
            "local_cues": None if cues is None else to_card_number(run, cues),
            "cues_difference": None if cues_gain is None else to_card_number(run, cues_gain),
            "beside": "" if answer.cues is None else describe_cues(answer.row, *answer.cues),
            "conclusion": answer.kind,
            "verdict": answer.verdict,
            "why_no_verdict": answer.reason,
            "layers": None if answer.layers is None else _summarise_layers(answer.layers),
        }
    )


def _summarise_layers(account: LayerSummary) -> CardLayers:
    return CardLayers(
        status=account.status,
        chosen=account.chosen,
        not_worse=list(account.tied or ()),
        beyond=list(account.layers_above),
        text=account.describe(),
    )


def _read_provenance(summary: Mapping[str, Any]) -> Provenance:
    arguments = summary.get("arguments") or {}
    return Provenance(
        run=_to_unicode(summary.get("name")),
        fingerprint=_to_unicode(summary.get("fingerprint")),
        models=[
            CardModel(
                name=_to_unicode(model["name"]),
                revision=_to_unicode(model.get("revision")),
                weights=_to_unicode((model.get("reading") or {}).get("weights")),
            )
            for model in summary.get("models") or ()
        ],
        corpora=[
            CardCorpus(
                name=_to_unicode(corpus.get("name")),
                language=_to_unicode(corpus.get("language")),
                hash=_to_unicode(corpus.get("hash")),
                items=int(corpus.get("items") or 0),
                clusters=int(corpus.get("clusters") or 0),
            )
            for corpus in summary.get("corpus") or ()
        ],
        mode=_to_unicode(summary.get("mode")),
        quirks=[_to_unicode(quirk) for quirk in summary.get("quirks") or ()],
        seed=summary.get("seed"),
        options={
            _to_unicode(lens): {
                name: _to_unicode(value) if isinstance(value, str) else value
                for name, value in lens_options.items()
            }
            for lens, lens_options in (arguments.get("options") or {}).items()
        },
        versions={
            _to_unicode(name): _to_unicode(version)
            for name, version in (summary.get("versions") or {}).items()
        },
    )


def _to_unicode(value: object) -> str:
    """Convert a text of ``run.json`` to valid Unicode, since names there may be none; None is empty."""
    return "" if value is None else legible(str(value))


def describe_subject(number: CardNumber) -> str:
    """Describe a number: lens, task, model and language, then its metric."""
    subject = ", ".join(filter(None, (number.lens, number.task, number.model, number.side, number.language)))
    return f"{subject}: {describe_card_metric(number)}"


def describe_card_metric(number: CardNumber) -> str:
    """Describe the metric of a number with its qualifiers."""
    of_metric = f" of {number.of_metric}" if number.of_metric else ""
    control = f" over {number.compared_to or number.control}" if number.compared_to or number.control else ""
    qualifiers = [f"{name} {value}" for name, value in number.slice.items()]
    qualifiers += [
        f"{name} {position}"
        for name, position in (("k", number.k), ("layer", number.layer), ("head", number.head))
        if position is not None
    ]
    return f"{number.metric}{of_metric}{control}" + (f" ({', '.join(qualifiers)})" if qualifiers else "")


def format_card_number(number: CardNumber) -> str:
    """Format a number with its interval."""
    return format_estimate(number.model_dump(include={"value", "ci_low", "ci_high"}))


def format_requirement(column: str, threshold: float) -> str:
    """Format a bound for an end of an interval, ``"ci_low"`` or ``"ci_high"``."""
    if column == "ci_low":
        return f"lower end of the interval at least {threshold:.4g}"
    return f"upper end of the interval at most {threshold:.4g}"


def describe_verdict(entry: CardEntry) -> str:
    """Describe the conclusion about a headline, its local cues, and the layers that encode it."""
    return "; ".join(filter(None, (entry.verdict, entry.beside, entry.layers and entry.layers.text)))


def format_entry(entry: CardEntry) -> str:
    """Format a headline of a card as one line for the terminal."""
    return legible(
        f"{describe_subject(entry.number)} {format_card_number(entry.number)}: {describe_verdict(entry)}"
    )


def format_outcome(outcome: RequirementOutcome) -> str:
    """Format the outcome of a requirement in one line: the number, its interval and the threshold."""
    result = "met" if outcome.met else "not met"
    return legible(
        f"{result}: {describe_subject(outcome.number)} {format_card_number(outcome.number)}: {outcome.why}"
    )


_INTRODUCTION = (
    "Numbers are in the units of `scores.parquet`, shares from 0 to 1, with their 95 % intervals, which take "
    "each cluster (a repository, package, module or file) as one. A verdict is drawn only where enough "
    "independent code is behind a number."
)


_COLUMNS = ("Model", "Language", "Task", "Number", "n", "Effective clusters", "Best control", "Verdict")


def render_markdown(card: Card) -> str:
    """Render a card as a section of Markdown."""
    parts = ["## Measured with sonde", "", _INTRODUCTION]
    for lens in dict.fromkeys(entry.number.lens for entry in card.headlines):
        rows = [_entry_cells(entry) for entry in card.headlines if entry.number.lens == lens]
        parts += ["", f"### {_escape(format_name(lens).capitalize())}", "", *_markdown_table(_COLUMNS, rows)]
    if card.requirements:
        rows = [_outcome_cells(outcome) for outcome in card.requirements]
        parts += ["", "### Requirements", "", *_markdown_table(("Number", "Required", "Outcome"), rows)]
    parts += ["", "### Where the numbers come from", "", *_provenance_lines(card.provenance)]
    if card.left_out:
        parts += ["", "### What was left out", ""]
        parts += [
            (
                f"- {_escape(omission.what)}: {_escape(omission.why)}{'.' if omission.remedy else ''} "
                f"{_escape(omission.remedy)}"
            ).rstrip()
            for omission in card.left_out
        ]
    return "\n".join([*parts, ""])


def _entry_cells(entry: CardEntry) -> list[str]:
    headline = entry.number
    rank = ""
    if entry.among > 1:
        ties = f", of which {entry.tied} are not distinguishable from it" if entry.tied > 1 else ""
        rank = f", the highest of {entry.among}{ties}"
    control = "" if entry.control is None else f"{entry.control.control}: {format_card_number(entry.control)}"
    clusters = format_effective_clusters((entry.difference or headline).effective_clusters)
    subject = (headline.model, ", ".join(filter(None, (headline.language, headline.side))), headline.task)
    return [
        *subject,
        f"{describe_card_metric(headline)}{rank}: {format_card_number(headline)}",
        load_title(headline.lens).format_size({"n": headline.n, "metric": headline.metric}),
        clusters,
        control,
        describe_verdict(entry),
    ]


def _outcome_cells(outcome: RequirementOutcome) -> list[str]:
    result = "met" if outcome.met else "not met"
    return [
        f"{describe_subject(outcome.number)} {format_card_number(outcome.number)}",
        format_requirement(outcome.bound, outcome.threshold),
        f"{result}: {outcome.why}",
    ]


def _provenance_lines(provenance: Provenance) -> Iterator[str]:
    for model in provenance.models:
        weights = f", read in {model.weights}" if model.weights else ""
        yield f"- Model {_escape(model.name)}, revision `{_code(model.revision)}`{_escape(weights)}"
    for corpus in provenance.corpora:
        yield (
            f"- Corpus {_escape(corpus.name)} ({_escape(corpus.language)}), hash `{_code(corpus.hash)}`, "
            f"{count(corpus.items)} items in {count(corpus.clusters)} clusters"
        )
    quirks = ", ".join(provenance.quirks) or "none"
    yield (
        f"- Mode {_escape(provenance.mode)}, quirks {_escape(quirks)}, seed {provenance.seed}, "
        f"run `{_code(provenance.fingerprint)}`"
    )
    for lens, options in provenance.options.items():
        assignments = ", ".join(f"{name} = {value}" for name, value in options.items())
        yield f"- Options of {_escape(lens)}: {_escape(assignments)}"
    yield f"- Versions: {_escape(', '.join(f'{name} {text}' for name, text in provenance.versions.items()))}"


def _markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a Markdown table, without columns that are empty in every row."""
    indices = [index for index in range(len(titles)) if any(row[index] for row in rows)]
    lines = [[titles[index] for index in indices], ["---"] * len(indices)]
    lines += [[_escape(row[index]) for index in indices] for row in rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _escape(text: str) -> str:
    """Escape a text for Markdown and HTML, on one line."""
    plain = " ".join(legible(text).split())
    safe_text = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(?<!\w)_|_(?!\w)|[\\`*\[\]|~]", r"\\\g<0>", safe_text)


def _code(text: str) -> str:
    return re.sub(r"[^\w.:@/+-]", "\N{REPLACEMENT CHARACTER}", text)
