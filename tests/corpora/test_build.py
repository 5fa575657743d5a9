"""Building corpora: what stays, what is said of it, that it comes again, and that nothing is half there."""

import dataclasses
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.base.errors import InputError, StoreError, UnknownNameError, UsageError
from sonde.base.fingerprint import hash_text, unit_hash
from sonde.corpora import (
    BuildOptions,
    Selection,
    SkipCounter,
    build_corpus,
    read_files,
    read_manifest,
    rebuild_corpus,
    select,
)

from .test_near import planted, python_tokens, similar

FILES = ("manifest.jsonl", "test.jsonl", "train.jsonl", "valid.jsonl")


def write(path: Path, rows: list[dict[str, object]]) -> str:
    """A corpus of rows; each is a file in a cluster."""
    defaults = {"language": "python", "unit": "file", "licence": "MIT"}
    path.write_text("".join(json.dumps({**defaults, **row}) + "\n" for row in rows), "utf-8")
    return f"jsonl:{path}"


def word(number: int) -> str:
    """A name without digits, of which few are alike."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "name_" + letters[number // 676 % 26] + letters[number // 26 % 26] + letters[number % 26]


def program(rng: random.Random, size: int = 40) -> str:
    names = [word(rng.randrange(2_000)) for _ in range(size)]
    lines = [f"    {one} = {other}({n})" for n, (one, other) in enumerate(pairwise(names))]
    return "\n".join([f"def {names[0]}({names[-1]}):", *lines, f"    return {names[1]}", ""])


def edited(rng: random.Random, text: str, changes: int) -> str:
    for _ in range(changes):
        old = rng.choice(re.findall(r"name_\w+", text))
        text = text.replace(old, f"other_{word(rng.randrange(17_576))}", 1)
    return text


def many(count: int, *, clusters: int = 12, seed: int = 0) -> list[dict[str, object]]:
    """Programs of which half are another with a few words changed, in whatever cluster."""
    rng = random.Random(seed)
    rows: list[dict[str, object]] = []
    for n in range(count):
        code = program(rng)
        if rows and rng.random() < 0.5:
            code = edited(rng, str(rng.choice(rows)["code"]), rng.randrange(8))
        rows.append({"id": f"f{n}", "code": code, "cluster": f"c{rng.randrange(clusters)}"})
    return rows


def silent(line: str) -> None:
    pass


def contents(folder: Path) -> dict[str, bytes]:
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    return {name: (folder / name).read_bytes() for name in FILES}


def built(folder: Path) -> dict[str, list[dict[str, str]]]:
    return {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in ("train", "valid", "test")
    }


def codes(folder: Path) -> set[str]:
    return {row["code"] for rows in built(folder).values() for row in rows}


def left_out(folder: Path) -> dict[str, int]:
    (told,) = read_manifest(folder).head["corpora"]
    assert told["files"] == told["kept"] + sum(told["left_out"].values())
    return told["left_out"]


def expected(rows: list[dict[str, object]], seed: int, held_out: tuple[str, ...] = ()) -> set[str]:
    """What stays, by the definition: in the order of the hashes, whatever no kept one resembles."""
    kept: list[str] = []
    bags = [python_tokens(code) for code in held_out]
    unique = {str(row["code"]) for row in rows} - set(held_out)
    for code in sorted(unique, key=lambda code: unit_hash(seed, hash_text(code))):
        bag = python_tokens(code)
        if not any(similar(other, bag) for other in bags):
            kept.append(code)
            bags.append(bag)
    return set(kept)


@pytest.mark.parametrize("method", ["exact", "minhash"])
@pytest.mark.parametrize("seed", [0, 5])
def test_what_stays_is_what_comparing_every_pair_leaves(tmp_path: Path, method: str, seed: int) -> None:
    rows = many(100)
    corpus = write(tmp_path / "c.jsonl", rows)
    held = many(40, seed=9) + [{**row, "id": f"copy{row['id']}"} for row in rows[:10]]
    held_out = write(tmp_path / "held.jsonl", held)
    wanted = BuildOptions(corpora=(corpus,), held_out=(held_out,), method=method, seed=seed)
    build_corpus(wanted, tmp_path / "out", report=silent)
    assert codes(tmp_path / "out") == expected(rows, seed, tuple(str(row["code"]) for row in held))
    counts = left_out(tmp_path / "out")
    assert counts[f"copy of held-out {held_out}"] >= 10
    assert counts[f"near duplicate of held-out {held_out}"] > 0
    assert counts["near duplicate"] > 20


small_files = st.lists(
    st.tuples(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12), st.integers(0, 5)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(small_files, st.integers(0, 3))
def test_splits_share_no_cluster_and_no_pair_over_the_threshold(
    tmp_path_factory: pytest.TempPathFactory, given_files: list[tuple[list[str], int]], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("build")
    rows = [
        {"id": str(n), "code": "".join(f"{name}\n" for name in names), "cluster": f"c{cluster}"}
        for n, (names, cluster) in enumerate(given_files)
    ]
    build_corpus(
        BuildOptions(corpora=(write(folder / "c.jsonl", rows),), seed=seed), folder / "out", report=silent
    )
    assert codes(folder / "out") == expected(rows, seed)
    sides = built(folder / "out")
    where = {(row["cluster"], name) for name, rows_ in sides.items() for row in rows_}
    assert len(where) == len({cluster for cluster, _ in where})
    files = [(name, python_tokens(row["code"])) for name, rows_ in sides.items() for row in rows_]
    for (one, left), (other, right) in combinations(files, 2):
        assert one == other or not similar(left, right)


@pytest.mark.parametrize("of_sets", [0.75, 0.82, 0.95])
@pytest.mark.parametrize("of_multisets", [0.6, 0.75, 0.95])
def test_planted_files_stay_or_go_as_the_rule_says(
    tmp_path: Path, of_sets: float, of_multisets: float
) -> None:
    pair = planted(of_sets, of_multisets)
    rows = [{"id": str(n), "code": code, "cluster": str(n)} for n, code in enumerate(pair)]
    corpus, other = write(tmp_path / "c.jsonl", rows), write(tmp_path / "o.jsonl", rows[:1])
    build_corpus(BuildOptions(corpora=(corpus,)), tmp_path / "within", report=silent)
    copies = of_sets > 0.8 and of_multisets > 0.7
    assert len(codes(tmp_path / "within")) == (1 if copies else 2)
    against = BuildOptions(corpora=(corpus,), held_out=(other,))
    if copies:
        with pytest.raises(InputError, match=r"1 copy of held-out .*, 1 near duplicate of held-out"):
            build_corpus(against, tmp_path / "against", report=silent)
    else:
        build_corpus(against, tmp_path / "against", report=silent)
        assert codes(tmp_path / "against") == {pair[1]}


def test_filters_count_what_they_leave_out(tmp_path: Path) -> None:
    rng = random.Random(1)
    fine = [program(rng) for _ in range(6)]
    rows = [
        *({"id": f"fine{n}", "code": code, "cluster": f"c{n}"} for n, code in enumerate(fine)),
        {"id": "again", "code": fine[0]},
        {"id": "gpl", "code": program(rng), "licence": "GPL-3.0-only"},
        {"id": "none", "code": program(rng), "licence": ""},
        {"id": "short", "code": "x = 1\n"},
        {"id": "long", "code": program(rng, 2_000)},
        {"id": "broken", "code": program(rng) + "def f(:\n"},
        {"id": "made", "code": "# Generated by a tool. DO NOT EDIT.\n" + program(rng)},
    ]
    corpus = write(tmp_path / "c.jsonl", rows)
    strict = BuildOptions(corpora=(corpus,), licences=("permissive",), min_chars=50, max_chars=20_000)
    build_corpus(strict, tmp_path / "strict", report=silent)
    assert codes(tmp_path / "strict") == set(fine)
    assert left_out(tmp_path / "strict") == {
        "exact duplicate": 1,
        "other licence": 1,
        "no licence known": 1,
        "shorter than wanted": 1,
        "longer than wanted": 1,
        "does not parse": 1,
        "generated: its head says so": 1,
    }
    (told,) = read_manifest(tmp_path / "strict").head["corpora"]
    assert told["examples"]["does not parse"] == ["broken"]
    build_corpus(
        BuildOptions(corpora=(corpus,), parses=False, written=False), tmp_path / "all", report=silent
    )
    assert left_out(tmp_path / "all") == {"exact duplicate": 1}


def test_a_larger_limit_contains_a_smaller_one(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c.jsonl", many(60))
    sizes = [5, 20, 100]
    found = []
    for limit in sizes:
        build_corpus(BuildOptions(corpora=(corpus,), limit=limit), tmp_path / str(limit), report=silent)
        found.append(codes(tmp_path / str(limit)))
    assert [len(some) for some in found[:2]] == sizes[:2]
    assert found[0] < found[1] < found[2]


def test_processes_and_the_order_of_lines_change_no_byte_that_matters(tmp_path: Path) -> None:
    rows = many(130)
    corpus = write(tmp_path / "c.jsonl", rows)
    wanted = BuildOptions(corpora=(corpus,))
    build_corpus(wanted, tmp_path / "one", report=silent)
    build_corpus(wanted, tmp_path / "two", workers=2, report=silent)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    random.Random(3).shuffle(rows)
    write(tmp_path / "c.jsonl", rows)
    build_corpus(wanted, tmp_path / "shuffled", report=silent)
    assert codes(tmp_path / "one") == codes(tmp_path / "shuffled")


def test_the_hash_seed_of_the_interpreter_changes_nothing(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c.jsonl", many(50))
    code = (
        "import sys; from pathlib import Path; from sonde.corpora import BuildOptions, build_corpus\n"
        "build_corpus(BuildOptions(corpora=(sys.argv[1],)), Path(sys.argv[2]), report=lambda line: None)"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code, corpus, str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
        )
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_it_is_read_again_whole_by_split_and_as_plain_json_lines(tmp_path: Path) -> None:
    rows = many(60)
    rows[3] |= {"tags": [[0, 3, "KEYWORD"]], "repository": "r", "name": "n"}
    corpus = write(tmp_path / "c.jsonl", rows)
    manifest = build_corpus(BuildOptions(corpora=(corpus,)), tmp_path / "out", report=silent)
    originals = {file.path: file for file in read_files(corpus, (), SkipCounter())}
    seen = []
    for name in ("train", "valid", "test"):
        files = list(read_files(f"built:{tmp_path / 'out'}@{name}", (), SkipCounter()))
        assert len(files) == manifest.splits()[name]["files"] > 0
        seen += files
        for file in files:
            assert file.split == name
            original = originals[file.path]
            for field in ("text", "language", "cluster", "repository", "licence", "unit", "name", "tags"):
                assert getattr(file, field) == getattr(original, field)
        plain = list(read_files(f"jsonl:{tmp_path / 'out' / f'{name}.jsonl'}", (), SkipCounter()))
        assert [(file.path, file.text, file.cluster) for file in plain] == [
            (file.path, file.text, file.cluster) for file in files
        ]
    assert seen == list(read_files(f"built:{tmp_path / 'out'}", (), SkipCounter()))
    assert [(row.split, row.path) for row in manifest.rows] == [(file.split, file.path) for file in seen]
    items = select(f"built:{tmp_path / 'out'}", Selection(limit=20)).items
    known = {file.path: file.split for file in seen}
    assert all(item.split == known[item.path] for item in items)
    assert list(read_files(f"built:{tmp_path / 'out'}", ("java",), SkipCounter())) == []


def test_several_corpora_keep_their_paths_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.py").write_text(program(random.Random(name)))
    corpora = (f"local:{tmp_path / 'a'}", f"local:{tmp_path / 'b'}", write(tmp_path / "c.jsonl", many(1)))
    manifest = build_corpus(BuildOptions(corpora=corpora), tmp_path / "out", report=silent)
    assert sorted(row.path for row in manifest.rows) == ["jsonl/f0", "local-1/m.py", "local-2/m.py"]
    origins = sorted((row.corpus, row.source_path) for row in manifest.rows)
    assert origins == [(0, "m.py"), (1, "m.py"), (2, "f0")]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    rng = random.Random(4)
    for n in range(9):
        folder = tmp_path / "code" / f"p{n}"
        folder.mkdir(parents=True)
        for k in range(3):
            (folder / f"m{k}.py").write_text(program(rng))
    return tmp_path / "code"


def test_a_manifest_gives_the_same_bytes_wherever_the_files_are(sources: Path, tmp_path: Path) -> None:
    build_corpus(BuildOptions(corpora=(f"local:{sources}",)), tmp_path / "one", report=silent)
    published = tmp_path / "published.jsonl"
    published.write_bytes((tmp_path / "one" / "manifest.jsonl").read_bytes())
    assert "return" not in published.read_text()
    (sources / "p0" / "later.py").write_text("def later():\n    pass\n")
    rebuild_corpus(published, tmp_path / "two", report=silent)
    (tmp_path / "moved").mkdir()
    moved = sources.rename(tmp_path / "moved" / "code")
    rebuild_corpus(tmp_path / "one", tmp_path / "three", corpora=[f"local:{moved}"], report=silent)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "three")
    with pytest.raises(UsageError, match=r"has 1 corpora .* not 2"):
        rebuild_corpus(published, tmp_path / "four", corpora=["stdlib", "stdlib"], report=silent)


def test_a_rebuild_names_what_has_changed_and_leaves_nothing(sources: Path, tmp_path: Path) -> None:
    build_corpus(BuildOptions(corpora=(f"local:{sources}",)), tmp_path / "one", report=silent)
    for k in range(2):
        (sources / "p0" / f"m{k}.py").unlink()
    (sources / "p4" / "m1.py").write_text("def other():\n    return 1\n")
    with pytest.raises(InputError) as caught:
        rebuild_corpus(tmp_path / "one", tmp_path / "two", report=silent)
    message = str(caught.value)
    assert "2 files missing (p0/m0.py, p0/m1.py)" in message
    assert "1 file changed (p4/m1.py)" in message
    assert "\n" not in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code", "one"]


def test_the_same_call_again_changes_nothing_and_another_is_refused(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c.jsonl", many(30))
    wanted = BuildOptions(corpora=(corpus,))
    build_corpus(wanted, tmp_path / "out", report=silent)
    before = contents(tmp_path / "out")
    told: list[str] = []
    build_corpus(wanted, tmp_path / "out", report=told.append)
    assert "exists already" in told[0]
    with pytest.raises(UsageError, match="built with other options"):
        build_corpus(BuildOptions(corpora=(corpus,), seed=1), tmp_path / "out", report=silent)
    assert contents(tmp_path / "out") == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="not a built corpus"):
        build_corpus(wanted, tmp_path / "mine", report=silent)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"licences": ("MITT",)}, UnknownNameError, "unknown licence 'MITT'; did you mean 'MIT'"),
        ({"method": "minhas"}, UnknownNameError, "did you mean 'minhash'"),
        ({"languages": ("pyhton",)}, UnknownNameError, "did you mean 'python'"),
        ({"fractions": (0.5, 0.5, 0.5)}, UsageError, "sum to 1"),
        ({"fractions": (float("nan"), 0.5, 0.5)}, UsageError, "sum to 1"),
        ({"min_chars": 9, "max_chars": 3}, UsageError, "no file is at least 9 and at most 3"),
        ({"corpora": ()}, UsageError, "nothing to build"),
        ({"corpora": ("stdlb",)}, UnknownNameError, "did you mean 'stdlib'"),
        ({"held_out": ("local:/nowhere",)}, InputError, "/nowhere"),
        ({"held_out": ("EMPTY",)}, InputError, "held-out corpus .* has no file"),
        ({"min_chars": 900_000}, InputError, "nothing is left of 5 files .*5 shorter than wanted"),
    ],
)
def test_what_cannot_be_built_is_one_line_and_leaves_nothing(
    tmp_path: Path, options: dict[str, tuple[str, ...]], error: type[Exception], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    if options.get("held_out") == ("EMPTY",):
        options = {"held_out": (f"local:{tmp_path / 'empty'}",)}
    corpus = write(tmp_path / "c.jsonl", many(5))
    with pytest.raises(error, match=words) as caught:
        build_corpus(BuildOptions(**{"corpora": (corpus,), **options}), tmp_path / "out", report=silent)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.jsonl", "empty"]


SCRIPT = textwrap.dedent(
    """
    import os, resource, sys
    from pathlib import Path
    from sonde.base.errors import SondeError
    from sonde.corpora import BuildOptions, build_corpus

    corpus, output, stage, limit = sys.argv[1:]
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))

    def report(line):
        if stage and line.startswith(stage):
            os.kill(os.getpid(), 9)

    try:
        build_corpus(BuildOptions(corpora=(corpus,)), Path(output), report=report)
    except SondeError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    """
)


def call(corpus: str, output: Path, stage: str = "", limit: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, corpus, str(output), stage, str(limit)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("stage", ["read", "near-duplicates"])
def test_after_a_kill_there_is_nothing_and_the_next_call_builds_it_whole(tmp_path: Path, stage: str) -> None:
    corpus = write(tmp_path / "c.jsonl", many(40))
    wanted = BuildOptions(corpora=(corpus,))
    build_corpus(wanted, tmp_path / "whole", report=silent)
    assert call(corpus, tmp_path / "out", stage).returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.jsonl", "whole"]
    build_corpus(wanted, tmp_path / "out", report=silent)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("limit", [2_000, 14_000])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, limit: int) -> None:
    """A limit on the size of files stands for the disk: first no split fits, then the largest does not."""
    corpus = write(tmp_path / "c.jsonl", many(60))
    assert (tmp_path / "c.jsonl").stat().st_size > 60_000
    done = call(corpus, tmp_path / "out", limit=limit)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "cannot write" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.jsonl"]


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(StoreError, match="cannot write"):
        build_corpus(BuildOptions(corpora=("jsonl:missing",)), tmp_path / "file" / "out", report=silent)
    assert (tmp_path / "file").read_text() == "precious"


def test_of_two_builds_of_one_folder_the_faster_stays(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c.jsonl", many(20))
    wanted = BuildOptions(corpora=(corpus,))

    def second(line: str) -> None:
        if line.startswith("near-duplicates"):
            build_corpus(wanted, tmp_path / "out", report=silent)

    build_corpus(wanted, tmp_path / "out", report=second)
    build_corpus(wanted, tmp_path / "alone", report=silent)
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    (tmp_path / "out").rename(tmp_path / "first")
    with pytest.raises(UsageError, match="built with other options"):
        build_corpus(dataclasses.replace(wanted, seed=1), tmp_path / "out", report=second)
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")


@pytest.mark.parametrize("where", ["head", "row", "end", "other", "empty"])
def test_a_damaged_manifest_is_refused_by_line(tmp_path: Path, where: str) -> None:
    corpus = write(tmp_path / "c.jsonl", many(20))
    build_corpus(BuildOptions(corpora=(corpus,)), tmp_path / "out", report=silent)
    file = tmp_path / "out" / "manifest.jsonl"
    lines = file.read_text("utf-8").splitlines(keepends=True)
    damaged = {
        "head": [lines[0].replace('"seed": 0', '"seed": 1'), *lines[1:]],
        "row": [*lines[:2], lines[2][:-5] + "\n", *lines[3:]],
        "end": lines[:-1],
        "other": ["{}\n"],
        "empty": [],
    }[where]
    file.write_text("".join(damaged), "utf-8")
    number = {"row": 3, "end": len(lines)}.get(where, 1)
    calls = (
        lambda: read_manifest(file),
        lambda: list(read_files(f"built:{tmp_path / 'out'}", (), SkipCounter())),
        lambda: rebuild_corpus(file, tmp_path / "again", report=silent),
        lambda: build_corpus(BuildOptions(corpora=(corpus,)), tmp_path / "out", report=silent),
    )
    for attempt in calls:
        with pytest.raises(
            InputError, match=rf"manifest '.*': line {number} cannot be read: .*; take"
        ) as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "again").exists()


def test_a_damaged_split_is_refused_before_a_file_is_given(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c.jsonl", many(20))
    wanted = BuildOptions(corpora=(corpus,))
    build_corpus(wanted, tmp_path / "out", report=silent)
    file = tmp_path / "out" / "test.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    assert list(read_files(f"built:{tmp_path / 'out'}@train", (), SkipCounter()))
    for attempt in (
        lambda: next(read_files(f"built:{tmp_path / 'out'}", (), SkipCounter())),
        lambda: build_corpus(wanted, tmp_path / "out", report=silent),
    ):
        with pytest.raises(InputError, match=r"test\.jsonl is not as it was built"):
            attempt()
    file.unlink()
    with pytest.raises(InputError, match=r"test\.jsonl is missing"):
        next(read_files(f"built:{tmp_path / 'out'}", (), SkipCounter()))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("built:", "name it as built:DIR"),
        ("built:/nowhere", "no such file"),
        ("built:OUT@tets", "did you mean 'test'"),
    ],
)
def test_names_of_built_corpora_that_mean_nothing(tmp_path: Path, name: str, words: str) -> None:
    build_corpus(
        BuildOptions(corpora=(write(tmp_path / "c.jsonl", many(9)),)), tmp_path / "out", report=silent
    )
    with pytest.raises((InputError, UsageError), match=words):
        list(read_files(name.replace("OUT", str(tmp_path / "out")), (), SkipCounter()))


@pytest.mark.slow
def test_real_code_has_no_pair_over_the_threshold_between_splits(tmp_path: Path) -> None:
    manifest = build_corpus(BuildOptions(corpora=("stdlib",), limit=250), tmp_path / "out", report=silent)
    files = [
        (name, row["path"] if "path" in row else row["id"], python_tokens(row["code"]))
        for name, rows in built(tmp_path / "out").items()
        for row in rows
    ]
    assert len(files) == len(manifest.rows) == 250
    assert Counter(name for name, _, _ in files)["test"] > 20
    for (_, one, left), (_, other, right) in combinations(files, 2):
        # Sizes first: the referee looks at thirty thousand pairs.
        if 5 * min(len(left), len(right)) > 4 * max(len(left), len(right)):
            assert not similar(left, right), (one, other)
