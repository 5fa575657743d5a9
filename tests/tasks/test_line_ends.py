"""Line ends of all systems give the same labels: each task in each language."""

from __future__ import annotations

from typing import Any

import pytest

from sonde.corpora import Item, SkipCounter, SourceFile
from sonde.corpora.engine.read import extract_items
from sonde.languages import LANGUAGES, Definition
from sonde.tasks.engine.task import TASKS, ItemLabels, Repository, get_languages

TEXTS = {
    "python": '''@dec
def f(a, b):
    """Sum up.

    More words.
    """
    # comment one
    x, y = a, b  # tail
    for i in a:
        if i > 1 and b:
            return f(i, """s
            t""")
    return x + \\
        y
''',
    "java": """class C {
  /** Sum up.
   * More words.
   */
  int f(int a, int b) {
    // comment one
    int x = a, y = b; // tail
    for (int i = 0; i < a; i++) {
      if (i > 1 && b > 2) { return f(i, 2); }
    }
    /* c
       d */
    return x + y;
  }
}
""",
    "go": """package p

// f sums up.
// More words.
func f(a, b int) int {
	// comment one
	x, y := a, b // tail
	for i := range a {
		if i > 1 && b > 2 { return f(i, 2) }
	}
	s := `a
b`
	return x + y
}
""",
    "javascript": """/** Sum up.
 * More words.
 */
function f(a, b) {
  // comment one
  let [x, y] = [a, b] // tail
  for (const i of a) {
    if (i > 1 && b) { return f(i, `a
b`) }
  }
  return x + y
}
""",
    "php": """<?php
/** Sum up.
 * More words.
 */
function f($a, $b) {
  // comment one
  # comment two
  [$x, $y] = [$a, $b]; // tail
  foreach ($a as $i) {
    if ($i > 1 && $b) { return f($i, <<<X
    word
    X); }
  }
  return $x + $y;
}
""",
    "ruby": """# Sum up.
# More words.
def f(a, b)
  # comment one
  x, y = a, b # tail
  a.each do |i|
    if i > 1 && b
      return f(i, <<~X)
        word
      X
    end
  end
  x + y
end
""",
}


def function(language: str, end: str) -> Item:
    text = TEXTS[language].replace("\n", end)
    assert not LANGUAGES.load(language).parse(text).has_error
    (item,) = extract_items(SourceFile("f", text, language, "c", "r"), "function", SkipCounter())
    return item


def labels(task: ItemLabels, item: Item) -> set[tuple[Any, ...]]:
    """Rows with their places as they are in a text of line feeds."""

    def place(position: int | None) -> int | None:
        if position is None:
            return None
        inside = item.text[position - 1 : position + 1] == "\r\n"
        return len(item.text[:position].replace("\r\n", "\n")) - inside

    places = ("start", "end", "other_start", "other_end")
    known = {"r": Repository({"f": (("f", Definition("f", "function", 0, 1)),)})}
    rows = task.label([item], known)[item.item_id].iter_rows(named=True)
    return {(row["label"], row["value"], *(place(row.get(name)) for name in places)) for row in rows}


@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["windows", "old"])
@pytest.mark.parametrize("language", TEXTS)
def test_every_task_labels_what_it_labels_with_line_feeds(language: str, end: str) -> None:
    item, expected = function(language, end), function(language, "\n")
    assert (item.name, item.docstring) == (expected.name, expected.docstring)
    assert item.text.replace(end, "\n") == expected.text
    asked = 0
    for name in TASKS.names():
        task = TASKS.load(name)
        if isinstance(task, ItemLabels) and language in get_languages(task):
            assert labels(task, item) == labels(task, expected), name
            asked += 1
    assert asked > 30
