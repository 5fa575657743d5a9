"""Draw the packages and their imports from the code: floors as rows, arrows from importer to imported.

The floors are those that import-linter checks. Arrows that follow from others are left out. Rows are ordered
so that few arrows cross, and boxes are placed so that long arrows run straight, as Graphviz does it.
"""

from __future__ import annotations

import itertools
import random
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

import grimp
from sklearn.isotonic import isotonic_regression

_ROOT = Path(__file__).parents[2]

PURPOSES: Mapping[str, str] = {
    "papers": "five published papers",
    "cli": "the command line",
    "api": "import sonde",
    "experiments": "plans and runs",
    "report": "page, charts, card",
    "comparison": "two models",
    "lenses": "requests to scores",
    "capture": "the forward pass",
    "training": "pre-training, probes",
    "alignment": "subwords to code",
    "tasks": "labels on characters",
    "models": "loaded checkpoints",
    "corpora": "sources and items",
    "languages": "text to syntax tree",
    "results": "scores, columns",
    "store": "files by key",
    "executors": "map over jobs",
    "stats": "intervals, verdicts",
    "base": "errors, keys, options",
    "version": "the version",
}
"""What each package is for, in two or three words."""

Package = str
Edge = tuple[Package, Package]

WIDTH, ROW, TOP, LEFT = 680, 78, 56, 36
BOX_HEIGHT, GAP, BEND = 44, 16, 18
STARTS, SWEEPS = 200, 100
STRAIGHTNESS = (1.0, 4.0, 40.0)
"""Weight of a line between two boxes, a box and a bend, and two bends."""
THICKNESS = ((100, 5.0), (30, 3.5), (10, 2.2), (1, 1.2))
"""Line width by the number of imports, from a lower bound on."""

_STYLE = """
svg { --page: #ffffff; --band: #f4f6f9; --ink: #1c2733; --soft: #566475; --box: #ffffff; --edge: #2f6db3;
  font-family: system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif }
@media (prefers-color-scheme: dark) {
  svg { --page: #171b21; --band: #1f252d; --ink: #e8edf3; --soft: #a3b0bf; --box: #29313c; --edge: #77aeea }
}
.page { fill: var(--page) } .band { fill: var(--band) }
.box { fill: var(--box); stroke: var(--edge); stroke-width: 1.2 }
.arrow { fill: none; stroke: var(--edge); stroke-opacity: .75 } .tip { fill: var(--edge) }
.name { font-size: 15px; font-weight: 650; fill: var(--ink); text-anchor: middle }
.purpose { font-size: 12px; fill: var(--soft); text-anchor: middle }
.floor { font-size: 13px; fill: var(--soft); text-anchor: middle }
.title { font-size: 17px; font-weight: 650; fill: var(--ink) } .note { font-size: 12.5px; fill: var(--soft) }
"""


