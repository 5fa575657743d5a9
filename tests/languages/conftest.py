from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sonde.languages import CodeTokens, Language, Tree

pytest.register_assert_rewrite("tests.languages.by_hand")

PYTHON_SAMPLE = '''\
"""Module."""
import os.path as p

@cache(1)
class A(Base):
    """Doc é."""

    @property
    async def f(self, a, *b, c: "int" = 3, **k) -> List[str]:
        """Say 🎉.

            deeper
        """
        x = f"é{b!r:>{w}d}\\n x" "y" \\
            + a.b.g(c, y=1)
        return [i for i in x if i not in k] or {*h(1)}

def é(): return print(y) or None
'''

JAVA_SAMPLE = '''\
package a.b;
import java.util.*;
/** Doc é. */
@Ann(x = 1) public class A<T extends B & C> {
    /** Say 🎉.
     * @param t it */
    @Override public int f(final Map<T, ?> t) {
        g(); a.h(1, t); new B<C>("a\\n é b");
        for (int i = 0; i < 1 && ok; i++) { s = """
            block \\t x"""; }
        return a ? 'c' : 0x1F;
    }
    abstract void z();
    enum E { X { void m() {} } }
}
'''

GO_SAMPLE = """\
package a

import (
	"fmt"
	m "math/rand"
)

// Doc é.
type A[T any] struct {
	*B
	f, g int `json:"é"`
}

// Say 🎉.
//
// deeper
func (a *A[T]) F(x, y int, more ...string) (n int, err error) {
	if v, ok := c[x]; ok && v > 1 {
		return 1, nil
	} else if x &^ y != 0x1F {
		a.f++
	}
	for i := range more {
		defer func(q rune) { recover() }('\\n')
		fmt.Println("é\\n b", i, m.Int(), []int{1, 2}[0:1], &B{K: -1i})
	}
	switch t := any(x).(type) {
	case int, *string:
		ch <- t
	default:
		x, y = <-ch, 2
	}
	return
}

func ext(int) bool
"""

RUBY_SAMPLE = """\
require "a"

module M
  # Doc é.
  class A::B < C
    attr_reader :f

    # Say 🎉.
    #
    # deeper
    def f=(v, *more, k: 1, **o, &b) = @f = v

    def self.[](x)
      return 1, nil unless v = c[x] and v > 1
      xs.each_slice(2) do |(i, j), *z|
        puts "é#{b + "n"}\\n", :"s y", %w[a b], ?c, a: 3.5r, **o
      rescue E, *F => @e
        retry
      end
      case y
      in {a: Integer => n, b: [*, ^x]} if n >= 0x1F then ->(q) { q&.g! ? 1 : 2i }
      else x <<= <<~T.strip
        é #{x} \\t
      T
      end
    ensure
      $g ||= 1..
    end
  end
end
__END__
not é code (
"""

JAVASCRIPT_SAMPLE = """\
import fs, {a as b} from 'é';
const m = require("m");

/** Doc é. */
export class A extends B {
  #n = 1; static s = /[/"]\\/+/g;
  /** Say 🎉.
   *  @param {string} x it */
  static async *f(x, {y, z: w = 2, ...r}, [q] = [], ...more) {
    if (x?.n ?? y) { yield* this.#n; } else for (const [k, v] of more) m.g(k, v);
    outer: do { x **= 0x1F; continue outer } while (!(w in r))
    return `é${q + `${x}`}\\n`
  }
  get v() { return new.target }
}
export default (e) => <A b={e} {...e}>t &amp; {e}<c.D/></A>;
B.prototype.h = function () { switch (typeof b) { case null: throw new Error('\\'') } };
"""

