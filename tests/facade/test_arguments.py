"""Arguments in Python: declared once, by position, by name, in plural and singular, and misspelled."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import sonde
from sonde.api.label import LabelArguments
from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.progress import NullProgress, Progress
from sonde.cli.commands import app
from sonde.experiments import Execution, Experiment
from sonde.experiments.arguments import ModelArguments, RunArguments, from_arguments

COMMANDS: Mapping[str, Any] = get_command(app).commands  # type: ignore[attr-defined]

ONLY_PYTHON = {"experiment", "progress"}

ONLY_COMMAND_LINE = {
    "features",
    "fidelity",
    "figures",
    "json",
    "no_report",
    "no_trial",
    "open",
    "plan",
    "shard",
    "snippet",
}
"""What is printed or written after the scores; a share of a run; flags that are a lens or its option."""

PLURALS = {
    "model": "models",
    "lens": "lenses",
    "task": "tasks",
    "corpus": "corpora",
    "language": "languages",
    "quirk": "quirks",
    "option": "options",
}

VALUES: Mapping[str, Any] = {
    "adapter": "lora",
    "address": "head:6379",
    "batch_tokens": 7,
    "bos": "none",
    "budget": "2h",
    "context": 64,
    "corpora": ["local:a", Path("b")],
    "corpus": "local:a",
    "cut_off": "2024-12-31",
    "device": "cuda",
    "device_map": {"": "cpu"},
    "dtype": "bfloat16",
    "executor": "ray",
    "include_seen": True,
    "language": "go",
    "languages": ("go", "java"),
    "lens": "probe",
    "lenses": ["probe", "attention"],
    "limit": 7,
    "mode": "paper",
    "model": Path("a"),
    "models": ["a", "b"],
    "option": "surprisal.min_count=3",
    "options": {"surprisal": {"min_count": 3}},
    "output": "there",
    "per_cluster": 3,
    "quantise": "8bit",
    "quirk": "perplexed.shift",
    "quirks": ["perplexed.shift"],
    "seed": 3,
    "stride": 5,
    "task": "cpx",
    "tasks": ["cpx", "jft"],
    "transform": "rename",
    "trust_remote_code": True,
    "unit": "file",
    "workers": 3,
}


def flags(command: str) -> dict[str, Any]:
    """The options of a command by their flags, spelled as names of Python."""
    found = {}
    for parameter in COMMANDS[command].params:
        if parameter.param_type_name == "option":
            flag = next(one for one in parameter.opts if one.startswith("--"))
            found[flag.removeprefix("--").replace("-", "_")] = parameter
    return found


def documented(function: Callable[..., Any]) -> dict[str, str]:
    """The arguments that a docstring lists, each with its words on one line."""
    (block,) = re.findall(r"^Args:\n((?:    .*\n|\n)+)", inspect.getdoc(function) or "", flags=re.M)
    parts = re.split(r"^(\w+): ", textwrap.dedent(block), flags=re.M)[1:]
    return {name: " ".join(words.split()) for name, words in zip(parts[::2], parts[1::2], strict=True)}


class _ReachedError(Exception):
    """A run would begin."""


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Any, ...]]:
    """`sonde.run` up to where it would read the corpus: what is measured, how, and who is told."""

    def stop(experiment: Experiment, execution: Execution, progress: Progress) -> None:
        raise _ReachedError(experiment, execution, progress)

    module = importlib.import_module("sonde.api.run")
    monkeypatch.setattr(module, "carry_out", stop)
    monkeypatch.chdir(tmp_path)

    def call(*positions: Any, **keywords: Any) -> tuple[Any, ...]:
        with pytest.raises(_ReachedError) as reached:
            sonde.run(*positions, **keywords)
        return reached.value.args

    return call


def test_the_docstrings_explain_an_argument_in_the_same_words() -> None:
    explained = documented(sonde.run)
    assert set(explained) == set(RunArguments.__annotations__)
    models = documented(sonde.load_model)
    assert models.pop("name") and models == {name: explained[name] for name in ModelArguments.__annotations__}


@pytest.mark.parametrize("function", [sonde.run, sonde.label, sonde.load_model, sonde.show, sonde.compare])
def test_every_argument_is_in_the_docstring_and_no_other(function: Callable[..., Any]) -> None:
    keys = {"run": RunArguments, "label": LabelArguments, "load_model": ModelArguments}
    kind = keys.get(function.__name__)
    names = {name for name in inspect.signature(function).parameters if name != "arguments"}
    assert set(documented(function)) == names | set(kind.__annotations__ if kind else ())


def test_names_are_those_of_the_command_line() -> None:
    known = set(RunArguments.__annotations__)
    written = set(flags("run"))
    assert written - known == ONLY_COMMAND_LINE
    assert known - written == ONLY_PYTHON | set(PLURALS.values())


@pytest.mark.parametrize("command", ["run", "label", "show"])
def test_what_is_repeated_on_the_command_line_has_a_singular_and_a_plural(command: str) -> None:
    repeated = {name for name, parameter in flags(command).items() if parameter.multiple}
    known = set(documented(getattr(sonde, command)))
    assert repeated and repeated <= set(PLURALS)
    assert {one for name in repeated for one in (name, PLURALS[name])} <= known


def test_values_are_there_for_all() -> None:
    assert set(VALUES) == set(RunArguments.__annotations__) - {"experiment", "file", "lock", "progress"}


@pytest.mark.parametrize("name", VALUES)
def test_each_argument_reaches_the_run(name: str, resolve: Callable[..., tuple[Any, ...]]) -> None:
    experiment = sonde.Experiment()
    before = resolve(experiment)[:2]
    after = resolve(experiment, **{name: VALUES[name]})[:2]
    assert after[1].output == Path("there") if name == "output" else after != before


@pytest.mark.parametrize(("singular", "plural"), PLURALS.items())
@pytest.mark.parametrize("several", [False, True])
def test_singular_and_plural_are_the_same(
    singular: str, plural: str, several: bool, resolve: Callable[..., tuple[Any, ...]]
) -> None:
    value = [VALUES[singular]] if several else VALUES[singular]
    assert resolve(**{singular: value})[:2] == resolve(**{plural: value})[:2]
    assert resolve(**{singular: value, plural: None})[:2] == resolve(**{plural: value, singular: None})[:2]


def misspelled(name: str, known: set[str]) -> list[str]:
    """A name with one letter missing, doubled or another."""
    places = range(len(name))
    found = {name[:at] + letters + name[at + 1 :] for at in places for letters in ("", name[at] * 2, "x")}
    return sorted(one for one in found if one and one not in known)


def is_one_letter_away(written: str, name: str) -> bool:
    """Whether one letter too few, too many or wrong lies between two texts."""
    if len(written) == len(name):
        return sum(one != other for one, other in zip(written, name, strict=True)) <= 1
    short, long = sorted((written, name), key=len)
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


@pytest.mark.parametrize("name", RunArguments.__annotations__)
def test_a_misspelled_argument_of_a_run_is_answered_by_the_nearest(name: str) -> None:
    known = set(RunArguments.__annotations__)
    for written in misspelled(name, known):
        with pytest.raises(UnknownNameError) as raised:
            sonde.run("sonde/mini-decoder", "stdlib", **{written: 3})
        nearest = raised.value.suggestion
        assert nearest is not None and is_one_letter_away(written, nearest), (written, nearest)
        line = f"unknown argument {written!r}; did you mean {nearest!r}?; see help(sonde.run)"
        assert str(raised.value) == line


@pytest.mark.parametrize("name", ["corpora", *LabelArguments.__annotations__])
def test_a_misspelled_argument_of_labels_is_answered_by_the_nearest(name: str) -> None:
    for written in misspelled(name, {"corpora", "task", *LabelArguments.__annotations__}):
        with pytest.raises(UnknownNameError, match=r"^[^\n]*see help\(sonde\.label\)$") as raised:
            sonde.label("cpx", **{written: 3})
        assert is_one_letter_away(written, raised.value.suggestion or "")


@pytest.mark.parametrize("name", ModelArguments.__annotations__)
def test_a_misspelled_argument_of_a_model_is_answered_by_the_nearest(name: str) -> None:
    for written in misspelled(name, {"name", *ModelArguments.__annotations__}):
        with pytest.raises(UnknownNameError, match=r"^[^\n]*see help\(sonde\.load_model\)$") as raised:
            sonde.load_model("sonde/mini-decoder", **{written: 3})
        assert is_one_letter_away(written, raised.value.suggestion or "")


def test_model_and_corpus_stand_first(resolve: Callable[..., tuple[Any, ...]]) -> None:
    named = resolve(models="gpt2", corpora="local:src", lenses=["probe"])[:2]
    assert named[0].models == ("gpt2",) and named[0].corpora == ("local:src",)
    assert resolve("gpt2", "local:src", lenses=["probe"])[:2] == named
    assert resolve("gpt2", corpus="local:src", lens="probe")[:2] == named
    assert resolve(["gpt2"], ("local:src",), lens=["probe"])[:2] == named
    assert resolve(None, "local:src", model="gpt2", lens="probe")[:2] == named
    assert resolve(Path("gpt2"), "local:src", lens="probe")[:2] == named
    assert resolve()[1].output.name.startswith("demo-")


def test_an_experiment_stands_first_and_what_is_given_lies_over_it(
    resolve: Callable[..., tuple[Any, ...]],
) -> None:
    base = sonde.Experiment(models=("gpt2",), lenses=("probe",), corpora=("environment",))
    assert resolve(base)[0] == resolve(experiment=base)[0] == base
    over = resolve(base, "local:src", models="gpt2-medium", limit=3)[0]
    assert (over.models, over.corpora, over.lenses) == (("gpt2-medium",), ("local:src",), ("probe",))
    assert over.selection.limit == 3


def test_who_is_told_is_handed_on(resolve: Callable[..., tuple[Any, ...]]) -> None:
    progress = NullProgress()
    assert resolve(progress=progress)[2] is progress


@pytest.mark.parametrize(
    ("positions", "keywords", "line"),
    [
        (["a"], {"models": "b"}, "both models (by position) and models are given; give one of them"),
        (["a"], {"model": "b"}, "both models (by position) and model are given; give one of them"),
        (["a", "b"], {"corpus": "c"}, "both corpora (by position) and corpus are given; give one of them"),
        (
            [sonde.Experiment()],
            {"experiment": sonde.Experiment()},
            "both experiment (by position) and experiment are given; give one of them",
        ),
        (
            [sonde.Experiment()],
            {"file": "a.toml"},
            "both an experiment and an experiment file are given; give one of them",
        ),
        ([3], {}, "models = 3 is neither a name nor a list of names"),
        ([], {"lens": []}, "lens = [] is empty; leave it out for the default"),
        ([], {"output": 3}, "output = 3: expected str, bytes or os.PathLike object, not int"),
        ([], {"device_map": 3}, "device_map = 3: expected str, bytes or os.PathLike object, not int"),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_one_line(
    positions: list[Any], keywords: dict[str, Any], line: str
) -> None:
    with pytest.raises(UsageError) as raised:
        sonde.run(*positions, **keywords)
    assert str(raised.value) == line


CALLS: Mapping[str, Callable[..., Any]] = {
    "run": sonde.run,
    "label": lambda **given: sonde.label("cpx", **given),
    "show": lambda **given: sonde.show("a.py", **given),
    "compare": lambda **given: sonde.compare("a", "b", **given),
}

TAKEN = [
    (function, singular, plural)
    for function in CALLS
    for singular, plural in PLURALS.items()
    if {singular, plural} <= set(documented(getattr(sonde, function)))
]


def test_these_pairs_are_taken() -> None:
    assert len(TAKEN) == len(PLURALS) + 5
    assert {function for function, _, _ in TAKEN} == set(CALLS)


@pytest.mark.parametrize(("function", "singular", "plural"), TAKEN)
def test_both_of_a_pair_are_refused_in_one_line(function: str, singular: str, plural: str) -> None:
    with pytest.raises(UsageError) as raised:
        CALLS[function](**{singular: VALUES[singular], plural: VALUES[plural]})
    orders = ((singular, plural), (plural, singular))
    assert str(raised.value) in {f"both {a} and {b} are given; give one of them" for a, b in orders}


def test_labels_are_those_of_the_plural(project: Path) -> None:
    corpus = f"local:{project}"
    named = sonde.label("cpx", corpora=corpus, languages=["python"], raw=True)
    assert len(named)
    assert sonde.label("cpx", corpus, language="python", raw=True).equals(named)
    assert sonde.label(task="cpx", corpus=corpus, language="python", raw=True).equals(named)
    with pytest.raises(UsageError, match=r"^sonde\.label takes a task and a corpus, as in [^\n]*$"):
        sonde.label("cpx")


def test_a_function_is_shown_by_one_model_or_several(project: Path) -> None:
    file = next(project.rglob("*.py"))
    named = sonde.show(file, models=["sonde/mini-decoder"])
    assert sonde.show(file, model="sonde/mini-decoder").reads[0].tokens.equals(named.reads[0].tokens)
    with pytest.raises(UsageError, match=r"^sonde\.show takes a file and a model, as in [^\n]*$"):
        sonde.show(file)


def test_what_from_arguments_takes_more_is_the_share_of_a_run() -> None:
    assert set(inspect.signature(from_arguments).parameters) == {"shard", "by_position", "arguments"}
