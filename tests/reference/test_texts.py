"""What is taken out of texts before they are compared, and what stays."""

from __future__ import annotations

import pytest

from tests.reference.texts import Page, flatten_json, mask_lines, mask_text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("done on 2026-11-28", "done on <date>"),
        ("at 2026-11-28T02:00:01.5+00:00, 02:00:01", "at <date>, <time>"),
        ("about 6 min, then 72 s or 1,234.5 ms", "about <duration>, then <duration> or <duration>"),
        ("nine minutes; 9 minutes and 1 hour", "nine minutes; <duration> and <duration>"),
        ("at 5 inputs a second; 10.5 per second", "at <rate>; <rate>"),
        ("436 MB in all, 12 bytes, 1.5GiB", "<size> in all, <size>, <size>"),
        ("report: /home/a b/c.html", "report: /home/a b/c.html".replace("/home", "<folder>", 1)),
        ("report: /home/a/c.html", "report: <folder>/c.html"),
        ("local:/home/x/python/copy.py", "local:<folder>/copy.py"),
        ("`/usr`, http://a.b/c/d and x/y/z", "`/usr`, http://a.b/c/d and x/y/z"),
        ("python-1e3f44c5.parquet of 0123456789abcdef0123456789abcdef", "python-<hash>.parquet of <hash>"),
        ("deadbeef and 12345678, a1b2c3", "deadbeef and 12345678, a1b2c3"),
        ("accuracy 17.5 [11.9, 24.3] % of 200 items", "accuracy 17.5 [11.9, 24.3] % of 200 items"),
        ("layer 3, h 2; 0.5 bits per byte", "layer 3, h 2; 0.5 bits per byte"),
    ],
)  # fmt: skip
def test_what_differs_from_call_to_call_is_masked(text: str, masked: str) -> None:
    assert mask_text(text) == masked


def test_masked_twice_is_masked_once() -> None:
    text = "2026-11-28 72 s 5 inputs a second 436 MB /home/a/c.html 1e3f44c5"
    assert mask_text(mask_text(text)) == mask_text(text)


def test_hashes_stay_where_they_are_compared() -> None:
    assert mask_text("1e3f44c5 in 3 s", hashes=False) == "1e3f44c5 in <duration>"


def test_progress_is_left_out() -> None:
    text = (
        "observing: begins\nobserving 1,712 inputs with m: about 6 min\nobserving: 128/1712 after 17 s\n\n"
        "observing: done in 486.2 s\n30 items observed\n  sorted\n"
    )
    assert mask_lines(text) == ["30 items observed", "  sorted"]


def test_json_by_path() -> None:
    value = {"a": [1, {"b": "1e3f44c5 in 3 s", "timing": 3}], "c": {}, "d": None, "e": True}
    assert list(flatten_json(value, frozenset({"timing"}))) == [
        ("a[0]", 1),
        ("a[1].b", "1e3f44c5 in <duration>"),
        ("c", {}),
        ("d", None),
        ("e", True),
    ]


def test_a_page_is_its_visible_text_and_its_data() -> None:
    page = Page(
        "<style>p {}</style><script>let a = '<p>no</p>'</script><p>One\n  <b>two</b></p><td>3 &lt; 4</td>"
        '<script type="application/json" id="specs">{"x": [1, "<p>"]}</script><svg><text>axis</text></svg>'
    )
    assert page.texts == ["One", "two", "3 < 4", "axis"]
    assert page.data == {"specs": {"x": [1, "<p>"]}}
