"""An external test set: labels that a published file brings, scored beside those of the corpus's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from sonde.base.errors import UsageError
from sonde.corpora import Item, NearDuplicateIndex, Selection, duplicate_tokens, select
from sonde.experiments.lens_choice import LensChoice
from sonde.tasks import Dataset
from sonde.tasks.engine.examples import example_table
from sonde.tasks.engine.sampling import edits_of
from sonde.tasks.engine.user_labels import example_of

OPTION = "external_test"
"""Option of a lens that names the corpus."""

SPLIT = "external"
"""Its split in the data sets."""

_TAKEN = ("", "test")


@dataclass(frozen=True, slots=True)
class ExternalTest:
    """What an external test set is made of.

    Attributes:
        corpus: As named by the user.
        items: All of its items in one language, as they are.
        key: Hash of the files that hold them.
    """

    corpus: str
    items: tuple[Item, ...]
    key: str


def read_external(lens: LensChoice, language: str) -> ExternalTest | None:
    """The external test set that a user asks a lens to score, or None.

    Raises:
        UsageError: No item brings labels of a task of the lens.
        SondeError: The corpus cannot be read.
    """
    corpus = dict(lens.options).get(OPTION)
    if not corpus:
        return None
    # A published test set is taken as it is: nothing is capped, and what repeats counts.
    chosen = select(str(corpus), Selection(languages=(language,), per_cluster=0, near_duplicates=False))
    brought = {given.task.lower() for item in chosen.items for given in item.given}
    if not brought & set(lens.tasks):
        raise UsageError(
            f"lens {lens.name!r}: option {OPTION} = {str(corpus)!r} brings labels of "
            f"{', '.join(sorted(brought)) or 'no task'}, and the run asks {', '.join(lens.tasks)}; "
            "name a file with labels of one of them, as cubert:FILE"
        )
    return ExternalTest(str(corpus), chosen.items, chosen.corpus_hash)


def with_external(made: Dataset, pool: Sequence[Item], external: ExternalTest, language: str) -> Dataset:
    """A data set with the second test set beside its own.

    Of train and valid, what nearly repeats an item of the second test set is left out, with whatever else
    comes from the same function.

    Args:
        made: The data set.
        pool: What it was drawn from.
        external: The external test set.
        language: Public name of the language.
    """
    added = _examples(made, external, language)
    if added.is_empty():
        return made
    index = NearDuplicateIndex()
    for item in external.items:
        index.add(item.item_id, duplicate_tokens(item.text))
    texts = {item.item_id: item.text for item in (*pool, *made.inputs)}
    near = _near(made.examples, texts, index)
    kept = made.examples.filter(~pl.col("source_id").is_in(pl.Series(near, dtype=pl.String).implode()))
    about = {
        "corpus": external.corpus,
        "examples": added.height,
        "left out for it": made.examples.height - kept.height,
    }
    return dataclasses.replace(made, examples=pl.concat([kept, added]), report={**made.report, OPTION: about})


def _examples(made: Dataset, external: ExternalTest, language: str) -> pl.DataFrame:
    edits = edits_of(language)
    rows = [
        example_of(item, given, edits)
        for item in external.items
        for given in item.given
        if given.task.lower() == made.task and given.split in _TAKEN
    ]
    table = example_table([("test", False, row) for row in rows], made.task, made.version)
    # An example that is in both test sets is two examples.
    names = pl.concat_str(pl.lit(f"{SPLIT}-"), "example_id")
    return table.with_columns(example_id=names, split=pl.lit(SPLIT))


def _near(examples: pl.DataFrame, texts: Mapping[str, str], index: NearDuplicateIndex) -> list[str]:
    """Sources of train and valid that nearly repeat an item of the index."""
    asked = examples.filter(pl.col("split") != "test").select("source_id", "item_id").unique()
    return sorted(
        {
            source
            for source, item in asked.iter_rows()
            if index.find(duplicate_tokens(texts[item])) is not None
        }
    )
