"""The lenses that read a corpus as it is, run over code of every language that has a grammar."""

from pathlib import Path

import pytest

import sonde
from sonde.languages import LANGUAGES, has_facet

SOURCES = {
    "go": "package p\n\nfunc f%d(xs []int, top int) int {\n\tsum := %d\n\tfor _, x := range xs {\n"
    "\t\tif x > top {\n\t\t\tsum = sum + f%d(xs, x)\n\t\t}\n\t}\n\treturn sum\n}\n",
    "java": "class C {\n    int f%d(int[] xs, int top) {\n        int sum = %d;\n        for (int x : xs) {\n"
    "            if (x > top) {\n                sum = sum + f%d(xs, x);\n            }\n        }\n"
    "        return sum;\n    }\n}\n",
    "javascript": "function f%d(xs, top) {\n  let sum = %d;\n  for (const x of xs) {\n    if (x > top) {\n"
    "      sum = sum + f%d(xs, x);\n    }\n  }\n  return sum;\n}\n",
    "php": "<?php\nfunction f%d($xs, $top)\n{\n    $sum = %d;\n    foreach ($xs as $x) {\n"
    "        if ($x > $top) {\n            $sum = $sum + f%d($xs, $x);\n        }\n    }\n"
    "    return $sum;\n}\n",
    "python": "def f%d(xs, top):\n    sum = %d\n    for x in xs:\n        if x > top:\n"
    "            sum = sum + f%d(xs, x)\n    return sum\n",
    "ruby": "def f%d(xs, top)\n  sum = %d\n  for x in xs\n    if x > top\n      sum = sum + f%d(xs, x)\n"
    "    end\n  end\n  return sum\nend\n",
}
"""The same function in each language: its own number, one of its own, and the number of the next."""

FUNCTIONS = 48


def test_code_of_every_language_is_at_hand() -> None:
    assert set(SOURCES) == {name for name in LANGUAGES.names() if has_facet(name, "tokens")}


@pytest.mark.slow
@pytest.mark.parametrize("language", SOURCES)
def test_what_reads_a_corpus_as_it_is_measures_every_language(language: str, tmp_path: Path) -> None:
    suffix = LANGUAGES.load(language).suffixes[0]
    for number in range(FUNCTIONS):
        folder = tmp_path / "code" / f"p{number % 24}"
        folder.mkdir(parents=True, exist_ok=True)
        text = SOURCES[language] % (number, number * 7, (number + 1) % FUNCTIONS)
        (folder / f"f{number}{suffix}").write_text(text, encoding="utf-8")
    run = sonde.run(
        models="sonde/mini-decoder",
        lenses=["surprisal", "attention", "probe"],
        tasks="jft",
        corpora=f"local:{tmp_path / 'code'}",
        languages=language,
        output=tmp_path / "run",
    )
    scores = run.scores
    assert set(scores["lens"]) == {"surprisal", "attention", "probe"}
    assert set(scores["language"].drop_nulls()) == {language}
    told = set(scores["dimensions"].explode().struct.field("value"))
    assert {"If:if->test", "loop"} <= told
