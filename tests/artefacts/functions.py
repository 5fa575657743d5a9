"""Functions of each language in which every fault could be put so that it gives itself away."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from random import Random

from sonde.corpora import Item, item_id

_PYTHON = """\
def NAME(first, second):
    total = first + 1
    limit = second * total
    values = [every for every in range(limit) if every]
    for index in values:
        inner = index + total
        if inner > second:
            total = inner - 2
            break
        outer = inner * 2
        limit = outer + OTHER
    if limit > first and True:
        total = limit
        limit = total + first
    while second > limit:
        limit = second + 1
        second = limit - total
    return total - limit
"""

_JAVA = """\
static int NAME(int first, int second) {
    int total = first + 1;
    int limit = second * total;
    note(keep(total));
    keep(note(limit));
    for (int index = 0; index < limit; index++) {
        int inner = index + total;
        if (inner > second) {
            total = inner - 2;
            break;
        }
        int outer = inner * 2;
        limit = outer + OTHER;
    }
    if (limit > first && true) {
        total = limit;
        limit = total + first;
    }
    while (second > limit) {
        limit = second + 1;
        second = limit - total;
    }
    return total - limit;
}
"""

_GO = """\
func NAME(first int, second int) int {
	total := first + 1
	limit := second * total
	for index := 0; index < limit; index++ {
		inner := index + total
		if inner > second {
			total = inner - 2
			break
		}
		outer := inner * 2
		limit = outer + OTHER
	}
	if limit > first && true {
		total = limit
		limit = total + first
	}
	for second > limit {
		limit = second + 1
		second = limit - total
	}
	return total - limit
}
"""

_JAVASCRIPT = """\
function NAME(first, second) {
  let total = first + 1;
  let limit = second * total;
  for (let index = 0; index < limit; index++) {
    let inner = index + total;
    if (inner > second) {
      total = inner - 2;
      break;
    }
    let outer = inner * 2;
    limit = outer + OTHER;
  }
  if (limit > first && true) {
    total = limit;
    limit = total + first;
  }
  while (second > limit) {
    limit = second + 1;
    second = limit - total;
  }
  return total - limit;
}
"""

_PHP = """\
function NAME($first, $second)
{
    $total = $first + 1;
    $limit = $second * $total;
    foreach (range(0, $limit) as $index) {
        $inner = $index + $total;
        if ($inner > $second) {
            $total = $inner - 2;
            break;
        }
        $outer = $inner * 2;
        $limit = $outer + OTHER;
    }
    if ($limit > $first && true) {
        $total = $limit;
        $limit = $total + $first;
    }
    while ($second > $limit) {
        $limit = $second + 1;
        $second = $limit - $total;
    }
    return $total - $limit;
}
"""

_RUBY = """\
def NAME(first, second)
  total = first + 1
  limit = second * total
  (0..limit).each do |index|
    inner = index + total
    if inner > second
      total = inner - 2
      break
    end
    outer = inner * 2
    limit = outer + OTHER
  end
  if limit > first and true
    total = limit
    limit = total + first
  end
  if second > limit
    limit = second + 1
    second = limit - total
  end
  return total - limit
end
"""

TEMPLATES = {
    "python": _PYTHON,
    "java": _JAVA,
    "go": _GO,
    "javascript": _JAVASCRIPT,
    "php": _PHP,
    "ruby": _RUBY,
}
"""Each with variables of a block, a jump in a loop and one at the end, and a head of its own."""

BLOCK = ("index", "inner", "outer")
"""Variables that a block declares."""

_NAMES = ("first", "second", "total", "limit", "every", "values", *BLOCK)
_SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "ke",
    "li",
    "mo",
    "nu",
    "pra",
    "sto",
    "tri",
    "vel",
    "wun",
    "xar",
)


def functions(language: str, number: int) -> Iterator[tuple[Item, dict[str, str]]]:
    """Yield items of a language, each with names of its own, and which name stands for which."""
    draw = Random(7)
    words = ["".join(parts) for parts in itertools.product(_SYLLABLES, repeat=3)]
    for place in range(number):
        chosen = draw.sample(words, len(_NAMES) + 2)
        names = dict(zip(_NAMES, chosen, strict=False))
        text = TEMPLATES[language]
        for name, word in (*names.items(), ("NAME", chosen[-1]), ("OTHER", str(place * 7919 + 3))):
            text = re.sub(rf"\b{name}\b", word, text)
        yield (
            Item(
                item_id=item_id(text, language, "function"),
                text=text,
                language=language,
                unit="function",
                path=f"{place}.x",
                name=chosen[-1],
                offset=0,
                cluster=f"c{place % 40}",
                repository="r",
                docstring=f"{chosen[-1]} gives what {place} others say.",
            ),
            {**names, "NAME": chosen[-1]},
        )
