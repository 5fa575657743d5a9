"""Targets of hostile input: every way in, up to the label tables and the token table."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz import hostile

from sonde.alignment import align_table
from sonde.base.errors import SondeError
from sonde.corpora import SkipCounter, SourceFile, read_files, read_lock
from sonde.corpora.engine.read import extract_items
from sonde.corpora.engine.source_files import MAX_LINE, is_usable
from sonde.experiments import load_experiment
from sonde.languages import LANGUAGES
from sonde.models import ModelSpec, load_tokenizer
from sonde.tasks import repositories
from sonde.tasks.engine.task import TASKS, resolve_task

MODELS = ("sonde/mini-decoder", "sonde/mini-encoder")

LIMIT_S = 2.0
"""No single input may take longer, up to the longest line that a run reads; a page holds hundreds."""


def limit_s(seed: int) -> float:
    """Seconds that `code` may take with an input.

    A run refuses a longer line before it parses it. The tree of a megabyte on one line is asked for all the
    same, and the parser alone takes seconds for it, in proportion to its length: so much more time it has.
    """
    _, text = hostile.text(random.Random(seed))
    return LIMIT_S * max(1.0, len(text) / MAX_LINE)


@dataclass
class Tally:
    """What became of the inputs.

    Attributes:
        done: Inputs tried.
        refused: Those that were refused in one line.
        failed: What went wrong, with the seed that repeats it.
        slowest: Seconds of processor time of the slowest, and its seed.
    """

    done: int = 0
    refused: int = 0
    failed: list[str] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)

    def attempt(self, seed: int, action: Callable[[], object], limit_s: float | None = None) -> None:
        """Try one input; only errors that sonde raises on purpose, in one line, are no failure.

        Args:
            seed: Repeats it.
            action: What is tried.
            limit_s: Seconds of processor time that it may take; tests set none, since no test measures time.
        """
        begin = time.process_time()
        try:
            action()
        except SondeError as error:
            self.refused += 1
            if "\n" in str(error).strip():
                self.failed.append(f"seed {seed}: an error of several lines: {str(error)[:200]!r}")
        except Exception as error:  # whatever escapes is what is looked for
            place = _innermost(error)
            self.failed.append(f"seed {seed}: {type(error).__name__}: {str(error)[:120]!r} at {place}")
        took = time.process_time() - begin
        self.slowest = max(self.slowest, (took, seed))
        if limit_s is not None and took > limit_s:
            self.failed.append(f"seed {seed}: {took:.1f} s")
        self.done += 1


def _innermost(error: BaseException) -> str:
    frame, place = error.__traceback__, ""
    while frame is not None:
        place = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


@cache
def _tokenizer(name: str) -> Any:
    return load_tokenizer(ModelSpec(name=name))


@cache
def _tasks(language: str) -> tuple[Any, ...]:
    loaded = (TASKS.load(name) for name in TASKS.names())
    return tuple(task for task in loaded if hasattr(task, "label"))


def warm() -> None:
    """Import and load what the first input would otherwise be charged with."""
    for name in MODELS:
        align_table(_tokenizer(name), "x = 1\n", "python", merge_leaves=False)
    for language in LANGUAGES.names():
        LANGUAGES.load(language).functions("")
    _tasks("python")


def code(seed: int) -> None:
    """Parse, align, label and relate one text, as a run would."""
    rng = random.Random(seed)
    name, text = hostile.text(rng)
    language = LANGUAGES.load(name)
    tree = language.parse(text)
    language.tokens(tree), language.constructs(tree)
    intake = SkipCounter()
    if not is_usable(text, "p", intake):
        return
    file = SourceFile(path="p", text=text, language=name, cluster="c", repository="r")
    language.definitions(text), language.calls(text)
    items = [*extract_items(file, "function", intake), *extract_items(file, "file", intake)][:3]
    around = repositories([file])
    for task in rng.sample(_tasks(name), 6):
        resolve_task(task, rng.choice(("corrected", "paper"))).label(items, around)
    model = rng.choice(MODELS)
    for item in items[:1]:
        align_table(_tokenizer(model), item.text, name, merge_leaves=rng.random() < 0.2)


_EXPERIMENT = """
models = ["sonde/mini-decoder"]
lenses = ["surprisal", "probe"]
corpora = ["stdlib"]
mode = "corrected"
include_seen = false
[selection]
unit = "function"
limit = 100
seed = 3
languages = ["python"]
[options.surprisal]
min_count = 5
"""
_LOCK = (
    '{"format": "sonde corpus lock 1", "corpus": "stdlib", "version": "0.1", "corpus_hash": "ab", '
    '"selection": {"unit": "function", "limit": 3}}\n'
    '{"path": "a.py", "offset": 3, "item_id": "abc", "file": "def"}\n'
)
_JSONL = (
    '{"id": "a", "code": "def f():\\n    return 1\\n", "language": "python", "tags": [[0, 3, "NOUN"]]}\n'
    '{"id": "b", "code": "x = 1", "language": "python", "cluster": "k", "licence": "MIT"}\n'
)
_CONLLU = "1\tA\ta\tDET\t_\t_\t2\tdet\t_\t_\n2\tdog\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
_INSPECT = "tr\tyes\tdef f(): return 1\nva\tno\tdef g(): return 2\nte\tyes\tx = 3\n"
_CODESYNTAX = '[{"code": "x = 1", "tokens": ["x", "=", "1"], "id": 0, "relns": {"A": [[0, [2, 2]]]}}]'
_CUBERT = '{"function": "def f(a):\\n  return a", "docstring": "d", "label": "Correct", "info": "i"}\n'
_LABELLED = 'code,label,group,split\r\n"def f():\n  return ""1""",a,g,train\r\n' + "x,b,h,test\r\n" * 6
_CLOZE = '[{"idx": "maxmin-0", "nl_tokens": ["a"], "pl_tokens": ["x", "<mask>", "y"]}]'


def _read(corpus: str) -> Callable[[Path], object]:
    return lambda path: [file.text for file in read_files(f"{corpus}:{path}", (), SkipCounter())]


FILES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "experiment": (_EXPERIMENT, "e.toml", load_experiment),
    "lock": (_LOCK, "l.lock", read_lock),
    "jsonl": (_JSONL, "d.jsonl", _read("jsonl")),
    "conllu": (_CONLLU, "d.conllu", _read("conllu")),
    "inspect": (_INSPECT, "d.txt", _read("inspect")),
    "codesyntax": (_CODESYNTAX, "d.json", _read("codesyntax")),
    "cubert": (_CUBERT, "d.jsonl", _read("cubert")),
    "labelled": (_LABELLED, "d.csv", _read("labelled")),
    "labelled spans": (
        '{"code": "x = 1", "label": "a", "start": 0, "end": 3}\n' * 6,
        "d.jsonl",
        lambda path: [*read_files(f"labelled:{path}?start=start&end=end", (), SkipCounter())],
    ),
    "codexglue": (_CLOZE, "d.json", _read("codexglue")),
}


def data_file(seed: int, folder: Path) -> None:
    """Read one damaged file through the loader that it is for."""
    rng = random.Random(seed)
    template, name, load = FILES[rng.choice(sorted(FILES))]
    path = folder / name
    content = hostile.mutated(template, rng, faults=2).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        at = rng.randrange(len(content) + 1)
        content = content[:at] + rng.randbytes(8) + content[at:]
    path.write_bytes(content)
    load(path)
