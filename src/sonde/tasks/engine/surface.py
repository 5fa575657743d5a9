"""Baselines that read no code: what the surface and local cues of a data set's examples predict.

They are what a probe or a fine-tuned model has to beat. Each learns on train, takes its setting from valid
and predicts test:

- ``majority``: the commonest class;
- ``length``: code tokens and characters, by a decision tree, which needs no order of classes;
- ``bag_of_tokens``: counts of words and signs, by logistic regression;
- ``parse_error``: whether the text parses;
- ``artefacts`` (texts and pairs): what the making of the examples left, by a decision tree;
- ``surface`` (tokens and pairs): the tokens' own characters, by logistic regression over character n-grams;
- ``type`` (tokens): the commonest class of the same token in train;
- ``distance`` (pairs): how far apart the two are, by a decision tree.

For tokens and pairs the first two and the last three are what there is to know outside the context; the text
around says nothing about which token is asked for. What stands right beside a token is no trick of a data set
but belongs to the language: that baseline (local cues), of which none of these is a part, is
`predict_local_cues`.

Generated bugs may give themselves away by their neighbours. A bag of tokens does not see a name or operand
that changed places with another; two tokens in a row may (`bias_predictions`):

- ``bag_of_bigrams``: counts of neighbouring tokens, and of tokens, by logistic regression;
- ``ngram_surprisal``: under which of two n-gram models a text is less surprising, that of the functions
  without a bug or that of those with one (interpolated Kneser-Ney over whole tokens); the longest n-gram is
  chosen on valid.
"""

from __future__ import annotations

import functools
import math
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int
from numpy.typing import NDArray

from sonde.corpora import Item
from sonde.corpora.engine.ngram import NGram
from sonde.languages import LANGUAGES, get_facet, has_facet
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import OBJECTIONS
from sonde.tasks.engine.sampling import get_edits
from sonde.tasks.engine.task import Dataset

PARSES, HEAD, OVERLAP, OWN_NAME, MARKS = "parses", "head", "overlap", "own_name", "marks"


RULES = (PARSES, *OBJECTIONS, HEAD, OVERLAP, OWN_NAME, MARKS)
"""The code parses; how often a compiler objects to it, by kind; how rare the first keyword of its head is
among the examples; the share of the words of the pair's second side that stand in the first; the name of the
function among the words about it; how many of the two marks stand on no declaration."""


ExampleRows = Sequence[Mapping[str, Any]]


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


_IDENTIFIER = re.compile(r"\w+")


def artefact_features(rows: ExampleRows, texts: Mapping[str, Item]) -> list[tuple[float, ...]]:
    """Return the numbers of `RULES` for each example; 0 where a rule says nothing of it.

    Args:
        rows: Examples in `sonde.tasks.engine.task.EXAMPLE_SCHEMA`.
        texts: Their items by id.
    """
    # Where only some have another end, as functions with a bug have, that would be the label itself.
    is_paired = all(row["other_start"] is not None for row in rows)
    features = [_compute_features(row, texts[row["item_id"]], is_paired=is_paired) for row in rows]
    heads = Counter(head for head, _ in features)
    head_index = RULES.index(HEAD)
    return [
        (*numbers[:head_index], 1 - heads[head] / len(features), *numbers[head_index:])
        for head, numbers in features
    ]


