import dataclasses
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Given, Item, NearDuplicateIndex, duplicate_tokens, item_id
from sonde.executors import EXECUTORS
from sonde.tasks import (
    EXAMPLE_SCHEMA,
    Dataset,
    LabellingEstimate,
    ParallelMap,
    Picks,
    Repository,
    build,
    check_cluster_count,
    collect_labelled_spans,
    effective_clusters,
    select_source_items,
    suggest_more_clusters,
)
from sonde.tasks.engine import dataset
from sonde.tasks.engine.balance import (
    SHARES,
    BlockMatcher,
    assign_splits,
    largest_class_size,
    order_matched_first,
    split_sizes,
)
from sonde.tasks.engine.sampling import _measure, build_pool, length_class
from sonde.tasks.engine.spans import LabelRequest
from sonde.tasks.engine.task import TASKS

TASK = """
import polars as pl
from sonde.tasks import LABEL_SCHEMA

class Planted:
    name = "planted"
    version = "1"
    target = "TARGET"
    labels = LABELS
    needs_repository = False

    def label(self, items, repositories):
        return {item.item_id: self.table(item.text) for item in items}

    def table(self, text):
        return pl.DataFrame(list(self.rows(text)), schema=SCHEMA, orient="row")

    def rows(self, text):
ROWS

SCHEMA = dict(LABEL_SCHEMA) | EXTRA
task = Planted()
"""

WHOLE = """
        label = "many" if text.count("if") > 1 else "one" if "if" in text else None
        yield 0, len(text), label, float(text.count("if"))
"""
TOKENS = """
        import re
        for found in re.finditer(r"\\w+", text):
            if found[0].startswith(("name", "word")):
                yield found.start(), found.end(), found[0][:4], None
"""
PAIRS = """
        import re
        found = [match.span() for match in re.finditer(r"name_\\w+", text)]
        for number, first in enumerate(found[:-2]):
            yield *first, "next", None, *found[number + 1]
            yield *first, "far", None, *found[number + 2]
"""


def planted(
    folder: Path, rows: str, labels: tuple[str, ...], target: str, extra: str = "{}", name: str = "planted"
) -> str:
    path = folder / f"{name}.py"
    body = TASK.replace("ROWS", rows).replace("LABELS", repr(labels)).replace("EXTRA", extra)
    path.write_text(body.replace("TARGET", target).replace('"planted"', repr(name)), encoding="utf-8")
    return str(path)


def word(draw: random.Random) -> str:
    return "".join(draw.choices("abcdeghjklmnop", k=6))


def function(number: int, draw: random.Random) -> Item:
    """A function of words of its own, with one ``if`` or two, longer or shorter."""
    lines = [f"def name_{word(draw)}(name_{word(draw)}, word_{word(draw)}):"]
    lines += [f"    {word(draw)} = {word(draw)} + {word(draw)}" for _ in range(draw.randint(1, 12))]
    lines += [f"    if {word(draw)}:\n        {word(draw)}(name_{word(draw)})"] * draw.choice([1, 2])
    return item("\n".join(lines) + "\n", f"cluster{number % 23}", number)


