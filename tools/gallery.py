"""Make the runs of the gallery, and store the figures that its pages and README show.

    python -m tools.gallery                     # all runs of recipes/gallery/runs.toml
    python -m tools.gallery probes eight-bit    # some of them
    python -m tools.gallery --site build/site   # put the reports of finished runs into the site

A run lies in `runs/gallery/NAME`. An interrupted call resumes, and a finished run is only read. A run whose
models or packages are not there is skipped with one line, and one that fails is named at the end; the stored
figures of both stay.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import importlib.util
import json
import shlex
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import sonde
from sonde.comparison.summary import add_text_columns, count_outcomes, select_overview
from sonde.report.headlines import LensAnswer, answer_by_task
from sonde.report.run_summary import describe_run
from sonde.report.run_tables import RunData
from tools.fetch_models import MODELS

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs" / "gallery"
GALLERY = ROOT / "docs" / "gallery"
RESULTS = GALLERY / "results.json"
LABELS = RUNS / "documented.csv"


def load_recipes() -> dict[str, dict[str, Any]]:
    """Load the runs by name."""
    return tomllib.loads((ROOT / "recipes" / "gallery" / "runs.toml").read_text(encoding="utf-8"))


def find_obstacle(recipe: Mapping[str, Any]) -> str:
    """Return why a run cannot be made here; empty if it can."""
    missing = [name for name in recipe.get("models", ()) if not MODELS[name].place.exists()]
    if missing:
        return f'it needs models that are not here; make models NAMES="{" ".join(missing)}" fetches them'
    package = recipe.get("needs")
    if package and importlib.util.find_spec(package) is None:
        return f"it needs the package {package}"
    missing = [name for name in recipe.get("debian", ()) if not is_installed(name)]
    if missing:
        return f"it needs Debian packages that are not installed; apt-get install {' '.join(missing)}"
    return ""


def is_installed(package: str) -> bool:
    """Return whether a Debian package is installed; where there is no dpkg, none is."""
    if (program := shutil.which("dpkg-query")) is None:
        return False
    command = [program, "--show", "--showformat", "${db:Status-Status}\n", package]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    return "installed" in answer.stdout.split()


def read_functions() -> Iterator[tuple[str, str, bool]]:
    """Yield functions of the standard library: module, code without docstring, whether there was one."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).parts
        if {"test", "tests", "site-packages", "idlelib", "lib2to3"} & set(parts):
            continue
        try:
            source = path.read_text(encoding="utf-8")
            nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
        except (SyntaxError, ValueError):
            continue
        lines = source.splitlines()
        for node in nodes:
            documented = ast.get_docstring(node) is not None
            body = node.body[documented:]
            if not body or not 4 <= (node.end_lineno or 0) - body[0].lineno <= 25:
                continue
            header = lines[node.lineno - 1 : find_first_line(node.body[0]) - 1]
            # A comment before the first statement would go with the docstring, and so tell the label.
            while header and (not header[-1].strip() or header[-1].lstrip().startswith("#")):
                header.pop()
            code = header + lines[find_first_line(body[0]) - 1 : node.end_lineno]
            text = textwrap.dedent("\n".join(code)) + "\n"
            if text.startswith("def "):  # a string that reaches column 0 keeps a method indented
                yield Path(parts[0]).stem, text, documented


