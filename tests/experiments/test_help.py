"""Help as a user reads it: groups, metavars, the width of the terminal, examples; and pages that open."""

import itertools
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sonde.cli.commands import app
from sonde.cli.help import COMMANDS, OPTION_GROUPS, read_examples
from sonde.corpora import CORPORA
from sonde.experiments import Experiment
from sonde.lenses import LENSES
from sonde.report import PLOTS
from sonde.tasks.engine.task import TASKS

EXAMPLES = read_examples()
RUN = CliRunner()
ROOT: Any = typer.main.get_command(app)


def list_commands(group: Any = ROOT, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command and group by its path."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from list_commands(command, f"{path} {name}".strip())


PATHS = [path for path, _ in list_commands()]


def read_help(path: str, width: int) -> list[str]:
    result = RUN.invoke(app, [*path.split(), "--help"], prog_name="sonde", terminal_width=width)
    assert result.exit_code == 0
    return result.stdout.splitlines()


@pytest.mark.parametrize("path", PATHS)
def test_help_fits_the_terminal_and_shows_no_python_types(path: str) -> None:
    for width in (80, 120):
        lines = read_help(path, width)
        assert [line for line in lines if len(line) > width] == []
        options = "\n".join(lines).partition("\nExamples:")[0]
        assert not re.search(r"<[\w\[\] ]+>|\blist\[", options)
    flags = {flag for parameter in dict(list_commands())[path].params for flag in parameter.opts}
    assert [flag for flag in flags if flag.startswith("-") and flag not in options] == []


def test_help_uses_the_width_of_a_wide_terminal() -> None:
    assert max(map(len, run_sonde("run", "--help", COLUMNS="120").stdout.splitlines())) > 100
    assert len(read_help("run", 120)) < len(read_help("run", 80)) < 140


def test_options_of_a_run_are_in_groups_with_metavars() -> None:
    text = "\n".join(read_help("run", 100))
    headings = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert headings == [*OPTION_GROUPS, "Examples"]
    groups = dict(zip(headings, re.split(r"^\S.*:$", text, flags=re.MULTILINE)[1:], strict=True))
    for group, flag in {
        "What": "-m, --model MODEL",
        "How much": "--limit N",
        "Reading": "--context N",
        "Machine": "--device DEVICE",
        "Output": "-o, --output DIR",
        "Papers": "--quirk QUIRK",
    }.items():
        assert f"\n  {flag}  " in groups[group]
    for flag in ("-l, --lens LENS", "-t, --task TASK", "-c, --corpus CORPUS", "-f, --file FILE"):
        assert f"\n  {flag}  " in groups["What"]


def test_commands_are_in_order_of_use_and_none_is_cut() -> None:
    lines = read_help("", 80)
    listed = [match[1] for line in lines if (match := re.match(r"  ([a-z]+)  +[A-Z]", line))]
    order = [name for names in COMMANDS.values() for name in names if name in ROOT.commands]
    assert listed == order and listed[:4] == ["run", "show", "report", "compare"]
    assert set(order) == set(ROOT.commands), "a command without a place in sonde.cli.help.COMMANDS"
    text = " ".join(" ".join(lines).split())
    for command in ROOT.commands.values():
        first_line = " ".join(command.help.split("\n\n")[0].split())
        assert first_line.partition(". ")[0].removesuffix(".") in text


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_are_commands_that_exist(path: str) -> None:
    lines = read_help(path, 80)
    examples = lines[lines.index("Examples:") + 1 :]
    comments, commands = examples[::2], [line.strip() for line in examples[1::2]]
    assert len(commands) >= 3 and all(comment.startswith("  # ") for comment in comments)
    registries = {"-l": LENSES, "-t": TASKS, "-c": CORPORA}
    for line in commands:
        words = shlex.split(line.partition(" > ")[0])
        assert words[0] == "sonde"
        command = ROOT
        for word in words[1:]:
            if word not in getattr(command, "commands", {}):
                break
            command = command.commands[word]
            words.remove(word)
        if "--help" not in words:
            assert not command.make_context("sonde", words[1:]).args
        for flag, name in itertools.pairwise(words):
            if flag in registries:
                names = {header.name for header in registries[flag].headers()}
                assert name.partition(":")[0] in names
    if path == "figures":
        assert shlex.split(commands[1])[-1] in {header.name for header in PLOTS.headers()}


def test_main_commands_have_examples() -> None:
    groups = {path for path, command in list_commands() if hasattr(command, "commands") and path}
    assert {path for path in PATHS if path.partition(" ")[0] not in ("cache", "verify")} - groups <= {
        *EXAMPLES
    }
    assert {*EXAMPLES} <= {*PATHS, *COMMANDS["Read results"], *COMMANDS["Find names and settings"]}


def run_sonde(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from sonde.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_completion_can_be_installed_and_completes(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = "import sys; from sonde.cli import main; sys.argv[0] = 'sonde'; main()"
    installed = subprocess.run(
        [sys.executable, "-c", script, "--install-completion", "bash"],
        capture_output=True,
        text=True,
        env={**os.environ, **home},
        check=False,
    )
    assert installed.returncode == 0, installed.stderr
    assert "_SONDE_COMPLETE=complete_bash" in (tmp_path / ".bash_completions/sonde.sh").read_text()
    for typed, completed in {
        "sonde comp": ["compare"],
        "sonde run --cor": ["--corpus"],
        "sonde run -l surp": ["surprisal"],
        "sonde run -m sonde/mini-d": ["sonde/mini-decoder"],
    }.items():
        answer = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                **home,
                "_SONDE_COMPLETE": "complete_bash",
                "COMP_WORDS": typed,
                "COMP_CWORD": str(len(typed.split()) - 1),
            },
            check=False,
        )
        assert answer.stdout.split() == completed, answer.stderr


TEXT = '''def first(value):
    """A literal that is far longer than any cell of a table, and would make every row as wide."""
    return value + 1


class Shape:
    def area(self):
        return self.width * self.height
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.py"
    path.write_text(TEXT)
    return path


def test_show_takes_the_model_of_a_run_by_default(file: Path) -> None:
    data = json.loads(RUN.invoke(app, ["show", str(file), "--json"]).stdout)
    assert [read["model"] for read in data["reads"]] == list(Experiment().models)


def test_align_prints_one_function_and_names_the_others(file: Path) -> None:
    lines = RUN.invoke(app, ["align", str(file)]).stdout.splitlines()
    assert lines[-1] == "Other functions of the file (--function NAME): Shape.area"
    rows = lines[1:-2]
    assert rows[0].startswith("def ") and not any("height" in row for row in rows)
    assert max(map(len, rows)) < 250 and any("…" in row for row in rows)
    area = RUN.invoke(app, ["align", str(file), "--function", "Shape.area"]).stdout
    assert "height" in area and "value" not in area
    everything = json.loads(RUN.invoke(app, ["align", str(file), "--json"]).stdout)["tokens"]
    assert "".join(TEXT[row["start"] : row["end"]] for row in everything) == TEXT
    arguments = ["align", str(file), "--function", "Shape.area", "--json"]
    tokens = json.loads(RUN.invoke(app, arguments).stdout)["tokens"]
    assert [row for row in everything if row in tokens] == tokens
    assert (
        "".join(TEXT[row["start"] : row["end"]] for row in tokens).strip()
        == TEXT[TEXT.index("def area") :].strip()
    )
    refused = RUN.invoke(app, ["align", str(file), "--function", "area"])
    assert "unknown function 'area'" in str(refused.exception)


def test_align_prints_a_text_without_functions_whole(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("Two words\n")
    lines = RUN.invoke(app, ["align", str(path)]).stdout.splitlines()
    assert len(lines) > 2 and not any("Other functions" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
def test_align_fits_the_terminal(file: Path, width: int) -> None:
    code = "from sonde.cli import main; main()"
    process, descriptor = pty.fork()
    if process == 0:
        environment = {**os.environ, "COLUMNS": str(width), "TERM": "xterm"}
        os.execve(sys.executable, [sys.executable, "-c", code, "align", str(file)], environment)
    output = b""
    while True:
        try:
            received = os.read(descriptor, 65_536)
        except OSError:
            break
        if not received:
            break
        output += received
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    rows = output.decode().splitlines()[:-2]
    assert len(rows) > 20 and max(map(len, rows)) <= width
    assert rows[0].split()[:2] == ["subword", "id"] and "tag" in rows[0]
    # Numbers are whole.
    assert all(re.search(r" \d+ +\d+ +\d+", row) for row in rows[1:])


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    pages: list[str] = []

    def record_page(page: str) -> bool:
        pages.append(page)
        return True

    monkeypatch.setattr(webbrowser, "open", record_page)
    return pages


@pytest.mark.slow
def test_open_shows_the_pages_of_run_report_compare_and_show(
    tmp_path: Path, file: Path, opened: list[str]
) -> None:
    arguments = ["run", "-c", f"local:{file.parent}", "-o", str(tmp_path / "run"), "--open"]
    result = RUN.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    report = (tmp_path / "run/report.html").resolve().as_uri()
    assert opened == [report]
    assert RUN.invoke(app, ["report", str(tmp_path / "run"), "--open", "--json"]).exit_code == 0
    assert opened == [report, report]
    assert RUN.invoke(app, ["report", str(tmp_path / "run")]).exit_code == 0
    assert len(opened) == 2
    result = RUN.invoke(
        app, ["compare", *[str(tmp_path / "run")] * 2, "-o", str(tmp_path / "both"), "--open"]
    )
    assert result.exit_code == 0, result.output
    assert opened[2:] == [(tmp_path / "both/comparison.html").resolve().as_uri()]
    result = RUN.invoke(app, ["show", str(file), "--open"])
    page = Path(result.stdout.splitlines()[-1].removeprefix("page: "))
    assert opened[3] == page.resolve().as_uri() and "<html" in page.read_text()
    output = tmp_path / "shown.html"
    assert RUN.invoke(app, ["show", str(file), "--open", "-o", str(output)]).exit_code == 0
    assert opened[4] == output.resolve().as_uri()


@pytest.mark.parametrize("flags", [["--plan"], ["--no-report"], ["--shard", "1/2"]])
def test_open_is_refused_without_a_report(file: Path, flags: list[str], opened: list[str]) -> None:
    result = RUN.invoke(app, ["run", "-c", f"local:{file.parent}", "--open", *flags])
    assert str(result.exception).startswith(f"--open shows the report, and {flags[0]} writes none")
    assert opened == []


@pytest.mark.slow
def test_a_machine_without_a_browser_names_the_page(file: Path, tmp_path: Path) -> None:
    result = run_sonde(
        "show", str(file), "-o", str(tmp_path / "a.html"), "--open", BROWSER="/nowhere/browser"
    )
    assert result.returncode == 0
    assert f"no browser could be started on this machine; open {tmp_path / 'a.html'} in one" in result.stderr
