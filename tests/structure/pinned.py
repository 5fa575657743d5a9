"""What is public or enters keys, collected by name: `python -m tests.structure.pinned` writes what tests pin.

Nothing here depends on the machine, and as little as can be on where things lie: modules and functions may be
moved and renamed, and only the imports below follow. An entry that changes is one that people's runs, scripts
or stored keys would notice.
"""

import ast
import dataclasses
import functools
import gc
import importlib
import inspect
import itertools
import json
import pkgutil
import re
import shutil
import sys
import tempfile
import tomllib
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import polars.selectors as cs
import typer
from typer.testing import CliRunner

import sonde
from sonde.base.errors import SondeError
from sonde.base.fingerprint import (
    derive_seed,
    display_rank,
    fingerprint,
    fingerprint_rows,
    hash_bytes,
    hash_file,
    hash_text,
    unit_hash,
)
from sonde.capture.interventions import Affine, Change, Put
from sonde.cli.commands import app
from sonde.corpora import (
    CORPORA,
    Given,
    Item,
    Selection,
    SkipCounter,
    SourceFile,
    Tag,
    content_hash,
    item_id,
    read_items,
)
from sonde.corpora.engine.select import split
from sonde.executors import EXECUTORS
from sonde.experiments import Experiment, default_output
from sonde.experiments.catalogue import all_options
from sonde.experiments.catalogue import experiment_headers as replications
from sonde.experiments.datasets import LensDatasets, _DatasetBuilder, label_key
from sonde.experiments.experiment import LensChoice
from sonde.experiments.formats import FORMATS
from sonde.experiments.plan import Group, LensInput, ResolvedModel, build_plan
from sonde.experiments.shards import tables_key
from sonde.languages import (
    CONSTRUCT_LABELS,
    LANGUAGES,
    TOKEN_KINDS,
    TOKEN_ROLES,
    get_language_version,
    get_unsupported_tasks,
    has_facet,
)
from sonde.languages.engine.language import QUERY_FACETS
from sonde.languages.engine.transforms import TRANSFORMS
from sonde.lenses import LENSES, Control, Method
from sonde.models import ModelSpec
from sonde.models.engine.family import FAMILIES
from sonde.papers.quirks import list_quirks as declared_quirks
from sonde.report import PLOTS, card_schema
from sonde.results.scores import SCORES_COLUMNS
from sonde.store.run_folder import RunDirectory, group_prefix, label_path
from sonde.tasks import Task, build, build_pairs
from sonde.tasks.engine.task import TASKS, Example, example_table
from sonde.training.pretrain.loop import _recipe_keys
from sonde.training.pretrain.optimiser import OptimiserConfig
from sonde.training.pretrain.recipe import (
    CorpusConfig,
    DataConfig,
    EvaluationConfig,
    ModelConfig,
    PairsConfig,
    Recipe,
    TrainingConfig,
    VocabularyConfig,
)
from tests.structure.hashed import Sources, descend

HASHING = (
    derive_seed, fingerprint, fingerprint_rows, hash_bytes, hash_file, hash_text, display_rank, unit_hash,
)  # fmt: skip

IN_KEYS = (Experiment, LensChoice, ModelSpec, Method, Control, Recipe, Tag, Given)
"""The roots of what enters keys; the dataclasses that they hold are found from them."""

ROOT = Path(sonde.__file__).parent
_EXPERIMENT_SCHEMA = Path(__file__).parents[2] / "docs/experiment.schema.json"
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
DATA = Path(__file__).with_name("pinned.json")
PRINTED = Path(__file__).with_name("printed")
COMMAND = "python -m tests.structure.pinned"

Entries = Mapping[str, Any]


