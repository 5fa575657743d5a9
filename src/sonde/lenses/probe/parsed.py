"""The functions whose syntax trees structural probes look for, with the states of their code tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.base.errors import InputError
from sonde.corpora import Item, split
from sonde.languages import LANGUAGES, CodeTokens, Tree
from sonde.lenses._lens import Scoring
from sonde.lenses._states import unpack
from sonde.lenses.probe.observe import SPAN, looked_at
from sonde.lenses.probe.options import Probing
from sonde.results import Score, left_out

_AT_ONCE = 128

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class ParsedFunction:
    """A function whose code parses and whose code tokens all have a state.

    Attributes:
        tree: Its tree.
        tokens: Its code tokens.
        states: Their states.
    """

    tree: Tree
    tokens: CodeTokens
    states: Float[np.ndarray, "layer token d_model"]


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """Functions in the order of their ids.

    Attributes:
        names: Their ids.
        texts: What was read of each.
        split: The part of each; parts share no cluster.
        clusters: The cluster of each.
    """

    names: Sequence[str]
    texts: Sequence[ParsedFunction]
    split: Sequence[str]
    clusters: Sequence[str]

    def of(self, part: str, values: Sequence[T]) -> list[T]:
        """Of one value a function, those of a part."""
        return [value for value, own in zip(values, self.split, strict=True) if own == part]

    def tested(self, values: Sequence[T]) -> list[T]:
        """Of one value a function, those of the test part."""
        return self.of("test", values)

    @property
    def tested_clusters(self) -> Int[np.ndarray, " tested"]:
        """A number a cluster of the tested functions."""
        return np.unique(self.tested(self.clusters), return_inverse=True)[1]

    def only(self, names: Sequence[str]) -> Functions:
        """Those of some ids, in the parts that they have here."""
        kept = [at for at, name in enumerate(self.names) if name in set(names)]
        return Functions(
            [self.names[at] for at in kept],
            [self.texts[at] for at in kept],
            [self.split[at] for at in kept],
            [self.clusters[at] for at in kept],
        )


def structural_rows(scoring: Scoring, options: Probing) -> Iterator[Score]:
    """The rows of both probes of trees, of the model and of those with random weights."""
    from sonde.lenses.probe.structure import distances
    from sonde.lenses.probe.trees import trees, trees_beside

    template = dataclasses.replace(scoring.template, split="test", pooling=SPAN)
    try:
        own = functions_of(scoring.observations, scoring, options.structural)
        yield from distances(own, options, template)
        yield from trees(own, options, template)
        controls: list[tuple[int, Functions]] = []
        for control in scoring.controls:
            seed = control.control.seed
            controls.append((seed, functions_of(control.observations, scoring, options.structural)))
            at = dataclasses.replace(template, control="random_weights", seed=seed)
            yield from distances(controls[-1][1], options, at)
        yield from trees_beside(own, controls, options, template)
    except InputError as error:
        yield left_out(template, str(error))


def functions_of(observations: pl.LazyFrame, scoring: Scoring, share: float) -> Functions:
    """The functions that are looked at, dealt to parts by cluster.

    Raises:
        InputError: There are none.
    """
    texts = _read(observations, scoring, share)
    facts = scoring.items.filter(pl.col("item_id").is_in(list(texts))).unique("item_id").sort("item_id")
    items = [
        Item(name, "", language, "function", cluster=cluster)
        for name, language, cluster in facts.select("item_id", "language", "cluster").iter_rows()
    ]
    sides = split(items, seed=scoring.template.seed)
    names = [item.item_id for item in items]
    return Functions(
        names,
        [texts[name] for name in names],
        [sides[name] for name in names],
        [item.cluster for item in items],
    )


def _read(observations: pl.LazyFrame, scoring: Scoring, share: float) -> dict[str, ParsedFunction]:
    units: Mapping[str, str] = dict(scoring.items.select("item_id", "unit").iter_rows())
    language = LANGUAGES.load(scoring.template.language)
    chosen: dict[str, tuple[Tree, CodeTokens]] = {}
    for item, text in scoring.texts.select("item_id", "text").collect().unique("item_id").iter_rows():
        tree = language.parse(text)
        tokens = language.tokens(tree)
        # A node around interpolations may be several tokens, of which a tree knows one place only.
        whole = not tree.has_error and len(np.unique(tokens.node)) == len(tokens)
        if item in units and whole and looked_at(item, units[item], len(tokens), share):
            chosen[item] = tree, tokens
    found: dict[str, ParsedFunction] = {}
    order = sorted(chosen)
    for begin in range(0, len(order), _AT_ONCE):
        few = order[begin : begin + _AT_ONCE]
        spans = observations.filter((pl.col("pooling") == SPAN) & pl.col("item_id").is_in(few))
        for (item,), rows in spans.collect().partition_by("item_id", as_dict=True).items():
            tree, tokens = chosen[str(item)]
            places = pl.DataFrame({"start": tokens.start, "end": tokens.end}).cast(pl.Int32)
            held = rows.unique(["start", "end"])
            joined = places.join(held, on=["start", "end"], how="left", maintain_order="left")
            if not joined["states"].null_count():
                scale = np.array(joined["scale"].to_list(), dtype=np.float32)
                found[str(item)] = ParsedFunction(tree, tokens, unpack(joined["states"].to_list(), scale))
    if not found:
        raise InputError(
            "structural probe: no function is short enough and has every token; raise structural"
        )
    return found