def _compute_features(
    row: Mapping[str, Any], item: Item, *, is_paired: bool
) -> tuple[str, tuple[float, ...]]:
    """Compute the first keyword of the head, and the numbers of all other rules."""
    edits = get_edits(item.language)
    is_function = row["start"] == 0
    code = extract_code(row, item.text, is_paired=is_paired)
    sides = [item.text[row["start"] : row["end"]], item.text[row["other_start"] : row["other_end"]]]
    overlap = _overlap(*sides) if is_paired else 0.0
    has_name = float(is_paired and is_function and _holds_name(sides[1], code, item.language))
    if edits is None:
        return "", (0.0,) * (1 + len(OBJECTIONS)) + (overlap, has_name, 0.0)
    objections = edits.count_objections(code)
    kinds = Counter[str]()
    for (kind, _), times in objections.items():
        kinds[kind] += times
    marks = 0.0
    if is_paired and not is_function and has_facet(item.language, "flow"):
        flow = get_facet(item.language, "flow", Flow)
        declarations = {variable.declaration.start for variable in flow.variables(code)}
        marks = float(sum((row[side] not in declarations) for side in ("start", "other_start")))
    numbers = (
        float(edits.parses(code)),
        *(float(kinds[kind]) for kind in OBJECTIONS),
        overlap,
        has_name,
        marks,
    )
    return next((span.surface for span in edits.keyword_spans(code)), ""), numbers


def extract_code(row: Mapping[str, Any], text: str, *, is_paired: bool) -> str:
    """Return the code of an example, without the words that follow a function."""
    return text[: row["end"]] if is_paired and row["start"] == 0 else text


def _overlap(code: str, words: str) -> float:
    """Return the share of the words of the second side that occur in the first."""
    code_words = {word.lower() for word in _WORD.findall(code)}
    compared_words = [word.lower() for word in _WORD.findall(words)]
    return sum(word in code_words for word in compared_words) / len(compared_words) if compared_words else 0.0


def _holds_name(words: str, code: str, language: str) -> bool:
    functions = LANGUAGES.load(language).functions(code)
    name = functions[0].name if functions else ""
    return not {*_split_identifiers(name)}.isdisjoint(_split_identifiers(words))


def _split_identifiers(text: str) -> list[str]:
    """Return the words of a text in lower case, without the underscores around them."""
    return [word.lower().strip("_") for word in _IDENTIFIER.findall(text) if word.strip("_")]


_LEXER = re.compile(
    r"\w+|>>>=|\*\*=|//=|<<=|>>=|>>>|\.\.\.|\+\+|--|&&|\|\||->|::|\*\*|//|<<|>>|[-+*/%&|^!=<>:@]=|[^\w\s]"
)


_CACHE_SIZE = 20_000


_FEATURES = 300


_PENALTY = 0.01


@functools.lru_cache(maxsize=_CACHE_SIZE)
def bag_words(text: str) -> tuple[str, ...]:
    """Split a text into words and signs, those of strings and comments included.

    The same tokens are read whether or not the text parses.
    """
    return tuple(map(sys.intern, split_words(text)))


def split_words(text: str) -> list[str]:
    """Return the words and signs of a text in order."""
    return _LEXER.findall(text)


def faultiness(texts: Sequence[str], faulty: Sequence[bool]) -> Float[np.ndarray, " text"]:
    """Score how faulty each text looks by its commonest words alone (a propensity score).

    Ridge regression of the side on the logarithms of the counts of the commonest words. Faults and untouched
    texts of equal scores have, on average, equal counts of every one of these words (Rosenbaum and Rubin,
    "The central role of the propensity score", Biometrika 1983).

    Args:
        texts: Faulty and untouched texts.
        faulty: Which of them are faulty.

    Returns:
        Scores, about 0 for what looks untouched and 1 for what looks faulty.
    """
    text_counts = Counter(word for text in texts for word in set(bag_words(text)))
    words = sorted(text_counts, key=lambda word: (-text_counts[word], word))[:_FEATURES]
    columns = {word: number for number, word in enumerate(words)}
    counts = np.zeros((len(texts), len(words)))
    for row, text in enumerate(texts):
        for word, count in Counter(bag_words(text)).items():
            if word in columns:
                counts[row, columns[word]] = count
    features = np.log1p(counts)
    features -= features.mean(0)
    features /= features.std(0) + 1e-9
    side = np.asarray(faulty, np.float64)
    gram = features.T @ features / len(texts) + _PENALTY * np.eye(len(words))
    weights = np.linalg.solve(gram, features.T @ (side - side.mean()) / len(texts))
    return features @ weights + side.mean()


