"""Token explorer: one function at a time, with what every lens of the run found for each token.

It selects the functions that are shown, with their text, code tokens and tree. `render_function_page` makes
the page of ``sonde show``: one function as models read it, from the JSON that the command prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from sonde.base.fingerprint import display_rank
from sonde.base.formatting import count, legible, number, plural
from sonde.languages import LANGUAGES
from sonde.languages.engine.text import count_line_breaks
from sonde.report.charts import ArcEnds, render_arcs
from sonde.report.comparison_page import read_run_comparison
from sonde.report.export import render_template
from sonde.report.headlines import load_titles
from sonde.report.run_tables import RunData
from sonde.report.section import (
    WAYS,
    EmbeddedView,
    Figure,
    LensTitle,
    Rows,
    SectionPlot,
    TokenFindings,
    TokenLens,
)

_MODERATE = (300, 1500)
"""Characters of a function that is read at a glance; the page opens on one of these where there is one."""


_SAMPLE_SIZE = 200
"""Functions of the random sample that are tried for a place, since other reasons take some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerLimits:
    """Limits on what the page carries.

    Attributes:
        worst: Functions with the most bits per byte.
        best: Functions with the fewest.
        median: Functions around the middle.
        by_lens: Functions of each lens, those first that most lenses say something of.
        differ: Functions with the places at which models of the run differ most, in either direction.
        by_hash: A seeded random sample of functions, whatever they score.
        characters: Of each function, from its beginning.
        subwords: Fewest subwords of a function to be ranked; short ones have extreme means.
        json_characters: Characters of JSON for all functions together.
    """

    worst: int = 10
    best: int = 10
    median: int = 8
    by_lens: int = 3
    differ: int = 6
    by_hash: int = 12
    characters: int = 3000
    subwords: int = 30
    json_characters: int = 3_600_000


_LIMITS = ExplorerLimits()