@functools.cache
def trees() -> Mapping[str, ast.Module]:
    """The modules of sonde, by dotted name, parsed; a package is named as its ``__init__``."""
    found: dict[str, ast.Module] = {}
    # Nodes by the million are no garbage, and looking for some doubles the time.
    gc.disable()
    for path in sorted(ROOT.rglob("*.py")):
        parts = (sonde.__name__, *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    gc.enable()
    return found


def _import_all() -> list[Any]:
    """Every module, imported."""
    walked = pkgutil.walk_packages(sonde.__path__, f"{sonde.__name__}.")
    return [importlib.import_module(one.name) for one in walked if not one.name.endswith("__main__")]


def hashed() -> Entries:
    """The literals that are hashed, with how often."""
    begin = {f"{function.__module__}.{function.__qualname__}" for function in HASHING}
    return Sources(trees()).hashed(begin)


def _dataclasses_in(kind: type, found: dict[str, type]) -> dict[str, type]:
    """A dataclass and those that its fields hold, by the name that keys have for them."""
    found[getattr(kind, "kind_in_keys", kind.__name__)] = kind
    waiting: list[Any] = list(typing.get_type_hints(kind).values())
    while waiting:
        one = waiting.pop()
        waiting += typing.get_args(one)
        if dataclasses.is_dataclass(one) and isinstance(one, type) and one not in found.values():
            _dataclasses_in(one, found)
    return found


def kinds(roots: Iterable[type] = IN_KEYS) -> Entries:
    """The dataclasses that enter keys: fields in their order, and two keys that change with any of them.

    The first key is of one whose fields all hold their own place; the second leaves those that came later at
    their defaults. A sign behind a field says that it came later (+), or is no part of a key (-).
    """
    found: dict[str, type] = {}
    for root in roots:
        _dataclasses_in(root, found)
    entries: dict[str, Any] = {}
    for name, kind in found.items():
        full, early = object.__new__(kind), object.__new__(kind)
        fields: list[str] = []
        for place, field in enumerate(dataclasses.fields(kind), 1):
            object.__setattr__(full, field.name, place)
            added = field.metadata.get("omitted_at_default")
            object.__setattr__(early, field.name, field.default if added else place)
            fields.append(
                f"{field.name}{'+' * bool(added)}{'' if field.metadata.get('in_keys', True) else '-'}"
            )
        entries[name] = {"fields": " ".join(fields), "full": fingerprint(full), "early": fingerprint(early)}
    return entries


def _item(number: int, **changed: Any) -> Item:
    text = f"def f{number}(x):\n    return g(x) + {number}\n"
    item = Item(
        item_id=item_id(text, "python", "function"),
        text=text,
        language="text",
        unit="function",
        path=f"a/b{number}.py",
        name=f"f{number}",
        offset=0,
        cluster=f"c{number}",
        repository="r",
    )
    return dataclasses.replace(item, **changed)


def _lens(**changed: Any) -> LensChoice:
    lens = LensChoice(
        name="lens",
        source="lens",
        version="3",
        tasks=("a", "b"),
        mode="corrected",
        quirks=("q",),
        options=(("few", 3), ("many", "x")),
        seed=7,
        scoring=("few",),
    )
    return dataclasses.replace(lens, **changed)


def _plan_keys() -> Iterator[tuple[str, str]]:
    """Keys of jobs and of scores, with the names of their files."""
    items = tuple(_item(number) for number in range(12))
    behind = (
        _item(20, context="import a\n"),
        _item(21, period="2024", oldest="2024-01-01", newest="2024-02-01"),
    )
    group = Group(corpus="jsonl:a", corpus_hash="h", language="text", items=(*items, *behind))
    control, method = Control(5, 0.5), Method(name="pretrained", task="a", seed=3, options=(("epochs", 2),))
    readings = {
        "reading": LensInput(lens=_lens(), group=group, inputs=group.items, labels="l", controls=(control,)),
        "second stage": LensInput(
            lens=_lens(stage=1, found=(("layer", 2),)), group=group, inputs=items, labels="l"
        ),
        "training": LensInput(lens=_lens(), group=group, inputs=items, labels="l", methods={method: "d"}),
        "training without a model": LensInput(
            lens=_lens(), group=group, inputs=items, labels="l",
            methods={dataclasses.replace(method, needs_model=False): "d"},
        ),
    }  # fmt: skip
    specs = {
        "": ModelSpec(name="m/x"),
        " of an adapted model": ModelSpec(name="m/x", revision="v2", adapter="a", quantise="8bit", gguf="f"),
    }
    for of, spec in specs.items():
        model = ResolvedModel(name="m/x", spec=spec, revision="r")
        for what, reading in readings.items():
            made = build_plan(RunDirectory(Path("run")), [model], [reading], {"text": "components"})
            parts = [part for job in (*made.jobs, *made.trainings) for part in job.parts]
            for number, part in enumerate(parts):
                yield f"{what}{of}: part {number}", f"{part.relative} {part.key}"
            yield f"{what}{of}: scores", " ".join(answer.key for answer in made.answers)
            yield f"{what}{of}: plan", tables_key((part.relative, part.key) for part in parts)
    yield "prefix of a group", group_prefix("stdlib", "python")
    yield "folder of labels", label_path("task", group.prefix, "lens")
    yield "data sets", LensDatasets(items, {"a": "1", "b": "2"}, (), {}).key


def _label_keys() -> Iterator[tuple[str, str]]:
    """Keys of labels and data sets; of text, whose rules hang on no library."""
    group = Group(corpus="jsonl:a", corpus_hash="h", language="text", items=(_item(1),))
    drawing = _DatasetBuilder(_lens(), group, group.items, "pool", 10, None, None, None, None)  # type: ignore[arg-type]
    for task in TASKS.names():
        # A task over a whole corpus labels no items.
        if hasattr(TASKS.load(task), "needs_repository"):
            yield f"labels of {task}", label_key(task, group, "corrected", ("q",))
        yield f"data set of {task}", drawing.key(task)
    item = _item(1)
    rows = [("train", True, Example(item, item, label, 1, 4, 9, "c", 6, 8)) for label in ("x", "x", "y")]
    table = example_table(rows, "task", "2")
    yield "examples", " ".join(table["example_id"].to_list())


def _corpus_keys() -> Iterator[tuple[str, str]]:
    """Ids and hashes of what corpora hold."""
    for unit in ("file", "function"):
        yield f"item of a {unit}", item_id("x = 1\n", "python", unit)
    file = SourceFile(path="a.py", text="x = 1\n", language="python", cluster="c", repository="r")
    tagged = dataclasses.replace(
        file,
        tags=(Tag("t", 0, 1),),
        given=(Given("a", "b", 0, 1), Given("a", "b", 0, 1, value=2.0, group="g")),
    )
    yield "content", content_hash(file)
    yield "content with labels", content_hash(tagged)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            path = Path(folder) / f"p{number}" / "a.py"
            path.parent.mkdir()
            path.write_text(f"def f{number}(x):\n    '''Text {number}.'''\n    return g(x) + {number}\n")
        items = sorted(read_items(f"local:{folder}", SkipCounter()), key=lambda item: item.path)
        yield "items of a folder", " ".join(item.item_id for item in items)
        yield "clusters of a folder", " ".join(item.cluster for item in items)
        yield "splits", json.dumps(split(items, seed=1), sort_keys=True)
    draws = [unit_hash("a", number) for number in range(3)]
    yield "draws", f"{draws} {derive_seed('a', 1)} {display_rank('item')}"
    alone = hash_text("a\ud800")
    yield "hashes", f"{alone} {hash_bytes(b'a')} {fingerprint_rows([('a', 'b')])}"
    yield "containers", fingerprint({"b": {2, 1}, "a": (Path("x/y"), None, 1.5, True)})


def _other_keys() -> Iterator[tuple[str, str]]:
    """Keys of experiments, recipes and changes of a model."""
    experiment = Experiment(
        models=("m",), corpora=("c",), lenses=("surprisal",), selection=Selection(seed=2), adapter="a",
        options={"surprisal": {"concurrency": 2}},
    )  # fmt: skip
    for what, one in {"default": Experiment(), "chosen": experiment}.items():
        yield f"experiment by {what}", f"{fingerprint(one)} {default_output(one, '')}"
    recipe = Recipe(
        name="n",
        model=ModelConfig(role="encoder", architecture="bert"),
        vocabulary=VocabularyConfig(),
        data=DataConfig(corpora=(CorpusConfig(name="stdlib", language="python"),)),
        training=TrainingConfig(steps=3, objective="pairs"),
        pairs=PairsConfig(),
        optimiser=OptimiserConfig(),
        evaluation=EvaluationConfig(),
    )
    for what, key in _recipe_keys(recipe).items():
        yield f"recipe: {what}", key
    yield "recipe: folder of data", fingerprint(recipe.data, recipe.vocabulary)
    eye = np.eye(2, 3, dtype=np.float32)
    for what in (Affine(eye.T, eye, eye[0]), Put(eye), Put(eye, {"i": np.array([1])})):
        place = f"change {type(what).__name__}{' by item' if getattr(what, 'index', None) else ''}"
        yield place, Change(1, what, positions={"i": (2,)}).key


def keys() -> Entries:
    """Keys of fixed things of every kind."""
    return dict([*_plan_keys(), *_label_keys(), *_corpus_keys(), *_other_keys()])


_WORDS = ["alpha", "beta", "gamma", "delta", "limit", "total", "count", "value", "index", "name"]


def _function(number: int) -> str:
    """A function that has places for many faults; no two are alike."""
    one, two, three = (f"{_WORDS[(number * by + by) % 10]}_{by}" for by in (1, 3, 7))
    more = f"            items.append(str({three}))\n" * (number % 3)
    end = (
        f"    try:\n        {two} = items[{one}]\n    except KeyError:\n        {two} = None\n"
        if number % 2
        else f"    while {one} < {two}:\n        {one} = {one} * 2\n"
    )
    return (
        f"def read_{one}_{number}({one}, {two}, items):\n"
        f'    """Return the {three} of {one} number {number}."""\n'
        f"    {three} = {number} + len({one})\n"
        f"    for index_{number} in range({two}):\n"
        f"        if {one} > {three} and not {two} == {number % 7}:\n"
        f"            {three} += max({one}, index_{number})\n{more}{end}"
        f"    return helper_{number % 5}({three}, {two}) - {one}\n"
    )


def draws() -> Entries:
    """What is drawn of sixty functions: examples and minimal pairs of each task that finds enough there.

    The numbers of an n-gram model are left out, since their last digits are a machine's own.
    """
    pool = [
        _item(
            number,
            text=_function(number),
            item_id=item_id(_function(number), "python", "function"),
            language="python",
            path=f"p{number // 2}.py",
            cluster=f"c{number // 2}",
        )
        for number in range(60)
    ]
    found: dict[str, str] = {}
    for name, (what, make) in itertools.product(
        TASKS.names(), {"data set": build, "pairs": build_pairs}.items()
    ):
        if isinstance(TASKS.load(name), Task):
            with suppress(SondeError):
                made = make(name, pool, size=20, seed=3, language="python")
                rows = made.examples.select(~cs.float()).rows()
                ids = [item.item_id for item in made.inputs]
                found[f"{what} of {name}"] = hash_text(repr((rows, ids)))
    return found


def versions() -> Entries:
    """Versions that keys hold: of lenses, tasks and the rules of languages, libraries left out."""
    told = {f"lens {name}": LENSES.load(name).version for name in LENSES.names()}
    told |= {f"task {name}": TASKS.load(name).version for name in TASKS.names()}
    return told | {
        f"language {name}": get_language_version(name).split(", ")[-1] for name in LANGUAGES.names()
    }


def columns() -> Entries:
    """Every table that is declared, by its columns in their order, with their types."""
    found: dict[str, int] = {}
    for module in _import_all():
        for value in list(vars(module).values()):
            if isinstance(value, Mapping) and value and all(isinstance(name, str) for name in value):
                types = [one[0] if isinstance(one, tuple) and one else one for one in value.values()]
                if all(isinstance(one, pl.DataType) or _is_type(one) for one in types):
                    told = " ".join(f"{name}:{one}" for name, one in zip(value, types, strict=True))
                    found[told] = 1
    return found


def _is_type(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, pl.DataType)


def options() -> Entries:
    """Options of a run and of every lens, as they are explained."""
    return {
        f"{of}.{one.name}": {
            "type": one.values.type,
            "values": one.values.range_text,
            "default": one.default_text,
            "flag": one.flag,
            "line": one.line,
            "scoring": one.scoring,
        }
        for of, some in all_options().items()
        for one in some
    }


def _commands() -> Iterator[tuple[str, Any]]:
    """Every command of the command line by its words; the first is the command line itself."""
    waiting: list[tuple[str, Any]] = [("", typer.main.get_command(app))]
    while waiting:
        words, command = waiting.pop(0)
        yield words, command
        waiting += [
            (f"{words} {name}".strip(), one) for name, one in getattr(command, "commands", {}).items()
        ]


def commands() -> Entries:
    """Arguments and flags of every command."""
    return {
        f"sonde {words}".strip(): [
            " ".join([*sorted(one.opts), *sorted(one.secondary_opts)])
            + (" as a flag" if one.is_flag else "")
            + (" required" if one.required else "")
            + (" repeated" if one.multiple or one.nargs == -1 else "")
            if one.param_type_name == "option"
            else f"{one.metavar or one.name.upper()} {one.nargs}{' required' if one.required else ''}"
            for one in command.params
        ]
        for words, command in _commands()
    }


def _leaves(schema: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every property of a schema by its path, with what it is."""
    for name, one in schema.get("properties", {}).items():
        yield f"{path}{name}", hash_text(json.dumps(one, sort_keys=True))[:12]
        yield from _leaves(one, f"{path}{name}.")
    for name, one in schema.get("$defs", {}).items():
        yield from _leaves(one, f"{path}#{name}.")


def schemas() -> Entries:
    """Keys of experiment files and of cards."""
    told = {"experiment": json.loads(_EXPERIMENT_SCHEMA.read_text(encoding="utf-8")), "card": card_schema()}
    return {f"{of} {path}": key for of, schema in told.items() for path, key in _leaves(schema)}


def names() -> Entries:
    """Public names, by kind, with the folders' own stems."""
    registries = {
        "corpus": CORPORA, "executor": EXECUTORS, "family": FAMILIES, "format": FORMATS,
        "language": LANGUAGES, "lens": LENSES, "plot": PLOTS, "task": TASKS,
    }  # fmt: skip
    found: dict[str, list[str]] = {kind: [] for kind in registries}
    aliases: list[str] = []
    for kind, registry in registries.items():
        for header in registry.headers():
            found[kind].append(header.name)
            aliases += [f"{kind} {alias}: {header.name}" for alias in header.aliases]
    found["alias"] = aliases
    found["flag of a lens"] = [f"{one.name} {flag}" for one in LENSES.headers() for flag in one.flags]
    found["experiment"] = [header.name for header in replications()]
    found["quirk"] = [f"{one['name']} {one.get('lens', '')}".strip() for one in declared_quirks()]
    found["quirk of a lens"] = [
        f"{name} {quirk}" for name in LENSES.names() for quirk in LENSES.load(name).quirks
    ]
    found["task of a lens"] = [
        f"{name} {task}" for name in LENSES.names() for task in LENSES.load(name).tasks
    ]
    found["transform"] = list(TRANSFORMS)
    found["construct"], found["kind of token"] = list(CONSTRUCT_LABELS), list(TOKEN_KINDS)
    found["role of a token"] = list(TOKEN_ROLES)
    for name in LANGUAGES.names():
        folder = ROOT / "languages" / name
        stems = {path.stem for path in folder.glob("[a-z]*.py")} | set(QUERY_FACETS)
        found[f"facet of {name}"] = sorted(one for one in stems if has_facet(name, one))
        found[f"file of {name}"] = sorted(one.name for one in folder.glob("[a-z]*.*") if one.suffix != ".py")
        found[f"task that {name} lacks"] = sorted(get_unsupported_tasks(name))
    for group, points in PROJECT["project"]["entry-points"].items():
        found[f"entry point {group}"] = sorted(points)
    found["extra"] = sorted(PROJECT["project"]["optional-dependencies"])
    found["script"] = sorted(PROJECT["project"]["scripts"])
    found["label of a task"] = [
        f"{name} {label}" for name in TASKS.names() for label in getattr(TASKS.load(name), "labels", ())
    ]
    return {f"{kind}: {name}": 1 for kind, some in found.items() for name in some}


def _texts_in(value: ast.AST) -> Iterator[str]:
    """The literals that a value can be; where a part is filled in, an empty pair of braces stands."""
    match value:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr():
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in value.values)
        case ast.IfExp():
            yield from (*_texts_in(value.body), *_texts_in(value.orelse))
        case ast.BoolOp() | ast.Tuple() | ast.List() | ast.Set():
            for child in ast.iter_child_nodes(value):
                yield from _texts_in(child)
        case _:
            pass


def values() -> Entries:
    """Names that columns of scores hold (metrics among them): what they are given or compared with."""
    texts = {name for name, (kind, _) in SCORES_COLUMNS.items() if kind is pl.String}
    found: set[str] = set()
    for tree in trees().values():
        for node in descend(tree):
            pairs: list[tuple[str, ast.AST]] = []
            if isinstance(node, ast.keyword) and node.arg:
                pairs.append((node.arg, node.value))
            elif isinstance(node, ast.Dict):
                pairs += [(key.value, value) for key, value in zip(node.keys, node.values, strict=True)
                          if isinstance(key, ast.Constant) and not isinstance(value, ast.Tuple)]  # fmt: skip
            elif isinstance(node, ast.Compare):
                pairs += [(_column(node.left), value) for value in node.comparators]
            found |= {f"{name}={text}" for name, value in pairs if name in texts for text in _texts_in(value)}
    return dict.fromkeys(found, 1)


def _column(value: ast.expr) -> str:
    """The column that an expression asks of a row, a score or a table; empty for none."""
    match value:
        case ast.Attribute():
            return value.attr
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name
        case ast.Call(func=ast.Attribute(attr="col"), args=[ast.Constant(value=str() as name)]):
            return name
        case _:
            return ""


_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")


def words() -> Entries:
    """Every literal text that could be a name: of a column, a metric, an option, a task, a control, a label.

    Lists of what a module exports and the texts of quoted annotations are none.
    """
    found: set[str] = set()
    for tree in trees().values():
        exported = {
            id(one)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "_MODULES")
            for one in descend(node)
        }
        for node in descend(tree):
            match node:
                case ast.Constant(value=str() as text) if id(node) not in exported and _NAME.fullmatch(text):
                    found.add(text)
                case _:
                    pass
    return dict.fromkeys(found, 1)


