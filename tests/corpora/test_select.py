import random
from collections import Counter
from pathlib import Path

import pytest

import sonde.corpora.engine.read as opening
from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item, ItemSet, Selection, SkipCounter, SourceFile, Tag, read_items, select
from sonde.corpora.engine.read import extract_items
from sonde.experiments.inputs import describe_selection

WORDS = [f"name{n}" for n in range(400)]


def body(rng: random.Random, name: str) -> str:
    lines = [f"    {rng.choice(WORDS)} = {rng.choice(WORDS)}({rng.choice(WORDS)})" for _ in range(8)]
    return "\n".join([f"def {name}():", *lines, ""])


class Fixed:
    """A source that holds what a test gives it."""

    def __init__(self, files: list[SourceFile]) -> None:
        self.given = files

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> object:
        return (file for file in self.given if not languages or file.language in languages)


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> Fixed:
    rng = random.Random(0)
    files = [
        SourceFile(
            path=f"pkg{n % 7}/m{n}.py",
            text="\n\n".join(body(rng, f"f{k}") for k in range(5)),
            language="python",
            cluster=f"pkg{n % 7}",
            repository=f"pkg{n % 7}" if n else "lonely",
            licence="MIT" if n % 2 else "LGPL-2.1",
        )
        for n in range(20)
    ]
    source = Fixed(files)
    monkeypatch.setattr(opening.CORPORA, "load", lambda name: source)
    return source


def ids(chosen: ItemSet) -> list[str]:
    return [item.item_id for item in chosen.items]


def test_items_are_exactly_the_files_characters(corpus: Fixed) -> None:
    texts = {file.path: file.text for file in corpus.given}
    chosen = select("fixed", Selection())
    assert len(chosen.items) == 100
    for item in chosen.items:
        assert texts[item.path][item.offset : item.offset + len(item.text)] == item.text
        assert item.text.startswith(f"def {item.name}():")
        assert chosen.file_hashes[item.path]
    first = [next(i for i in chosen.items if i.cluster == f"pkg{n}").item_id for n in range(7)]
    assert set(ids(chosen)[:7]) == set(first)
    for name in {item.cluster for item in chosen.items}:
        mine = [item.item_id for item in chosen.items if item.cluster == name]
        assert mine == sorted(mine, key=lambda item: unit_hash(0, item))


def test_a_larger_limit_contains_a_smaller_one(corpus: Fixed) -> None:
    for cap in (0, 3):
        previous: list[str] = []
        for limit in (1, 7, 20, 60, None):
            chosen = ids(select("fixed", Selection(limit=limit, per_cluster=cap)))
            assert chosen[: len(previous)] == previous
            previous = chosen


def test_the_order_of_files_does_not_matter(corpus: Fixed) -> None:
    near = corpus.given[0].text.replace("name1 ", "name2 ")
    corpus.given += [
        SourceFile("copy/a.py", corpus.given[3].text, "python", "copy", "copy"),
        SourceFile("copy/b.py", near + "\nx = 1\n", "python", "copy", "copy"),
    ]
    first = select("fixed", Selection(limit=50))
    corpus.given.reverse()
    again = select("fixed", Selection(limit=50))
    assert again.items == first.items
    assert again.corpus_hash == first.corpus_hash
    assert ids(select("fixed", Selection(limit=50, seed=1))) != ids(first)


def test_exact_copies_are_one_item_of_the_first_path(corpus: Fixed) -> None:
    corpus.given.insert(0, SourceFile("zzz.py", corpus.given[5].text, "python", "z", "z"))
    chosen = select("fixed", Selection())
    assert len(chosen.items) == 100
    assert "zzz.py" not in {item.path for item in chosen.items}
    assert chosen.intake.counts["exact duplicate"] == 5


def test_near_copies_are_dropped_unless_wanted(corpus: Fixed) -> None:
    lines = corpus.given[5].text.splitlines()
    edited = "\n".join(f"{line}  # other" if line.startswith("    ") else line for line in lines)
    corpus.given.append(SourceFile("zzz.py", edited, "python", "z", "z"))
    chosen = select("fixed", Selection())
    assert len(chosen.items) == 100
    assert chosen.intake.counts["near duplicate"] == 5
    assert len(select("fixed", Selection(near_duplicates=False)).items) == 105