SURFACE_SCHEMA: Mapping[str, type[pl.DataType]] = {
    "example_id": pl.String,
    "control": pl.String,
    "prediction": pl.String,
    "correct": pl.Boolean,
    "chosen": pl.Boolean,
}
"""Columns of `surface_predictions`: one row a test example and baseline.

``chosen``: whether the baseline is the best on validation in the fold that tests the example, of equals the
first. It is the one to beat: the best on test would be chosen on the data that it is compared on.
"""


_STRENGTHS = (0.003, 0.03, 0.3, 3.0)


_LEAVES = (2, 4, 8, 16, 32, 64)


_STEPS = 300


_TOLERANCE = 1e-3


_SEED = 0


Rows = list[dict[str, Any]]


Labels = NDArray[np.str_]


Parts = tuple[Int[np.ndarray, " train"], Int[np.ndarray, " valid"], Int[np.ndarray, " test"]]
"""Rows that a baseline learns on, takes its setting from and predicts."""


Baseline = Callable[[Labels, Parts], Sequence[str]]


Fit = Callable[[Any, Labels, Any], Sequence[Labels]]


def surface_predictions(
    dataset: Dataset, items: Iterable[Item], folds: Sequence[Parts] | None = None
) -> pl.DataFrame:
    """Predict the test examples with every baseline, in `SURFACE_SCHEMA`.

    Args:
        dataset: The data set.
        items: The items that it was built from; its own derived items need not be among them.
        folds: Rows of the data set that train, choose and are tested, in each fold; None takes its splits.
    """
    texts = {item.item_id: item for item in (*items, *dataset.inputs)}
    rows = dataset.examples.to_dicts()
    labels = np.array([row["label"] for row in rows], dtype=np.str_)
    if folds is None:
        split = dataset.examples["split"].to_numpy()
        train, valid, test = (np.flatnonzero(split == part) for part in ("train", "valid", "test"))
        folds = [(train, valid, test)]
    baselines = _baselines(rows, texts)
    prediction_rows: list[tuple[str, str, str, bool, bool]] = []
    for parts in folds:
        fold_predictions, best = _predict_fold(baselines, labels, parts)
        for name, predictions in fold_predictions.items():
            for row, prediction in zip(parts[2].tolist(), predictions, strict=True):
                right = prediction == labels[row]
                prediction_rows.append((rows[row]["example_id"], name, prediction, bool(right), name == best))
    order = {name: index for index, name in enumerate(baselines)}
    prediction_rows.sort(key=lambda row: order[row[1]])
    return pl.DataFrame(prediction_rows, schema=dict(SURFACE_SCHEMA), orient="row")


def _predict_fold(
    baselines: Mapping[str, Baseline], labels: Labels, parts: Parts
) -> tuple[dict[str, list[str]], str]:
    """Predict the test examples of a fold with all baselines, and name the best on validation."""
    train, valid, test = parts
    evaluation_parts = train, valid, np.concatenate([valid, test])
    predictions = {
        name: np.asarray(baseline(labels, evaluation_parts)) for name, baseline in baselines.items()
    }
    on_valid = {
        name: float(np.mean(prediction[: len(valid)] == labels[valid]))
        for name, prediction in predictions.items()
    }
    best = max(on_valid, key=on_valid.__getitem__)
    return {
        name: list(map(str, prediction[len(valid) :].tolist())) for name, prediction in predictions.items()
    }, best


def predict_by_words(
    bags: Sequence[Sequence[str]], labels: Labels, parts: Parts, minimum: int
) -> Sequence[str]:
    """Test predictions by logistic regression on counts of words, its strength chosen on valid.

    Args:
        bags: The words of each example.
        labels: Their classes.
        parts: Rows that train, choose and are tested.
        minimum: Minimum number of training examples with a word.
    """
    return build_count_baseline(count_words(bags), minimum)(labels, parts)