def choose_functions(
    run: RunData, lenses: Mapping[str, TokenLens], limits: ExplorerLimits
) -> tuple[list[tuple[str, str]], str]:
    """Choose the functions to show, each with its reason, and the one that is shown first.

    Where a lens says how hard functions are: the hardest, the easiest, and those around the middle. Those
    with the places at which the models of the run differ most. Always some of every lens, since lenses need
    not read the same functions, and a random sample. Reasons alternate, so that a cut leaves some of each.

    Args:
        run: The run.
        lenses: What its lenses offer.
        limits: How many.

    Returns:
        The pairs, and the id of the function nearest to the median of the sample that is neither long nor
        short; empty where there is none at all.
    """
    ranking = next((table for lens in lenses.values() if (table := lens.difficulty(run)) is not None), None)
    items_by_lens = [set(token_lens.known(run)) for token_lens in lenses.values()]
    lens_counts = Counter(item for lens_items in items_by_lens for item in lens_items)
    lens_picks = [
        sorted(lens_items, key=lambda item: (-lens_counts[item], display_rank(item)))[: limits.by_lens]
        for lens_items in items_by_lens
    ]
    order: list[str] = []
    sample = sorted(lens_counts, key=display_rank)[:_SAMPLE_SIZE]
    if ranking is not None:
        eligible = ranking.filter(pl.col("subwords") >= limits.subwords)
        eligible = eligible if eligible.height else ranking
        order = eligible.sort(["difficulty", "item_id"], descending=[True, False])["item_id"].to_list()
        sample = sorted(ranking["item_id"].to_list(), key=display_rank)[:_SAMPLE_SIZE]
    middle = max(0, len(order) // 2 - limits.median // 2)
    items_by_reason = {
        "worst": order[: limits.worst],
        "best": order[::-1][: limits.best],
        "median": order[middle : middle + limits.median],
        "models differ": _list_changed_functions(run, limits.differ),
        "every lens": [item for items in zip_longest(*lens_picks) for item in items if item is not None],
        "random sample": sample,
    }
    reasons: dict[str, str] = {}
    for turn in range(max(map(len, items_by_reason.values()))):
        for reason, items in items_by_reason.items():
            # Only the sample goes on where another reason took a function before it.
            enough = reason == "random sample" and list(reasons.values()).count(reason) >= limits.by_hash
            if turn < len(items) and items[turn] not in reasons and not enough:
                reasons[items[turn]] = reason
    candidates = [
        item for item, reason in reasons.items() if reason not in ("worst", "best", "models differ")
    ]
    difficulty = {} if ranking is None else dict(ranking.select("item_id", "difficulty").iter_rows())
    return list(reasons.items()), _choose_initial_function(
        run, candidates or list(reasons), lens_counts, difficulty
    )


def _list_changed_functions(run: RunData, most: int) -> list[str]:
    """List functions with the places at which the models of a run differ most, directions in turn."""
    comparison = read_run_comparison(run)
    if comparison is None or comparison.changed_items is None:
        return []
    places = comparison.changed_items.filter((pl.col("of") == "place") & pl.col("start").is_not_null())
    by_size = places.sort(pl.col("difference").abs(), descending=True, maintain_order=True)
    directions = [by_size.filter(is_kept)["item_id"] for is_kept in (_IS_HARDER, ~_IS_HARDER)]
    items = [item for pair in zip_longest(*directions) for item in pair if item is not None]
    return list(dict.fromkeys(items))[:most]


_IS_HARDER = pl.col("difference") > 0


def _choose_initial_function(
    run: RunData,
    candidates: Sequence[str],
    lens_counts: Mapping[str, int],
    difficulty: Mapping[str, float],
) -> str:
    """Choose the most ordinary candidate, of those of moderate length that most lenses speak of."""
    if not candidates:
        return ""
    sizes = {row["item_id"]: row["characters"] or 0 for row in run.items(candidates).iter_rows(named=True)}
    eligible = [item for item in candidates if item in sizes] or list(candidates)
    shortest, longest = _MODERATE
    middle = float(np.median([*difficulty.values()])) if difficulty else 0.0

    def rank_candidate(item: str) -> tuple[float, ...]:
        distance = abs(difficulty.get(item, middle) - middle)
        return (
            not shortest <= sizes.get(item, 0) <= longest,
            -lens_counts.get(item, 0),
            distance,
            display_rank(item),
        )

    return min(eligible, key=rank_candidate)


def describe_function(
    row: Mapping[str, Any], reason: str, limits: ExplorerLimits, number: Callable[[str], int]
) -> dict[str, Any]:
    """Describe a function for the page: names, the beginning of its text, its code tokens and its tree.

    Args:
        row: The function in the columns of `RunData.items`.
        reason: Why it was chosen.
        limits: How much of it is shown.
        number: Gives a text its place among the texts of the page.
    """
    text = row["text"] or ""
    excerpt = text[: limits.characters]
    tokens, nodes = _encode_syntax(text, row["language"], limits.characters, number)
    return {
        "id": row["item_id"],
        "name": row["name"] or row["path"] or row["item_id"],
        "path": row["path"] or "",
        "language": row["language"] or "",
        "cluster": row["cluster"] or "",
        "why": reason,
        "text": excerpt,
        "cut": max(0, len(text) - limits.characters),
        "tokens": tokens,
        "nodes": nodes,
    }


def _encode_syntax(
    text: str, language: str | None, characters: int, number: Callable[[str], int]
) -> tuple[list[int], list[int]]:
    """Encode code tokens as start, end, and named nodes in pre-order as depth, kind, start, end."""
    if not language or language not in LANGUAGES.names():
        return [], []
    reader = LANGUAGES.load(language)
    tree = reader.parse(text)
    code_tokens = reader.tokens(tree)
    pairs = np.stack([code_tokens.start, code_tokens.end], axis=1)[code_tokens.start < characters]
    visible_nodes = np.flatnonzero(tree.named & (tree.start < characters))
    depth = np.zeros(len(tree), np.int64)
    for node in range(1, len(tree)):
        depth[node] = depth[tree.parent[node]] + int(tree.named[tree.parent[node]])
    nodes: list[int] = []
    for node in visible_nodes.tolist():
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


def build_explorer_data(run: RunData, limits: ExplorerLimits) -> dict[str, Any] | None:
    """Build the explorer's data as plain JSON; None where no lens has anything of a function to show.

    Texts are numbers of ``strings``. Functions are ordered by their difficulty, hardest first, where a lens
    has one.
    """
    lenses = {lens: lens_title.tokens for lens, lens_title in load_titles(run).items() if lens_title.tokens}
    selection, first_item = choose_functions(run, lenses, limits)
    rows = {row["item_id"]: row for row in run.items([item for item, _ in selection]).iter_rows(named=True)}
    findings = _collect_findings(run, lenses, [item for item, _ in selection if item in rows], limits)
    if not findings:
        return None
    strings = StringTable()
    items: list[dict[str, Any]] = []
    size = 0
    # What the page opens on is never what is cut off.
    for item, reason in sorted(selection, key=lambda pair: pair[0] != first_item):
        if item not in rows or not any(_has_rows(lens_findings, item) for lens_findings in findings):
            continue
        entry = describe_function(rows[item], reason, limits, strings.number)
        cost = sum(_estimate_size(lens_findings, item) for lens_findings in findings)
        cost += len(entry["text"]) + 5 * (len(entry["tokens"]) + len(entry["nodes"]))
        if items and size + cost > limits.json_characters:
            continue
        size += cost
        items.append(entry)
    if not items:
        return None
    return assemble_page_data(
        [(model.slug, model.label) for model in run.models], items, first_item, findings, strings
    )


def _build_figure(run: RunData, data: Mapping[str, Any]) -> Figure:
    """Build the figure of about forty functions, each cut to its beginning."""
    items = data["items"]
    cut_count = sum(item["cut"] > 0 for item in items)
    has_difficulty = any(item["why"] == "median" for item in items)
    ranks = f"for being worst, best or median in {data['summary']}, " if has_difficulty else ""
    selection = f"chosen {ranks}so that every lens has some, or as a random sample"
    notes = [
        f"{plural(len(items), 'function')}, {selection}; of each at most its first "
        f"{count(_LIMITS.characters)} characters ({count(cut_count)} cut).",
        *(f"{findings['label']}: {findings['note']}." for findings in data["findings"] if findings["note"]),
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


plot = SectionPlot(
    lens=EXPLORER,
    order=-2,
    title="Read along with the models",
    caption=(
        "Point at a token, or focus the code and press the arrow keys, to see what each lens found there. "
        "You can colour the code by another number, show a second model or the difference between two, and "
        "fold the syntax tree. Outlined subwords span several code tokens; spaces have a faint tint; "
        "uncoloured text was not scored. Single functions illustrate numbers and prove nothing."
    ),
    select=lambda run: build_explorer_data(run, _LIMITS) or {},
    figure=_build_figure,
)
"""Functions that were hard, easy and ordinary, and a random sample."""


def assemble_page_data(
    models: Sequence[tuple[str, str]],
    items: Sequence[dict[str, Any]],
    first_item: str,
    findings: Sequence[TokenFindings],
    strings: StringTable,
) -> dict[str, Any]:
    """Build what the page's script reads.

    Args:
        models: Folder name and name as shown; those that nothing was found of are left out.
        items: Functions as `describe_function` gives them.
        first_item: Id of the function that is shown first.
        findings: What lenses found at their places.
        strings: The texts of the page, those of the functions among them.
    """
    summaries = [lens_findings.summaries for lens_findings in findings if lens_findings.summaries]
    rates = {item["id"]: _largest_value(summaries, item["id"]) for item in items}
    entries = sorted(items, key=lambda entry: (-rates[entry["id"]], entry["id"]))
    ids = [entry["id"] for entry in entries]
    return {
        "models": [
            {"slug": slug, "label": label}
            for slug, label in models
            if any(slug in (*lens_findings.rows, *lens_findings.whole) for lens_findings in findings)
        ],
        "items": entries,
        "opened": ids.index(first_item) if first_item in ids else 0,
        "summary": next((lens_findings.summary for lens_findings in findings if lens_findings.summary), ""),
        "findings": [_findings_to_json(lens_findings, ids, strings) for lens_findings in findings],
        "strings": list(strings),
    }


def _collect_findings(
    run: RunData, lenses: Mapping[str, TokenLens], items: Sequence[str], limits: ExplorerLimits
) -> list[TokenFindings]:
    """Collect what the lenses found in some functions; numbers of subwords first, as they are read first."""
    findings = [
        lens_findings
        for lens in lenses.values()
        if (lens_findings := lens.findings(run, items, limits.characters))
        and any(_has_rows(lens_findings, item) for item in items)
    ]
    return sorted(findings, key=lambda lens_findings: lens_findings.kind != "amount")


def _has_rows(lens_findings: TokenFindings, item: str) -> bool:
    return any(rows.get(item) for rows in (*lens_findings.rows.values(), *lens_findings.whole.values()))


def _largest_value(summaries: Sequence[Mapping[str, Mapping[str, float]]], item: str) -> float:
    """Return the largest number of a function over the models of the lens that has any."""
    return max(
        (numbers[item] for by_model in summaries for numbers in by_model.values() if item in numbers),
        default=0.0,
    )


class StringTable(dict[str, int]):
    """The texts of the page, each held once, with their indices."""

    def number(self, text: str | None) -> int:
        """Return the index of a text, which is added if it is new."""
        return self.setdefault(text or "", len(self))


def _findings_to_json(
    lens_findings: TokenFindings, items: Sequence[str], strings: StringTable
) -> dict[str, Any]:
    """Convert what a lens found to JSON: by model a list of rows for each function."""
    texts = {
        index for index, name in enumerate(lens_findings.columns, start=2) if name in lens_findings.texts
    }

    def row(values: Sequence[Any], texts: set[int]) -> list[Any]:
        return [_encode_value(value, strings, index in texts) for index, value in enumerate(values)]

    return {
        "lens": lens_findings.lens,
        "label": lens_findings.label,
        "kind": lens_findings.kind,
        "columns": list(lens_findings.columns),
        "texts": sorted(lens_findings.texts),
        "facts": lens_findings.facts,
        "colourings": [asdict(colouring) for colouring in lens_findings.colourings],
        "group": lens_findings.group,
        "groups": _list_groups(lens_findings, items),
        "rows": {
            slug: [[row(values, texts) for values in by_item.get(item, ())] for item in items]
            for slug, by_item in lens_findings.rows.items()
        },
        "units": {
            slug: [by_item.get(item, ()) for item in items] for slug, by_item in lens_findings.units.items()
        },
        "whole": {
            slug: [[row(values, {0, 1, 2}) for values in by_item.get(item, ())] for item in items]
            for slug, by_item in lens_findings.whole.items()
        },
        "weights": {
            slug: [dict(by_item.get(item, {})) for item in items]
            for slug, by_item in lens_findings.weights.items()
        },
        "summaries": {
            slug: [by_item.get(item) for item in items] for slug, by_item in lens_findings.summaries.items()
        },
        "alike": lens_findings.alike,
        "note": lens_findings.note,
    }  # fmt: skip


def _list_groups(lens_findings: TokenFindings, items: Sequence[str]) -> list[str]:
    """List the values of the column ``group`` in what is shown, sorted."""
    if not lens_findings.group:
        return []
    column = 2 + list(lens_findings.columns).index("group")
    rows = (row for by_item in lens_findings.rows.values() for item in items for row in by_item.get(item, ()))
    return sorted({str(row[column]) for row in rows})


def _encode_value(value: Any, strings: StringTable, text: bool) -> Any:
    """Encode a value of a row; what stands in a list are texts and their shares in turn."""
    if text:
        return strings.number(value)
    if isinstance(value, list):
        return [strings.number(part) if isinstance(part, str) else part for part in value]
    return value


def _estimate_size(lens_findings: TokenFindings, item: str) -> int:
    """Estimate how many characters of JSON a lens takes for a function."""
    tables = (*lens_findings.rows.values(), *lens_findings.units.values())
    rows: list[Rows] = [by_item.get(item, ()) for by_item in tables]
    weights = [
        table for by_item in lens_findings.weights.values() for table in by_item.get(item, {}).values()
    ]
    return sum(
        sum(5 * len(row) + 5 * sum(len(part) for part in row if isinstance(part, list)) for row in table)
        for table in rows
    ) + sum(8 + 14 * len(row[1]) for table in weights for row in table)


_WORST_TOKENS = 10


FUNCTION_ID = "function"
"""Id of the function on its page."""


_CHARACTERS = 20_000
"""Characters of a text that are shown, from its beginning."""


def render_function_page(view: Mapping[str, Any], findings: Sequence[TokenFindings]) -> str:
    """Render the page as text; every text is escaped, nothing is loaded.

    Args:
        view: A function with its ``reads``, as ``sonde show --json`` prints it.
        findings: What was found at its places, by `read_slug` and with `FUNCTION_ID` as its id.
    """
    name = legible(view["name"] or PurePath(view["file"]).name)
    data = _build_function_data(view, name, findings)
    return render_template(
        "one_function",
        name=name,
        shown=view,
        reads=[_build_model_tables(view, read) for read in view["reads"]],
        context={"models": data["models"], "alone": True},
        data=data,
        scripts=SCRIPTS,
    )


def _build_function_data(
    view: Mapping[str, Any], name: str, findings: Sequence[TokenFindings]
) -> dict[str, Any]:
    """Build the explorer's data of one function, each read as a model of its own."""
    strings, limits = StringTable(), ExplorerLimits(characters=_CHARACTERS)
    location = f"{view['file']}, line {view['line']}"
    row = {**view, "item_id": FUNCTION_ID, "name": name, "path": location, "cluster": ""}
    models = [(read_slug(number), legible(read["model"])) for number, read in enumerate(view["reads"])]
    return assemble_page_data(
        models, [describe_function(row, "", limits, strings.number)], FUNCTION_ID, findings, strings
    )


def read_slug(number: int) -> str:
    """Return the name of read `number` in `sonde.report.section.TokenFindings`."""
    return f"read-{number}"


def _build_model_tables(view: Mapping[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
    """Build the tables of one model."""
    worst = sorted((row for row in read["tokens"] if row["rank"] > 0), key=lambda row: -row["bits"])
    return {
        "model": legible(read["model"]),
        "bits": "" if read["unscored"] else number(read["bits_per_byte"]),
        "way": "" if read["unscored"] else WAYS[read["objective"]],
        "unscored": legible(read["unscored"]),
        "head": legible(read["head"]),
        "seen": read["seen"],
        "training_file": legible(read["training_file"]),
        "worst": [
            {
                "line": view["line"] + count_line_breaks(view["text"], 0, row["start"]),
                "text": legible(row["text"]),
                "bits": number(row["bits"], 1),
                "rank": number(row["rank"], 0),
                "kind": row["kind"],
                "expected": ", ".join(legible(text) for text in row["expected"][:3]),
            }
            for row in worst[:_WORST_TOKENS]
        ],
        "relations": read["relations"],
        "arcs": _render_relations(view["text"], read["arcs"]) if read["arcs"] else None,
        "without": read["without"],
    }


def _render_relations(text: str, rows: Sequence[Mapping[str, Any]]) -> Markup:
    # What stands around it says what the picture is.
    return Markup(render_arcs(*_select_relations(text, rows)).replace("<svg ", '<svg aria-hidden="true" ', 1))


def _select_relations(text: str, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], range, list[ArcEnds]]:
    """Return the words that relations join, in their order, and the relations between them."""
    ends = ("asked", "expected", "picked")
    words_by_start = {row[end]: row[f"{end}_text"] for row in rows for end in ends if row[end] is not None}
    indices = {start: index for index, start in enumerate(sorted(words_by_start))}
    edges: list[ArcEnds] = []
    for row in rows:
        if all(row[end] is not None for end in ends):
            asked_index, expected_index, picked_index = (indices[row[end]] for end in ends)
            label = f"{row['relation']} (head {row['head']} of layer {row['layer']})"
            edges.append((label, asked_index, expected_index, picked_index))
    return [words_by_start[start] for start in sorted(words_by_start)], range(len(indices)), edges