_FILE = re.compile(r"[\w{}=./ -]*\.(?:parquet|jsonl?|html|csv|tex|toml|md|log|npy|safetensors|tmp|lock)")


def files() -> Entries:
    """Names of files that are written or read, and of variables of the environment."""
    found: set[str] = set()
    for tree in trees().values():
        for node in descend(tree):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                for text in _texts_in(node):
                    if _FILE.fullmatch(text) or re.fullmatch(r"(?:SONDE|OPENAI|RAY|HF)_[A-Z_]+", text):
                        found.add(text)
    return dict.fromkeys(found, 1)


def errors() -> Entries:
    """Errors with the codes that a command exits with."""
    _import_all()
    found: dict[str, int] = {}
    waiting: list[type[SondeError]] = [SondeError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith(sonde.__name__):
            found[kind.__name__] = kind.exit_code
        waiting += kind.__subclasses__()
    return found


def python() -> Entries:
    """What `import sonde` gives: names, and how each is called; annotations are left out."""
    found: dict[str, Any] = {}
    # A module that was imported before is an attribute, too.
    shown = {name for name in dir(sonde) if f"{sonde.__name__}.{name}" not in sys.modules and name[0] != "_"}
    found["dir(sonde)"] = sorted({*shown, *sonde.__all__} - {"Any", "TYPE_CHECKING", "annotations"})
    for name in sonde.__all__:
        value = getattr(sonde, name)
        if inspect.ismodule(value):
            for inner in value.__all__:
                found |= _called(f"{sonde.__name__}.{name}.{inner}", getattr(value, inner))
        else:
            found |= _called(f"{sonde.__name__}.{name}", value)
    return found


def _called(name: str, value: Any) -> dict[str, Any]:
    """How a thing is called, and the public members of a class."""
    if not callable(value):
        return {name: "value"}
    found = {name: _signature(value)}
    if isinstance(value, type):
        for member in dir(value):
            if not member.startswith("_"):
                held = inspect.getattr_static(value, member)
                called = isinstance(held, classmethod | staticmethod) or inspect.isfunction(held)
                found[f"{name}.{member}"] = _signature(getattr(value, member)) if called else "value"
    return found


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    shown = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+|\bsonde(?:\.\w+)+\.", "", shown)


COLLECTORS: Mapping[str, Callable[[], Entries]] = {
    one.__name__: one
    for one in (
        hashed, kinds, keys, draws, versions, columns, options, commands, schemas, names, values, words,
        files, errors, python,
    )
}  # fmt: skip


def printed() -> Mapping[str, str]:
    """What `sonde list KIND` and `sonde COMMAND --help` print, by the name of a file."""
    listed = (
        "models",
        "lenses",
        "options",
        "tasks",
        "languages",
        "corpora",
        "executors",
        "plots",
        "experiments",
        "metrics",
        "quirks",
    )
    asked = {f"list-{kind}": ["list", kind] for kind in listed}
    for words, _ in _commands():
        asked["-".join(["help", *words.split()])] = [*words.split(), "--help"]
    runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "FORCE_COLOR": None})
    found: dict[str, str] = {}
    for name, words in asked.items():
        # What the hub's cache of this machine holds is none of it.
        with patch("huggingface_hub.constants.HF_HUB_CACHE", "/nowhere"):
            result = runner.invoke(app, words, prog_name="sonde", terminal_width=100)
        assert result.exit_code == 0, (words, result.output)
        found[name] = "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())
    return found