def item(text: str, cluster: str, number: int = 0, **more: object) -> Item:
    fixed = {"language": "python", "unit": "function", "name": "f", "offset": 0, "repository": cluster}
    identity = item_id(text, "python", "function")
    return Item(item_id=identity, text=text, path=f"{cluster}/{number}.py", cluster=cluster, **fixed, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def functions() -> list[Item]:
    draw = random.Random(7)
    return [function(number, draw) for number in range(600)]


@pytest.fixture
def whole(tmp_path: Path) -> str:
    return planted(tmp_path, WHOLE, ("many", "one"), "item")


def counts(dataset: Dataset) -> dict[tuple[str, str], int]:
    grouped = dataset.examples.group_by("split", "label").len()
    return {(row["split"], row["label"]): row["len"] for row in grouped.to_dicts()}


def test_classes_are_equal_in_splits_of_sixty_twenty_twenty(whole: str, functions: list[Item]) -> None:
    made = build(whole, functions, size=100, language="python")
    assert dict(made.examples.schema) == dict(EXAMPLE_SCHEMA)
    expected = {"train": 30, "valid": 10, "test": 10}
    assert counts(made) == {
        (split, label): size for split, size in expected.items() for label in ("many", "one")
    }
    assert made.examples["example_id"].is_unique().all()
    assert set(made.examples["item_id"]) <= {one.item_id for one in functions}
    assert made.inputs == ()


def test_no_cluster_is_in_two_splits(whole: str, functions: list[Item]) -> None:
    made = build(whole, functions, size=300, language="python")
    splits = made.examples.group_by("cluster").agg(pl.col("split").n_unique())
    assert splits["split"].max() == 1
    known = {one.item_id: one.cluster for one in functions}
    assert [known[name] for name in made.examples["item_id"]] == made.examples["cluster"].to_list()


def test_labels_and_lengths_are_those_of_the_text(whole: str, functions: list[Item]) -> None:
    texts = {one.item_id: one.text for one in functions}
    for row in build(whole, functions, size=100, language="python").examples.to_dicts():
        text = texts[row["item_id"]]
        assert (row["label"], row["value"]) == (("many", 2.0) if text.count("if") == 2 else ("one", 1.0))
        assert (row["start"], row["end"], row["characters"]) == (0, len(text), len(text))
        assert row["type"] == ""
        assert row["other_start"] is None


def test_the_order_of_the_items_does_not_matter(whole: str, functions: list[Item]) -> None:
    made = build(whole, functions, size=100, language="python")
    shuffled = random.Random(1).sample(functions, len(functions))
    again = build(whole, shuffled, size=100, language="python")
    assert again.examples.equals(made.examples)
    other = build(whole, functions, size=100, seed=1, language="python")
    assert set(other.examples["item_id"]) != set(made.examples["item_id"])


def test_a_larger_data_set_holds_a_smaller_one(whole: str, functions: list[Item]) -> None:
    sizes = [
        set(build(whole, functions, size=n, language="python").examples["example_id"]) for n in (40, 100, 240)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_matched_examples_are_alike_in_length(whole: str, functions: list[Item]) -> None:
    made = build(whole, functions, size=400, language="python")
    matched = made.examples.filter("matched")
    assert made.report["matched"] == pytest.approx(matched.height / made.examples.height)
    assert matched.height > 0
    lengths: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for row in matched.to_dicts():
        lengths[row["split"], row["label"]][length_class(row["tokens"])] += 1
    for split in SHARES:
        assert lengths[split, "many"] == lengths[split, "one"]


def test_what_is_left_out_and_why(functions: list[Item]) -> None:
    kept = functions[0]
    copy = kept.text.replace("+", "-")
    extra = [
        item("def get(self):\n    return self.x\n", "a"),
        item("def broken(:\n    pass\n", "a"),
        item(copy, "b"),
    ]
    pool = build_pool([*functions, *extra], "python", 0)
    assert dict(pool.dropped) == {"does not parse": 1, "getter or setter": 1, "near duplicate": 1}
    index = NearDuplicateIndex()
    for one in pool.items:
        words = duplicate_tokens(one.text)
        assert index.find(words) is None
        index.add(one.item_id, words)


def test_short_functions_come_first(whole: str, functions: list[Item]) -> None:
    draw = random.Random(3)
    long = [
        item(one.text + "".join(f"    {word(draw)} = {word(draw)}\n" for _ in range(200)), one.cluster)
        for one in functions[:100]
    ]
    pool = build_pool([*long, *functions], "python", 0)
    lengths = [pool.tokens[one.item_id] for one in pool.items]
    assert max(lengths[: len(functions)]) <= 250 < min(lengths[len(functions) :])


@pytest.mark.parametrize("task", ["planted", "rea", "variable_misuse"])
def test_clusters_take_turns_however_uneven_they_are(task: str, whole: str, uneven: list[Item]) -> None:
    """Half of all functions stand in one of thirty clusters: a small data set is not filled by it."""
    made = build(whole if task == "planted" else task, uneven, size=120, language="python")
    assert made.examples.height >= 90
    assert effective_clusters(made.examples) > 15
    largest_share = made.examples["cluster"].value_counts()["count"].max() / made.examples.height
    assert largest_share < 0.25  # 0.5 and more by hash alone


@pytest.fixture(scope="module")
def uneven() -> list[Item]:
    draw = random.Random(11)
    made: list[Item] = []
    for number in range(1_200):
        own, left, right = function(number, draw).text, word(draw), word(draw)
        loop = f"    while {left} == {right}:\n        {left} = {right} + {word(draw)}\n    return {left}\n"
        text = own + loop
        made.append(item(text, "huge" if number % 2 else f"cluster{number // 2 % 29}", number))
    return made


def test_clusters_are_weighed_before_anything_is_read() -> None:
    even = pl.DataFrame({"cluster": [f"c{at % 20}" for at in range(100)]})
    assert effective_clusters(even) == pytest.approx(20)
    one_large = pl.DataFrame({"cluster": ["large"] * 90 + [f"c{at}" for at in range(10)]})
    assert effective_clusters(one_large) == pytest.approx(100**2 / (90**2 + 10))


def test_one_line_names_all_sets_that_are_worth_too_little() -> None:
    assert check_cluster_count({"sri": 10.0, "rea": 30.0}, ["more"], "tasks") == ""
    worth = {f"task{at}": float(at) for at in range(15)}
    lack = check_cluster_count(worth, ["a larger --limit", "more repositories"], "tasks")
    assert (
        lack.startswith("too few effective clusters for a verdict: 10 of 15 tasks (task0, task1,")
        and "\n" not in lack
    )
    assert "and 2 more), with 0.0 to 9.0, where 10 are needed" in lack
    assert lack.endswith("; use a larger --limit, or more repositories")
    assert ": 300 functions, with 1.2, where" in check_cluster_count({"300 functions": 1.2}, ["more"])


def test_the_remedy_is_one_that_helps() -> None:
    """Twelve files of one cluster each, one of them with most functions: as files they are twelve."""
    clusters = ["c0"] * 90 + [f"c{at}" for at in range(1, 12)]
    uneven = pl.DataFrame({"cluster": clusters, "path": clusters})
    assert suggest_more_clusters("local:x", "python", files=uneven)[0].startswith("--unit file")
    one_repository = uneven.with_columns(cluster=pl.lit("all"))
    assert suggest_more_clusters("local:x", "python", has_limit=True, files=one_repository) == [
        "a larger --limit",
        "more repositories, for example -c stdlib or -c environment",
    ]
    assert suggest_more_clusters("stdlib", "python") == ["more repositories, for example -c environment"]
    assert suggest_more_clusters("jdk", "java") == ["more repositories"]


def test_a_set_of_one_class_is_refused_for_the_class_that_it_lacks(
    tmp_path: Path, functions: list[Item]
) -> None:
    name = planted(tmp_path, WHOLE, ("many",), "item")
    with pytest.raises(InputError, match="examples are of class 'many', and a data set needs two") as caught:
        build(name, [one for one in functions if one.text.count("if ") > 1], size=100, language="python")
    assert "or more" not in str(caught.value)


def test_a_class_with_too_few_examples_is_refused_in_one_line(tmp_path: Path, functions: list[Item]) -> None:
    name = planted(tmp_path, WHOLE, ("many", "one", "none"), "item")
    with pytest.raises(InputError, match="class 'none' has 0 examples") as caught:
        build(name, functions, size=100, language="python")
    assert "\n" not in str(caught.value)


def test_a_split_without_a_class_is_refused_in_one_line(whole: str, functions: list[Item]) -> None:
    same = [one for one in functions if one.text.count("if") == 1 or one.cluster == "cluster3"]
    with pytest.raises(InputError, match=r"class 'many' has 0 examples in the .* split") as caught:
        build(whole, same, size=100, language="python")
    assert "\n" not in str(caught.value)


def test_a_size_without_room_and_an_empty_pool(whole: str, functions: list[Item]) -> None:
    with pytest.raises(UsageError, match="use 10 or more"):
        build(whole, functions, size=9, language="python")
    with pytest.raises(InputError, match="no function in java"):
        build(whole, functions, size=100, language="java")


def test_a_scarce_class_shrinks_all(whole: str, functions: list[Item]) -> None:
    few = [one for one in functions if one.text.count("if") == 1]
    many = [one for one in functions if one.text.count("if") == 2][:60]
    made = build(whole, [*few, *many], size=500, language="python")
    kept = made.report["kept"]
    assert kept["many"] == kept["one"] <= 60
    assert made.report["asked"] == 500
    assert made.report["size"] == sum(kept.values()) == made.examples.height


def test_no_token_type_is_in_two_splits(tmp_path: Path, functions: list[Item]) -> None:
    name = planted(tmp_path, TOKENS, ("name", "word"), "span")
    made = build(name, functions, size=200, language="python")
    assert made.examples["type"].equals(made.examples["cluster"].rename("type"))
    assert made.examples.group_by("type").agg(pl.col("split").n_unique())["split"].max() == 1
    texts = {one.item_id: one.text for one in functions}
    for row in made.examples.to_dicts():
        assert texts[row["item_id"]][row["start"] : row["end"]] == row["type"]
        assert row["type"].startswith(row["label"])


def test_frequent_token_types_do_not_crowd_out_others(tmp_path: Path, functions: list[Item]) -> None:
    common = [item(one.text.replace("word_", "word_x, word_"), one.cluster) for one in functions]
    name = planted(tmp_path, TOKENS, ("name", "word"), "span")
    made = build(name, common, size=200, language="python")
    assert (made.examples["type"] == "word_x").sum() <= 1


BESIDE = """
    def extra_items(self, items, repositories):
        import dataclasses
        for item in items:
            text = "word_" + item.item_id
            yield item, dataclasses.replace(item, item_id="beside " + item.item_id, text=text)
"""


def test_tokens_come_from_texts_beside_the_functions_too(tmp_path: Path, functions: list[Item]) -> None:
    rows = TOKENS.replace('("name", "word")', '("name",) if "def" in text else ("name", "word")')
    name = planted(tmp_path, rows + BESIDE, ("name", "word"), "span")
    made = build(name, functions, size=100, language="python")
    derived = {one.item_id: one for one in made.inputs}
    words = made.examples.filter(pl.col("label") == "word")
    assert set(words["item_id"]) == set(derived)
    for row in words.to_dicts():
        assert row["item_id"] == "beside " + row["source_id"]
        assert derived[row["item_id"]].text == row["type"]


def test_pairs_have_both_ends_and_like_distances(tmp_path: Path, functions: list[Item]) -> None:
    extra = "{'other_start': pl.Int32, 'other_end': pl.Int32}"
    name = planted(tmp_path, PAIRS, ("far", "next"), "pair", extra)
    made = build(name, functions, size=100, language="python")
    texts = {one.item_id: one.text for one in functions}
    for row in made.examples.to_dicts():
        text = texts[row["item_id"]]
        assert text[row["start"] : row["end"]].startswith("name_")
        assert text[row["other_start"] : row["other_end"]].startswith("name_")
    assert made.examples.group_by("cluster").agg(pl.col("split").n_unique())["split"].max() == 1


def test_given_labels_and_splits_are_taken_as_they_are(whole: str) -> None:
    rows = [(f"text {n}", ("A", "B")[n % 2], ("train", "valid", "test")[n % 3]) for n in range(30)]
    items = [
        item(text, f"c{n}", given=(Given("planted", label, 0, len(text), split=split),))
        for n, (text, label, split) in enumerate(rows)
    ]
    made = build(whole, items, size=10, language="python")
    texts = {one.item_id: one.text for one in items}
    found = {(texts[row["item_id"]], row["label"], row["split"]) for row in made.examples.to_dicts()}
    assert found == set(rows) and made.examples["given_split"].all()
    with pytest.raises(InputError, match="test split of the published labels"):
        build(whole, [one for one in items if one.given[0].split != "test"], size=10, language="python")


def test_given_labels_without_a_split_are_dealt_by_cluster(whole: str) -> None:
    texts = [f"text {n}" for n in range(100)]
    items = [
        item(text, f"c{n // 4}", given=(Given("planted", "AB"[n % 2], 0, len(text)),))
        for n, text in enumerate(texts)
    ]
    made = build(whole, items, size=10, language="python")
    assert counts(made)["train", "A"] == 30 and not made.examples["given_split"].any()
    assert made.examples.group_by("cluster").agg(pl.col("split").n_unique())["split"].max() == 1


@given(st.integers(0, 500), st.integers(0, 20))
def test_split_sizes_only_grow(number: int, more: int) -> None:
    small, large = split_sizes(number), split_sizes(number + more)
    assert sum(small.values()) == number
    assert all(small[name] <= large[name] for name in SHARES)


@given(st.fixed_dictionaries({name: st.integers(0, 300) for name in SHARES}), st.integers(1, 400))
def test_the_largest_number_fits_and_one_more_does_not(available: dict[str, int], wanted: int) -> None:
    def fits(number: int) -> bool:
        return all(size <= available[name] for name, size in split_sizes(number).items())

    assert largest_class_size(available, wanted) == max(n for n in range(wanted + 1) if fits(n))


@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=4),
        st.dictionaries(st.sampled_from("XYZ"), st.integers(1, 50), min_size=1),
        min_size=1,
        max_size=40,
    ),
    st.integers(0, 3),
)
def test_dealing_takes_every_cluster_and_knows_no_order(
    clusters: dict[str, dict[str, int]], seed: int
) -> None:
    dealt = assign_splits(clusters, seed)
    assert set(dealt) == set(clusters)
    assert set(dealt.values()) <= set(SHARES)
    assert assign_splits(dict(reversed(list(clusters.items()))), seed) == dealt


