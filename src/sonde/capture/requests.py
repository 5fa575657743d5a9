"""Requests of lenses to a forward pass, prepared items, and the captures of an item, without torch.

A lens states requests; the requests of all lenses over the same input are merged, so that each distinct input
is forwarded once per pass. Every answer is reduced on the device.

A type of request is three things: the request over items that a lens makes, its part for one input (an
`InputRequest`, which says how requests are merged, checked and handed back; the request itself where it is
the same of every item), and the reducer that answers it for batches (`sonde.capture.reducer`). All three may
stand in one file, which nothing else has to know.

`prepare` parses, tokenizes and aligns items for one model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from jaxtyping import Bool, Float, Int, UInt16

from sonde.alignment import align, encode_batch
from sonde.alignment.subwords import Alignment, Subwords
from sonde.base.errors import InputError
from sonde.capture.interventions import Change, PatchedItem
from sonde.corpora import Item
from sonde.languages import LANGUAGES, CodeTokens, Tree
from sonde.models import LoadedModel

Trait = Literal["scores", "prefixes", "text", "attention", "hooks", "single_window"]
"""What a type of request has to be given, or can be.

- ``"scores"``: the last states at all positions that can be scored, and nothing else;
- ``"prefixes"``: what several texts begin with may be read once for all of them;
- ``"text"``: the whole text has to be read, without a gap;
- ``"attention"``: it is read from attention weights;
- ``"hooks"``: it is read inside the model, by hooks;
- ``"single_window"``: an item that does not fit into the model whole has no answer.
"""


class InputRequest:
    """The part of a request for one input; a subclass is a frozen dataclass.

    Attributes:
        answer: What `ItemCapture` calls the answer; a name that is none of its fields is in `extra`.
        reducer: Module and class of the `sonde.capture.reducer.Reducer` of the type, as ``module:Class``; it
            is imported when a model runs. Types of one reducer are answered together.
        traits: See `Trait`.
    """

    __slots__ = ()

    answer: ClassVar[str]
    reducer: ClassVar[str]
    traits: ClassVar[frozenset[Trait]] = frozenset()

    @property
    def positions(self) -> tuple[int, ...]:
        """Return the positions that have to be scored, if not all are."""
        return ()

    def merge(self, other: Any) -> Self:
        """Return what answers both: the union of tuples, the larger number, and None for all.

        Answers come in the order in which things are named.

        Raises:
            InputError: No answer could serve both.
        """
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(_merge_values(getattr(self, name), getattr(other, name)) for name in names))

    def check_single_lens(self) -> None:
        """Refuse what one lens cannot ask of one input.

        Raises:
            InputError: It asks that.
        """

    def check_bounds(self, item: str, subwords: int) -> None:
        """Refuse positions outside the item rather than answer for another one.

        Raises:
            InputError: A position, span or word lies outside.
        """

    def select(self, answer: Any, request: Any) -> Any:
        """Return the part of an answer to all requests that one of them asked for."""
        return answer


def _merge_values(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return None
    if isinstance(first, tuple):
        # Where one is empty the other stays as it is, repetitions included.
        return tuple(dict.fromkeys((*first, *second))) if first and second else first or second
    return max(first, second)


class Request(Protocol):
    """A request of a lens over items."""

    def for_item(self, item: str) -> InputRequest | None:
        """Return what is asked of one item; None for nothing."""
        ...


def select_layers(
    answer: np.ndarray, captured_layers: tuple[int, ...] | None, requested_layers: tuple[int, ...] | None
) -> np.ndarray:
    """Return the requested layers of those captured, in the order of the request."""
    if requested_layers is None:
        # A copy, so that nobody holds on to what others asked for.
        return answer.copy()
    return answer[
        list(requested_layers)
        if captured_layers is None
        else [captured_layers.index(layer) for layer in requested_layers]
    ]


def check_positions(what: str, positions: Iterable[int], item: str, subwords: int) -> None:
    """Refuse positions outside an item.

    Raises:
        InputError: One is.
    """
    for position in positions:
        if not 0 <= position < subwords:
            raise InputError(f"item {item}: {what} {position} is outside its {subwords} subwords")


def _check_spans(spans: Iterable[tuple[int, int]], item: str, subwords: int) -> None:
    for start, stop in spans:
        if not 0 <= start <= stop <= subwords:
            raise InputError(f"item {item}: span {start}..{stop} is outside its {subwords} subwords")


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

    def for_item(self, item: str) -> InputLayers | None:
        """Return the positions of one item, each with the id that it is compared with."""
        other = self.against.get(item, {})
        positions = sorted(set(self.positions.get(item, ())))
        entries = tuple((position, other.get(position, -1)) for position in positions)
        return InputLayers(entries, self.states) if entries else None


@dataclass(frozen=True, slots=True)
class InputLayers(InputRequest):
    """`LayerScores` of one input.

    Attributes:
        entries: Positions, each with the id that it is compared with, -1 for none.
        states: Whether the states are wanted as well.
    """

    answer = "layers"
    reducer = "sonde.capture.layer_scores:LayerScoreReducer"

    entries: tuple[tuple[int, int], ...]
    states: bool = False

    @property
    def positions(self) -> tuple[int, ...]:
        """Return the positions alone."""
        return tuple(position for position, _ in self.entries)

    def check_bounds(self, item: str, subwords: int) -> None:
        """Refuse positions outside the item."""
        check_positions("position", self.positions, item, subwords)

    def select(self, answer: ScoredLayers, request: Self) -> ScoredLayers:
        """Return the requested entries."""
        entries = zip(answer.position.tolist(), answer.other.tolist(), strict=True)
        columns = [index for index, entry in enumerate(entries) if entry in request.entries]
        return ScoredLayers(
            answer.position[columns],
            answer.other[columns],
            *(getattr(answer, name)[:, columns] for name in ("nats", "rank", "top_id", "margin")),
            states=answer.states[:, columns] if request.states and answer.states is not None else None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScoredLayers:
    """Answer to `LayerScores`: layer 0 reads the embeddings, the last one is the model's own prediction.

    Attributes:
        position: The subwords, ascending.
        other: The id that each is compared with, -1 for none.
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
class TokenScores(InputRequest):
    """Log-probability, rank, entropy and the best alternatives at each subword.

    For a decoder the subword is scored from what stands before it; for a masked input, at the masked
    positions only. Ranks count near-ties pessimistically.

    Attributes:
        top_k: How many alternatives are kept a subword.
    """

    answer = "scores"
    reducer = "sonde.capture.scoring:ScoreReducer"
    traits = frozenset({"scores", "prefixes"})

    top_k: int = 5

    def for_item(self, item: str) -> Self:
        """Return the request, which is the same of every item."""
        return self

    def select(self, answer: ScoredSubwords, request: Self) -> ScoredSubwords:
        """Return the scores with as many alternatives as requested."""
        top_k = request.top_k
        return replace(answer, top_ids=answer.top_ids[:, :top_k], top_nats=answer.top_nats[:, :top_k])


