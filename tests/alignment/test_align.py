"""Tags, kinds and nodes against a slow reference that looks at one character at a time."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from sonde.alignment import align, align_table, encode, get_surfaces
from sonde.alignment.align import check_alignment, join_tags
from sonde.base.errors import CaptureError, InputError
from sonde.languages import LANGUAGES, TOKEN_KINDS
from sonde.languages.engine.text import whitespace_mask

from .conftest import CODE, KINDS, TEXTS

PYTHON = LANGUAGES.load("python")
SETTINGS = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def aligned(tokenizer, text):
    tree = PYTHON.parse(text)
    tokens = PYTHON.tokens(tree)
    return align(encode(tokenizer, text), tree, tokens), tree, tokens


def tag_of(tree, row):
    above = int(tree.parent[row])
    return f"{tree.kind_name(above)} -> {tree.kind_name(row)}" if above >= 0 else tree.kind_name(row)


def reference(subwords, tree, tokens):
    """One row a piece: tokens held, kind, tag, node."""
    hidden = whitespace_mask(subwords.text).tolist()
    owner = {}
    for index in range(len(tokens)):
        for place in range(int(tokens.start[index]), int(tokens.end[index])):
            owner[place] = index
    rows = []
    for start, end in zip(subwords.start.tolist(), subwords.end.tolist(), strict=True):
        held = sorted({owner[place] for place in range(start, end) if not hidden[place]})
        nodes = [int(tokens.node[index]) for index in held]
        if not held:
            rows.append(((), "layout", "layout", -1))
        elif len(held) == 1:
            kind = TOKEN_KINDS[tokens.kind[held[0]]]
            rows.append((tuple(held), kind, tag_of(tree, nodes[0]), nodes[0]))
        else:
            paths = [[node, *tree.ancestors(node)] for node in nodes]
            common = next(node for node in paths[0] if all(node in path for path in paths))
            rows.append((tuple(held), "merged", join_tags([tag_of(tree, node) for node in nodes]), common))
    return rows


@pytest.mark.parametrize("texts", [CODE, TEXTS], ids=["code", "text"])
@pytest.mark.parametrize("kind", ["byte_level", "byte_level_without_words", "word_piece_uncased", "unigram"])
def test_equals_the_slow_reference(kind, texts, tokenizers):
    tokenizer = tokenizers(kind)

    @SETTINGS
    @given(texts)
    def equal(text):
        got, tree, tokens = aligned(tokenizer, text)
        for place, (held, name, tag, node) in enumerate(reference(got.subwords, tree, tokens)):
            # Blank tokens (the blanks of a string) between two others are held by neither piece character.
            assert (got.first[place], got.last[place]) == ((held[0], held[-1] + 1) if held else (0, 0))
            if len(held) == got.last[place] - got.first[place]:
                assert (got.kind[place], got.tag[place], got.node[place]) == (name, tag, node)
        assert got.coverage.layout == sum(not held for held, *_ in reference(got.subwords, tree, tokens))

    equal()


def test_published_index_example(tokenizers):
    """Section 2 of the notes: the example of the original's documentation, in corrected tags."""
    got, _, _ = aligned(tokenizers("byte_level"), '\ndef foo():\n    print("Hello world!")\n')
    pieces = list(zip(got.subwords.surface, got.tag, strict=True))
    assert pieces[0] == ("\n", "layout")
    written = [(surface.strip(), tag) for surface, tag in pieces if tag != "layout"]
    assert written[0] == ("def", "function_definition -> def")
    tags = [tag for _, tag in written]
    assert "function_definition -> identifier" in tags and "call -> identifier" in tags
    assert any("parameters -> (" in tag for tag in tags) and any("argument_list -> (" in tag for tag in tags)
    assert any("string -> string_content" in tag for tag in tags)


def test_tag_is_of_the_piece_itself(tokenizers):
    got, _, _ = aligned(tokenizers("byte_level"), "a = b")
    written = [tag for tag in got.tag if tag != "layout"]
    assert written == ["assignment -> identifier", "assignment -> =", "assignment -> identifier"]
    assert [got.subwords.surface[place].strip() for place in np.flatnonzero(got.last > got.first)] == [
        "a",
        "=",
        "b",
    ]


