"""The architecture as tests: what import-linter cannot say."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sonde
from sonde.lenses import LENSES

ROOT = Path(sonde.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
EXTENSIONS = (
    *("corpora/sources", "executors", "languages", "lenses", "models/families"),
    *(f"tasks/{path.parent.name}" for path in sorted((ROOT / "tasks").glob("[!e]*/__init__.py"))),
    *(
        f"report/sections/{path.parent.name}"
        for path in sorted((ROOT / "report/sections").glob("*/__init__.py"))
    ),
)


def test_what_has_an_underscore_is_imported_in_its_own_folder_only() -> None:
    far: list[str] = []
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in names:
                folder, _, private = name.partition("._")
                own = ".".join(("sonde", *module.parent.relative_to(ROOT).parts))
                if private and folder.startswith("sonde") and folder != own:
                    far.append(f"{module.relative_to(ROOT)}: {name}")
    assert far == []


@pytest.mark.parametrize(
    ("call", "only"),
    [
        # It may be set while something runs, and a plan then says -17279957.8 s; the monotonic one is not.
        (r"\btime\.time\(", "base/process.py"),
        # Without a home folder it raises a RuntimeError.
        (r"\.expanduser\(|\bPath\.home\(", "base/files.py"),
    ],
)
def test_what_fails_on_some_machines_is_called_in_one_place_or_nowhere(call: str, only: str) -> None:
    found = {path for path in MODULES if re.search(call, path.read_text(encoding="utf-8"))}
    assert {path.relative_to(ROOT).as_posix() for path in found} == set(filter(None, [only]))


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module.relative_to(ROOT).as_posix())
    assert len(places) > 100
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def _compared_names(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            literal = any(
                isinstance(part, ast.Constant) and isinstance(part.value, str) for part in node.comparators
            )
            left = node.left
            if literal and isinstance(left, ast.Name):
                names.add(left.id)
            elif literal and isinstance(left, ast.Attribute):
                names.add(left.attr)
    return names


def test_languages_and_families_are_told_apart_in_their_folders_only() -> None:
    told: list[str] = []
    for module in MODULES:
        names = _compared_names(ast.parse(module.read_text(encoding="utf-8")))
        top = module.relative_to(ROOT).parts[0]
        if ("language" in names and top != "languages") or ("model_type" in names and top != "models"):
            told.append(module.relative_to(ROOT).as_posix())
    assert told == []


def _said(tree: ast.Module) -> list[str]:
    """The texts of a module that are no docstrings, and what it imports."""
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings
    ]
    return texts + [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_the_command_line_and_experiments_name_no_lens() -> None:
    # A causal model reads from left to right: of that lens's name the field makes a word of its own.
    names = {header.name for header in LENSES.headers()} - {"causal"}
    named: list[str] = []
    for module in [*ROOT.glob("cli/*.py"), *ROOT.glob("experiments/**/*.py")]:
        words = {word for text in _said(ast.parse(module.read_text())) for word in re.findall(r"\w+", text)}
        named += [f"{module.relative_to(ROOT)}: {word}" for word in sorted(words & names)]
    assert named == []


def test_extensions_import_no_extension_beside_them() -> None:
    beside: list[str] = []
    assert [folder for folder in EXTENSIONS if not list((ROOT / folder).glob("*.py"))] == []
    for folder in EXTENSIONS:
        package = f"sonde.{folder}".replace("/", ".")
        public = {path.stem for path in (ROOT / folder).glob("*.py") if not path.stem.startswith("_")}
        for name in public:
            tree = ast.parse((ROOT / folder / f"{name}.py").read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{package}."):
                    sibling = node.module.removeprefix(f"{package}.").split(".")[0]
                    if sibling in public:
                        beside.append(f"{folder}/{name}.py imports {sibling}.py")
    assert beside == []


WITHOUT_TORCH = {
    "importing": "import sonde, sonde.corpora, sonde.languages, sonde.tasks, sonde.report, sonde.cli",
    "labelling": """
from pathlib import Path
from sonde.experiments.label_files import LabelOptions, label_corpora
label_corpora(LabelOptions(task="call_origin", corpora=("local:.",), raw=True)).write(Path("labels.jsonl"))
""",
    "listing": """
from sonde.api.catalogue import KINDS, list_entries
for kind in KINDS:
    assert list(list_entries(kind))
""",
}


@pytest.mark.parametrize("what", WITHOUT_TORCH)
def test_torch_is_not_imported_for(what: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("def f():\n    return g()\n")
    code = f"{WITHOUT_TORCH[what]}\nimport sys\nassert not {{'torch', 'transformers'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
