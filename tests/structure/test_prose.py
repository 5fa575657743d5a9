"""The check of English: stiff sentences are found, and plain ones pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.prose import GENERATED, GENERATORS, PLACES, ROOT, Passage, Prose, list_files, main, read_passages

from generate import PAGES

PROSE = Prose()

BAD = {
    "The surprisal is 2.1 bits a subword.": "per",
    "It takes 3 bits a word.": "per",
    "It takes 3 bits a code token.": "per",
    "The table has two scores a model.": "per",
    "The file has 5 values a row.": "per",
    "It writes a row a number.": "per",
    "The model is held against its base.": "held against",
    "The same command goes on where it stood.": "goes on",
    "The run goes on.": "goes on",
    "The interval stands beside the value.": "stands",
    "How long it takes is said when the first are done.": "said",
    "Why it ended is not said.": "said",
    "The model is never told the answer.": "said",
    "Rows with too little data say so.": "says so",
    "The labels were given by hand.": "by hand",
    "A plan foretells the time.": "foretell",
    "Take so many items.": "so many",
    "What is too little for a verdict is marked.": "begins with What",
    "Of a table, the first rows count.": "begins with What",
    "Of the tables, two are empty.": "begins with What",
    "It runs on a processor.": "processor",
    "Put a blank around the operator.": "blank",
    "Save the tokenizer beside the model.": "beside",
    "The numbers behind the chart are in scores.csv.": "behind",
    "The quantisation is of one model alone.": "alone",
    "It writes figures, if asked.": "asked for",
    "The run has 1 numbers.": "number and noun",
    "It wrote 1 files of code.": "number and noun",
}

GOOD = (
    "The surprisal is 2.1 bits per subword, and the model is compared with its base.",
    "The same command resumes; {task} stands for the task, and as many items as fit are read.",
    "What does a model know? It encodes 1 class and 21 numbers in so many ways that all agree.",
    "Give the item a line, and the two cannot be told apart by a blank line.",
    "Release 1.1 bits are kept.",
    "Exit code 1 means a wrong name, Table 1 shows both, and Layer 1 holds syntax.",
    "Of the 22 constructs, two differ. Of the {} others, none does.",
    "Files are held out and checked against their near-duplicates. The run goes on to the next model.",
)


@pytest.mark.parametrize(("text", "rule"), BAD.items())
@pytest.mark.parametrize("kind", ["text", "string"])
def test_a_stiff_sentence_is_found(text: str, rule: str, kind: str) -> None:
    assert rule in {name for name, _, _ in PROSE.check_passage(Passage(1, text, kind))}


@pytest.mark.parametrize("text", GOOD)
@pytest.mark.parametrize("kind", ["text", "string"])
def test_a_plain_sentence_passes(text: str, kind: str) -> None:
    assert list(PROSE.check_passage(Passage(1, text, kind))) == []


def test_the_report_of_a_run_is_no_page_but_a_page_of_the_documentation_is() -> None:
    text = "The page shows it on hover."
    assert [name for name, _, _ in PROSE.check_passage(Passage(1, text, "string"))] == ["page"]
    assert list(PROSE.check_passage(Passage(1, text))) == []


def test_long_bullets_and_sentences_are_found() -> None:
    words = "word " * 20
    assert list(PROSE.check_passage(Passage(1, words, "bullet"))) == []
    assert [found[:2] for found in PROSE.check_passage(Passage(1, words + "more", "bullet"))] == [
        ("long bullet", "21 words")
    ]
    sentence = "Word " * 35
    assert list(PROSE.check_passage(Passage(1, f"{sentence}. {sentence}."))) == []
    assert [found[0] for found in PROSE.check_passage(Passage(1, f"{sentence}end. Short."))] == [
        "long sentence"
    ]


@pytest.mark.parametrize(
    ("end", "begin"), [(".", "sonde runs it"), (".", "5 files remain"), (".)", "The rest"), (".", "{} files")]
)
def test_a_sentence_ends_before_a_command_a_number_and_after_a_bracket(end: str, begin: str) -> None:
    half = "word " * 25
    assert list(PROSE.check_passage(Passage(1, f"{half}word{end} {begin} {half}", "string"))) == []
    assert [found[0] for found in PROSE.check_passage(Passage(1, f"{half} {begin} {half}", "string"))] == [
        "long sentence"
    ]


PAGE = """# What is compared

A paragraph with `code a blank`
on two lines.

- a bullet with a [link](beside.md)
  that goes on
1. another

| cell beside | `x` |
|---|---|