@given(
    st.dictionaries(
        st.sampled_from("XYZ"), st.lists(st.integers(1, 500), min_size=3, max_size=12), min_size=1
    )
)
def test_no_split_goes_without_a_class_that_has_three_clusters(classes: dict[str, list[int]]) -> None:
    clusters = {
        f"{label}{n}": {label: size} for label, sizes in classes.items() for n, size in enumerate(sizes)
    }
    dealt = assign_splits(clusters, 0)
    for label in classes:
        assert {dealt[name] for name in clusters if name[0] == label} == set(SHARES)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 4), st.integers())))
def test_matching_finds_as_many_as_there_are(entries: list[tuple[str, int, int]]) -> None:
    held = Counter((label, stratum) for label, stratum, _ in entries)
    expected = sum(min(held["A", stratum], held["B", stratum]) for stratum in range(5))
    matching: BlockMatcher[tuple[int, int]] = BlockMatcher("AB")
    for label, stratum, example in entries:
        matching.add(label, stratum, (stratum, example))
    assert len(matching.blocks) == expected
    assert all(first[0] == second[0] for first, second in matching.blocks)
    found, number = order_matched_first(
        [(label, stratum, place) for place, (label, stratum, _) in enumerate(entries)], "AB"
    )
    assert number == expected
    for label in "AB":
        assert sorted(found[label]) == [place for place, entry in enumerate(entries) if entry[0] == label]
    for first, second in zip(found["A"][:number], found["B"][:number], strict=True):
        assert entries[first][1] == entries[second][1]