def find_first_line(statement: ast.stmt) -> int:
    """Return the line that a statement begins in, with its decorators."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min(node.lineno for node in [statement, *decorators])


def write_labels(path: Path, count: int = 400, per_module: int = 8) -> None:
    """Write a table of functions with a label of our own: whether their author documented them.

    Args:
        path: The CSV file.
        count: Number of rows; half of them were documented.
        per_module: Most rows per module and label.
    """
    functions = {code: (module, documented) for module, code, documented in read_functions()}
    taken: Counter[tuple[str, bool]] = Counter()
    totals: Counter[bool] = Counter()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["code", "label", "group"])
        for code in sorted(functions, key=lambda code: hashlib.sha256(code.encode()).digest()):
            module, documented = functions[code]
            if taken[module, documented] < per_module and totals[documented] < count // 2:
                taken[module, documented] += 1
                totals[documented] += 1
                writer.writerow([code, "documented" if documented else "undocumented", module])


def make(name: str, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Make a run, or resume it, and return its figures; of what README prints return the output.

    Raises:
        subprocess.CalledProcessError: The run failed.
    """
    if code := recipe.get("code"):
        return {"terminal": capture([sys.executable, "-c", code])}
    program, *arguments = shlex.split(recipe["command"])
    command = [sys.executable, "-m", program, *arguments]
    if arguments[0] == "show":
        page = RUNS / f"{name}.html"
        text = capture([*command, "-o", str(page.relative_to(ROOT))])
        take_picture(page, ROOT / "docs" / "images" / f"{name}.png")
        return {"terminal": text.partition("\nRelations,")[0]}
    if recipe.get("labels"):
        write_labels(LABELS)
    subprocess.run([*command, "-o", str(RUNS / name)], cwd=ROOT, check=True)
    write_charts(name, recipe["plots"])
    return read_figures(RUNS / name, recipe.get("slices", ""))


def capture(command: Sequence[str]) -> str:
    """Run a command and return what it prints; progress goes to standard error.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def take_picture(page: Path, picture: Path) -> None:
    """Take a picture of the token explorer of a page with the installed Chromium; without one say so."""
    if (browser_path := shutil.which("chromium")) is None:
        print(f"  no new {picture.name}: Chromium is not installed", flush=True)
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
        )
        window = browser.new_page(viewport={"width": 1100, "height": 900})
        window.goto(page.resolve().as_uri())
        window.locator(".explorer").screenshot(path=picture)
        browser.close()


SLICES = {"construct": "bits", "relation": "first_hit_gain"}
"""Metric whose highest score a page names, by dimension."""

NUMBERS = ("metric", "value", "ci_low", "ci_high", "n", "effective_clusters")


def read_figures(folder: Path, dimension: str = "") -> dict[str, Any]:
    """Return what the pages show of a finished run: headlines, slices and differences between models.

    Args:
        folder: Folder of the run.
        dimension: Dimension of `SLICES` whose scores are returned too; empty for none.
    """
    run = RunData(folder)
    figures: dict[str, Any] = {
        "version": sonde.__version__,
        "seconds": round(sum(run.summary["timing"].values())),
        "terminal": list(describe_run(run)),
        "answers": [
            {
                "lens": answer.lens,
                "model": answer.model,
                "language": answer.language,
                "task": answer.row["task"],
                "layer": answer.row["layer"],
                "size": answer.size,
                "verdict": answer.kind,
                "score": pick_numbers(answer.row),
                "control": pick_numbers(answer.control),
                "gain": pick_numbers(answer.gain),
                "control_name": describe_control(answer),
            }
            for answer in answer_by_task(run)
        ],
        "slices": read_slices(run, dimension) if dimension else [],
        "differences": [],
        "outcomes": [],
    }
    if (table := run.directory.root / "comparison" / "comparison.parquet").exists():
        differences = add_text_columns(pl.read_parquet(table))
        columns = ("model", "lens", "task", "metric", "n", "ci_low", "ci_high", "outcome", "said")
        rows = select_overview(differences).select(*columns, value="difference")
        figures["differences"] = rows.to_dicts()
        figures["outcomes"] = count_outcomes(differences)
    return figures


def pick_numbers(row: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the numbers of a score; empty without one."""
    return {} if row is None else {column: row[column] for column in NUMBERS}


def describe_control(answer: LensAnswer) -> str:
    """Return the words of the control that an answer is compared with; empty without one."""
    if answer.control is None or answer.headline is None:
        return ""
    return answer.headline.controls[answer.control["control"]]