def test_filters(corpus: Fixed) -> None:
    assert {item.licence for item in select("fixed", Selection(licences=("mit",))).items} == {"MIT"}
    with pytest.raises(InputError, match="100 other licence"):
        select("fixed", Selection(licences=("GPL",)))
    assert len(select("fixed", Selection(per_cluster=2)).items) == 14
    assert "lonely" not in {item.repository for item in select("fixed", Selection(several_files=True)).items}
    longest = max(len(item.text) for item in select("fixed", Selection()).items)
    assert len(select("fixed", Selection(max_chars=longest)).items) == 100
    assert len(select("fixed", Selection(min_chars=longest)).items) < 10


def test_items_that_do_not_parse(corpus: Fixed) -> None:
    corpus.given.append(SourceFile("bad.py", "def broken(:\n    return 1 1 1\n\n", "python", "bad", "bad"))
    files = select("fixed", Selection(unit="file", parses=True))
    assert "bad.py" not in {item.path for item in files.items}
    assert files.intake.counts["does not parse"] == 1
    assert len(select("fixed", Selection(unit="file")).items) == 21


def test_whole_files(corpus: Fixed) -> None:
    chosen = select("fixed", Selection(unit="file"))
    assert {item.text for item in chosen.items} == {file.text for file in corpus.given}
    assert {item.name for item in chosen.items} == {f"m{n}.py" for n in range(20)}


def test_duplicate_paths_and_unknown_units(corpus: Fixed) -> None:
    corpus.given.append(corpus.given[0])
    assert select("fixed", Selection()).intake.counts["duplicate path"] == 1
    with pytest.raises(UsageError, match="unknown unit 'class'"):
        select("fixed", Selection(unit="class"))


def test_raw_items_keep_copies_and_order(corpus: Fixed) -> None:
    corpus.given.append(SourceFile("zzz.py", corpus.given[5].text, "python", "z", "z"))
    items = list(read_items("fixed", SkipCounter()))
    assert [item.path for item in items] == [file.path for file in corpus.given for _ in range(5)]


def test_tags_move_with_their_function() -> None:
    text = "x = 1\n\n\ndef f():\n    return x\n"
    start = text.index("def")
    tags = (Tag(0, 1, "OUT"), Tag(start + 4, start + 5, "NAME"))
    file = SourceFile("a", text, "python", "c", "r", identifier="row", tags=tags)
    (item,) = extract_items(file, "function", SkipCounter())
    assert item.tags == (Tag(4, 5, "NAME"),)
    assert item.text[4:5] == "f"
    assert item.identifier == f"row:{start}"


def test_a_single_function_stays_whole() -> None:
    text = "# a remark\ndef f():\n    '''What f does.'''\n"
    file = SourceFile("a", text, "python", "c", "r", unit="function", identifier="row")
    (item,) = extract_items(file, "function", SkipCounter())
    assert (item.text, item.offset, item.name, item.identifier) == (text, 0, "f", "row")
    assert item.docstring.strip() == "What f does."
    intake = SkipCounter()
    assert list(extract_items(file, "file", intake)) == []
    assert intake.counts == {"single function": 1}


