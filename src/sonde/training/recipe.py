"""A recipe: one TOML file that says everything a pre-trained model depends on."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.training.optimiser import OptimiserConfig
from sonde.training.precision import PRECISIONS

ROLES = ("decoder", "encoder")

OBJECTIVES = ("auto", "causal", "masked", "pairs")
"""Auto is ``"causal"`` for a decoder and ``"masked"`` for an encoder."""

PIECES = ("code", "program")

SHORTEST_PAIR = 8
"""Subwords of a pair, three special ones included, below which there is nothing to tell."""

SMALL_VOCABULARY = 1 << 16
"""Subwords up to this number fit two bytes, and the keys of the n-gram model."""


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
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
    share: float = 1.0
    licences: tuple[str, ...] = ()
    cluster_bytes: int = 4_000_000
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What a model reads.

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
class VocabularyConfig:
    """What a model's subwords are.

    Attributes:
        pieces: What no subword reaches over: ``"code"`` for `sonde.training.vocabulary`, ``"program"`` for
            CuBERT's program tokens, `sonde.training.program_vocabulary`.
        size: Number of subwords, special pieces included.
        bytes: Learned on this many bytes from the front of the data.
    """

    pieces: str = "code"
    size: int = 8192
    bytes: int = 12_000_000


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A model to be made from nothing.

    Attributes:
        role: ``"decoder"`` (predicts the next subword) or ``"encoder"`` (predicts hidden ones).
        architecture: Its ``model_type`` in transformers.
        context: The longest input, in subwords.
        start: A trained model, by path or hub name, whose weights it begins with; empty for none. The
            vocabulary has to be the same. Learned positions that it lacks repeat those it has.
        settings: Further fields of its configuration.
    """

    role: str
    architecture: str
    context: int = 1024
    start: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long and in what portions a model is trained.

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

    steps: int
    blocks_per_step: int = 16
    blocks_at_once: int = 16
    block: int = 256
    schedule: str = "wsd"
    warmup_steps: int = 50
    decay: float = 0.3
    objective: str = "auto"
    masked: float = 0.3
    log_every: int = 20
    checkpoint_minutes: float = 5.0
    workers: int = 0
    fsdp: bool = False
    precision: str = "auto"
    compile: bool = False


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """How pairs of sentences are made, for the objective ``"pairs"``; a sentence is a logical line.

    Attributes:
        duplicates: How often pairs are derived from the data, each time others with other subwords hidden.
        predictions: Most subwords to predict in a pair; 0 for no limit.
        short: Share of the documents whose pairs aim at a random shorter length.
    """

    duplicates: int = 10
    predictions: int = 20
    short: float = 0.1


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """What a finished model is measured on.

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
class Recipe:
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


C = TypeVar("C")


def read_recipe(path: Path) -> Recipe:
    """Read and check a recipe.

    Raises:
        InputError: There is no such file, or it is not TOML.
        UsageError: A field is unknown, missing, of the wrong kind or out of range.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"recipe {str(path)!r}: no such file; see the folder recipes/") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {str(path)!r} is not TOML: {error}") from error
    data = dict(_table(raw, "data", path))
    data["corpora"] = tuple(_build(CorpusConfig, entry, path) for entry in data.get("corpora", ()))
    if not data["corpora"]:
        raise UsageError(f"recipe {str(path)!r} names no corpus; add a [[data.corpora]] table")
    recipe = _build(
        Recipe,
        {
            "name": path.stem,
            **raw,
            "model": _build(ModelConfig, _table(raw, "model", path), path),
            "vocabulary": _build(VocabularyConfig, _table(raw, "vocabulary", path), path),
            "data": _build(DataConfig, data, path),
            "training": _build(TrainingConfig, _table(raw, "training", path), path),
            "pairs": _build(PairsConfig, _table(raw, "pairs", path), path),
            "optimiser": _build(OptimiserConfig, _table(raw, "optimiser", path), path),
            "evaluation": _build(EvaluationConfig, _table(raw, "evaluation", path), path),
        },
        path,
    )
    _check(recipe, path)
    return recipe


