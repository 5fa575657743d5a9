"""Treebanks: the text of a sentence and the relations between its words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Selection, SkipCounter, SourceFile, read_files, select
from sonde.tasks.syntax.syntax_relations import relation_rows, relation_words

ENGLISH = """\
# newdoc id = d1
# sent_id = d1-1
# text = Don't sleep.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t3:aux\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t3:advmod\t_
3\tsleep\tsleep\tVERB\tVB\t_\t0\troot\t0:root\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t3:punct\t_

# sent_id = d1-2
1\tSue\tSue\tPROPN\tNNP\t_\t2\tnsubj\t_\t_
2\tate\teat\tVERB\tVBD\t_\t0\troot\t_\t_
2.1\tate\teat\tVERB\tVBD\t_\t_\t_\t2:conj\t_
3\trice\trice\tNOUN\tNN\t_\t2\tobj\t_\t_

# newdoc id = d2
# sent_id = d2-1
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_

"""
GERMAN = """\
# sent_id = s1
1\tEr\ter\tPRON\tPPER\t_\t2\tnsubj\t_\t_
2\tgeht\tgehen\tVERB\tVVFIN\t_\t0\troot\t_\t_
3-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_
3\tzu\tzu\tADP\tAPPR\t_\t5\tcase\t_\t_
4\tdem\tder\tDET\tART\t_\t3\tdet\t_\t_
5\tArzt\tArzt\tNOUN\tNN\t_\t2\tobl\t_\t_
"""
# As Stanford's converter writes it: no comments, no blanks marked, a row per word.
STANFORD = "1\tBills\t_\tNNS\tNNS\t_\t2\tnsubj\t_\t_\n2\tpassed\t_\tVBD\tVBD\t_\t0\troot\t_\t_\n"


def write(folder: Path, text: str, name: str = "a.conllu") -> str:
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return f"conllu:{folder / name}"


def read(corpus: str, intake: SkipCounter | None = None) -> list[SourceFile]:
    return list(read_files(corpus, (), intake or SkipCounter()))


def related(file: SourceFile) -> list[tuple[str, str, str]]:
    """Head, relation, dependent."""
    return [(file.text[g.start : g.end], g.label, file.text[g.other_start : g.other_end]) for g in file.given]


def test_sentences_with_their_text_and_relations(tmp_path: Path) -> None:
    intake = SkipCounter()
    first, second = read(write(tmp_path, ENGLISH), intake)
    assert (first.path, first.text, first.language, first.unit) == (
        *("a.conllu#d1-1", "Don't sleep.", "text", "function"),
    )
    assert related(first) == [("sleep", "aux", "Do"), ("sleep", "advmod", "n't"), ("sleep", "punct", ".")]
    assert (second.text, related(second)) == (
        "Sue ate rice",
        [("ate", "nsubj", "Sue"), ("ate", "obj", "rice")],
    )
    assert first.cluster == second.cluster == "d1" and second.identifier == "d1-2"
    assert dict(intake.counts) == {"empty node": 1, "no relation": 1}
    assert {given.task for given in first.given} == {"syntax_relations"}


def test_the_root_is_its_own_head_where_it_is_included(tmp_path: Path) -> None:
    corpus = write(tmp_path, ENGLISH)
    included = read(f"{corpus}?root=included")
    assert [row for row in related(included[0]) if row[1] == "root"] == [("sleep", "root", "sleep")]
    assert related(included[2]) == [("Yes", "root", "Yes")] and included[2].cluster == "d2"
    excluded = [row for file in read(corpus) for row in related(file)]
    assert excluded == [row for file in included for row in related(file) if row[1] != "root"]


def test_words_in_one_word_share_its_place(tmp_path: Path) -> None:
    intake = SkipCounter()
    (file,) = read(write(tmp_path, GERMAN), intake)
    assert file.text == "Er geht zum Arzt" and file.cluster == "s1"
    assert related(file) == [("geht", "nsubj", "Er"), ("Arzt", "case", "zum"), ("geht", "obl", "Arzt")]
    assert dict(intake.counts) == {"relation inside a word": 1}


def test_a_conversion_without_comments(tmp_path: Path) -> None:
    first, second = read(write(tmp_path, STANFORD + "\n" + STANFORD))
    assert (first.identifier, second.identifier) == ("1", "2")
    assert (first.text, related(first), first.cluster) == (
        "Bills passed",
        [("passed", "nsubj", "Bills")],
        "1",
    )


def test_the_task_takes_the_relations_as_they_are(tmp_path: Path) -> None:
    items = select(write(tmp_path, ENGLISH), Selection(near_duplicates=False)).items
    (item,) = [item for item in items if item.identifier == "d1-1"]
    words = relation_words(item)
    assert words.surface == ("Do", "n't", "sleep", ".")
    rows = relation_rows(item)
    assert rows["label"].to_list() == ["aux", "advmod", "punct"]
    assert rows["head_word"].to_list() == [2, 2, 2]
    assert rows["dep_first"].to_list() == rows["dep_last"].to_list() == [0, 1, 3]


def test_other_languages_have_no_sentences(tmp_path: Path) -> None:
    corpus = write(tmp_path, ENGLISH)
    assert list(read_files(corpus, ("python",), SkipCounter())) == []
    assert len(list(read_files(corpus, ("text",), SkipCounter()))) == 2


WORD = "1\ta\ta\tX\tX\t_\t2\tdep\t_\t_\n2\tb\tb\tX\tX\t_\t0\troot\t_\t_\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (WORD.replace("\t2\tdep", "\t3\tdep"), "sentence 1: word 1 has the head 3 of 2 words"),
        (WORD.replace("\t2\tdep", "\t1\tdep"), "sentence 1: word 1 has the head 1 of 2 words"),
        (WORD.replace("\t2\tdep", "\tx\tdep"), "sentence 1: Failed parsing field 'head'"),
        (WORD.replace("\tdep", "\t"), "sentence 1: word 1 has a head and no relation to it"),
        (WORD + "\n" + WORD.replace("2\tb", "3\tb"), "sentence 2: word 2 is numbered 3"),
        (WORD.replace("1\ta", "1-2\tab"), "sentence 1: words 1 to 2 are not all there"),
        ("one two\n", "sentence 1: Invalid line format"),
        ("1\t\tx\n", "sentence 1: word 1 has no form"),
        ("0\t0", "sentence 1: word 1 is numbered 0"),
        (f"# sent_id = s\n{WORD}\n# sent_id = s\n{WORD}", "sentence 2: sent_id 's' is that of sentence 1"),
        (
            f"# sent_id = s\n{WORD}\n# sent_id = s\n1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n",
            "sentence 2: sent_id 's' is that of sentence 1",
        ),
        ("x\ty\n\n" * 7, "; and 2 more sentences"),
    ],
)
def test_a_malformed_sentence_is_named(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError) as error:
        read(write(tmp_path, text))
    assert reason in str(error.value) and "\n" not in str(error.value)


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a file"):
        read("conllu")
    with pytest.raises(UsageError, match="unknown option 'root=maybe'; known: root=included"):
        read(f"{write(tmp_path, ENGLISH)}?root=maybe")
    with pytest.raises(InputError, match="no such file"):
        read(f"conllu:{tmp_path / 'none'}")
    (tmp_path / "b").write_bytes(b"1\t\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read(f"conllu:{tmp_path / 'b'}")


SENTENCES = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=5),
        st.booleans(),
        st.integers(0, 30),
    ),
    min_size=2,
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(sentence=SENTENCES)
def test_every_word_but_the_root_has_one_relation(sentence: list[tuple[str, bool, int]]) -> None:
    """Against the rows themselves, for any words, blanks and heads."""
    import tempfile

    rows: list[str] = []
    expected: list[tuple[str, str, str]] = []
    forms = [form for form, _, _ in sentence]
    for number, (form, spaced, choice) in enumerate(sentence, 1):
        head = choice % number
        misc = "_" if spaced else "SpaceAfter=No"
        rows.append(f"{number}\t{form}\t_\tX\tX\t_\t{head}\tr{number}\t_\t{misc}\n")
        if head:
            expected.append((forms[head - 1], f"r{number}", form))
    with tempfile.TemporaryDirectory() as folder:
        files = read(write(Path(folder), "".join(rows)))
    assert [related(file) for file in files] == ([expected] if expected else [])
    written = "".join(form + (" " if spaced else "") for form, spaced, _ in sentence).rstrip()
    assert [file.text for file in files] == ([written] if expected else [])


@settings(max_examples=100, deadline=None)
@given(
    text=st.text()
    | st.lists(st.sampled_from(["1", "2", "1-2", "\t", "a", "_", "0", "\n", "#", "="])).map("".join)
)
def test_no_text_is_more_than_an_input_error(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            read(f"conllu:{path}")
        except InputError as error:
            assert "\n" not in str(error)