def test_leading_space_never_decides(tokenizers):
    got, _, _ = aligned(tokenizers("byte_level"), 'y =  ["a"]')
    for surface, tag in zip(got.subwords.surface, got.tag, strict=True):
        if surface.strip() == "[":
            assert tag == "list -> ["
        if surface.strip() == '["':
            assert tag == "list -> [ + string -> string_start"


def test_merged_pieces_say_so(tokenizers):
    got, tree, _ = aligned(
        tokenizers("byte_level_without_words"), "def foo(self, x):\n    return self.bar(x)\n"
    )
    several = np.flatnonzero(got.last - got.first > 1)
    assert len(several) == got.coverage.merged > 0
    for place in several.tolist():
        assert got.kind[place] == "merged" and " + " in got.tag[place] and got.role[place] == ""
        node = got.node[place]
        visible = got.subwords.text[got.subwords.start[place] : got.subwords.end[place]].strip()
        assert visible in tree.node_text(node)


def test_joined_spells_out_three():
    assert join_tags(["a", "b", "c", "d", "e"]) == "a + b + c + 2 more"


def test_non_ascii_does_not_shift_tags(tokenizers):
    got, _, _ = aligned(tokenizers("byte_level"), "é = b; c = d")
    tags = {got.subwords.surface[place].strip(): got.tag[place] for place in range(len(got.subwords))}
    assert tags["b"] == "assignment -> identifier" and tags["="] == "assignment -> ="


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\ufeff", "\\\n"])
def test_texts_without_code(text, tokenizers):
    for kind in KINDS:
        got, _, _ = aligned(tokenizers(kind), text)
        assert len(got.tag) == len(got.subwords)


def test_coverage_counts_whole_tokens(tokenizers):
    whole, _, tokens = aligned(tokenizers("byte_level"), "a = b")
    assert whole.coverage.tokens_whole == len(tokens) == 3
    assert (whole.coverage.characters, whole.coverage.covered, whole.coverage.merged) == (5, 5, 0)


def test_unknown_pieces_are_counted(tokenizers):
    got, _, _ = aligned(tokenizers("word_piece_cased"), "x = '\u4e2d'")
    assert got.coverage.unknown >= 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("start", [3, 1, 2]), ("end", [9, 9, 9]), ("bytes", [1, -1, 1]), ("bytes", [1, 1, 9])],
)
def test_broken_spans_are_refused(field, value, tokenizers):
    got, _, _ = aligned(tokenizers("byte_level"), "a=b")
    assert len(got.subwords) == 3
    getattr(got.subwords, field)[:] = value
    with pytest.raises(CaptureError, match="item here"):
        check_alignment(got, "here")


def test_a_tokenizer_without_offsets_is_refused():
    class Slow:
        is_fast = False

    with pytest.raises(InputError, match="without offsets"):
        encode(Slow(), "x")


def test_surfaces_reach_the_models_vocabulary(tokenizers):
    tokenizer = tokenizers("byte_level")
    known = get_surfaces(tokenizer)
    assert len(known) == len(tokenizer)
    assert get_surfaces(tokenizer, len(known) + 2)[-1] == f"<unused {len(known) + 1}>"


def test_table_and_merged_table(tokenizers):
    text = "def something(é):\n    return 1\n"
    table = align_table(tokenizers("byte_level"), text, "python")
    merged = align_table(tokenizers("byte_level"), text, "python", merge_leaves=True)
    assert table["bytes"].sum() == len(text.encode())
    assert merged["subwords"].sum() == len(table) and merged["bytes"].sum() == table["bytes"].sum()
    name = merged.filter(merged["token"] == "something")
    assert len(name) == 1 and name["subword"][0].strip() == "something" and name["subwords"][0] > 1


def test_the_text_of_a_long_comment_is_cut_out_once(tokenizers):
    text = "x\n" + "# " * 5_000
    tokenizer = tokenizers("byte_level")
    align_table(tokenizer, "# ", "python")
    tracemalloc.start()
    try:
        table = align_table(tokenizer, text, "python")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table) > 1_000
    assert set(table["token"].to_list()) <= {"x", text[2:], text[2:].rstrip(), ""}
    # A copy of the comment for each of its pieces is fifty million characters.
    assert most < 1_000 * len(text)
