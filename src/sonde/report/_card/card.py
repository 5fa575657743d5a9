"""What a card holds: for each lens and task the number that speaks for it, and where it comes from.

The fields are the contract of ``card.json``; ``docs/card.schema.json`` is made of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sonde.base.errors import InputError
from sonde.results.layers import Status
from sonde.results.scores import SCORES_COLUMNS
from sonde.store.rundir import RunDirectory

CARD_VERSION = 1


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CardNumber(_Plain):
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


class CardLayers(_Plain):
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


class CardEntry(_Plain):
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


class CardModel(_Plain):
    """A model of the run."""

    name: str
    revision: str
    weights: str = Field(description="the precision in which it was read; empty where that is not known")


class CardCorpus(_Plain):
    """What was read of a corpus in one language."""

    name: str
    language: str
    hash: str
    items: int
    clusters: int


class Provenance(_Plain):
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


class LeftOut(_Plain):
    """Something that was asked for and not scored, or numbers that allow no verdict."""

    what: str
    why: str
    remedy: str = Field(description="what would change it; empty for nothing")


class RequirementOutcome(_Plain):
    """Whether a number meets a requirement."""

    number: CardNumber
    bound: Literal["ci_low", "ci_high"] = Field(description="the end of the interval that was held to it")
    threshold: float
    met: bool
    why: str = Field(description="in words")


class Card(_Plain):
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
        """Whether every requirement is met."""
        return all(one.met for one in self.requirements)

    @property
    def numbers(self) -> list[CardNumber]:
        """The numbers that a later run may be held to: of headlines, their differences and requirements."""
        of_headlines = [
            one
            for held in self.headlines
            for one in (held.number, held.difference, held.cues_difference)
            if one
        ]
        return of_headlines + [one.number for one in self.requirements]

    def json_text(self) -> str:
        """The content of ``card.json``."""
        return self.model_dump_json(indent=2) + "\n"

    def _repr_markdown_(self) -> str:
        from sonde.report._card.markdown import markdown

        return markdown(self)

    @classmethod
    def read(cls, path: Path) -> Self:
        """A card that was written before.

        Raises:
            InputError: There is no such file, or it is no card of this version.
            StoreError: It is not what was written.
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
    """The JSON schema (draft 2020-12) of ``card.json``."""
    schema = Card.model_json_schema(mode="serialization")
    properties = schema["$defs"]["CardNumber"]["properties"]
    for name, described in properties.items():
        described.setdefault("description", SCORES_COLUMNS[name][1] if name in SCORES_COLUMNS else "")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "The card of a run of sonde",
    }
