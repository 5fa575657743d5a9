"""Each quirk of CODETOKENIZERS changes what it says it changes."""

import numpy as np
import pytest

from sonde.alignment.subwords import Subwords
from sonde.base.errors import UnknownNameError
from sonde.languages import LANGUAGES
from sonde.papers.perplexed.quirks import (
    BYTE_COLUMNS,
    FIRST_OVERLAP,
    NOT_AVAILABLE,
    PADS,
    TAG_QUIRKS,
    WHOLE_STRINGS,
    byte_columns,
    compute_quirky_tags,
)

PYTHON = LANGUAGES.load("python")


def tags(pieces, *quirks, pads=0):
    text = "".join(pieces)
    end = np.append(np.cumsum([len(piece) for piece in pieces]), np.zeros(pads, np.int64))
    start = end - np.append([len(piece) for piece in pieces], np.zeros(pads, np.int64))
    lengths = np.array([len(piece.encode()) for piece in pieces] + [0] * pads)
    surface = (*pieces, *["<pad>"] * pads)
    subwords = Subwords(text, np.arange(len(start)), start, end, lengths, surface)
    return compute_quirky_tags(subwords, PYTHON.parse(text), frozenset(quirks))


def test_without_quirks_blanks_are_layout_and_merged_pieces_are_joined():
    assert tags(["def", " f", "():", "\n  ", "pass"]) == (
        "<function_definition -> def>",
        "<function_definition -> identifier>",
        "<parameters -> ( + parameters -> ) + function_definition -> :>",
        "layout",
        "<pass_statement -> pass>",
    )


def test_first_overlap_gives_a_merged_piece_to_its_first_leaf():
    assert tags(["def f", "():", " pass"], FIRST_OVERLAP)[1] == "<parameters -> (>"


def test_first_overlap_depends_on_the_leading_space():
    after_space = tags(["x =", ' ["', 'a"]'], FIRST_OVERLAP, WHOLE_STRINGS)
    without = tags(["x = ", '["', 'a"]'], FIRST_OVERLAP, WHOLE_STRINGS)
    assert (after_space[1], without[1]) == ("<list -> string>", "<list -> [>")


def test_byte_columns_shift_tags_behind_non_ascii():
    pieces = ["é", " =", " b", "; ", "c", " =", " d"]
    assert tags(pieces)[4] == "<assignment -> identifier>"
    assert tags(pieces, BYTE_COLUMNS) != tags(pieces)
    assert tags(["e", *pieces[1:]], BYTE_COLUMNS) == tags(["e", *pieces[1:]])


def test_byte_columns_start_again_on_each_line():
    assert byte_columns("é\nab", np.array([0, 1, 2, 3, 4])).tolist() == [0, 1, 2, 3, 4]


def published_offset(point: tuple[int, int], lines: list[str]) -> int:
    """``convert_to_offset`` of code_tokenizers 0.0.6: a row and a column in bytes."""
    row, column = point
    return sum(map(len, lines[:row])) + row + len(lines[row][:column])


@pytest.mark.parametrize(
    "text", ["s = 'ééé'\nnext(ö)\n", "é", "é\r\nü = 'ß'", "", "\n\né = '数据'  \n", "a = 1"]
)
def test_byte_columns_are_cut_at_the_end_of_their_line_as_published(text: str):
    lines = text.split("\n")
    points: list[tuple[int, int]] = []
    for place in range(len(text) + 1):
        line = text[:place].rpartition("\n")[2]
        points.append((text[:place].count("\n"), len(line.encode())))
    expected = [published_offset(point, lines) for point in points]
    assert byte_columns(text, np.arange(len(text) + 1)).tolist() == expected


def test_blanks_are_not_available():
    assert tags(["a = b", "\n", "c"], NOT_AVAILABLE)[1] == "< N/A >"


def test_strings_whole_hide_what_they_interpolate():
    pieces = ["f'", "{", "x", "}", "'"]
    assert tags(pieces)[2] == "<interpolation -> identifier>"
    assert tags(pieces, WHOLE_STRINGS)[2].endswith("-> string>")


def test_pads_take_the_tag_of_the_first_leaf():
    assert tags(["import", " os"], pads=1)[-1] == "layout"
    assert tags(["import", " os"], NOT_AVAILABLE, PADS, FIRST_OVERLAP, pads=1)[-1] != "< N/A >"


def test_unknown_quirk_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"codetokenizers\.pads"):
        tags(["a"], "codetokenizers.pad")
    assert all(name.startswith("codetokenizers.") for name in TAG_QUIRKS)
