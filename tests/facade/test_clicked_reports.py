"""Reports of every lens on every kind of corpus, clicked through in a real browser: none complains."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import sonde
from sonde.base.errors import SondeError
from sonde.cli.commands import app
from sonde.lenses import LENSES
from tests.copied import functions
from tests.experiments.conftest import save_decoder
from tests.report.browser import needs_browser
from tests.report.clicking import clicked_through

pytestmark = [pytest.mark.slow, needs_browser]

Kind = Callable[[Path, Path], Mapping[str, Any]]
"""From a folder, and the code of a library, to what a run is given of a kind of corpus."""

LIMIT = 12
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "cloze": {"candidates": 4, "per_library": 2},
    "finetune": {
        "epochs": 1,
        "seeds": 1,
        "length": 64,
        "cut": "window",
        "methods": "pretrained,bag_of_tokens",
    },
    "probe": {"curves": False},
}
"""What keeps a lens small; a new one runs as it is."""

READ: Mapping[str, frozenset[str]] = {
    "attention": frozenset({"drawn", "labelled", "one function", "languages"}),
    "cloze": frozenset({"drawn", "labelled"}),
    "fidelity": frozenset({"20 models"}),
    "finetune": frozenset({"labelled", "bugs"}),
    "probe": frozenset({"labelled", "numbers", "spans", "pairs", "languages"}),
    "surprisal": frozenset({"labelled", "one function", "20 models"}),
}
"""Kinds of corpus that a lens cannot refuse; of others, what is drawn."""


BY_ITSELF = frozenset({"causal"})
"""Lenses whose numbers are made in stages and are not compared: the page says so."""


def table(folder: Path, query: str = "", **columns: Sequence[Any]) -> Mapping[str, Any]:
    path = folder / "own.csv"
    with path.open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return {"corpora": f"labelled:{path}{query}", "limit": None}


def labelled(folder: Path, library: Path) -> Mapping[str, Any]:
    texts = functions(30)
    return table(folder, code=texts, label=["loop" if "for " in one else "plain" for one in texts])


def numbers(folder: Path, library: Path) -> Mapping[str, Any]:
    texts = functions(40)
    return table(folder, code=texts, label=[len(one) / 2 for one in texts])


def spans(folder: Path, library: Path) -> Mapping[str, Any]:
    rows = [
        (text, "short" if found.end() - found.start() < 5 else "long", found.start(), found.end())
        for text in functions(30)
        for found in list(re.finditer(r"\w+", text))[1:8]
    ]
    code, label, start, end = zip(*rows, strict=True)
    return table(folder, "?start=start&end=end", code=code, label=label, start=start, end=end)


def pairs(folder: Path, library: Path) -> Mapping[str, Any]:
    texts = functions(40)
    other = [texts[n if n % 2 else (n + 7) % 40] for n in range(40)]
    label = ["same" if n % 2 else "other" for n in range(40)]
    return table(folder, "?text_b=b", code=texts, b=other, label=label)


def bugs(folder: Path, library: Path) -> Mapping[str, Any]:
    return {"corpora": f"local:{library}", "tasks": "wrong_operator", "limit": 40}


def git(folder: Path, library: Path) -> Mapping[str, Any]:
    shutil.copytree(library, folder / "git")
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", "-C", str(folder / "git"), *words], check=True)
    return {"corpora": f"git:{folder / 'git'}"}


def one_function(folder: Path, library: Path) -> Mapping[str, Any]:
    (folder / "one.py").write_text("def only(x):\n    return [print(y) for y in x if y]\n", encoding="utf-8")
    return {"corpora": f"local:{folder}"}


def no_tokens(folder: Path, library: Path) -> Mapping[str, Any]:
    path = folder / "comments.jsonl"
    rows = [{"id": str(n), "text": f"# comment {n}\n", "language": "python"} for n in range(LIMIT)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return {"corpora": f"jsonl:{path}"}


def many_models(folder: Path, library: Path) -> Mapping[str, Any]:
    models: list[str] = []
    for number in range(20):
        (folder / f"model-{number}").mkdir()
        torch.manual_seed(number)
        models.append(str(save_decoder(folder / f"model-{number}")))
    return {"corpora": f"local:{library}", "models": models, "limit": 4}


def languages(folder: Path, library: Path) -> Mapping[str, Any]:
    shutil.copytree(library, folder / "code")
    for n in range(LIMIT):
        text = f"class A{n} {{ int f{n}(int a) {{ if (a > {n}) {{ return g(a); }} return a + {n}; }} }}\n"
        (folder / "code" / f"A{n}.java").write_text(text, encoding="utf-8")
    return {"corpora": f"local:{folder / 'code'}"}


KINDS: Mapping[str, Kind] = {
    "drawn": lambda _, library: {"corpora": f"local:{library}", "limit": 40},
    "labelled": labelled,
    "numbers": numbers,
    "spans": spans,
    "pairs": pairs,
    "bugs": bugs,
    "git": git,
    "one function": one_function,
    "no tokens": no_tokens,
    "20 models": many_models,
    "languages": languages,
}


def asked(kind: str, folder: Path, library: Path, models: Sequence[str]) -> dict[str, Any]:
    """What a run is given of a kind of corpus, and of two models where the kind names none."""
    return {"models": models, "limit": LIMIT, **KINDS[kind](folder, library)}


def can_refuse(lens: str, kind: str) -> bool:
    """Whether a lens may say that it cannot read a kind of corpus."""
    return kind not in READ.get(lens, {"drawn"})


def list_cases() -> list[tuple[str, str]]:
    """Lenses with kinds of corpus: those that they cannot refuse, and every fourth other one."""
    return [
        (lens, kind)
        for place, lens in enumerate(LENSES.names())
        for number, kind in enumerate(KINDS)
        if not can_refuse(lens, kind) or (kind != "20 models" and (place + number) % 4 == 0)
    ]


@pytest.mark.parametrize(("lens", "kind"), list_cases())
def test_a_report_is_clicked_through(
    lens: str, kind: str, library: Path, decoder: Path, encoder: Path, tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    try:
        run = sonde.run(
            lenses=lens,
            output=tmp_path / "run",
            options={lens: OPTIONS[lens]} if lens in OPTIONS else None,
            include_seen=True,
            workers=1,
            **asked(kind, tmp_path / "corpus", library, [str(decoder), str(encoder)]),
        )
    except SondeError as refused:
        assert "\n" not in str(refused)
        assert can_refuse(lens, kind), f"no report of {lens}: {refused}"
        return
    done = clicked_through(run.page.read_text(encoding="utf-8"), tmp_path)
    assert done.get("saved")


def test_the_page_of_one_function_is_clicked_through(
    library: Path, decoder: Path, encoder: Path, tmp_path: Path
) -> None:
    words = ["show", str(next(library.rglob("*.py"))), "-m", str(decoder), "-m", str(encoder)]
    answer = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "show.html")])
    assert answer.exit_code == 0, answer.output or answer.exception
    page = (tmp_path / "show.html").read_text(encoding="utf-8")
    assert clicked_through(page, tmp_path)[".ex-code"]


@pytest.mark.parametrize("lens", LENSES.names())
def test_the_page_of_a_comparison_is_clicked_through(
    lens: str, library: Path, decoder: Path, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    torch.manual_seed(1)
    models = [decoder, save_decoder(tmp_path / "model")]
    if lens == "fidelity":
        # Its first model is what the others are compared with.
        models.append(save_decoder(tmp_path / "third"))
    run = sonde.run(
        models=models,
        lenses=lens,
        corpora=f"local:{library}",
        limit=40,
        options={lens: OPTIONS[lens]} if lens in OPTIONS else None,
        workers=1,
        output=tmp_path / "run",
    )
    compared = sonde.compare(run, output=tmp_path / "compared")
    assert compared.differences["lens"].unique().to_list() == ([] if lens in BY_ITSELF else [lens])
    assert clicked_through(compared.page.read_text(encoding="utf-8"), tmp_path)["saved"]