def read_slices(run: RunData, dimension: str) -> list[dict[str, Any]]:
    """Return the scores by a dimension of `SLICES` that rest on ten effective clusters or more."""
    fields = {name: pl.col("dimensions").list.first().struct.field(name) for name in ("name", "value")}
    rows = run.every_score.filter(
        (pl.col("dimensions").list.len() == 1)
        & (fields["name"] == dimension)
        & pl.col("control").is_null()
        & (pl.col("metric") == SLICES[dimension])
        & (pl.col("effective_clusters") >= 10)
        & pl.col("compared_to").fill_null("combined").is_in(["combined"])
        & (pl.col("k").fill_null(1) == 1)
        & (pl.col("split").fill_null("test").is_in(["test", "all", ""]))
    )
    columns = ("language", "compared_to", "layer", "head", *NUMBERS)
    return rows.select(*columns, dimension=fields["name"], slice=fields["value"]).to_dicts()


def write_charts(name: str, plots: Sequence[str]) -> None:
    """Write the first chart of each plot of a run as SVG beside the pages.

    Raises:
        LookupError: A plot has no chart.
    """
    run = sonde.Run(RUNS / name)
    for plot in plots:
        charts = run.plot(plot).svgs
        if not charts:
            raise LookupError(f"the plot {plot} of the run {name} has no chart")
        (GALLERY / f"{name}-{plot}.svg").write_text(charts[0], encoding="utf-8")


def store(name: str, figures: Mapping[str, Any]) -> None:
    """Store the figures of a run for the pages, in the order of the recipes."""
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    stored[name] = figures
    ordered = {key: stored[key] for key in load_recipes() if key in stored}
    text = json.dumps(ordered, indent=1, ensure_ascii=False)
    RESULTS.write_text(f"{text}\n", encoding="utf-8")


def make_each(
    names: Iterable[str],
    recipes: Mapping[str, Mapping[str, Any]],
    make_run: Callable[[str, Mapping[str, Any]], None],
) -> list[str]:
    """Make runs one after the other, and return the names of those that failed.

    Args:
        names: The runs.
        recipes: All recipes by name.
        make_run: Makes and stores a run; if it fails, the other runs are made all the same.
    """
    failed: list[str] = []
    for name in names:
        print(f"{name}: {recipes[name]['title']}", flush=True)
        if obstacle := find_obstacle(recipes[name]):
            print(f"  skipped: {obstacle}", flush=True)
            continue
        try:
            make_run(name, recipes[name])
        except Exception as error:  # whatever it is, the other runs are made
            print(f"  failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}", flush=True)
            failed.append(name)
    return failed


def fill_site(site: Path) -> None:
    """Copy the report of each run into the site; where a run is not there, a page says how to make it."""
    folder = site / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    for name in load_recipes():
        target, report = folder / f"{name}-report.html", RUNS / name / "report.html"
        if report.exists():
            shutil.copyfile(report, target)
        else:
            text = "This report is not here: <code>make gallery docs</code> makes it."
            target.write_text(f"<!doctype html><title>{name}</title><p>{text}</p>\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the named runs, or all of them, and store their figures."""
    recipes = load_recipes()
    parser = argparse.ArgumentParser(prog="python -m tools.gallery", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(recipes)}; default: all")
    parser.add_argument("--site", type=Path, metavar="FOLDER", help="only copy the reports into this site")
    options = parser.parse_args(arguments)
    if options.site is not None:
        fill_site(options.site)
        return
    if unknown := [name for name in options.names if name not in recipes]:
        parser.error(f"no run {unknown[0]!r}; there are {', '.join(recipes)}")
    failed = make_each(
        options.names or recipes, recipes, lambda name, recipe: store(name, make(name, recipe))
    )
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; the same command resumes")


if __name__ == "__main__":
    main()