def test_what_is_rare_is_looked_for_in_all_items(
    functions: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds count what may be eligible, so that a rare kind is not cut to its share of all code."""
    monkeypatch.setattr("sonde.tasks.engine.sampling._MAXIMUM_ITEMS", 12)
    monkeypatch.setattr("sonde.tasks.engine.sampling._PER_CLUSTER", 3)
    rare = [
        item(
            f"def f{number}(a):\n    try:\n        return a[{number}] * {number}\n    except KeyError:\n"
            f"        return b{number}(a, {number})\n",
            f"cluster{number % 3}",
        )
        for number in range(12)
    ]
    common = build_pool([*functions, *rare], "python", 1)
    assert sum(common.dropped.values()) + len(common.items) == len(functions) + len(rare)
    assert max(Counter(one.cluster for one in common.items).values()) <= 3
    hinted = build_pool([*functions, *rare], "python", 1, "except")
    assert hinted.dropped["without 'except'"] == len(functions)
    assert hinted.dropped["more than are read"] == 3
    assert Counter(one.cluster for one in hinted.items) == {"cluster0": 3, "cluster1": 3, "cluster2": 3}


def in_splits(functions: list[Item], number: int) -> list[Item]:
    """The functions as a built corpus gives them, its clusters in so many splits, of odd sizes."""
    names = ("test", "train", "valid")[:number]
    return [
        dataclasses.replace(one, split=names[int(one.cluster.removeprefix("cluster")) % number])
        for one in functions
    ]


@pytest.mark.parametrize("name", ["", "pairs", "wrong_operator", "sri"])
def test_the_splits_of_a_built_corpus_are_kept(
    tmp_path: Path, whole: str, functions: list[Item], name: str
) -> None:
    """A model may have been pre-trained on the corpus's own train split."""
    extra = '{"other_start": pl.Int32, "other_end": pl.Int32}'
    pairs = planted(tmp_path, PAIRS, ("next", "far"), "pair", extra, name="pairs")
    task = {"": whole, "pairs": pairs}.get(name, name)
    split = {one.cluster: one.split for one in in_splits(functions, 3)}
    made = build(task, in_splits(functions, 3), size=100, language="python").examples
    assert {split[cluster] for cluster in made["cluster"]} == set(SHARES)
    assert made["split"].to_list() == [split[cluster] for cluster in made["cluster"]]
    assert made["given_split"].all()
    dealt = build(task, functions, size=100, language="python").examples
    assert not dealt["given_split"].any()
    assert dealt["split"].to_list() != [split[cluster] for cluster in dealt["cluster"]]


def test_one_split_of_a_built_corpus_is_dealt_like_any_other(whole: str, functions: list[Item]) -> None:
    alone = build(whole, in_splits(functions, 1), size=100, language="python")
    assert alone.examples.equals(build(whole, functions, size=100, language="python").examples)


def test_tasks_labelled_together_in_processes_give_what_each_gives_alone(
    functions: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = "{'other_start': pl.Int32, 'other_end': pl.Int32}"
    tasks = (
        planted(tmp_path, WHOLE, ("one", "many"), "item", name="whole"),
        planted(tmp_path, TOKENS, ("name", "word"), "span", name="tokens"),
        planted(tmp_path, PAIRS, ("next", "far"), "pair", extra, name="pairs"),
    )
    alone = [build(name, functions, size=60, language="python") for name in tasks]
    gathered = collect_labelled_spans(
        [LabelRequest(name, 0, "corrected", frozenset(), {}) for name in tasks],
        functions,
        language="python",
        parallel=ParallelMap(workers=2, worth=1),
    )
    for name, one in zip(tasks, alone, strict=True):
        monkeypatch.setattr(dataset, "select_all_spans", None)
        again = build(name, functions, size=60, language="python", picks=gathered[name])
        assert again.examples.equals(one.examples) and again.report == one.report


@pytest.mark.slow
def test_faults_that_several_processes_make_are_those_of_one(
    uneven: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    local, spread_out = EXECUTORS.load("local"), list[str]()
    real = local.map

    def seen(function: Callable[[Any], Any], jobs: Iterable[Any], *, workers: int) -> Iterator[Any]:
        spread_out.append(f"{function.__name__} {workers}")
        return real(function, jobs, workers=workers)

    monkeypatch.setattr(local, "map", seen)
    alone = build("rea", uneven, size=120, language="python")
    assert "_examples 2" not in spread_out
    again = build("rea", uneven, size=120, language="python", parallel=ParallelMap(workers=2, worth=1))
    assert "_examples 2" in spread_out
    assert again.examples.equals(alone.examples) and again.report == alone.report
    assert again.inputs == alone.inputs


def test_functions_that_are_not_needed_are_hardly_read(
    uneven: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sonde.corpora.engine.parallel._CHUNK", 20)
    local, parts = EXECUTORS.load("local"), list[int]()
    real = local.map

    def seen(function: Callable[[Any], Any], jobs: Iterable[Any], *, workers: int) -> Iterator[Any]:
        def counted() -> Iterator[Any]:
            for job in jobs:
                parts.append(len(job.items))
                yield job

        return real(function, counted(), workers=workers)

    monkeypatch.setattr(local, "map", seen)
    some = uneven[:190]
    with local.keep_processes(2):
        answers = ParallelMap(workers=2, worth=1).map(_measure, "python", some)
        assert [item for item, _ in itertools.islice(answers, 30)] == some[:30]
        assert sum(parts) == 40
        assert [item for item, _ in answers] == some[30:] and sum(parts) == 190


@pytest.mark.slow
def test_imports_of_the_files_are_labelled_together_with_functions(functions: list[Item]) -> None:
    files = {
        one.path: f"import mod{at}, other\nfrom lib import Class{at}\n" for at, one in enumerate(functions)
    }
    around = {one.repository: Repository({}, dict(files)) for one in functions}
    spread = ParallelMap(workers=2, worth=1)
    question = LabelRequest("idn", 0, "corrected", frozenset(), around)
    (gathered,) = collect_labelled_spans([question], functions, language="python", parallel=spread).values()
    beside = {item_id(text, "python", "imports") for text in files.values()}
    assert gathered.keys() == beside | {one.item_id for one in functions}
    alone = build("idn", functions, size=200, language="python", repositories=around)
    again = build("idn", functions, size=200, language="python", repositories=around, picks=gathered)
    assert again.examples.equals(alone.examples) and beside & set(again.examples["item_id"])


def test_before_functions_are_labelled_it_is_said_how_long_that_takes(
    functions: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = planted(tmp_path, WHOLE, ("one", "many"), "item", name="whole")
    tokens = planted(tmp_path, TOKENS, ("name", "word"), "span", name="tokens")
    labelled: list[tuple[int, int]] = []
    real = dataset.select_all_spans

    def counting(
        questions: Sequence[LabelRequest],
        items: Sequence[Item],
        spread: ParallelMap,
        known: Mapping[str, Picks] = MappingProxyType({}),
    ) -> dict[str, Picks]:
        labelled.append((len(items), len(questions)))
        return real(questions, items, spread, known)

    # A clock that goes on by a millisecond for each function and task that has been labelled.
    clock = lambda: sum(items * tasks for items, tasks in labelled) / 1_000  # noqa: E731
    monkeypatch.setattr(dataset, "select_all_spans", counting)
    monkeypatch.setattr(dataset.time, "perf_counter", clock)
    monkeypatch.setattr(dataset, "_WORTH_A_TRIAL", 100)
    monkeypatch.setattr(dataset, "ITEMS_FOR_TOKENS", 150)
    told: list[tuple[LabellingEstimate, int]] = []
    spread = ParallelMap(workers=2, worth=1)
    collect_labelled_spans(
        [LabelRequest(name, 0, "corrected", frozenset(), {}) for name in (whole, tokens)],
        functions,
        language="python",
        parallel=spread,
        tell=lambda estimate: told.append((estimate, max(items for items, _ in labelled))),
    )
    ((estimate, most),) = told
    size = len(build_pool(functions, "python", 0).items)
    assert (estimate.functions, estimate.tasks) == (size, 2) and 2 * most == estimate.tried < 100
    assert estimate.seconds == pytest.approx((150 * 2 + (size - 150)) / 1_000 / 2)


def test_only_what_is_drawn_from_is_looked_up_around(
    functions: list[Item], whole: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "ITEMS_FOR_TOKENS", 100)
    pool = build_pool(functions, "python", 0).items
    assert list(select_source_items(TASKS.load("idn"), functions, 0, "python")) == list(pool[:100])
    assert list(select_source_items(TASKS.load(whole), functions, 0, "python")) == list(pool)


def test_equal_code_of_another_corpus_keeps_its_own_clusters(functions: list[Item]) -> None:
    """Ids are those of content: a pool kept for the next task must not be taken for another corpus."""
    first = build_pool(functions, "python", 0).items
    elsewhere = [dataclasses.replace(item, cluster="other", repository="other") for item in functions]
    other = build_pool(elsewhere, "python", 0).items
    assert {item.cluster for item in first} != {"other"} == {item.cluster for item in other}
    assert build_pool(list(reversed(functions)), "python", 0).items is first


def test_a_constructor_is_not_said_not_to_parse() -> None:
    texts = [
        "Foo(int a) { this.a = a + 1; }",
        "int f(int a) { return a + 1; }",
        "int g(int a) { if (a ==) b(); }",
    ]
    items = [
        Item(str(number), text, "java", "function", str(number), "f", 0, "c", "r")
        for number, text in enumerate(texts)
    ]
    pool = build_pool(items, "java", 0)
    assert [item.text for item in pool.items] == texts[1:2]
    assert pool.dropped == {"constructor, which is no code by itself": 1, "does not parse": 1}