def read_floors() -> list[list[Package]]:
    """Return the packages of each floor, the top one first, from the contract that import-linter checks."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [[name.strip().removeprefix("sonde.") for name in layer.split("|")] for layer in layers]


def read_imports() -> dict[str, set[str]]:
    """Return what each module imports, inside functions and for types included."""
    graph = grimp.build_graph("sonde", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def count_imports(modules: Mapping[str, Set[str]]) -> Counter[Edge]:
    """Count the imports of modules between packages.

    ``sonde/__init__.py`` and ``sonde/__main__.py`` are left out: they only give names of other packages.
    """
    imports: Counter[Edge] = Counter()
    for module in modules.keys() - {"sonde", "sonde.__main__"}:
        for imported in modules[module] - {"sonde"}:
            importer, target = module.split(".")[1], imported.split(".")[1]
            if importer != target:
                imports[importer, target] += 1
    return imports


def check_direction(imports: Mapping[Edge, int], floors: Sequence[Sequence[Package]]) -> None:
    """Check that every import points to a lower floor.

    Raises:
        ValueError: An import points up or sideways, or a package stands on no floor.
    """
    height = {package: -row for row, floor in enumerate(floors) for package in floor}
    packages = {package for edge in imports for package in edge}
    if packages != height.keys():
        raise ValueError(f"on no floor, or on one without imports: {sorted(packages ^ height.keys())}")
    upwards = sorted(f"{start} imports {end}" for start, end in imports if height[start] <= height[end])
    if upwards:
        raise ValueError(f"imports that do not point down: {', '.join(upwards)}")


def check_circles(modules: Mapping[str, Set[str]]) -> None:
    """Check that no imports of modules form a circle.

    Raises:
        graphlib.CycleError: They do; a `ValueError` that names the modules.
    """
    TopologicalSorter(modules).prepare()


def drop_implied(imports: Mapping[Edge, int]) -> list[Edge]:
    """Return the edges that do not follow from others: the transitive reduction."""
    reached: dict[Package, set[Package]] = {}

    def reach(package: Package) -> set[Package]:
        if package not in reached:
            direct = {target for importer, target in imports if importer == package}
            reached[package] = direct.union(*map(reach, direct))
        return reached[package]

    return sorted(
        (importer, target)
        for importer, target in imports
        if not any(
            target in reach(between) for start, between in imports if start == importer and between != target
        )
    )


class _Layout:
    """Boxes in rows, with a bend in each row that an arrow crosses."""

    def __init__(self, floors: Sequence[Sequence[Package]], edges: Sequence[Edge]) -> None:
        self.rows: list[list[str]] = [list(floor) for floor in floors]
        self.paths: dict[Edge, list[str]] = {}
        row_of = {package: row for row, floor in enumerate(floors) for package in floor}
        for importer, target in edges:
            path = [importer]
            for row in range(row_of[importer] + 1, row_of[target]):
                path.append(f"{importer}>{target}@{row}")
                self.rows[row].append(path[-1])
            self.paths[importer, target] = [*path, target]
        self.steps = [step for path in self.paths.values() for step in itertools.pairwise(path)]
        self.successors: dict[str, list[str]] = defaultdict(list)
        for start, end in self.steps:
            self.successors[start].append(end)
        self._order_rows()
        self.x = self._place()

    def half_width(self, node: str) -> float:
        """Half the width of a box, or of the room that a bend takes."""
        if "@" in node:
            return BEND / 2
        return max(len(PURPOSES[node]) * 6.3, len(node) * 9.5) / 2 + 10

    def _order_rows(self) -> None:
        """Order rows so that few arrows cross: the best of several shuffled starts, each improved."""
        shuffle = random.Random(0).shuffle
        best = [list(nodes) for nodes in self.rows]
        for _ in range(STARTS):
            for nodes in self.rows:
                shuffle(nodes)
            self._improve_rows()
            best = min(best, [list(nodes) for nodes in self.rows], key=self._count_crossings)
        self.rows = best

    def _improve_rows(self) -> None:
        """Swap neighbours in a row while that leaves fewer crossings with the rows beside it."""
        improved = True
        while improved:
            improved = False
            for row, nodes in enumerate(self.rows):
                near = self.rows[max(row - 1, 0) : row + 2]
                for place in range(len(nodes) - 1):
                    before = self._count_crossings(near)
                    nodes[place : place + 2] = nodes[place + 1], nodes[place]
                    if self._count_crossings(near) < before:
                        improved = True
                    else:
                        nodes[place : place + 2] = nodes[place + 1], nodes[place]

    def _count_crossings(self, rows: Sequence[Sequence[str]]) -> int:
        """Count the crossings between neighbours among some rows that follow each other."""
        crossings = 0
        for above, below in itertools.pairwise(rows):
            place = {node: index for index, node in enumerate(below)}
            ends = [
                place[end] for start in above for end in sorted(self.successors[start], key=place.__getitem__)
            ]
            crossings += sum(left > right for left, right in itertools.combinations(ends, 2))
        return crossings

    def _place(self) -> dict[str, float]:
        """Find x positions with short sideways ways: bends weigh most, so that long arrows run straight.

        Row by row, each node moves to the mean of its neighbours as far as the order of the row allows.
        """
        x = {node: WIDTH / 2 for row in self.rows for node in row}
        neighbours: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for start, end in self.steps:
            weight = STRAIGHTNESS[("@" in start) + ("@" in end)]
            neighbours[start].append((end, weight))
            neighbours[end].append((start, weight))
        for row in [*self.rows, *reversed(self.rows)] * SWEEPS:
            widths = [self.half_width(node) for node in row]
            offsets = [0.0, *itertools.accumulate(a + GAP + b for a, b in itertools.pairwise(widths))]
            weights = [sum(weight for _, weight in neighbours[node]) for node in row]
            wanted = [
                sum(weight * x[near] for near, weight in neighbours[node]) / total - offset
                for node, total, offset in zip(row, weights, offsets, strict=True)
            ]
            lowest, highest = LEFT + GAP + widths[0], WIDTH - GAP - widths[-1] - offsets[-1]
            if lowest > highest:
                raise ValueError(f"the packages of a floor do not fit next to each other: {', '.join(row)}")
            moved = isotonic_regression(wanted, sample_weight=weights, y_min=lowest, y_max=highest)
            x |= {node: float(m) + offset for node, m, offset in zip(row, moved, offsets, strict=True)}
        return {node: round(position) for node, position in x.items()}


def render_image() -> str:
    """Return the picture as SVG.

    Raises:
        ValueError: An import does not point down, or imports form a circle.
    """
    floors, modules = read_floors(), read_imports()
    imports = count_imports(modules)
    check_direction(imports, floors)
    check_circles(modules)
    layout = _Layout(floors, drop_implied(imports))
    height = TOP + ROW * len(floors) + 96
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img" aria-label="Packages of sonde and their imports">',
            f"<style>{_STYLE}</style>",
            f'<rect class="page" width="{WIDTH}" height="{height}" rx="10"/>',
            f'<text class="title" x="{LEFT}" y="36">Packages of sonde and what they import</text>',
            *_draw_floors(len(floors)),
            *_draw_arrows(layout, imports),
            *_draw_boxes(layout),
            *_draw_legend(TOP + ROW * len(floors) + 34, imports),
            "</svg>",
            "",
        ]
    )


def _middle(row: int) -> int:
    return TOP + ROW * row + ROW // 2


def _draw_floors(count: int) -> list[str]:
    bands = [
        f'<rect class="band" x="0" y="{TOP + ROW * row}" width="{WIDTH}" height="{ROW}"/>'
        for row in range(0, count, 2)
    ]
    numbers = [
        f'<text class="floor" x="{LEFT // 2}" y="{_middle(row) + 5}">{count - 1 - row}</text>'
        for row in range(count)
    ]
    return [*bands, *numbers]


def _draw_boxes(layout: _Layout) -> list[str]:
    drawn: list[str] = []
    for row, nodes in enumerate(layout.rows):
        for node in nodes:
            if "@" in node:
                continue
            x, y, half = layout.x[node], _middle(row), layout.half_width(node)
            drawn += [
                f'<rect class="box" x="{x - half:.0f}" y="{y - BOX_HEIGHT // 2}" width="{2 * half:.0f}" '
                f'height="{BOX_HEIGHT}" rx="8"/>',
                f'<text class="name" x="{x:.0f}" y="{y - 2}">{node}</text>',
                f'<text class="purpose" x="{x:.0f}" y="{y + 15}">{escape(PURPOSES[node])}</text>',
            ]
    return drawn


def _draw_arrows(layout: _Layout, imports: Mapping[Edge, int]) -> list[str]:
    row_of = {node: row for row, nodes in enumerate(layout.rows) for node in nodes}
    leaving, arriving = _spread_ports(layout, 0), _spread_ports(layout, 1)
    drawn: list[str] = []
    for edge, path in sorted(layout.paths.items()):
        width = next(width for least, width in THICKNESS if imports[edge] >= least)
        end_y = _middle(row_of[path[-1]]) - BOX_HEIGHT // 2
        points = [(leaving[path[0], path[1]], _middle(row_of[path[0]]) + BOX_HEIGHT // 2)]
        for node in path[1:-1]:
            y = _middle(row_of[node])
            points += [(layout.x[node], y - BOX_HEIGHT // 2), (layout.x[node], y + BOX_HEIGHT // 2)]
        points.append((arriving[path[-2], path[-1]], end_y - 6))
        line = f"M{points[0][0]:.0f} {points[0][1]}"
        for (x, y), (to_x, to_y) in itertools.pairwise(points):
            turn = (y + to_y) / 2
            line += f" C{x:.0f} {turn:.0f} {to_x:.0f} {turn:.0f} {to_x:.0f} {to_y}"
        x, half = points[-1][0], 3.5 + width * 0.8
        drawn += [
            f'<path class="arrow" stroke-width="{width}" d="{line}"/>',
            f'<path class="tip" d="M{x - half:.1f} {end_y - 9} h{2 * half:.1f} L{x:.1f} {end_y} Z"/>',
        ]
    return drawn


def _spread_ports(layout: _Layout, end: int) -> dict[tuple[str, str], float]:
    """Return where the steps that leave (or reach) a box touch it, in the order of their other ends."""
    ports: dict[tuple[str, str], float] = {}
    for node in layout.x:
        steps = sorted(
            (step for step in layout.steps if step[end] == node), key=lambda step: layout.x[step[1 - end]]
        )
        distance = min(30.0, 1.5 * layout.half_width(node) / max(len(steps), 1))
        for number, step in enumerate(steps):
            ports[step] = layout.x[node] + (number - (len(steps) - 1) / 2) * distance
    return ports


def _draw_legend(y: int, imports: Mapping[Edge, int]) -> list[str]:
    drawn = [f'<text class="note" x="{LEFT}" y="{y}">imports:</text>']
    bounds = [least for least, _ in THICKNESS]
    for number, (least, width) in enumerate(reversed(THICKNESS)):
        x = LEFT + 64 + number * 140
        above = sorted(bound for bound in bounds if bound > least)
        label = f"{least} to {above[0] - 1}" if above else f"{least} or more"
        drawn += [
            f'<path class="arrow" stroke-width="{width}" d="M{x} {y - 4} h30"/>',
            f'<text class="note" x="{x + 38}" y="{y}">{label}</text>',
        ]
    importers = len({importer for importer, target in imports if target == "base"})
    notes = (
        "No arrow points up and no imports form a circle: both are computed from the code.",
        "An arrow that follows from others is left out: for example, "
        f"{importers} of the {len(PURPOSES) - 1} other packages import base.",
    )
    return [
        *drawn,
        *(
            f'<text class="note" x="{LEFT}" y="{y + 22 + 18 * number}">{note}</text>'
            for number, note in enumerate(notes)
        ),
    ]