```python
stands = "beside"
```
"""


def test_a_page_is_read_by_paragraph_bullet_and_cell_without_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    found = [(passage.line, passage.kind, passage.text) for passage in read_passages(page)]
    assert found[:4] == [
        (1, "text", "What is compared"),
        (3, "text", "A paragraph with `x` on two lines."),
        (6, "bullet", "a bullet with a link that goes on"),
        (8, "bullet", "another"),
    ]
    assert (10, "cell", "cell beside") in found
    assert not any("stands" in text for _, _, text in found)
    notebook = tmp_path / "page.ipynb"
    cells = [{"cell_type": "code", "source": ["beside"]}, {"cell_type": "markdown", "source": ["A cell."]}]
    notebook.write_text(json.dumps({"cells": cells}))
    assert [passage.text for passage in read_passages(notebook)] == ["A cell."]


def test_only_the_newest_part_of_a_changelog_is_read(tmp_path: Path) -> None:
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n### New\n\n- a\n\n### Old\n\n- b\n")
    assert [passage.text for passage in read_passages(changelog) if passage.kind == "bullet"] == ["a"]


def test_files_are_checked_by_path_and_only_a_check_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("It stands in a table.\n\nIt is there.\n")
    (tmp_path / "data.json").write_text("{}")
    assert list(list_files([tmp_path])) == [page]
    assert main([str(tmp_path)]) == 0
    assert "page.md:1: stands: 'stands in'; better: " in capsys.readouterr().out
    assert main([str(page), "--check"]) == 1
    page.write_text("It is in a table.\n")
    assert main([str(page), "--check"]) == 0


def test_texts_of_the_program_are_read_where_they_are_printed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Stands in no output."""\nfrom jaxtyping import Float\n\n\n'
        'def tell(rows: Float[object, "row stands in"]):\n'
        '    """Stands beside nothing."""\n    return f"{rows} rows are\\n\\nheld "\n'
    )
    assert [(passage.line, passage.text) for passage in read_passages(module)] == [
        (7, "{} rows are"),
        (7, "held"),
    ]


def test_an_exception_is_of_one_file_and_rule(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It stands in a table beside it.\n")
    rules = tmp_path / "prose.toml"
    rules.write_text(
        "[[rule]]\nname = 'stands'\npattern = 'stands in'\nbetter = 'is'\n"
        "[[rule]]\nname = 'beside'\npattern = 'beside'\nbetter = 'next to'\n"
        "[limits]\nbullet = 20\nsentence = 35\n"
        f"[[exception]]\nfile = '{page.as_posix()}'\nrule = 'beside'\ntext = 'a table beside'\n"
    )
    assert [finding.rule for finding in Prose(rules).check_file(page)] == ["stands"]


def test_generated_pages_are_read_in_their_sources() -> None:
    # These pages have sentences that only their generator writes, so they are read as they are.
    read = ("../", "gallery", "studies", "replication")
    pages = {name for name in PAGES if name.endswith(".md") and not name.startswith(read)}
    assert {f"docs/{name}" for name in pages} == GENERATED
    files = {file.relative_to(ROOT).as_posix() for file in list_files([ROOT / "docs", ROOT / "src"])}
    assert not GENERATED & files
    assert {"docs/cost.md", "src/sonde/results/glossary.toml", "src/sonde/cli/commands.py"} <= files
    assert {name for name in files if name.startswith("src/") and name.endswith(".md")} == {
        f"src/sonde/models/bundled/{name}/README.md" for name in ("mini-decoder", "mini-encoder")
    }
    assert "docs/generators/options.py" in files
    assert "docs/generate.py" not in files


def test_strings_of_a_generator_are_read_as_pages() -> None:
    passages = list(read_passages(GENERATORS / "options.py"))
    assert any(passage.kind == "bullet" and "Separate several values" in passage.text for passage in passages)
    lines = (GENERATORS / "options.py").read_text(encoding="utf-8").splitlines()
    heading = next(passage for passage in passages if passage.text == "Options")
    assert lines[heading.line - 1] == '_HEAD = """\\'


SETTINGS = """#:schema schema.json
# It stands in a file,
# beside another.
key = 1 # by hand
title = "Two tables"
note = "What is rounded is marked."
name = "stands"
"""


@pytest.mark.parametrize("name", ["settings.toml", "settings.yml", "Makefile"])
def test_comments_titles_and_notes_of_settings_are_read(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(SETTINGS.replace(" = ", ": ") if name.endswith(".yml") else SETTINGS)
    assert list(list_files([tmp_path])) == [file]
    assert [(passage.line, passage.text) for passage in read_passages(file)] == [
        (2, "It stands in a file, beside another. by hand"),
        (5, "Two tables"),
        (6, "What is rounded is marked."),
        (7, "stands"),
    ]


def test_texts_outside_of_the_documentation_are_read() -> None:
    files = {file.relative_to(ROOT).as_posix() for file in list_files([ROOT / name for name in PLACES])}
    assert {
        "Makefile",
        "CITATION.cff",
        "mkdocs.yml",
        "pyproject.toml",
        ".github/workflows/release.yml",
        "docs/gate.yml",
        "docs/files.template.md",
        "recipes/ablations/README.md",
        "recipes/ablations/curve.toml",
        "recipes/tiny/model.toml.in",
    } <= files


def test_a_dash_or_an_asterisk_within_a_line_is_no_bullet(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("**Bold.** A range - of values.\n")
    assert [passage.text for passage in read_passages(page)] == ["Bold. A range - of values."]
