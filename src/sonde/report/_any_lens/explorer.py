"""Explorer of tokens: one function at a time, with what every lens of the run says of each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sonde.report._any_lens._functions import ExplorerLimits, choose, described
from sonde.report._shared.numbers import count
from sonde.report._shared.plot import Embed, Figure
from sonde.report._shared.run import RunData
from sonde.report._shared.title import PlainTitle, titles
from sonde.report._shared.tokens import Findings, Rows, TokenLens

EXPLORER = "explorer"
"""Public name of the section, and of its group on the page."""

SCRIPTS = tuple(
    f"_any_lens/{name}.js" for name in ("explorer_cells", "explorer_told", "explorer_tree", "explorer")
)
"""What makes the explorer move, in the order in which it is read."""

title = PlainTitle(name="Token explorer")


@dataclass(frozen=True, slots=True)
class Explorer:
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
        data = packed(run, self.limits)
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
            embed=Embed(
                template="_any_lens/explorer.html.j2",
                scripts=SCRIPTS,
                data=data,
                context={"models": data["models"], "alone": len(items) == 1},
            ),
        )


def packed(run: RunData, limits: ExplorerLimits) -> dict[str, Any] | None:
    """The explorer's data as plain JSON; None where no lens has anything of a function to show.

    Texts are numbers of ``strings``. Functions are ordered by their difficulty, hardest first, where a lens
    has one.
    """
    lenses = {lens: one.tokens for lens, one in titles(run).items() if one.tokens}
    chosen, opened = choose(run, lenses, limits)
    held = {row["item_id"]: row for row in run.items([item for item, _ in chosen]).iter_rows(named=True)}
    found = _found(run, lenses, [item for item, _ in chosen if item in held], limits)
    if not found:
        return None
    strings = Strings()
    items: list[dict[str, Any]] = []
    size = 0
    # What the page opens on is never what is cut off.
    for item, reason in sorted(chosen, key=lambda pair: pair[0] != opened):
        if item not in held or not any(_speaks(one, item) for one in found):
            continue
        entry = described(held[item], reason, limits, strings.number)
        cost = sum(_cost(one, item) for one in found)
        cost += len(entry["text"]) + 5 * (len(entry["tokens"]) + len(entry["nodes"]))
        if items and size + cost > limits.packed:
            continue
        size += cost
        items.append(entry)
    if not items:
        return None
    return assembled([(model.slug, model.label) for model in run.models], items, opened, found, strings)


def assembled(
    models: Sequence[tuple[str, str]],
    items: Sequence[dict[str, Any]],
    opened: str,
    found: Sequence[Findings],
    strings: Strings,
) -> dict[str, Any]:
    """What the page's script reads.

    Args:
        models: Folder name and name as shown; those that nothing was found of are left out.
        items: Functions as `described` gives them.
        opened: Id of the one that is shown first.
        found: What lenses found at their places.
        strings: The texts of the page, those of the functions among them.
    """
    summaries = [one.summaries for one in found if one.summaries]
    rates = {item["id"]: _largest(summaries, item["id"]) for item in items}
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
        "findings": [_plain(one, ids, strings) for one in found],
        "strings": strings.values,
    }


def _found(
    run: RunData, lenses: Mapping[str, TokenLens], items: Sequence[str], limits: ExplorerLimits
) -> list[Findings]:
    """What the lenses found in some functions; numbers of subwords first, since they are read first."""
    all_of = [one for lens in lenses.values() if (one := lens.findings(run, items, limits.characters))]
    some = [one for one in all_of if any(_speaks(one, item) for item in items)]
    return sorted(some, key=lambda one: one.kind != "amount")


def _speaks(one: Findings, item: str) -> bool:
    return any(held.get(item) for held in (*one.rows.values(), *one.whole.values()))


def _largest(summaries: Sequence[Mapping[str, Mapping[str, float]]], item: str) -> float:
    """The largest number of a function over the models of the lens that has any."""
    return max((held[item] for one in summaries for held in one.values() if item in held), default=0.0)


class Strings:
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


def _plain(one: Findings, items: Sequence[str], strings: Strings) -> dict[str, Any]:
    """What a lens found as JSON: by model a list of rows for each function."""
    texts = {place for place, name in enumerate(one.columns, start=2) if name in one.texts}

    def row(values: Sequence[Any], texts: set[int]) -> list[Any]:
        return [_value(value, strings, place in texts) for place, value in enumerate(values)]

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


def _groups(one: Findings, items: Sequence[str]) -> list[str]:
    """The values of the column ``group`` in what is shown, sorted."""
    if not one.group:
        return []
    place = 2 + list(one.columns).index("group")
    rows = (row for held in one.rows.values() for item in items for row in held.get(item, ()))
    return sorted({str(row[place]) for row in rows})


def _value(value: Any, strings: Strings, text: bool) -> Any:
    """A value of a row; what stands in a list are texts and their shares in turn."""
    if text:
        return strings.number(value)
    if isinstance(value, list):
        return [strings.number(part) if isinstance(part, str) else part for part in value]
    return value


def _cost(one: Findings, item: str) -> int:
    """About how many characters of JSON a lens takes for a function."""
    rows: list[Rows] = [held.get(item, ()) for held in one.rows.values()]
    weights = [table for held in one.weights.values() for table in held.get(item, {}).values()]
    return sum(
        sum(5 * len(row) + 5 * sum(len(part) for part in row if isinstance(part, list)) for row in table)
        for table in rows
    ) + sum(8 + 14 * len(row[1]) for table in weights for row in table)
