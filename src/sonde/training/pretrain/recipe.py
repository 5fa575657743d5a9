"""A recipe: one TOML file that says everything a pre-trained model depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Lt

from sonde.base.errors import UsageError
from sonde.base.files import read_toml
from sonde.base.options import (
    Count,
    NonNegative,
    OneOf,
    Positive,
    PositiveShare,
    ValidatedRecord,
    build_record,
)
from sonde.training.precision import PRECISIONS
from sonde.training.pretrain.optimiser import OptimiserConfig

ROLES = ("decoder", "encoder")


OBJECTIVES = ("auto", "causal", "masked", "pairs")
"""Auto is ``"causal"`` for a decoder and ``"masked"`` for an encoder."""


SCHEDULES = ("linear", "cosine", "wsd")


PIECES = ("code", "program")


SHORTEST_PAIR = 8
"""Subwords of a pair, three special ones included, below which there is nothing to tell."""


SMALL_VOCABULARY = 1 << 16
"""Subwords up to this number fit two bytes, and the keys of the n-gram model."""


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(ValidatedRecord):
    """One corpus of the training data.

    Attributes:
        name: The corpus as named on the command line.
        language: Public name of the language to take from it.
        share: Its part of the bytes, relative to the other corpora's.
        licences: Keep files whose licence is one of these; each is a whole word or phrase.
        cluster_bytes: At most this many bytes of one distribution or package.
        exclude: Clusters left out altogether.
    """

    name: str
    language: str
    share: Positive = 1.0
    licences: tuple[str, ...] = ()
    cluster_bytes: int = 4_000_000
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DataConfig(ValidatedRecord):
    """Configuration of the training data.

    Attributes:
        corpora: Where files come from.
        bytes: At most this many bytes of text; a larger number extends what a smaller one takes.
        min_chars: Shorter files are left out.
        max_chars: Longer files are left out.
        held_out: Corpora that are never trained on, nor near-copies of them; reserved names always are.
    """

    corpora: tuple[CorpusConfig, ...]
    bytes: int = 30_000_000
    min_chars: int = 200
    max_chars: int = 200_000
    held_out: tuple[str, ...] = ("stdlib",)


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig(ValidatedRecord):
    """Configuration of the vocabulary.

    Attributes:
        pieces: What no subword reaches over: code tokens (``"code"``) or CuBERT's program tokens
            (``"program"``);
            see `sonde.training.pretrain.vocabulary`.
        size: Number of subwords, special pieces included.
        bytes: Learned on this many bytes from the front of the data.
    """

    pieces: Annotated[str, OneOf(PIECES)] = "code"
    size: Count = 8192
    bytes: int = 12_000_000


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ValidatedRecord):
    """A model to be made from nothing.

    Attributes:
        role: ``"decoder"`` (predicts the next subword) or ``"encoder"`` (predicts hidden ones).
        architecture: Its ``model_type`` in transformers.
        context: The longest input, in subwords.
        start: A trained model, by path or hub name, whose weights it begins with; empty for none. The
            vocabulary has to be the same. Learned positions that it lacks repeat those it has.
        settings: Further fields of its configuration.
    """

    role: Annotated[str, OneOf(ROLES)]
    architecture: str
    context: int = 1024
    start: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(ValidatedRecord):
    """Length and batches of a training.

    Attributes:
        steps: Number of updates; known up front, since the decay has to end with the last.
        blocks_per_step: Blocks behind one update, over all devices.
        blocks_at_once: Blocks in one forward pass of one device; the rest is accumulated.
        block: Subwords of a block.
        schedule: ``"linear"``, ``"cosine"`` or ``"wsd"`` (stable after the warm-up, then linear decay). With
            the last, a run that is still stable may be lengthened or shortened: change ``steps`` and resume.
        warmup_steps: Updates in which the rates rise.
        decay: Share of the updates in which ``"wsd"`` decays.
        objective: ``"causal"``, ``"masked"`` (hidden subwords of packed blocks), ``"pairs"`` (hidden subwords
            and the next sentence, see `PairsConfig`), or ``"auto"``: one of the first two, by role.
        masked: Share of subwords that an encoder has to predict.
        log_every: Updates between two points of the loss curve; checkpoints fall on such updates.
        checkpoint_minutes: Time between checkpoints.
        workers: Processes that make samples beside each training process; 0 makes them in it.
        fsdp: Whether weights, gradients and optimiser are spread over the processes.
        precision: Of products: ``"auto"`` (bfloat16 where the device multiplies in it), ``"float32"`` or
            ``"bfloat16"``.
        compile: Whether torch.compile fuses the model's operations first: a minute, a C++ compiler needed. A
            resumed run then equals an undisturbed one up to rounding.
    """

    steps: Count
    blocks_per_step: Count = 16
    blocks_at_once: Count = 16
    block: Annotated[int, Ge(4)] = 256
    schedule: Annotated[str, OneOf(SCHEDULES)] = "wsd"
    warmup_steps: NonNegative = 50
    decay: PositiveShare = 0.3
    objective: Annotated[str, OneOf(OBJECTIVES)] = "auto"
    masked: Annotated[float, Gt(0), Lt(1)] = 0.3
    log_every: Count = 20
    checkpoint_minutes: float = 5.0
    workers: NonNegative = 0
    fsdp: bool = False
    precision: Annotated[str, OneOf(PRECISIONS)] = "auto"
    compile: bool = False


@dataclass(frozen=True, kw_only=True)
class PairsConfig(ValidatedRecord):
    """Configuration of sentence pairs, for the objective ``"pairs"``; a sentence is a logical line.

    Attributes:
        duplicates: How often pairs are derived from the data, each time others with other subwords hidden.
        predictions: Most subwords to predict in a pair; 0 for no limit.
        short: Share of the documents whose pairs aim at a random shorter length.
    """

    duplicates: Count = 10
    predictions: NonNegative = 20
    short: Annotated[float, Ge(0), Lt(1)] = 0.1


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(ValidatedRecord):
    """Configuration of the evaluation of a finished model.

    Attributes:
        corpus: A held-out corpus.
        language: Public name of the language to take from it.
        bytes: Files are drawn by hash until they hold this many.
        ngram: Order of the n-gram model that a decoder is compared with.
    """

    corpus: str = "stdlib"
    language: str = "python"
    bytes: int = 1_000_000
    ngram: int = 4


@dataclass(frozen=True, kw_only=True)
class Recipe(ValidatedRecord):
    """Everything that a pre-trained model depends on.

    Attributes:
        name: Name of the model, and of its folder.
        model: What is trained.
        vocabulary: What its subwords are.
        data: What it reads.
        training: How long.
        pairs: How pairs of sentences are made.
        optimiser: How its weights move.
        evaluation: What it is measured on.
        seed: Of initial weights, order of blocks and hidden subwords.
    """

    name: str
    model: ModelConfig
    vocabulary: VocabularyConfig
    data: DataConfig
    training: TrainingConfig
    pairs: PairsConfig
    optimiser: OptimiserConfig
    evaluation: EvaluationConfig
    seed: int = 0

    @property
    def objective(self) -> str:
        """``"causal"``, ``"masked"`` or ``"pairs"``."""
        if self.training.objective != "auto":
            return self.training.objective
        return "causal" if self.model.role == "decoder" else "masked"


_TABLES: Mapping[str, type[Any]] = {
    "model": ModelConfig,
    "vocabulary": VocabularyConfig,
    "training": TrainingConfig,
    "pairs": PairsConfig,
    "optimiser": OptimiserConfig,
    "evaluation": EvaluationConfig,
}


def read_recipe(path: Path) -> Recipe:
    """Read and check a recipe.

    Raises:
        InputError: There is no such file, or it is not TOML.
        UsageError: A field is unknown, missing, of the wrong kind or out of range.
    """
    raw = read_toml(path, "recipe", empty_lists=True)
    try:
        tables = {name: build_record(kind, raw.get(name, {}), name) for name, kind in _TABLES.items()}
        fields = {"name": path.stem, **raw, **tables, "data": _parse_data(raw.get("data", {}))}
        recipe = build_record(Recipe, fields, "recipe")
    except UsageError as error:
        raise error.located(str(path)) from None
    _check_recipe(recipe, path)
    return recipe


def _parse_data(table: object) -> DataConfig:
    if not isinstance(table, dict):
        raise UsageError(f"data = {table!r} is not a table")
    corpora = table.get("corpora")
    if not isinstance(corpora, list) or not corpora:
        raise UsageError("recipe names no corpus; add a [[data.corpora]] table")
    read = [build_record(CorpusConfig, entry, "corpora") for entry in corpora]
    return build_record(DataConfig, {**table, "corpora": read}, "data")


def _check_recipe(recipe: Recipe, path: Path) -> None:
    """Refuse what cannot be together; what each field can be is checked when it is made."""
    training = recipe.training
    rules = (
        (training.warmup_steps < training.steps, "training.warmup_steps", "below the steps"),
        (
            training.block <= recipe.model.context,
            "training.block",
            f"4 to the context, {recipe.model.context}",
        ),
        (
            training.blocks_per_step % training.blocks_at_once == 0,
            "training.blocks_per_step",
            f"a multiple of blocks_at_once, {training.blocks_at_once}",
        ),
        (
            recipe.vocabulary.size <= SMALL_VOCABULARY or recipe.model.role == "encoder",
            "vocabulary.size",
            f"at most {SMALL_VOCABULARY} for a decoder, which is compared with n-grams",
        ),
        (
            (recipe.objective == "causal") == (recipe.model.role == "decoder"),
            "training.objective",
            "causal for a decoder, masked or pairs for an encoder",
        ),
        (
            training.block >= SHORTEST_PAIR or recipe.objective != "pairs",
            "training.block",
            f"at least {SHORTEST_PAIR} for pairs",
        ),
        (not (training.compile and training.fsdp), "training.compile", "false with training.fsdp"),
        (
            recipe.optimiser.hidden == "adamw" or not training.fsdp,
            "optimiser.hidden",
            "adamw with training.fsdp: Muon needs whole matrices",
        ),
    )
    for holds, name, fix in rules:
        if not holds:
            value = attrgetter(name)(recipe)
            raise UsageError(f"recipe {str(path)!r}: {name} is {value!r}; it must be {fix}")