@dataclass(frozen=True, slots=True)
class TokenEndScores(InputRequest):
    """Nats from the beginning of a subword to each end of a code token in it, for decoders.

    Tokenizers cut texts at different characters; with these a text can be scored up to the same characters.
    """

    answer = "token_ends"
    reducer = "sonde.capture.scoring:ScoreReducer"
    traits = frozenset({"scores", "prefixes"})

    def for_item(self, item: str) -> Self:
        """Return the request, which is the same of every item."""
        return self


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
class AnswerRanks(InputRequest):
    """Ranks of texts at masked positions: ids that spell the same text are one answer, by the likeliest.

    Attributes:
        answers: For each item id, what is right at its positions; ids are ranked where nothing is named.
        among: Texts that compete in a second ranking, beside that of the whole vocabulary; None for none.
        alone: Whether the second ranking is all that is wanted: the states are then projected on the ids of
            its texts alone, and nothing is known of the whole vocabulary.
    """

    answer = "answers"
    reducer = "sonde.capture.scoring:ScoreReducer"
    traits = frozenset({"scores"})

    answers: Mapping[str, Mapping[int, Answer]]
    among: frozenset[str] | None = None
    alone: bool = False

    def for_item(self, item: str) -> Self | None:
        """Return the request, which is one for all items with answers."""
        return self if item in self.answers else None

    def merge(self, other: Self) -> Self:
        """Return the request if both are the same.

        Raises:
            InputError: They are not.
        """
        if self is not other:
            raise InputError("two requests rank answers of one input; ask for them in one")
        return self


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

    def for_item(self, item: str) -> InputStates | None:
        """Return the poolings and spans of one item.

        Raises:
            InputError: A pooling does not exist.
        """
        unknown = sorted(set(self.pooling) - set(_POOLINGS))
        if unknown:
            raise InputError(f"pooling {unknown[0]!r} does not exist; known: {', '.join(_POOLINGS)}")
        spans = tuple(self.spans.get(item, ())) if "spans" in self.pooling else ()
        return InputStates(self.pooling, self.layers, spans) if self.pooling and self.layers != () else None


_POOLINGS = ("last", "mean", "spans", "summary")


