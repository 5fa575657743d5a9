"""Token explorer: one function at a time, with what every lens of the run found for each token.

It selects the functions that are shown, with their text, code tokens and tree. `render_function_page` makes
the page of ``sonde show``: one function as models read it, from the JSON that the command prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from sonde.base.fingerprint import display_rank
from sonde.base.formatting import count, legible, number
from sonde.languages import LANGUAGES
from sonde.languages.engine.text import count_line_breaks
from sonde.report.charts import ArcEnds, render_arcs
from sonde.report.headlines import load_titles
from sonde.report.run_tables import RunData
from sonde.report.section import WAYS, EmbeddedView, Figure, LensTitle, Rows, TokenFindings, TokenLens
from sonde.report.theme import (
    HEAT_STEPS,
    MODES,
    MONO,
    SANS,
    SERIF,
    build_css_variables,
    load_asset,
    load_templates,
)
from sonde.version import __version__

_MODERATE = (300, 1500)
"""Characters of a function that is read at a glance; the page opens on one of these where there is one."""


_AMONG = 200
"""Functions of the random sample that are tried for a place, since other reasons take some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerLimits:
    """How much the page carries.

    Attributes:
        worst: Functions with the most bits per byte.
        best: Functions with the fewest.
        median: Functions around the middle.
        spoken: Functions of each lens, those first that most lenses say something of.
        by_hash: A seeded random sample of functions, whatever they score.
        characters: Of each function, from its beginning.
        subwords: Fewest subwords of a function to be ranked; short ones have extreme means.
        packed: Characters of JSON for all functions together.
    """

    worst: int = 10
    best: int = 10
    median: int = 8
    spoken: int = 3
    by_hash: int = 12
    characters: int = 3000
    subwords: int = 30
    packed: int = 3_600_000