def _baselines(rows: Rows, texts: Mapping[str, Item]) -> dict[str, Baseline]:
    """Build the baselines of a data set; what they look at is read once for all folds."""
    baselines = {"majority": _by_key([""] * len(rows))}
    baselines["length"] = _tree([(row["tokens"], row["characters"]) for row in rows])
    # Where only some have another end, as functions with a bug have, there is no distance to learn from.
    pairs, tokens = all(row["other_start"] is not None for row in rows), bool(rows[0]["type"])
    if pairs:
        baselines["distance"] = _tree([_distance(row, texts) for row in rows])
    if not tokens:
        baselines["artefacts"] = _tree(artefact_features(rows, texts))
    if tokens or pairs:
        baselines["surface"] = build_count_baseline(
            count_words([_spelt(row, texts[row["item_id"]].text) for row in rows]), 1
        )
    if tokens:
        baselines["type"] = _by_key([row["type"] for row in rows])
    if not tokens and not pairs:
        bags = [bag_words(texts[row["item_id"]].text) for row in rows]
        baselines["bag_of_tokens"] = build_count_baseline(count_words(bags), 2)
        baselines["parse_error"] = _by_key([_has_error(texts[row["item_id"]]) for row in rows])
    return baselines


def _commonest(labels: Iterable[str]) -> str:
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def _by_key(keys: Sequence[Any]) -> Baseline:
    """Predict the commonest class in train of examples with the same key, else of all examples."""

    def predict(labels: Labels, parts: Parts) -> list[str]:
        labels_by_key: defaultdict[Any, list[str]] = defaultdict(list)
        for row in parts[0].tolist():
            labels_by_key[keys[row]].append(str(labels[row]))
        class_by_key = {key: _commonest(key_labels) for key, key_labels in labels_by_key.items()}
        usual = _commonest(labels[parts[0]].tolist())
        return [class_by_key.get(keys[row], usual) for row in parts[2].tolist()]

    return predict


def _predict_best(labels: Labels, parts: Parts, matrix: Any, fits: Sequence[Fit]) -> Sequence[str]:
    """Test predictions of the setting that is best on valid; of equals the first."""
    train, valid, test = parts
    best: tuple[float, Labels] | None = None
    for fit in fits:
        predictions = fit(matrix[train], labels[train], (matrix[valid], matrix[test]))
        right = float(np.mean(np.asarray(predictions[0]) == labels[valid]))
        if best is None or right > best[0]:
            best = right, predictions[1]
    assert best is not None
    return best[1].tolist()


def _tree(features: Sequence[Sequence[float]]) -> Baseline:
    from sklearn.tree import DecisionTreeClassifier

    def fit(leaves: int, train: Any, labels: Labels, matrices: Any) -> Any:
        model = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=_SEED).fit(train, labels)
        return [model.predict(matrix) for matrix in matrices]

    matrix = np.array(features, np.float64)
    fits = [functools.partial(fit, leaves) for leaves in _LEAVES]
    return lambda labels, parts: _predict_best(labels, parts, matrix, fits)


def count_words(bags: Sequence[Sequence[str]]) -> Any:
    """Return the logarithms of the counts of words, a sparse matrix with a row a bag."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer: Any = CountVectorizer
    # Words are cut already.
    return vectorizer(analyzer=tuple).fit_transform(bags).log1p().tocsr().astype(np.float32)


def build_count_baseline(counts: Any, minimum: int) -> Baseline:
    """Build the baseline that learns from counts of words by logistic regression.

    Newton steps reach the optimum in a ninth of the time that L-BFGS needs to come near it: counts of words
    differ in scale by orders of magnitude.

    Args:
        counts: What `count_words` gives.
        minimum: Minimum number of training examples with a word.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    def fit(model: Any, strength: float, train: Any, labels: Labels, matrices: Any) -> Any:
        model.set_params(C=strength)
        with warnings.catch_warnings():
            # The weakest penalties stop early on small data sets; valid decides whether they serve.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(train, labels)
        return [model.predict(matrix) for matrix in matrices]

    def predict(labels: Labels, parts: Parts) -> Sequence[str]:
        # Each strength starts from the solution of the previous one, which is near.
        model = LogisticRegression(max_iter=_STEPS, solver="newton-cg", tol=_TOLERANCE, warm_start=True)
        fits = [functools.partial(fit, model, strength) for strength in _STRENGTHS]
        texts = np.asarray((counts[parts[0]] > 0).sum(axis=0)).ravel()
        columns = np.flatnonzero(texts >= minimum)
        return _predict_best(labels, parts, counts[:, columns], fits)

    return predict