PHP_SAMPLE = """\
<p>é</p>
<?php
namespace A\\B;

use C\\D as E, F;

/** Doc é. */
#[Ann(x: 1)]
abstract class A extends B implements I
{
    use T;
    public ?int $n = 1;
    const K = 'é\\'';

    /**
     * Say 🎉.
     */
    #[Pure] public static function f(array|string &$x, self ...$more): ?E
    {
        global $log; static $calls = 0;
        foreach ($x as $k => [$a, $b]): echo $$k; endforeach;
        try { $this->n ??= "a\\n $x[0] é {$b->c()}" . <<<EOT
            block \\t $a
            EOT; } catch (D | \\Exception) { return null; }
        $g = fn(int $i) => $i <=> 0x1F;
        return match (true) { $k instanceof A, !$x => new static(...$more), default => self::f(x: 'y')?->z };
    }
    abstract function z();
}

function &ext() { ?> <b> <?php if (1): elseif (2.5e3): else: endif; yield from [1, 'k' => `ls`]; }
"""

SAMPLES = {
    "javascript": JAVASCRIPT_SAMPLE,
    "python": PYTHON_SAMPLE,
    "java": JAVA_SAMPLE,
    "go": GO_SAMPLE,
    "ruby": RUBY_SAMPLE,
    "php": PHP_SAMPLE,
    "text": "Don't, 3.5 words 🎉 and “quotes”!\n",
}


@pytest.fixture
def samples() -> dict[str, str]:
    return SAMPLES


def check_tree(tree: Tree) -> None:
    """Everything that `Tree` promises, checked node by node."""
    size, length = len(tree), len(tree.text)
    assert size >= 1 and tree.parent[0] == -1 and tree.last[0] == size
    assert (tree.start >= 0).all() and (tree.start <= tree.end).all() and (tree.end <= length).all()
    kinds, parents = tree.kind.tolist(), tree.parent.tolist()
    assert all(0 <= kind < len(tree.kinds) for kind in kinds)
    lasts, starts, ends = tree.last.tolist(), tree.start.tolist(), tree.end.tolist()
    reached = [0] * size
    for row in range(1, size):
        above = parents[row]
        assert 0 <= above < row < lasts[row] <= lasts[above]
        # A child begins where its parent begins or where its sibling before it ends, or later.
        assert max(starts[above], reached[above]) <= starts[row] and ends[row] <= ends[above]
        reached[above] = ends[row]
    childless = [row for row in range(size) if lasts[row] == row + 1 and starts[row] < ends[row]]
    assert tree.leaves.tolist() == childless
    assert all(ends[a] <= starts[b] for a, b in pairwise(childless))


def check_tokens(tree: Tree, tokens: CodeTokens) -> None:
    """In order, never overlapping, inside their node, and every visible character in exactly one."""
    assert len(tokens) == len(tokens.end) == len(tokens.kind) == len(tokens.role) == len(tokens.node)
    assert (tokens.start < tokens.end).all() and (tokens.end[:-1] <= tokens.start[1:]).all()
    covered = np.zeros(len(tree.text), bool)
    for start, end, node in zip(tokens.start, tokens.end, tokens.node, strict=True):
        covered[start:end] = True
        assert node == 0 or (tree.start[node] <= start and end <= tree.end[node])
    missed = "".join(character for character, seen in zip(tree.text, covered, strict=True) if not seen)
    assert not missed.translate({0x200B: None, 0x2060: None, 0xFEFF: None}).split()


def check_language(language: Language, text: str) -> None:
    """A language's answers about any text whatever keep their promises."""
    tree = language.parse(text)
    assert tree.text == text and tree.language == language.name
    check_tree(tree)
    check_tokens(tree, language.tokens(tree))
    length = len(text)
    for construct in language.constructs(tree):
        assert 0 <= construct.start < construct.end <= length and construct.label
    for function in language.functions(text):
        assert 0 <= function.start < function.end <= length
        assert function.qualified_name.endswith(function.name) and function.name
    for definition in language.definitions(text):
        assert text[definition.start : definition.end] == definition.name != ""
    for call in language.calls(text):
        assert text[call.start : call.end] == call.name != ""
        assert call.end <= call.arguments_start <= call.arguments_end <= length


@pytest.fixture
def check():
    return check_language