def choose_functions(
    run: RunData, lenses: Mapping[str, TokenLens], limits: ExplorerLimits
) -> tuple[list[tuple[str, str]], str]:
    """Pairs of function and why it was chosen, and the one that is shown first.

    Where a lens says how hard functions are: the hardest, the easiest, and those around the middle. Always
    some of every lens, since lenses need not read the same functions, and a random sample. Reasons alternate,
    so that a cut leaves some of each.

    Args:
        run: The run.
        lenses: What its lenses offer.
        limits: How many.

    Returns:
        The pairs, and the id of the function nearest to the median of the sample that is neither long nor
        short; empty where there is none at all.
    """
    ranked = next((one for lens in lenses.values() if (one := lens.difficulty(run)) is not None), None)
    spoken = {lens: set(one.known(run)) for lens, one in lenses.items()}
    lenses_of = Counter(item for own in spoken.values() for item in own)
    most = [
        sorted(own, key=lambda item: (-lenses_of[item], display_rank(item)))[: limits.spoken]
        for own in spoken.values()
    ]
    order: list[str] = []
    sample = sorted(lenses_of, key=display_rank)[:_AMONG]
    if ranked is not None:
        known = ranked.filter(pl.col("subwords") >= limits.subwords)
        known = known if known.height else ranked
        order = known.sort(["difficulty", "item_id"], descending=[True, False])["item_id"].to_list()
        sample = sorted(ranked["item_id"].to_list(), key=display_rank)[:_AMONG]
    middle = max(0, len(order) // 2 - limits.median // 2)
    wanted = {
        "worst": order[: limits.worst],
        "best": order[::-1][: limits.best],
        "median": order[middle : middle + limits.median],
        "every lens": [item for of_lens in zip_longest(*most) for item in of_lens if item is not None],
        "random sample": sample,
    }
    taken: dict[str, str] = {}
    for turn in range(max(map(len, wanted.values()))):
        for reason, items in wanted.items():
            # Only the sample goes on where another reason took a function before it.
            enough = reason == "random sample" and list(taken.values()).count(reason) >= limits.by_hash
            if turn < len(items) and items[turn] not in taken and not enough:
                taken[items[turn]] = reason
    candidates = [item for item, why in taken.items() if why not in ("worst", "best")]
    pairs = () if ranked is None else ranked.select("item_id", "difficulty").iter_rows()
    difficulty = dict(pairs)
    return list(taken.items()), _choose_initial_function(
        run, candidates or list(taken), lenses_of, difficulty
    )


def _choose_initial_function(
    run: RunData,
    candidates: Sequence[str],
    lenses_of: Mapping[str, int],
    difficulty: Mapping[str, float],
) -> str:
    """Of the candidates that most lenses speak of and that are of moderate length, the most ordinary one."""
    if not candidates:
        return ""
    sizes = {row["item_id"]: row["characters"] or 0 for row in run.items(candidates).iter_rows(named=True)}
    held = [item for item in candidates if item in sizes] or list(candidates)
    least, most = _MODERATE
    middle = float(np.median([*difficulty.values()])) if difficulty else 0.0

    def unfit(item: str) -> tuple[float, ...]:
        away = abs(difficulty.get(item, middle) - middle)
        return (not least <= sizes.get(item, 0) <= most, -lenses_of.get(item, 0), away, display_rank(item))

    return min(held, key=unfit)


def describe_function(
    row: Mapping[str, Any], reason: str, limits: ExplorerLimits, number: Callable[[str], int]
) -> dict[str, Any]:
    """A function as the page holds it: names, the beginning of its text, its code tokens and its tree.

    Args:
        row: The function in the columns of `RunData.items`.
        reason: Why it was chosen.
        limits: How much of it is shown.
        number: Gives a text its place among the texts of the page.
    """
    text = row["text"] or ""
    shown = text[: limits.characters]
    tokens, nodes = _syntax(text, row["language"], limits.characters, number)
    return {
        "id": row["item_id"],
        "name": row["name"] or row["path"] or row["item_id"],
        "path": row["path"] or "",
        "language": row["language"] or "",
        "cluster": row["cluster"] or "",
        "why": reason,
        "text": shown,
        "cut": max(0, len(text) - limits.characters),
        "tokens": tokens,
        "nodes": nodes,
    }


def _syntax(
    text: str, language: str | None, characters: int, number: Callable[[str], int]
) -> tuple[list[int], list[int]]:
    """Code tokens as start, end, and named nodes in pre-order as depth, kind, start, end; a list each."""
    if not language or language not in LANGUAGES.names():
        return [], []
    reader = LANGUAGES.load(language)
    tree = reader.parse(text)
    found = reader.tokens(tree)
    pairs = np.stack([found.start, found.end], axis=1)[found.start < characters]
    shown = np.flatnonzero(tree.named & (tree.start < characters))
    depth = np.zeros(len(tree), np.int64)
    for node in range(1, len(tree)):
        depth[node] = depth[tree.parent[node]] + int(tree.named[tree.parent[node]])
    nodes: list[int] = []
    for node in shown.tolist():
        nodes += [
            int(depth[node]),
            number(tree.kind_name(node)),
            int(tree.start[node]),
            min(int(tree.end[node]), characters),
        ]
    return np.minimum(pairs, characters).ravel().tolist(), nodes


EXPLORER = "explorer"
"""Public name of the section, and of its group on the page."""


SCRIPTS = tuple(
    f"templates/{name}.js" for name in ("explorer_cells", "explorer_told", "explorer_tree", "explorer")
)
"""What makes the explorer move, in the order in which it is read."""


title = LensTitle(name="Token explorer")


@dataclass(frozen=True, slots=True)
class TokenExplorer:
    """Functions that were hard, easy and ordinary, and a random sample."""

    lens: str = EXPLORER
    order: int = -2
    title: str = "Read along with the models"
    caption: str = (
        "Point at a token, or focus the code and press the arrow keys, to see what each lens found there. "
        "Colour it by another number, set a second model or the difference between the two beside it, and "
        "fold the syntax tree. Outlined subwords span several code tokens; blanks are tinted faintly; "
        "uncoloured text was not scored. Single functions show what numbers are made of, and prove nothing."
    )
    limits: ExplorerLimits = field(default_factory=ExplorerLimits)

    def draw(self, run: RunData) -> Figure | None:
        """About forty functions, each cut to its first characters; None where no lens speaks of tokens."""
        data = build_explorer_data(run, self.limits)
        if data is None:
            return None
        items = data["items"]
        cut = sum(item["cut"] > 0 for item in items)
        ranked = any(item["why"] == "median" for item in items)
        how = (
            f"chosen for being worst, best or median in {data['summary']}, so that every lens has some, or "
            "as a random sample"
            if ranked
            else "chosen so that every lens has some, or as a random sample"
        )
        notes = [
            f"{count(len(items))} {'function' if len(items) == 1 else 'functions'}, {how}; of each at most "
            f"its first {count(self.limits.characters)} characters ({count(cut)} cut).",
            *(f"{one['label']}: {one['note']}." for one in data["findings"] if one["note"]),
        ]
        return Figure(
            notes=notes,
            embed=EmbeddedView(
                template="templates/explorer.html.j2",
                scripts=SCRIPTS,
                data=data,
                context={"models": data["models"], "alone": len(items) == 1},
            ),
        )


def build_explorer_data(run: RunData, limits: ExplorerLimits) -> dict[str, Any] | None:
    """The explorer's data as plain JSON; None where no lens has anything of a function to show.

    Texts are numbers of ``strings``. Functions are ordered by their difficulty, hardest first, where a lens
    has one.
    """
    lenses = {lens: one.tokens for lens, one in load_titles(run).items() if one.tokens}
    chosen, opened = choose_functions(run, lenses, limits)
    held = {row["item_id"]: row for row in run.items([item for item, _ in chosen]).iter_rows(named=True)}
    found = _collect_findings(run, lenses, [item for item, _ in chosen if item in held], limits)
    if not found:
        return None
    strings = StringTable()
    items: list[dict[str, Any]] = []
    size = 0
    # What the page opens on is never what is cut off.
    for item, reason in sorted(chosen, key=lambda pair: pair[0] != opened):
        if item not in held or not any(_has_rows(one, item) for one in found):
            continue
        entry = describe_function(held[item], reason, limits, strings.number)
        cost = sum(_estimate_size(one, item) for one in found)
        cost += len(entry["text"]) + 5 * (len(entry["tokens"]) + len(entry["nodes"]))
        if items and size + cost > limits.packed:
            continue
        size += cost
        items.append(entry)
    if not items:
        return None
    return assemble_page_data(
        [(model.slug, model.label) for model in run.models], items, opened, found, strings
    )


def assemble_page_data(
    models: Sequence[tuple[str, str]],
    items: Sequence[dict[str, Any]],
    opened: str,
    found: Sequence[TokenFindings],
    strings: StringTable,
) -> dict[str, Any]:
    """What the page's script reads.

    Args:
        models: Folder name and name as shown; those that nothing was found of are left out.
        items: Functions as `describe_function` gives them.
        opened: Id of the one that is shown first.
        found: What lenses found at their places.
        strings: The texts of the page, those of the functions among them.
    """
    summaries = [one.summaries for one in found if one.summaries]
    rates = {item["id"]: _largest_value(summaries, item["id"]) for item in items}
    ordered = sorted(items, key=lambda entry: (-rates[entry["id"]], entry["id"]))
    ids = [entry["id"] for entry in ordered]
    return {
        "models": [
            {"slug": slug, "label": label}
            for slug, label in models
            if any(slug in (*one.rows, *one.whole) for one in found)
        ],
        "items": ordered,
        "opened": ids.index(opened) if opened in ids else 0,
        "summary": next((one.summary for one in found if one.summary), ""),
        "findings": [_findings_to_json(one, ids, strings) for one in found],
        "strings": strings.values,
    }


def _collect_findings(
    run: RunData, lenses: Mapping[str, TokenLens], items: Sequence[str], limits: ExplorerLimits
) -> list[TokenFindings]:
    """What the lenses found in some functions; numbers of subwords first, since they are read first."""
    all_of = [one for lens in lenses.values() if (one := lens.findings(run, items, limits.characters))]
    some = [one for one in all_of if any(_has_rows(one, item) for item in items)]
    return sorted(some, key=lambda one: one.kind != "amount")


def _has_rows(one: TokenFindings, item: str) -> bool:
    return any(held.get(item) for held in (*one.rows.values(), *one.whole.values()))


def _largest_value(summaries: Sequence[Mapping[str, Mapping[str, float]]], item: str) -> float:
    """The largest number of a function over the models of the lens that has any."""
    return max((held[item] for one in summaries for held in one.values() if item in held), default=0.0)


class StringTable:
    """The texts of the page, each held once."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._places: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        """The place of a text."""
        text = text or ""
        if text not in self._places:
            self._places[text] = len(self.values)
            self.values.append(text)
        return self._places[text]


def _findings_to_json(one: TokenFindings, items: Sequence[str], strings: StringTable) -> dict[str, Any]:
    """What a lens found as JSON: by model a list of rows for each function."""
    texts = {place for place, name in enumerate(one.columns, start=2) if name in one.texts}

    def row(values: Sequence[Any], texts: set[int]) -> list[Any]:
        return [_encode_value(value, strings, place in texts) for place, value in enumerate(values)]

    return {
        "lens": one.lens,
        "label": one.label,
        "kind": one.kind,
        "columns": list(one.columns),
        "texts": sorted(one.texts),
        "facts": one.facts,
        "colourings": [asdict(colouring) for colouring in one.colourings],
        "group": one.group,
        "groups": _groups(one, items),
        "rows": {
            slug: [[row(values, texts) for values in held.get(item, ())] for item in items]
            for slug, held in one.rows.items()
        },
        "whole": {
            slug: [[row(values, {0, 1, 2}) for values in held.get(item, ())] for item in items]
            for slug, held in one.whole.items()
        },
        "weights": {
            slug: [dict(held.get(item, {})) for item in items] for slug, held in one.weights.items()
        },
        "summaries": {
            slug: [held.get(item) for item in items] for slug, held in one.summaries.items()
        },
        "alike": one.alike,
        "note": one.note,
    }  # fmt: skip


def _groups(one: TokenFindings, items: Sequence[str]) -> list[str]:
    """The values of the column ``group`` in what is shown, sorted."""
    if not one.group:
        return []
    place = 2 + list(one.columns).index("group")
    rows = (row for held in one.rows.values() for item in items for row in held.get(item, ()))
    return sorted({str(row[place]) for row in rows})


def _encode_value(value: Any, strings: StringTable, text: bool) -> Any:
    """A value of a row; what stands in a list are texts and their shares in turn."""
    if text:
        return strings.number(value)
    if isinstance(value, list):
        return [strings.number(part) if isinstance(part, str) else part for part in value]
    return value


def _estimate_size(one: TokenFindings, item: str) -> int:
    """About how many characters of JSON a lens takes for a function."""
    rows: list[Rows] = [held.get(item, ()) for held in one.rows.values()]
    weights = [table for held in one.weights.values() for table in held.get(item, {}).values()]
    return sum(
        sum(5 * len(row) + 5 * sum(len(part) for part in row if isinstance(part, list)) for row in table)
        for table in rows
    ) + sum(8 + 14 * len(row[1]) for table in weights for row in table)


_WORST = 10


ONE = "function"
"""Id of the function on its page."""


_CHARACTERS = 20_000
"""Characters of a text that are shown, from its beginning."""


def render_function_page(shown: Mapping[str, Any], found: Sequence[TokenFindings]) -> str:
    """The page as text; every text is escaped, nothing is loaded.

    Args:
        shown: A function with its ``reads``, as ``sonde show --json`` prints it.
        found: What was found at its places, by `read_slug` and with `ONE` as its id.
    """
    name = legible(shown["name"] or PurePath(shown["file"]).name)
    data = _build_function_data(shown, name, found)
    return (
        load_templates()
        .get_template("templates/one_function.html.j2")
        .render(
            name=name,
            shown=shown,
            reads=[_build_model_tables(shown, read) for read in shown["reads"]],
            context={"models": data["models"], "alone": True},
            data=data,
            scripts=SCRIPTS,
            colours={mode: build_css_variables(mode) for mode in MODES},
            fonts={"sans": Markup(SANS), "serif": Markup(SERIF), "mono": Markup(MONO)},
            heat_steps=HEAT_STEPS,
            version=__version__,
            asset=load_asset,
        )
    )


def _build_function_data(
    shown: Mapping[str, Any], name: str, found: Sequence[TokenFindings]
) -> dict[str, Any]:
    """The function for the explorer of tokens, each read as a model of its own."""
    strings, limits = StringTable(), ExplorerLimits(characters=_CHARACTERS)
    place = f"{shown['file']}, line {shown['line']}"
    row = {**shown, "item_id": ONE, "name": name, "path": place, "cluster": ""}
    models = [(read_slug(number), legible(read["model"])) for number, read in enumerate(shown["reads"])]
    return assemble_page_data(
        models, [describe_function(row, "", limits, strings.number)], ONE, found, strings
    )


def read_slug(number: int) -> str:
    """What a read is called in `sonde.report.section.TokenFindings`, by its place among the reads."""
    return f"read-{number}"


def _build_model_tables(shown: Mapping[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
    """What of one model stands in tables."""
    worst = sorted((row for row in read["tokens"] if row["rank"] > 0), key=lambda row: -row["bits"])
    return {
        "model": legible(read["model"]),
        "bits": "" if read["unscored"] else number(read["bits_per_byte"]),
        "way": "" if read["unscored"] else WAYS[read["objective"]],
        "unscored": legible(read["unscored"]),
        "head": legible(read["head"]),
        "seen": read["seen"],
        "worst": [
            {
                "line": _line(shown, row["start"]),
                "text": legible(row["text"]),
                "bits": number(row["bits"], 1),
                "rank": number(row["rank"], 0),
                "kind": row["kind"],
                "expected": ", ".join(legible(one) for one in row["expected"][:3]),
            }
            for row in worst[:_WORST]
        ],
        "relations": read["relations"],
        "arcs": _render_relations(shown["text"], read["arcs"]) if read["arcs"] else None,
        "without": read["without"],
    }


def _line(shown: Mapping[str, Any], place: int) -> int:
    return shown["line"] + count_line_breaks(shown["text"], 0, place)


def _render_relations(text: str, rows: Sequence[Mapping[str, Any]]) -> Markup:
    # What stands around it says what the picture is.
    return Markup(render_arcs(*_select_relations(text, rows)).replace("<svg ", '<svg aria-hidden="true" ', 1))


def _select_relations(text: str, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], range, list[ArcEnds]]:
    """The words that relations join, in their order, and the relations between them."""
    ends = ("asked", "expected", "picked")
    known = {row[end]: row[f"{end}_text"] for row in rows for end in ends if row[end] is not None}
    place = {start: at for at, start in enumerate(sorted(known))}
    edges: list[ArcEnds] = []
    for row in rows:
        if all(row[end] is not None for end in ends):
            asked, expected, picked = (place[row[end]] for end in ends)
            told = f"{row['relation']} (head {row['head']} of layer {row['layer']})"
            edges.append((told, asked, expected, picked))
    return [known[start] for start in sorted(known)], range(len(place)), edges
