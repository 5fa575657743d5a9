"""Requests of lenses to a forward pass, prepared items, and the captures of an item, without torch.

A lens states requests; the plan unions the requests of all lenses over the same input, so that each
distinct input is forwarded once per pass. Every answer is reduced on the device. Single layers can be
requested too: `LayerScores` are read off each layer through the head.

`prepare` parses, tokenizes and aligns items for one model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, UInt16

from sonde.alignment import align, encode
from sonde.alignment.subwords import Alignment
from sonde.capture.interventions import Change, PatchedItem, Patches
from sonde.corpora import Item
from sonde.languages import LANGUAGES, CodeTokens, Tree
from sonde.models import LoadedModel


@dataclass(frozen=True, slots=True)
class LayerScores:
    """Score of the right subword read off every layer: its state, the model's own final norm, and its head.

    The logit lens (nostalgebraist 2020). Only what `TokenScores` would score is: of a decoder what something
    stands before, of a masked input the masked subwords.

    Attributes:
        positions: For each item id, the subword positions that are scored.
        against: For each item id and some of its positions, an id that could stand there in the place of the
            right one: what the two differ by is wanted as well.
        states: Whether the states that are read are wanted as well.
    """

    positions: Mapping[str, tuple[int, ...]]
    against: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    states: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ScoredLayers:
    """Answer to `LayerScores`: layer 0 reads the embeddings, the last one is the model's own prediction.

    Attributes:
        position: The subwords, ascending.
        other: The id that each is held against, -1 for none.
        nats: Negative log-probability of the subword.
        rank: Its rank, 1 is the best; near-ties count against it.
        top_id: The id that the layer finds likeliest.
        margin: Logit of the right subword less that of the other one; NaN where no other was named.
        states: The states that were read, before the model's final norm but for the last layer's, which are
            what the head is given; None where they were not asked for.
    """

    position: Int[np.ndarray, " position"]
    other: Int[np.ndarray, " position"]
    nats: Float[np.ndarray, "layer position"]
    rank: Int[np.ndarray, "layer position"]
    top_id: Int[np.ndarray, "layer position"]
    margin: Float[np.ndarray, "layer position"]
    states: Float[np.ndarray, "layer position d_model"] | None = None


Start = Literal["auto", "none", "always", "tokenizer"]
"""What a decoder reads before a text.

``auto`` is its start token, or its end of text in place of one, where it has either; with ``always`` a model
that has neither is refused; with ``none`` nothing stands there, so that the first subword is not scored; and
with ``tokenizer`` whatever the tokenizer puts there by itself.
"""


@dataclass(frozen=True, slots=True)
class Plain:
    """The item as it is.

    Attributes:
        start: What a decoder reads before it.
        cut: Whether a decoder reads only as much of it as fits at once, as a tokenizer truncates; else later
            windows read the rest.
        before: For each item id, text that a decoder reads before the item and is not scored on: as much of
            its end as fits beside the whole item. Each of the two keeps its own subwords.
        padded: Whether it is filled up to the decoder's context with pad ids that nothing attends to, and
            these alone are scored. No measurement wants that; published code counts pads.
    """

    start: Start = "auto"
    cut: bool = False
    before: Mapping[str, str] = field(default_factory=dict)
    padded: bool = False


@dataclass(frozen=True, slots=True)
class Masked:
    """The item with some subwords replaced by the mask token; several variants an item are allowed.

    An encoder-decoder is shown one gap in place of all of them, and its decoder writes them one after the
    other: each is scored with those before it known. A decoder with tokens for filling in reads both sides of
    the gap, then writes likewise. They have to be one run, and nothing but scores can be asked for.

    Attributes:
        positions: For each item id, one tuple of subword positions a variant.
    """

    positions: Mapping[str, tuple[tuple[int, ...], ...]]


@dataclass(frozen=True, slots=True)
class Changed:
    """The item, as it is or masked, read with something changed on the way; weights never change.

    Items that a change does not concern are not read.

    Attributes:
        of: What is read.
        changes: What is changed; of several at one place the later one changes what the earlier one left.
        name: What the captures of it are told by, `ItemCapture.change`.
    """

    of: Plain | Masked
    changes: tuple[Change, ...]
    name: str


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Log-probability, rank, entropy and the best alternatives at each subword.

    For a decoder the subword is scored from what stands before it; for a masked input, at the masked
    positions only. Ranks count near-ties pessimistically.

    Attributes:
        top_k: How many alternatives are kept a subword.
    """

    top_k: int = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """The text that is right at a masked position.

    Attributes:
        text: What is spelled there.
        word_start: Whether a blank, or nothing, stands before it.
        initial: Whether it begins a word, which some vocabularies mark.
    """

    text: str
    word_start: bool
    initial: bool