def _spelt(row: Mapping[str, Any], text: str, maximum: int | None = None) -> list[str]:
    """Return the character n-grams of the marked spans, of at most ``maximum`` characters each."""
    return [
        gram
        for side, start, end in _marked_spans(row)
        for gram in spell_word(side, text[start:end][:maximum])
    ]


def spell_word(side: str, word: str) -> list[str]:
    """Return a word's runs of one to three characters, its ends marked, and the word itself."""
    marked_word = f"\x02{word[:200]}\x03"
    runs = [
        marked_word[start : start + size]
        for size in (1, 2, 3)
        for start in range(len(marked_word) - size + 1)
    ]
    return [side + run for run in (*runs, marked_word)]


def _distance(row: dict[str, Any], texts: Mapping[str, Item]) -> tuple[float, float]:
    """Count the characters and words between the two ends of a pair."""
    first, second = sorted(((row["start"], row["end"]), (row["other_start"], row["other_end"])))
    gap_text = texts[row["item_id"]].text[first[1] : second[0]]
    return float(second[0] - first[0]), float(len(gap_text.split()))


def _has_error(item: Item) -> bool:
    edits = get_edits(item.language)
    return (
        LANGUAGES.load(item.language).parse(item.text).has_error
        if edits is None
        else not edits.parses(item.text)
    )


CUES_SCHEMA: Mapping[str, type[pl.DataType]] = {
    "example_id": pl.String,
    "prediction": pl.String,
    "correct": pl.Boolean,
    "number": pl.Float64,
}
"""Columns of `predict_local_cues`: one row a test example.

``number``: what ridge regression says of the number that the class is made of; null if there is none.
"""


WINDOWS = (1, 2)
"""Words and characters on either side that are read; which serves better is chosen on validation."""


_REACH = 80
"""Characters on either side in which neighbouring words are looked for."""


_SPELT = 40
"""Characters of a marked stretch whose spelling is read: more than a word has."""


_PENALTIES = (1.0, 10.0, 100.0, 1000.0)


_NO_NEIGHBOUR = "\0"
"""Stands for the neighbour of what begins or ends its text."""