@dataclass(frozen=True, slots=True)
class InputStates(InputRequest):
    """`HiddenStates` of one input.

    Attributes:
        pooling: Poolings.
        layers: Layers; None means all.
        spans: Spans to pool over.
    """

    answer = "states"
    reducer = "sonde.capture.hidden_states:StateReducer"
    traits = frozenset({"text"})

    pooling: tuple[str, ...]
    layers: tuple[int, ...] | None = None
    spans: tuple[tuple[int, int], ...] = ()

    def check_bounds(self, item: str, subwords: int) -> None:
        """Refuse spans outside the item."""
        _check_spans(self.spans, item, subwords)

    def select(self, answer: Mapping[str, np.ndarray], request: Self) -> dict[str, np.ndarray]:
        """Return the requested poolings, layers and spans."""
        states: dict[str, np.ndarray] = {}
        for pooling in request.pooling:
            array = select_layers(answer[pooling], self.layers, request.layers)
            if pooling == "spans":
                array = array[:, [self.spans.index(span) for span in request.spans]]
            states[pooling] = array
        return states


@dataclass(frozen=True, slots=True)
class HeadOutputs:
    """Outputs of heads before the projection that mixes them; of the side that reads the text.

    Attributes:
        spans: For each item id, half-open intervals of subword positions; each is averaged over.
        layers: Which layers; None means all.
    """

    spans: Mapping[str, tuple[tuple[int, int], ...]]
    layers: tuple[int, ...] | None = None

    def for_item(self, item: str) -> InputHeads | None:
        """Return the spans of one item."""
        spans = tuple(self.spans.get(item, ()))
        return InputHeads(spans, self.layers) if spans else None


@dataclass(frozen=True, slots=True)
class InputHeads(InputRequest):
    """`HeadOutputs` of one input.

    Attributes:
        spans: Spans to average over.
        layers: Layers; None means all.
    """

    answer = "heads"
    reducer = "sonde.capture.hidden_states:HeadReducer"
    traits = frozenset({"text", "hooks"})

    spans: tuple[tuple[int, int], ...]
    layers: tuple[int, ...] | None = None

    def check_bounds(self, item: str, subwords: int) -> None:
        """Refuse spans outside the item."""
        _check_spans(self.spans, item, subwords)

    def select(self, answer: np.ndarray, request: Self) -> np.ndarray:
        """Return the requested layers and spans."""
        layers = select_layers(answer, self.layers, request.layers)
        return layers[:, [self.spans.index(span) for span in request.spans]]


@dataclass(frozen=True, slots=True)
class AttentionRows:
    """Rows of the attention matrices (softmax probabilities), for chosen query positions.

    Attributes:
        rows: For each item id, the query subword positions wanted.
        layers: Which layers; None means all.
    """

    rows: Mapping[str, tuple[int, ...]]
    layers: tuple[int, ...] | None = None

    def for_item(self, item: str) -> InputRows | None:
        """Return the rows of one item."""
        rows = tuple(self.rows.get(item, ()))
        return InputRows(rows, self.layers) if rows else None


