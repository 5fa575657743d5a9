"""The picture of packages is drawn from the code, and is not drawn of code whose imports point up."""

from __future__ import annotations

import re
from graphlib import CycleError
from xml.etree import ElementTree

import networkx
import pytest

from generators import packages

FLOORS = [["top"], ["left", "right"], ["base"]]
IMPORTS = {("top", "left"): 3, ("top", "base"): 1, ("left", "base"): 2, ("right", "base"): 2}
SVG = packages.render_image()


def test_only_arrows_that_follow_from_others_are_left_out() -> None:
    imports = packages.count_imports(packages.read_imports())
    assert len(imports) > 100
    reduced = networkx.transitive_reduction(networkx.DiGraph(list(imports)))
    assert packages.drop_implied(imports) == sorted(reduced.edges)


def test_every_package_and_every_arrow_is_drawn() -> None:
    names = re.findall(r'class="name"[^>]*>(\w+)<', SVG)
    assert sorted(names) == sorted(package for floor in packages.read_floors() for package in floor)
    assert SVG.count('class="tip"') == len(
        packages.drop_implied(packages.count_imports(packages.read_imports()))
    )


def test_the_picture_is_xml_with_text_large_enough_to_read() -> None:
    ElementTree.fromstring(SVG)
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", SVG)]
    assert len(sizes) == 5 and min(sizes) >= 12


def test_boxes_of_a_floor_do_not_overlap_and_lie_on_the_page() -> None:
    boxes = re.findall(r'class="box" x="(\d+)" y="(\d+)" width="(\d+)"', SVG)
    ends: dict[str, list[tuple[int, int]]] = {}
    for x, y, width in boxes:
        ends.setdefault(y, []).append((int(x), int(x) + int(width)))
    assert len(boxes) > 15
    for row in ends.values():
        edges = [packages.LEFT, *(edge for box in sorted(row) for edge in box), packages.WIDTH]
        assert edges == sorted(edges)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("base", "top"), "base imports top"),
        (("left", "right"), "left imports right"),
        (("top", "elsewhere"), "on no floor.*elsewhere"),
    ],
)
def test_imports_that_do_not_point_down_are_refused(more: packages.Edge, message: str) -> None:
    packages.check_direction(IMPORTS, FLOORS)
    with pytest.raises(ValueError, match=message):
        packages.check_direction({**IMPORTS, more: 1}, FLOORS)


def test_imports_that_form_a_circle_are_refused() -> None:
    modules = packages.read_imports()
    packages.check_circles(modules)
    imported = next(iter(modules["sonde.cli.commands"]))
    with pytest.raises(CycleError, match=r"sonde\.cli\.commands"):
        packages.check_circles({**modules, imported: modules[imported] | {"sonde.cli.commands"}})
