"""The fixed set: commands of the command line whose files and texts are compared.

They run in a folder of their own each, beside those of the others, so that their arguments, and the ids that
rest on them, are the same in both trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from tests.reference.server import ADDRESS

LIMIT = "30"
"""Functions of each language that a run reads."""

LABELLED = "100"
"""Functions of each language that every task labels."""

QUICK = (
    *("label-python-corrected", "label-ruby-paper", "run-united-go", "run-labelled-spans", "format-cubert"),
    *("compare-models", "card", "show", "predict-probe-text", "plan", "align", "list-*", "refused-*"),
)
"""What of it every change is tried on, in some minutes."""

MODES = ("corrected", "paper")
_DECODER, _ENCODER = ("-m", "sonde/mini-decoder"), ("-m", "sonde/mini-encoder")
_SMALL = ("--workers", "1", "--limit", LIMIT)
_OWN = ("labelled", "labelled_pairs", "labelled_spans")
_UNLABELLED: dict[str, tuple[str, ...]] = {
    "python": (),
    "java": ("api_deprecated",),
    "go": ("api_deprecated", "npt"),
    "javascript": ("api_deprecated", "api_cloze", "argument_names", "npt"),
    "php": ("api_deprecated", "api_cloze", "argument_names", "npt"),
    "ruby": ("api_deprecated", "api_cloze", "api_fakes", "api_names", "api_prompts", "npt"),
}
"""Tasks that find too little to label in the files of a language, or do not know it."""

_BROKEN: dict[str, tuple[str, ...]] = {"javascript": ("misuse_repair",)}
"""Tasks that the earlier tree ends with an unexpected error."""

_READ = {
    "codesyntax": ("syntax_relations", "python"),
    "cubert": ("variable_misuse", "python"),
    "inspect": ("cpx", "java"),
}
"""Published formats, each with a task and language that it holds."""

_PROBE = ("--option", "probe.folds=3", "--option", "probe.seeds=2", "--option", "probe.curves=false")
_MASKED = ("--option", "surprisal.masked_items=4", "--option", "surprisal.masked_characters=500")
_FINETUNE = (
    *("--option", "finetune.length=64", "--option", "finetune.epochs=1"),
    *("--option", "finetune.rates=1e-3"),
)
_CAUSAL = (
    *("--option", "causal.draws=1", "--option", "causal.items=10"),
    *("--option", "causal.patched_cells=3", "--option", "causal.drawn_cells=1"),
)
_PUBLISHED: dict[str, tuple[str, ...]] = {
    "surprisal": _DECODER,
    "surprisal-encoder": ("-l", "surprisal", *_ENCODER, *_MASKED),
    "attention": _ENCODER,
    "cloze": _ENCODER,
    "probe": (*_ENCODER, "--limit", "60", "-t", "csc", "-t", "jbl", "-t", "same_scope", *_PROBE),
    "finetune": (
        *(*_ENCODER, "-t", "wrong_operator", "-t", "misuse_repair", "--limit", "120", *_FINETUNE),
        *("--option", "finetune.seeds=2"),
    ),
}
"""Runs in both modes by name; of a lens of the same name unless one is given."""

_UNPUBLISHED = ("surprisal-encoder", "paper")
"""A run whose paper read no such model."""

_SERVED = ("-m", "openai:stub")
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "surprisal-pairs": (*("-l", "surprisal", *_DECODER, "--option", "surprisal.pairs=wrong_operator"),),
    "surprisal-before": ("-l", "surprisal", *_DECODER, "--option", "surprisal.before=both"),
    "surprisal-served": ("-l", "surprisal", *_SERVED, "--option", f"surprisal.base_url={ADDRESS}"),
    "prompting": ("-l", "prompting", *_DECODER, "--option", "prompting.tokens=16"),
    "prompting-served": (
        *("-l", "prompting", *_SERVED, "--option", f"prompting.base_url={ADDRESS}"),
        *("--option", "prompting.concurrency=1"),
    ),
    "cloze-candidates": (
        *(
            "-l",
            "cloze",
            *_DECODER,
            "--option",
            "cloze.candidates=5",
            "--option",
            "cloze.templates=call,import",
        ),
    ),
    "causal-erase": (
        *(
            "-l",
            "causal",
            *_DECODER,
            "--limit",
            "130",
            "-t",
            "idn",
            *_CAUSAL,
            "--option",
            "causal.methods=erase",
        ),
    ),
    "causal-ablate": (*("-l", "causal", *_DECODER, *_CAUSAL, "--option", "causal.methods=ablate"),),
    "causal-patch": (
        *("-l", "causal", *_DECODER, "--limit", "130", *_CAUSAL, "--option", "causal.methods=patch"),
    ),
    "causal-logit_lens": (
        *("-l", "causal", *_DECODER, *_CAUSAL, "--option", "causal.methods=logit_lens"),
        *("--option", "causal.tuned=true"),
    ),
    "two-models": ("-l", "attention", *_DECODER, *_ENCODER),
    "figures": ("-l", "surprisal", *_DECODER, "--figures"),
    "features": ("-l", "probe", *_ENCODER, "-t", "idn", *_PROBE, "--features"),
    "files": ("-l", "surprisal", *_DECODER, "--unit", "file", "--limit", "5"),
    "shard-1": ("-l", "surprisal", *_DECODER, "--shard", "1/2"),
    "shard-2": ("-l", "surprisal", *_DECODER, "--shard", "2/2"),
    "json": ("-l", "surprisal", *_DECODER, "--json", "--no-report"),
}
"""Further runs over Python."""

_TRANSFORMS = ("rename", "shuffle", "mislead", "layout", "comments", "docstrings", "swap")
_REQUIREMENTS = """
[[require]]
lens = "surprisal"
metric = "bits_per_byte"
at_most = {}
"""
_FUNCTION = '''def total(values, start=0):
    """Add values up."""
    found = start
    for value in values:
        if value > 0:
            found += value
        else:
            found -= other(value)
    return found
'''


@dataclass(frozen=True)
class Command:
    """A call of the command line.

    Attributes:
        name: Folder that it runs in.
        arguments: Its arguments.
        needs: Names of the commands whose folders it reads.
        code: What it is meant to end with.
        files: Texts that are in its folder, by name.
        copied: The command whose run is copied into its folder.
    """

    name: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    code: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    copied: str = ""


def commands(
    corpora: Mapping[str, str], tasks: list[str], repository: Path, labels: Mapping[str, str]
) -> Iterator[Command]:
    """Every command.

    Args:
        corpora: The corpus of each language.
        tasks: Public names of the tasks.
        repository: A git repository.
        labels: Tables of labels, as corpora.
    """
    yield from _runs(corpora, repository, labels)
    for language, corpus in corpora.items():
        yield from _labellings(language, corpus, tasks)
    for form, (task, language) in _READ.items():
        if language in corpora:
            limits = ("--limit", LABELLED, "--workers", "1", "--format", form)
            yield Command(f"format-{form}", ("label", task, "-c", corpora[language], *limits, "-o", "labels"))
    yield from _of_runs()
    yield from _without_runs(corpora["python"].partition(":")[2], corpora, repository, labels)
    yield from _refused(corpora["python"])


def chosen(every: list[Command], names: list[str]) -> tuple[list[Command], list[str]]:
    """Select what has one of some names, with ``*`` for any letters; with it what that needs."""
    named = [command.name for command in every if any(fnmatch(command.name, name) for name in names)]
    by_name = {command.name: command for command in every}
    wanted, waiting = set[str](), list(named)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += by_name[name].needs
    return [command for command in every if command.name in wanted], named


def _run(name: str, *arguments: str, code: int = 0) -> Command:
    return Command(f"run-{name}", ("run", *_SMALL, *arguments, "-o", "run"), code=code)


def _runs(corpora: Mapping[str, str], repository: Path, labels: Mapping[str, str]) -> Iterator[Command]:
    python = ("-c", corpora["python"])
    for name, arguments in _PUBLISHED.items():
        lens = () if "-l" in arguments else ("-l", name)
        for mode in MODES:
            code = 2 if (name, mode) == _UNPUBLISHED else 0
            yield _run(f"{name}-{mode}", *lens, *arguments, *python, "--mode", mode, code=code)
    for name, arguments in _FUNCTIONS.items():
        yield _run(name, *arguments, *python)
    for transform in _TRANSFORMS:
        yield _run(f"transform-{transform}", *_DECODER, *python, "--transform", transform)
    united = ("-l", "surprisal", "-l", "attention", "-l", "probe", *_DECODER)
    properties = ("-t", "jbl", "-t", "idn", "-t", "syntax_relations", "-t", "call_origin")
    for language, corpus in corpora.items():
        yield _run(f"united-{language}", *united, *properties, *_PROBE, "-c", corpus)
        yield _run(
            f"encoder-{language}", "-l", "attention", "-l", "surprisal", *_ENCODER, *_MASKED, "-c", corpus
        )
    for language in ("java", "go"):
        if language in corpora:
            yield _run(f"cloze-{language}", "-l", "cloze", *_ENCODER, "-c", corpora[language])
    for name, corpus in labels.items():
        yield _run(f"labelled-{name}", "-l", "probe", *_ENCODER, *_PROBE, "-c", corpus)
    for name in ("classes", "pairs"):
        methods = ("--option", "finetune.methods=pretrained,bag_of_tokens")
        yield _run(
            f"finetune-labelled-{name}", "-l", "finetune", *_ENCODER, *_FINETUNE, *methods, "-c", labels[name]
        )
    git = f"git:{repository}"
    yield _run("git", "-l", "surprisal", "-l", "probe", *_DECODER, "-t", "jbl", *_PROBE, "-c", git)
    yield _run("git-since", *_DECODER, "-c", f"{git}?since=2022-01-01")
    yield _run("git-cut-off", *_DECODER, "-c", git, "--cut-off", "2021-01-01")


def _labellings(language: str, corpus: str, tasks: list[str]) -> Iterator[Command]:
    unable = {*_OWN, *_UNLABELLED[language], *_BROKEN.get(language, ())}
    able = [task for task in tasks if task not in unable]
    limits = ("-c", corpus, "--limit", LABELLED, "--workers", "1", "-o", "{task}.jsonl")
    for mode in MODES:
        yield Command(f"label-{language}-{mode}", ("label", *able, *limits, "--mode", mode, "--raw"))
    for task in _UNLABELLED[language]:
        yield Command(f"refused-label-{language}-{task}", ("label", task, *limits, "--raw"), code=2)
    counted = _COUNTED if language in ("python", "java") else ()
    yield Command(f"drawn-{language}", ("label", *_DRAWN, *counted, *limits))


_DRAWN = ("early_return", "jbl", "idn", "variable_misuse", "wrong_operator", "swapped_operand")
"""Tasks whose balanced data sets are written."""

_COUNTED = ("csc", "nml")
"""Such tasks with ten classes and five, which need more code than the others."""


def _of_runs() -> Iterator[Command]:
    """Commands that read finished runs, and those that change one, each with a copy of its own."""
    surprisal = "run-surprisal-corrected"
    compared = {
        "models": ("run-rounded",),
        "transform": (surprisal, "run-transform-rename"),
        "tokenizers": (surprisal, "run-surprisal-encoder-corrected"),
        "one": ("run-two-models",),
    }
    # Runs of which nothing differs are left out: the earlier tree prints ties in any order.
    for name, runs in compared.items():
        arguments = ("compare", *map(_place, runs), "-o", "compared")
        yield Command(f"compare-{name}", arguments, runs)
        if name == "models":
            yield Command("compare-json", (*arguments, "--json"), runs)
    for name, most, code in (("card", 9, 0), ("card-unmet", 0.1, 1)):
        arguments = ("card", "run", "--require", "require.toml", "--junit", "junit.xml", "--json")
        require = {"require.toml": _REQUIREMENTS.format(most)}
        yield Command(name, arguments, (surprisal,), code, require, copied=surprisal)
    for name in ("figures", "report"):
        yield Command(name, (name, "run"), (surprisal,), copied=surprisal)
    run = _place(surprisal)
    yield Command("verify", ("verify", run), (surprisal,))
    shards = ("run-shard-1", "run-shard-2")
    yield Command("merge", ("merge", *map(_place, shards), "-o", "run"), shards)
    code = {"code.py": _FUNCTION}
    for name, source, task in (
        ("probe", "run-labelled-classes", "labelled"),
        ("finetune", "run-finetune-corrected", "wrong_operator"),
        ("repair", "run-finetune-corrected", "misuse_repair"),
    ):
        for form in ("text", "json", "sarif"):
            arguments = ("predict", _place(source), "code.py", "-t", task, "--format", form)
            yield Command(f"predict-{name}-{form}", arguments, (source,), files=code)
    yield Command("refused-predict", ("predict", run, "code.py"), (surprisal,), 2, code)


def _place(name: str) -> str:
    return f"../{name}/run"


def _without_runs(
    python: str, corpora: Mapping[str, str], repository: Path, labels: Mapping[str, str]
) -> Iterator[Command]:
    code = {"code.py": _FUNCTION}
    yield Command("show", ("show", "code.py", *_DECODER, *_ENCODER, "--tree", "-o", "shown.html"), files=code)
    yield Command("show-json", ("show", "code.py", *_DECODER, "--json"), files=code)
    yield Command("align", ("align", "code.py"), files=code)
    merged = ("align", "code.py", "--merged", *_ENCODER, "-o", "aligned.parquet")
    yield Command("align-merged", merged, files=code)
    yield Command("align-csv", ("align", "code.py", "-o", "aligned.csv"), files=code)
    planned = ("run", *_SMALL, "-l", "surprisal", "-l", "probe", *_DECODER, "-c", f"local:{python}", "--plan")
    yield Command("plan", (*planned, "--no-trial"))
    yield Command("plan-json", (*planned, "--no-trial", "--json"))
    things = ("models", "lenses", "tasks", "languages", "corpora", "executors", "plots", "experiments")
    for thing in things:
        yield Command(f"list-{thing}", ("list", thing))
    for lens in ("run", "surprisal", "attention", "probe", "cloze", "finetune", "prompting", "causal"):
        yield Command(f"list-options-{lens}", ("list", "options", lens))
    yield Command("list-options-json", ("list", "options", "run", "--json"))
    for language, corpus in corpora.items():
        yield Command(f"stats-{language}", ("corpus", "stats", "-c", corpus, "--workers", "1"))
    yield Command("stats-git", ("corpus", "stats", "-c", f"git:{repository}", "--workers", "1"))
    yield Command("stats-labelled", ("corpus", "stats", "-c", labels["classes"], "--workers", "1"))
    yield Command("lock", ("corpus", "lock", "-c", f"local:{python}", "--limit", LIMIT, "-o", "items.lock"))
    locked = ("run", *_SMALL, *_DECODER, "-c", f"local:{python}", "--lock", "../lock/items.lock", "-o", "run")
    yield Command("run-locked", locked, ("lock",))
    build = ("corpus", "build", "-c", f"git:{repository}", "--workers", "1", "-o", "corpus")
    yield Command("build", build)
    yield Command(
        "stats-built", ("corpus", "stats", "-c", "built:../build/corpus", "--workers", "1"), ("build",)
    )
    yield Command("convert", ("convert", "sonde/mini-encoder", "rounded", "--weights", "int8"))
    models = (*_ENCODER, "-m", "../convert/rounded")
    rounded = ("run", *_SMALL, "-l", "attention", *models, "-c", f"local:{python}", "-o", "run")
    yield Command("run-rounded", rounded, ("convert",))
    for name in ("", "run", "label", "compare", "card", "show", "predict", "list", "corpus", "align"):
        yield Command(f"help-{name or 'sonde'}", (*([name] if name else []), "--help"))


def _refused(corpus: str) -> Iterator[Command]:
    """Commands that end with an error, whose words are compared."""
    run = ("run", *_SMALL, "-c", corpus, "-o", "run")
    wrong: dict[str, tuple[str, ...]] = {
        "model": (*run, "-m", "sonde/mini-decodr"),
        "lens": (*run, "-l", "suprisal"),
        "task": (*run, "-l", "probe", "-t", "cpc"),
        "mode": (*run, "--mode", "papr"),
        "quirk": (*run, "--quirk", "surprisal.nothing"),
        "option": (*run, "--option", "surprisal.min_cont=3"),
        "value": (*run, "--option", "surprisal.min_count=none"),
        "range": (*run, "--option", "surprisal.min_count=0"),
        "limit": (*run, "--limit", "0"),
        "transform": (*run, "--transform", "renam"),
        "flag": (*run, "--limt", "3"),
        "unfit": (*run, "-l", "cloze", *_DECODER, "--option", "cloze.objective=masked"),
        "room": (*run, "-l", "finetune", *_DECODER, "-t", "csc"),
        "lock": (*run, "--lock", "missing.lock"),
        "experiment": ("run", "-f", "missing.toml"),
        "corpus": ("run", *_SMALL, "-c", "locl:x", "-o", "run"),
        "folder": ("run", *_SMALL, "-c", "local:missing", "-o", "run"),
        "language": ("run", *_SMALL, "-c", corpus, "--language", "pyton", "-o", "run"),
        "label": ("label", "cpc", "-c", corpus, "-o", "labels"),
        "label-corpus": ("label", "cpx", "-o", "labels"),
        "compare": ("compare", "missing"),
        "compare-none": ("compare", "."),
        "card": ("card", "missing"),
        "show": ("show", "missing.py", *_DECODER),
        "align": ("align", "missing.py"),
        "list": ("list", "lense"),
        "command": ("runn",),
    }
    for name, arguments in wrong.items():
        yield Command(f"refused-{name}", arguments, code=2)
    for task in _OWN:
        yield Command(f"refused-label-{task}", ("label", task, "-c", corpus, "-o", "labels", "--raw"), code=2)