@dataclass(frozen=True, slots=True, eq=False)
class AnswerRanks:
    """Ranks of texts at masked positions: ids that spell the same text are one answer, by the likeliest.

    Attributes:
        answers: For each item id, what is right at its positions; ids are ranked where nothing is named.
        among: Texts that compete in a second ranking, beside that of the whole vocabulary; None for none.
        alone: Whether the second ranking is all that is wanted: the states are then projected on the ids of
            its texts alone, and nothing is known of the whole vocabulary.
    """

    answers: Mapping[str, Mapping[int, Answer]]
    among: frozenset[str] | None = None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """Pooled hidden states.

    Attributes:
        layers: Which layers, 0 the embeddings; None means all.
        pooling: Any of ``"mean"`` (over the item's subwords), ``"summary"`` (the family's summary token),
            ``"last"`` (the last subword) and ``"spans"`` (the mean over each span in ``spans``).
        spans: For each item id, half-open intervals of subword positions.
    """

    layers: tuple[int, ...] | None = None
    pooling: tuple[str, ...] = ("mean",)
    spans: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeadOutputs:
    """What heads give at places, before the projection that mixes them; of the side that reads the text.

    Attributes:
        spans: For each item id, half-open intervals of subword positions; each is averaged over.
        layers: Which layers; None means all.
    """

    spans: Mapping[str, tuple[tuple[int, int], ...]]
    layers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class AttentionRows:
    """Rows of the attention matrices (softmax probabilities), for chosen query positions.

    Attributes:
        rows: For each item id, the query subword positions wanted.
        layers: Which layers; None means all.
    """

    rows: Mapping[str, tuple[int, ...]]
    layers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Lookups:
    """Words looked up in the attention of other words; one entry a lookup, runs of words include their last.

    Attributes:
        query: The first word whose attention is ranked.
        until: The last such word.
        first: The first word that is looked for.
        last: The last such word.
    """

    query: Int[np.ndarray, " lookup"]
    until: Int[np.ndarray, " lookup"]
    first: Int[np.ndarray, " lookup"]
    last: Int[np.ndarray, " lookup"]

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True, slots=True)
class RankRules:
    """How words are ranked by the attention that they get.

    Attributes:
        later_wins: Among equal words the later one ranks first, as CodeSyntax's sort leaves them; else ties
            count against the word that is looked for.
        self_competes: A word ranks itself too, with no weight, as CodeSyntax does; else it is left out.
        picks: Whether the word that ranks first is wanted as well.
    """

    later_wins: bool = False
    self_competes: bool = False
    picks: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class WordLookups:
    """The words of one item, and what is looked up in the attention between them.

    Attributes:
        first: First subword of each word. Words may share subwords; each then gets the whole attention.
        stop: One past its last subword; at or under `first` for a word that no subword belongs to.
        candidates: Words that may be ranked.
        ahead: Lookups for attention that sees the whole text, cross-attention included.
        behind: Lookups for attention that sees only what stands before a word.
        rules: How words are ranked.
        heads: By side of the model, heads (layer, head) whose attention between all words is wanted itself,
            in the layers' order: it grows with the square of the words, so it is for an item to be drawn.
    """

    first: Int[np.ndarray, " word"]
    stop: Int[np.ndarray, " word"]
    candidates: Bool[np.ndarray, " word"]
    ahead: Lookups
    behind: Lookups
    rules: RankRules = RankRules()
    heads: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WordAttention:
    """Ranks of words by the attention that other words pay them, in every head.

    The attention of a word is the mean over its subwords' rows, summed over the subwords of each other word;
    what special tokens get is left out, nothing is rescaled. An item that does not fit into the model whole
    is not answered.

    Attributes:
        lookups: For each item id, its words and what is looked up.
    """

    lookups: Mapping[str, WordLookups]


Request = (
    TokenScores
    | AnswerRanks
    | HiddenStates
    | LayerScores
    | HeadOutputs
    | AttentionRows
    | WordAttention
    | Patches
)


Variant = Plain | Masked | Changed


@dataclass(frozen=True, slots=True)
class Pass:
    """One input variant and what is wanted of it.

    Attributes:
        variant: The input.
        requests: What is wanted.
        kinds: Kinds of model that it is for, so that each is asked as it can be; empty for all.
        items: Ids of the items that it is for; None for all.
    """

    variant: Variant
    requests: tuple[Request, ...]
    kinds: tuple[str, ...] = ()
    items: frozenset[str] | None = None


def with_bos(passes: Iterable[Pass], start: Start) -> tuple[Pass, ...]:
    """The passes with what a decoder reads before a text, where they leave that open."""
    return tuple(replace(one, variant=_variant_with_bos(one.variant, start)) for one in passes)


def _variant_with_bos(variant: Variant, start: Start) -> Variant:
    if isinstance(variant, Changed):
        of = _variant_with_bos(variant.of, start)
        return variant if isinstance(of, Changed) else replace(variant, of=of)
    if isinstance(variant, Plain) and variant.start == "auto":
        return replace(variant, start=start)
    return variant


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """One item made ready for a tokenizer: tree, code tokens and alignment."""

    item: Item
    tree: Tree
    tokens: CodeTokens
    alignment: Alignment