@dataclass(frozen=True, slots=True)
class InputRows(InputRequest):
    """`AttentionRows` of one input.

    Attributes:
        rows: Query positions.
        layers: Layers; None means all.
    """

    answer = "rows"
    reducer = "sonde.capture.attention_rows:RowReducer"
    traits = frozenset({"text", "attention"})

    rows: tuple[int, ...]
    layers: tuple[int, ...] | None = None

    def check_bounds(self, item: str, subwords: int) -> None:
        """Refuse rows outside the item."""
        check_positions("row", self.rows, item, subwords)

    def select(self, answer: np.ndarray, request: Self) -> np.ndarray:
        """Return the requested layers and rows."""
        layers = select_layers(answer, self.layers, request.layers)
        return layers[:, :, [self.rows.index(row) for row in request.rows]]


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
    """Rules for ranking words by attention.

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

    def check_bounds(self, item: str, subwords: int) -> None:
        """Refuse words outside the item and lookups of words that it does not have.

        Raises:
            InputError: There is such a word or lookup.
        """
        is_outside = (self.first < self.stop) & ((self.first < 0) | (self.stop > subwords))
        if is_outside.any():
            word = int(np.flatnonzero(is_outside)[0])
            raise InputError(f"item {item}: word {word} is outside its {subwords} subwords")
        for lookups in (self.ahead, self.behind):
            for part in (lookups.query, lookups.until, lookups.first, lookups.last):
                if len(part) and not 0 <= int(part.min()) <= int(part.max()) < len(self.first):
                    raise InputError(f"item {item}: a lookup is outside its {len(self.first)} words")
            if (lookups.last < lookups.first).any() or (lookups.until < lookups.query).any():
                raise InputError(f"item {item}: a lookup ends before it begins")


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

    def for_item(self, item: str) -> InputWords | None:
        """Return the words and lookups of one item."""
        return InputWords((self.lookups[item],)) if item in self.lookups else None


@dataclass(frozen=True, slots=True)
class InputWords(InputRequest):
    """`WordAttention` of one input.

    Attributes:
        lookups: The words and lookups of each lens that asks.
    """

    answer = "words"
    reducer = "sonde.capture.word_attention:WordReducer"
    traits = frozenset({"text", "attention", "single_window"})

    lookups: tuple[WordLookups, ...]

    def check_single_lens(self) -> None:
        """Refuse two lookups, whose answers the lens could not tell apart."""
        if len(self.lookups) > 1:
            raise InputError("two requests look up words of one input; ask for them in one")

    def check_bounds(self, item: str, subwords: int) -> None:
        """Refuse words outside the item and lookups of words that it does not have."""
        for lookups in self.lookups:
            lookups.check_bounds(item, subwords)

    def select(self, answer: Sequence[Mapping[str, WordRanks]], request: Self) -> Mapping[str, WordRanks]:
        """Return the ranks of the requested lookups."""
        return answer[self.lookups.index(request.lookups[0])]


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
    """Set what a decoder reads before a text, in passes that leave it open."""
    return tuple(
        replace(lens_pass, variant=_variant_with_bos(lens_pass.variant, start)) for lens_pass in passes
    )


def _variant_with_bos(variant: Variant, start: Start) -> Variant:
    if isinstance(variant, Changed):
        base = _variant_with_bos(variant.of, start)
        return variant if isinstance(base, Changed) else replace(variant, of=base)
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
    """Scores of one item, one row per subword.

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

    @classmethod
    def empty(cls, subwords: int, top_k: int) -> ScoredSubwords:
        """Build rows that hold no score yet."""
        return cls(
            nats=np.full(subwords, np.nan, dtype=np.float32),
            rank=np.zeros(subwords, dtype=np.int32),
            entropy=np.full(subwords, np.nan, dtype=np.float32),
            context=np.zeros(subwords, dtype=np.int32),
            scored=np.zeros(subwords, dtype=np.bool_),
            top_ids=np.full((subwords, top_k), -1, dtype=np.int32),
            top_nats=np.full((subwords, top_k), np.nan, dtype=np.float32),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScoredTokenEnds:
    """Answer to `TokenEndScores`: the ends of code tokens that a subword covers, in text order.

    Attributes:
        subword: The subword that the end is in, or at the end of.
        token: The code token.
        nats: Negative log-probability of all vocabulary entries that begin like the subword up to the end;
            NaN where its spelling is not that of the text.
    """

    subword: Int[np.ndarray, " end"]
    token: Int[np.ndarray, " end"]
    nats: Float[np.ndarray, " end"]


@dataclass(frozen=True, slots=True, eq=False)
class ScoredAnswers:
    """Answer to `AnswerRanks`, one row per subword; NaN and 0 where there is none.

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

    @classmethod
    def empty(cls, subwords: int) -> ScoredAnswers:
        """Build rows without an answer yet."""
        nats, rank = np.full(subwords, np.nan, dtype=np.float32), np.zeros(subwords, dtype=np.int32)
        return cls(nats, rank, nats.copy(), rank.copy())


@dataclass(frozen=True, slots=True, eq=False)
class WordRanks:
    """Answer of one side of a model to `WordAttention`.

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
        patches: Answer to `sonde.capture.interventions.Patches`, in a capture of its own.
        extra: Answers to other types of requests, by their `InputRequest.answer`.
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
    extra: Mapping[str, Any] = field(default_factory=dict)


def prepare(loaded: LoadedModel, items: Iterable[Item]) -> list[Prepared]:
    """Parse, tokenize and align items for a model.

    Raises:
        InputError: The tokenizer gives no offsets that hold.
    """
    return prepare_items(loaded.tokenizer, items)


def prepare_items(tokenizer: Any, items: Iterable[Item]) -> list[Prepared]:
    """Parse, tokenize and align items for the models of a tokenizer; see `prepare`."""
    items = list(items)
    subwords = encode_batch(tokenizer, ((item.text, item.cuts) for item in items))
    return [align_item(item, item_subwords) for item, item_subwords in zip(items, subwords, strict=True)]


def align_item(item: Item, subwords: Subwords) -> Prepared:
    """Parse an item, and align it with its subwords."""
    language = LANGUAGES.load(item.language)
    tree = language.parse(item.text)
    tokens = language.tokens(tree)
    return Prepared(item, tree, tokens, align(subwords, tree, tokens, item=item.path))