def collected() -> Mapping[str, Entries]:
    """Everything that is pinned in the data file."""
    return {section: collect() for section, collect in COLLECTORS.items()}


def written(sections: Mapping[str, Entries]) -> str:
    """The data file: an entry a line, sorted."""
    blocks = [
        f"{json.dumps(section)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries))
        + "\n}"
        for section, entries in sections.items()
    ]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def difference(section: str, pinned: Entries, now: Entries) -> str:
    """What vanished, is new or changed, in one line; empty where nothing did."""
    both = [name for name in pinned if name in now and pinned[name] != now[name]]
    told = {
        "vanished": [name for name in pinned if name not in now],
        "new": [name for name in now if name not in pinned],
        "changed": [f"{name} ({_apart(pinned[name], now[name])})" for name in both],
    }
    said = [
        f"{word}: {'; '.join(sorted(some)[:8])}{f' and {len(some) - 8} more' * (len(some) > 8)}"
        for word, some in told.items()
        if some
    ]
    return f"{section}: {', '.join(said)}; if that is meant, run `{COMMAND}`" if said else ""


def _apart(was: Any, now: Any) -> str:
    """What two entries do not share."""
    if isinstance(was, dict) and isinstance(now, dict):
        names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        return ", ".join(f"{name}: {was.get(name)} -> {now.get(name)}" for name in names)
    if isinstance(was, list) and isinstance(now, list) and set(was) != set(now):
        lost, added = ([one for one in some if one not in other] for some, other in ((was, now), (now, was)))
        return f"{', '.join(lost) or 'nothing'} -> {', '.join(added) or 'nothing'}"
    return f"{was} -> {now}"


def strings() -> Counter[str]:
    """Every literal text of the source but docstrings, with how often: to check a large rename."""
    found: Counter[str] = Counter()
    for tree in trees().values():
        said = {id(node.value) for node in descend(tree) if isinstance(node, ast.Expr)}
        inner = {id(one) for node in descend(tree) if isinstance(node, ast.JoinedStr) for one in node.values}
        for node in descend(tree):
            if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in said | inner:
                found.update(_texts_in(node))
    return found


def main() -> None:
    """Write what is pinned; with ``--strings`` print all literal texts of the source instead."""
    if "--strings" in sys.argv:
        for text, count in sorted(strings().items()):
            sys.stdout.write(f"{count} {json.dumps(text)}\n")
        return
    DATA.write_text(written(collected()), encoding="utf-8")
    shutil.rmtree(PRINTED, ignore_errors=True)
    PRINTED.mkdir()
    for name, text in printed().items():
        (PRINTED / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