@dataclass(frozen=True, slots=True, eq=False)
class ScoredSubwords:
    """Scores of one item, one row a subword.

    Attributes:
        nats: Negative natural log-probability of the subword; NaN where it was not scored.
        rank: 1 is the best; 0 where not scored.
        entropy: Entropy of the predictive distribution in nats.
        context: How many subwords of the item the model could see before this one.
        scored: Whether the row holds a score.
        top_ids: Vocabulary ids of the best alternatives, best first.
        top_nats: Their negative log-probabilities.
    """

    nats: Float[np.ndarray, " subword"]
    rank: Int[np.ndarray, " subword"]
    entropy: Float[np.ndarray, " subword"]
    context: Int[np.ndarray, " subword"]
    scored: Bool[np.ndarray, " subword"]
    top_ids: Int[np.ndarray, "subword top_k"]
    top_nats: Float[np.ndarray, "subword top_k"]


@dataclass(frozen=True, slots=True, eq=False)
class ScoredAnswers:
    """Answer to `AnswerRanks`, one row a subword; NaN and 0 where there is none.

    Attributes:
        nats: Negative log-probability of the likeliest right id, over the whole vocabulary.
        rank: Rank of the right text among all texts, near-ties against it.
        shared_nats: The same id among the ids of the texts of the second ranking alone: a probability given
            that one of them is written, so never more nats than `nats`.
        shared_rank: Rank of the right text among those texts; 0 where it is none of them.
    """

    nats: Float[np.ndarray, " subword"]
    rank: Int[np.ndarray, " subword"]
    shared_nats: Float[np.ndarray, " subword"]
    shared_rank: Int[np.ndarray, " subword"]


@dataclass(frozen=True, slots=True, eq=False)
class WordRanks:
    """What one side of a model answers to `WordAttention`.

    Attributes:
        ranks: Rank that the first query word gives the first word looked for, that the last one gives the
            last, and the best that any of them gives any; 1 is the best, `NEVER` where there is no candidate.
        picks: The word that ranks first for the first query word, where that was asked for.
        attention: What each word pays to each other in the heads asked for; NaN for no candidate.
        sinks: Share of its attention that a query word pays to the first token that the model reads, and to
            the special tokens behind the text (NaN where there are none), mean over the query words.
    """

    ranks: UInt16[np.ndarray, "layer head lookup 3"]
    picks: UInt16[np.ndarray, "layer head lookup"] | None = None
    attention: Float[np.ndarray, "wanted word word"] | None = None
    sinks: Float[np.ndarray, "layer head 2"] | None = None


NEVER = 65535
"""Rank of a word that is no candidate."""


@dataclass(frozen=True, slots=True, eq=False)
class ItemCapture:
    """Everything captured for one input variant of one item; fields not asked for are empty.

    Attributes:
        item_id: The item.
        variant: Index among the item's variants (0 for the plain one).
        scores: Answer to `TokenScores`.
        states: Answer to `HiddenStates`: for each pooling an array (layer, d_model), for ``"spans"``
            (layer, span, d_model).
        rows: Answer to `AttentionRows`: (layer, head, row, subword), columns over the item's subwords.
        pad: Of a `Plain.padded` variant the id of the pads, one row of ``scores`` each; else None.
        words: Answer to `WordAttention` by side of the model: ``"encoder"``, ``"decoder"`` (whose lookups are
            those `behind`) and ``"cross"`` (from decoder words to encoder words); empty where the item is
            longer than the model can take at once.
        written: Whether a decoder filled a gap, so that each masked subword is scored with those before it
            known; else each was masked together with the others.
        answers: Answer to `AnswerRanks`.
        heads: Answer to `HeadOutputs`.
        change: Name of the `Changed` input; empty where nothing is changed.
        layers: Answer to `LayerScores`.
        patches: Answer to `Patches`, in a capture of its own.
    """

    item_id: str
    variant: int = 0
    scores: ScoredSubwords | None = None
    states: Mapping[str, Float[np.ndarray, ...]] = field(default_factory=dict)
    rows: Float[np.ndarray, "layer head row subword"] | None = None
    pad: int | None = None
    words: Mapping[str, WordRanks] = field(default_factory=dict)
    written: bool = False
    answers: ScoredAnswers | None = None
    heads: Float[np.ndarray, "layer span head d_head"] | None = None
    change: str = ""
    layers: ScoredLayers | None = None
    patches: PatchedItem | None = None


def prepare(loaded: LoadedModel, items: Iterable[Item]) -> list[Prepared]:
    """Parse, tokenize and align items for a model.

    Raises:
        InputError: The tokenizer gives no offsets that hold.
    """
    return prepare_items(loaded.tokenizer, items)


def prepare_items(tokenizer: Any, items: Iterable[Item]) -> list[Prepared]:
    """Parse, tokenize and align items for the models of a tokenizer; see `prepare`."""
    prepared: list[Prepared] = []
    for item in items:
        language = LANGUAGES.load(item.language)
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        alignment = align(encode(tokenizer, item.text, item.cuts), tree, tokens, item=item.path)
        prepared.append(Prepared(item, tree, tokens, alignment))
    return prepared