def test_an_empty_corpus_says_what_was_looked_at(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no function to study in 0 files of python; skipped: nothing"):
        select(f"local:{tmp_path}", Selection(languages=("python",)))
    (tmp_path / "a.py").write_bytes(b"\0")
    (tmp_path / "b.py").write_bytes(b"\xff")
    (tmp_path / "c.py").write_text("x" * 1_000_000)
    with pytest.raises(InputError, match="1 NUL bytes, 1 not decodable, 1 very long line"):
        select(f"local:{tmp_path}", Selection())


def test_identity_is_content_not_place() -> None:
    def only(path: str, unit: str) -> Item:
        return next(
            extract_items(SourceFile(path, "def f(): pass", "python", path, path), unit, SkipCounter())
        )

    assert only("a.py", "function").item_id == only("b.py", "function").item_id
    assert only("a.py", "function").item_id != only("a.py", "file").item_id


def test_clusters_give_in_turn(corpus: Fixed) -> None:
    rng = random.Random(1)
    big = "\n\n".join(body(rng, f"g{k}") for k in range(150))
    corpus.given.append(SourceFile("big/a.py", big, "python", "big", "big"))
    chosen = select("fixed", Selection(limit=80))
    sizes = Counter(item.cluster for item in chosen.items)
    assert sizes == {"big": 10, **{f"pkg{n}": 10 for n in range(7)}}
    assert chosen.found == 250 and chosen.left_out == {"beyond the limit": 170}


def test_one_cluster_has_no_cap_and_every_item_is_accounted_for(corpus: Fixed) -> None:
    rng = random.Random(2)
    text = "\n\n".join(body(rng, f"g{k}") for k in range(300))
    copy = body(random.Random(3), "copied")
    corpus.given[:] = [
        SourceFile("a.py", text + "\n\n" + copy, "python", "one", "one"),
        SourceFile("b.py", copy, "python", "one", "two"),
    ]
    chosen = select("fixed", Selection(limit=2000, per_cluster=200))
    assert (len(chosen.items), chosen.found, chosen.left_out) == (301, 302, {"exact duplicate": 1})
    assert {item.cluster for item in chosen.items} == {"one"}
    assert describe_selection(chosen) == "fixed: 301 of 302 functions: 1 exact duplicate"
    corpus.given.append(SourceFile("c/d.py", body(rng, "other"), "python", "second", "second"))
    capped = select("fixed", Selection(per_cluster=200))
    assert (
        describe_selection(capped)
        == "fixed: 201 of 303 functions: 101 beyond --per-cluster 200, 1 exact duplicate"
    )
    assert len(select("fixed", Selection(per_cluster=0)).items) == 302


_TWELVE = tuple(f"lib/{one}/m{n}.py" for one in "ab" for n in range(6))


@pytest.mark.parametrize(
    ("paths", "clusters"),
    [
        (
            ("lib/web/a.py", "lib/web/b.py", "lib/db/c.py", "lib/__init__.py"),
            {"lib/web", "lib/db", "__init__"},
        ),
        (("lib/a.py", "lib/b.py"), {"a", "b"}),
        (("lib/a.py",), {"repo"}),
        # Two packages allow no verdict whatever is found, and twelve files may.
        (
            tuple(f"lib/{one}/m{n}.py" for one in "ab" for n in range(6)),
            {f"lib/{one}/m{n}" for one in "ab" for n in range(6)},
        ),
        (tuple(f"lib/p{n}/m.py" for n in range(10)), {f"lib/p{n}" for n in range(10)}),
    ],
)
def test_one_repository_falls_back_to_packages_then_files(
    corpus: Fixed, paths: tuple[str, ...], clusters: set[str]
) -> None:
    rng = random.Random(4)
    corpus.given[:] = [SourceFile(path, body(rng, "f"), "python", "repo", "repo") for path in paths]
    assert {item.cluster for item in select("fixed", Selection()).items} == clusters


def test_one_repository_of_single_functions_falls_back_to_their_files(corpus: Fixed) -> None:
    rng = random.Random(5)
    rows = (("lib/a.py#1", "1"), ("lib/a.py#2", "2"), ("lib/b.py#3", "3"), ("4", "4"))
    corpus.given[:] = [
        SourceFile(path, body(rng, "f"), "python", "repo", "repo", unit="function", identifier=name)
        for path, name in rows
    ]
    found = {item.identifier: item.cluster for item in select("fixed", Selection()).items}
    assert found == {"1": "a", "2": "a", "3": "b", "4": "repo"}


def test_a_folder_that_is_one_package_is_many_clusters(tmp_path: Path) -> None:
    rng = random.Random(6)
    for place in ("__init__", "one/__init__", "one/a", "two/b", "top"):
        path = tmp_path / "src" / "lib" / f"{place}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body(rng, "f"))
    found = {item.cluster for item in select(f"local:{tmp_path / 'src'}", Selection()).items}
    assert found == {"__init__", "lib/one", "lib/two", "top"}