def _table(raw: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    table = raw.get(name, {})
    if not isinstance(table, dict):
        raise UsageError(f"recipe {str(path)!r}: {name} is {table!r}; write a [{name}] table")
    return table


def _build(kind: type[C], raw: dict[str, Any], path: Path) -> C:
    assert dataclasses.is_dataclass(kind)
    known = {f.name for f in dataclasses.fields(kind)}
    for name in raw:
        if name not in known:
            raise UnknownNameError(f"field of {kind.__name__} in recipe {str(path)!r}", name, known)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
    try:
        return kind(**values)
    except TypeError as error:
        missing = str(error).rpartition(": ")[2]
        raise UsageError(f"recipe {str(path)!r}: {kind.__name__} lacks {missing}") from error


def _check(recipe: Recipe, path: Path) -> None:
    training, data = recipe.training, recipe.data
    rules = (
        (recipe.model.role in ROLES, "model.role", recipe.model.role, " or ".join(ROLES)),
        (training.steps > 0, "training.steps", training.steps, "at least 1"),
        (
            training.schedule in ("linear", "cosine", "wsd"),
            "training.schedule",
            training.schedule,
            "linear, cosine or wsd",
        ),
        (
            0 <= training.warmup_steps < training.steps,
            "training.warmup_steps",
            training.warmup_steps,
            "below the steps",
        ),
        (0 < training.decay <= 1, "training.decay", training.decay, "a share above 0"),
        (
            training.precision in PRECISIONS,
            "training.precision",
            training.precision,
            " or ".join(PRECISIONS),
        ),
        (0 < training.masked < 1, "training.masked", training.masked, "a share between 0 and 1"),
        (
            4 <= training.block <= recipe.model.context,
            "training.block",
            training.block,
            f"4 to the context, {recipe.model.context}",
        ),
        (
            training.blocks_per_step % training.blocks_at_once == 0,
            "training.blocks_per_step",
            training.blocks_per_step,
            f"a multiple of blocks_at_once, {training.blocks_at_once}",
        ),
        (
            recipe.vocabulary.size <= SMALL_VOCABULARY or recipe.model.role == "encoder",
            "vocabulary.size",
            recipe.vocabulary.size,
            f"at most {SMALL_VOCABULARY} for a decoder, which is compared with n-grams",
        ),
        (
            recipe.vocabulary.pieces in PIECES,
            "vocabulary.pieces",
            recipe.vocabulary.pieces,
            " or ".join(PIECES),
        ),
        (training.objective in OBJECTIVES, "training.objective", training.objective, " or ".join(OBJECTIVES)),
        (
            (recipe.objective == "causal") == (recipe.model.role == "decoder"),
            "training.objective",
            training.objective,
            "causal for a decoder, masked or pairs for an encoder",
        ),
        (training.log_every > 0, "training.log_every", training.log_every, "at least 1"),
        (training.workers >= 0, "training.workers", training.workers, "0 or more"),
        (recipe.pairs.duplicates > 0, "pairs.duplicates", recipe.pairs.duplicates, "at least 1"),
        (recipe.pairs.predictions >= 0, "pairs.predictions", recipe.pairs.predictions, "0 or more"),
        (0 <= recipe.pairs.short < 1, "pairs.short", recipe.pairs.short, "a share below 1"),
        (
            training.block >= SHORTEST_PAIR or recipe.objective != "pairs",
            "training.block",
            training.block,
            f"at least {SHORTEST_PAIR} for pairs",
        ),
        (not (training.compile and training.fsdp), "training.compile", True, "false with training.fsdp"),
        (
            recipe.optimiser.hidden == "adamw" or not training.fsdp,
            "optimiser.hidden",
            recipe.optimiser.hidden,
            "adamw with training.fsdp: Muon needs whole matrices",
        ),
        (
            recipe.optimiser.hidden in ("muon", "adamw"),
            "optimiser.hidden",
            recipe.optimiser.hidden,
            "muon or adamw",
        ),
        (
            all(c.share > 0 for c in data.corpora),
            "data.corpora.share",
            [c.share for c in data.corpora],
            "above 0",
        ),
    )
    for holds, name, value, fix in rules:
        if not holds:
            raise UsageError(f"recipe {str(path)!r}: {name} is {value!r}; it must be {fix}")
