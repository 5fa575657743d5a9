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
EXTENSION_FOLDERS = (
    "lenses", "corpora", "executors", "models", "languages",
    *(f"tasks/{folder.name}" for folder in sorted((ROOT / "tasks").glob("[a-z]*")) if folder.is_dir()),
    *(f"report/{folder.name}" for folder in sorted((ROOT / "report").glob("[a-z]*")) if folder.is_dir()),
)  # fmt: skip


def test_there_is_something_to_look_at() -> None:
    assert len(MODULES) > 60


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_holds_one_concept(module: Path) -> None:
    assert len(module.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("folder", [path.parent for path in ROOT.glob("languages/*/language.toml")])
def test_what_is_said_of_one_language_is_little(folder: Path) -> None:
    files = [path for path in folder.iterdir() if path.is_file()]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= 1_250


@pytest.mark.parametrize(
    ("call", "only"),
    [
        # It may be set while something runs, and a plan then says -17279957.8 s; the monotonic one is not.
        (r"\btime\.time\(", "base/files.py"),
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


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_languages_and_families_are_told_apart_in_their_folders_only(module: Path) -> None:
    names = _compared_names(ast.parse(module.read_text(encoding="utf-8")))
    top = module.relative_to(ROOT).parts[0]
    if top != "languages":
        assert "language" not in names
    if top != "models":
        assert "model_type" not in names


def _said(tree: ast.Module) -> list[str]:
    """The texts of a module that are no docstrings, and what it imports."""
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings
    ]
    return texts + [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


@pytest.mark.parametrize("module", [*ROOT.glob("*.py"), *ROOT.glob("experiments/**/*.py")])
def test_the_command_line_and_experiments_name_no_lens(module: Path) -> None:
    # A causal model reads from left to right: of that lens's name the field makes a word of its own.
    names = {header.name for header in LENSES.headers()} - {"causal"}
    said = _said(ast.parse(module.read_text(encoding="utf-8")))
    assert {one for text in said for one in re.findall(r"\w+", text)} & names == set()


@pytest.mark.parametrize("folder", EXTENSION_FOLDERS)
def test_extensions_import_only_machinery_of_their_folder(folder: str) -> None:
    package = f"sonde.{folder}".replace("/", ".")
    public = {path.stem for path in (ROOT / folder).glob("*.py") if not path.stem.startswith("_")}
    for name in public:
        tree = ast.parse((ROOT / folder / f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{package}."):
                sibling = node.module.removeprefix(f"{package}.").split(".")[0]
                assert sibling not in public, f"{folder}/{name}.py imports {sibling}.py"


WITHOUT_TORCH = {
    "importing": "import sonde, sonde.corpora, sonde.languages, sonde.tasks, sonde.report, sonde.cli.app",
    "labelling": """
from pathlib import Path
from sonde.experiments.labelling import Labelling, label
label(Labelling(task="call_origin", corpora=("local:.",), raw=True)).write(Path("labels.jsonl"))
""",
    "listing": """
from sonde.experiments.catalogue import REGISTRIES, catalogue
for kind in [*REGISTRIES, "models"]:
    assert catalogue(kind)
""",
}


@pytest.mark.parametrize("what", WITHOUT_TORCH)
def test_torch_is_not_imported_for(what: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("def f():\n    return g()\n")
    code = f"{WITHOUT_TORCH[what]}\nimport sys\nassert not {{'torch', 'transformers'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