def predict_local_cues(dataset: Dataset, items: Iterable[Item], folds: Sequence[Parts]) -> pl.DataFrame:
    """Predict the test examples from the marked words and their neighbours, in `CUES_SCHEMA`.

    Classes by logistic regression and numbers by ridge regression, both on counts of `read_cues`; how strong
    their penalties are and how far they read is chosen on validation, in each fold.

    Args:
        dataset: The data set.
        items: The items that it was built from; its own derived items need not be among them.
        folds: Rows of the data set that train, choose and are tested, in each fold.

    Returns:
        The predictions; no rows where examples are whole functions.
    """
    rows = dataset.examples.to_dicts()
    if not has_marked_spans(dataset.examples):
        return pl.DataFrame(schema=dict(CUES_SCHEMA))
    texts = {item.item_id: item.text for item in (*items, *dataset.inputs)}
    features = _count_cues(rows, texts)
    labels = dataset.examples["label"].to_numpy().astype(np.str_)
    values = dataset.examples["value"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    names = dataset.examples["example_id"]
    baselines = {str(index): build_count_baseline(counts, 1) for index, counts in enumerate(features)}
    tables: list[pl.DataFrame] = []
    for parts in folds:
        test = parts[2]
        predictions, best = _predict_fold(baselines, labels, parts)
        columns: dict[str, Any] = {
            "example_id": names[test],
            "prediction": predictions[best],
            "correct": np.array(predictions[best]) == labels[test],
            "number": _regress(features, values, parts),
        }
        tables.append(pl.DataFrame(columns, schema=dict(CUES_SCHEMA), nan_to_null=True))
    return pl.concat(tables)


def has_marked_spans(examples: pl.DataFrame) -> bool:
    """Return whether every example marks a token, or two places of its text."""
    # Where only some have another end, as functions with a bug have, the mark itself would tell the class.
    return bool((examples["type"] != "").any()) or not examples["other_start"].has_nulls()


def read_cues(text: str, start: int, end: int, window: int) -> list[str]:
    """Return what stands at one place of the window around a marked stretch of a text.

    Args:
        text: The text.
        start: First marked character.
        end: Their end, exclusive.
        window: Which place, from 1: its words are that many words away from the stretch, or as far inside it,
            its characters are all up to there.
    """
    words = {
        "before": split_words(text[max(0, start - _REACH) : start])[::-1],
        "after": split_words(text[end : end + _REACH]),
        "first": split_words(text[start : min(end, start + _REACH)]),
        "last": split_words(text[max(start, end - _REACH) : end])[::-1],
    }
    cues = {name: word[window - 1] if len(word) >= window else _NO_NEIGHBOUR for name, word in words.items()}
    cues["characters before"] = text[max(0, start - window) : start]
    cues["characters after"] = text[end : end + window]
    return [f"{name} {window} {cue}" for name, cue in cues.items()]


def _count_cues(rows: Sequence[dict[str, Any]], texts: Mapping[str, str]) -> list[Any]:
    """Return the counts of the cues of all examples, a matrix a window; a wider one holds the narrower."""
    from scipy import sparse

    counts: list[Any] = []
    for window in WINDOWS:
        bags = [
            [
                f"{side} {cue}"
                for side, start, end in _marked_spans(row)
                for cue in read_cues(texts[row["item_id"]], start, end, window)
            ]
            for row in rows
        ]
        counts.append(count_words(bags))
    spelt = [_spelt(row, texts[row["item_id"]], _SPELT) for row in rows]
    counts[0] = sparse.hstack([counts[0], count_words(spelt)], format="csr")
    return [sparse.hstack(counts[: index + 1], format="csr") for index in range(len(counts))]


def _marked_spans(row: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return the marked places of an example, each with a name."""
    first = ("a", row["start"], row["end"])
    return [first] if row["other_start"] is None else [first, ("b", row["other_start"], row["other_end"])]


def _regress(features: Sequence[Any], values: Float[np.ndarray, " example"], parts: Parts) -> Any:
    """Predict numbers of the test part; NaN where too few examples have one."""
    from sklearn.linear_model import Ridge

    train, valid, test = parts
    finite_rows = [rows[np.isfinite(values[rows])] for rows in (train, valid)]
    missing_values = np.full(len(test), np.nan)
    if min(map(len, finite_rows)) == 0 or np.ptp(values[finite_rows[0]]) == 0:
        return missing_values
    best, predictions = np.inf, missing_values
    for counts in features:
        for penalty in _PENALTIES:
            model: Any = Ridge(alpha=penalty, solver="sparse_cg", tol=1e-3)
            model.fit(counts[finite_rows[0]], values[finite_rows[0]])
            error = float(np.mean((model.predict(counts[finite_rows[1]]) - values[finite_rows[1]]) ** 2))
            if error < best:
                best, predictions = error, model.predict(counts[test])
    return predictions


BIGRAMS, NGRAM = "bag_of_bigrams", "ngram_surprisal"


_ORDERS = (2, 3, 4)


_LEAST_TEXTS = 2
"""Training texts in which a token has to stand to be one of its own."""


_MOST_TOKENS = 60_000
"""Tokens of their own; an n-gram model takes 65,536."""


_BEGIN, _RARE, _FIRST = 0, 1, 2


def bias_predictions(splits: Mapping[str, pl.DataFrame]) -> dict[str, list[str]]:
    """Predict the test examples with both baselines, in their order.

    Args:
        splits: The examples of train, valid and test with ``text`` and ``label``.
    """
    parts = [splits[name] for name in ("train", "valid", "test")]
    words = [bag_words(text) for part in parts for text in part["text"].to_list()]
    labels = np.array([label for part in parts for label in part["label"].to_list()], np.str_)
    ends = np.cumsum([0, *(part.height for part in parts)])
    train, valid, test = (np.arange(start, end) for start, end in pairwise(ends.tolist()))
    neighbours = [
        [*text_words, *(f"{word} {next_word}" for word, next_word in pairwise(text_words))]
        for text_words in words
    ]
    return {
        BIGRAMS: list(map(str, predict_by_words(neighbours, labels, (train, valid, test), _LEAST_TEXTS))),
        NGRAM: list(map(str, _predict_by_surprisal(words, labels, (train, valid, test)))),
    }


def _predict_by_surprisal(words: Sequence[Sequence[str]], labels: Labels, parts: Parts) -> Sequence[str]:
    rows: list[int] = parts[0].tolist()
    numbers = _numbers([words[row] for row in rows])
    encoded_texts = np.empty(len(words), object)
    for row, text in enumerate(words):
        encoded_texts[row] = np.array([numbers.get(word, _RARE) for word in text], np.int64)
    fits = [functools.partial(_fit_ngrams, len(numbers) + _FIRST, order) for order in _ORDERS]
    return _predict_best(labels, parts, encoded_texts, fits)


def _fit_ngrams(vocabulary: int, order: int, train: Any, labels: Labels, text_groups: Any) -> list[Labels]:
    """Return, for each other text, the class whose n-gram model finds it least surprising."""
    classes = sorted(set(labels.tolist()))
    texts: Any = np.concatenate(text_groups)
    nats = np.stack(
        [
            # As rare as the class is, so much is it surprising before a word is read.
            _nats(train[labels == name], texts, vocabulary, order) - math.log(np.mean(labels == name))
            for name in classes
        ]
    )
    predictions = np.array(classes)[nats.argmin(0)]
    return np.split(predictions, [len(text_groups[0])])


def _numbers(texts: Iterable[Sequence[str]]) -> dict[str, int]:
    """Assign numbers to the tokens that are not rare."""
    text_counts = Counter(word for text_words in texts for word in set(text_words))
    vocabulary = [word for word, count in text_counts.most_common(_MOST_TOKENS) if count >= _LEAST_TEXTS]
    return {word: number for number, word in enumerate(vocabulary, start=_FIRST)}


def _nats(
    training_texts: Sequence[Int[np.ndarray, " token"]],
    evaluation_texts: Sequence[Int[np.ndarray, " token"]],
    vocabulary: int,
    order: int,
) -> Float[np.ndarray, " text"]:
    """Return the surprisal of each text under an n-gram model of others."""
    model = NGram(_stream(training_texts, order), vocabulary, order)
    nats = model.nats(_stream(evaluation_texts, order))
    totals: list[float] = []
    position = 0
    for text in evaluation_texts:
        position += order - 1
        totals.append(float(nats[position : position + len(text)].sum()))
        position += len(text)
    return np.array(totals)


def _stream(texts: Sequence[Int[np.ndarray, " token"]], order: int) -> Int[np.ndarray, " token"]:
    """Concatenate texts, each after as many begin signs as an n-gram looks back."""
    begin = np.full(order - 1, _BEGIN, np.int64)
    return np.concatenate([part for text in texts for part in (begin, text)])
