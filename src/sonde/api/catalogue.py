"""Everything that has a name: what it is and how it is used, and the nearest names for one that nobody has.

Extensions are described by their headers and their objects, options by their declarations, columns by the
schemas of their tables, and metrics by the lenses that measure them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.options import OptionDescription
from sonde.base.registry import Header, Registry
from sonde.base.suggestions import is_typo, rank_by_meaning, suggest_by_spelling
from sonde.experiments.catalogue import (
    REGISTRIES,
    RUN,
    all_options,
    experiment_headers,
    find_lenses,
)
from sonde.languages import LANGUAGES, get_unsupported_tasks
from sonde.lenses import LENSES
from sonde.models import known_checkpoints, locate_checkpoints
from sonde.report import PLOTS
from sonde.results.metrics import read_metrics
from sonde.results.schema import Columns
from sonde.results.text_format import load_glossary
from sonde.tasks import get_languages, get_quirk_lines
from sonde.tasks.engine.task import TASKS

KINDS: Mapping[str, str] = {
    "models": "checkpoints that sonde knows by name, and those in the hub cache",
    "lenses": "analyses of a model",
    "tasks": "labels on code, by family, with the lenses that take them",
    "corpora": "sources of code",
    "languages": "programming languages, and plain text",
    "options": "options of a run or of a lens, with their ranges and defaults",
    "metrics": "what the numbers of each lens mean, with their units",
    "quirks": "differences between published code and sonde, switched on by --quirk",
    "plots": "sections of the report",
    "experiments": "experiment files that replicate a paper",
    "executors": "where jobs run",
}
"""What `sonde list` lists, with what it is."""


TARGETS: Mapping[str, str] = {
    "item": "a whole function or file",
    "span": "characters of an item, such as a token",
    "pair": "two places of an item",
    "relation": "related words of an item",
    "mutation": "an item, unchanged or with a fault",
    "corpus": "all files of a corpus together",
}
"""What a task labels."""


TABLES: Mapping[str, str] = {
    "scores.parquet": "sonde.results.scores.SCORES_COLUMNS",
    "comparison.parquet": "sonde.comparison.differences.DIFFERENCES_COLUMNS",
    "moved.parquet": "sonde.comparison.compare.CHANGED_ITEM_COLUMNS",
    "items.parquet": "sonde.lenses.engine.item_tables.ITEMS_COLUMNS",
    "labels": "sonde.tasks.engine.task.LABEL_COLUMNS",
    "labels of call_origin": "sonde.tasks.calls.call_origin.CALL_COLUMNS",
    "labels of syntax_relations": "sonde.tasks.syntax.syntax_relations.RELATION_COLUMNS",
    "data sets": "sonde.tasks.engine.task.EXAMPLE_COLUMNS",
    "minimal pairs": "sonde.tasks.engine.pairs.PAIRED_COLUMNS",
    "names of `sonde label api_names`": "sonde.tasks.apis.api_names.NAMES_COLUMNS",
    "queries of api_cloze": "sonde.tasks.engine.cloze_queries.QUERY_COLUMNS",
    "observations of surprisal": "sonde.results.schema.OBSERVATIONS_COLUMNS",
    "code tokens of surprisal": "sonde.results.schema.UNIT_FIELDS",
    "completions of surprisal": "sonde.results.schema.COMPLETION_FIELDS",
    "observations of surprisal with pairs": "sonde.lenses.surprisal.minimal_pairs.SIDES_COLUMNS",
    "observations of probe": "sonde.lenses.probe.data.STATES_COLUMNS",
    "observations of causal": "sonde.lenses.causal.interventions.ROWS_COLUMNS",
    "interventions of causal": "sonde.lenses.causal.interventions.FITS_COLUMNS",
    "answers": "sonde.results.schema.ANSWERS_COLUMNS",
    "observations of attention": "sonde.lenses.attention.observe.OBSERVATIONS_COLUMNS",
    "errors of attention": "sonde.lenses.attention.errors.OBSERVATIONS_COLUMNS",
    "observations of cloze": "sonde.lenses.cloze.observe.ANSWERS_COLUMNS",
    "observations of prompting": "sonde.lenses.prompting.ROWS_COLUMNS",
    "observations of fidelity": "sonde.lenses.fidelity.observe.ROWS_COLUMNS",
    "observations of finetune": "sonde.lenses.finetune.data.ROWS_COLUMNS",
}
"""Tables of a run, each with the module and the constant that declare its columns; see docs/files.md."""


Details = Mapping[str, str | tuple[str, ...]]
"""What is known of an entry, by what it says; empty values are not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A thing that has a name.

    Attributes:
        kind: What it is, such as ``"task"``.
        name: Its public name.
        summary: What it is, in one line.
        details: Further facts.
        words: Further words by which somebody may look for it.
    """

    kind: str
    name: str
    summary: str
    details: Details = field(default_factory=dict[str, str | tuple[str, ...]])
    words: str = ""


def singular(kind: str) -> str:
    """Return the singular of a kind of `KINDS`."""
    registry = _REGISTRIES.get(kind)
    return kind.removesuffix("s") if registry is None else registry.kind


_REGISTRIES: Mapping[str, Registry[Any]] = {**REGISTRIES, "plots": PLOTS}


def list_entries(kind: str) -> Iterator[Entry]:
    """Yield the entries of a kind of `KINDS`, columns or terms, in their order.

    Extensions of other packages are not imported, so that less is known of them.
    """
    if kind in _REGISTRIES:
        for header in _REGISTRIES[kind].headers():
            details = _DESCRIBE[kind](header) if kind in _DESCRIBE else {}
            if header.details:
                details = {**details, "more": header.details}
            yield Entry(
                kind=singular(kind),
                name=header.name,
                summary=header.summary,
                details=details,
                words=header.description,
            )
    else:
        yield from _OTHERS[kind]()


def explain(name: str, additions: Sequence[Entry] = ()) -> list[Entry]:
    """Find everything of a name, of whatever kind.

    Args:
        name: A name in any case, with blanks, hyphens or underscores; a flag (``--limit``) or an option of a
            lens (``probe.seeds``).
        additions: Further entries, such as commands; flags of options that are declared are left out.

    Raises:
        UsageError: Nothing has this name; the nearest names are listed.
    """
    entries = [entry for kind in (*_REGISTRIES, *_OTHERS) for entry in list_entries(kind)]
    declared = {name for entry in entries if entry.kind == "option" for name in _names_of(entry)}
    entries += [
        entry for entry in additions if entry.kind != "flag" or _normalise(entry.name) not in declared
    ]
    wanted = _normalise(name)
    matches = [entry for entry in entries if wanted in _names_of(entry)]
    if not matches and (base := wanted.removesuffix("_gain")) != wanted:
        matches = [
            Entry(
                kind=entry.kind,
                name=f"{entry.name}_gain",
                summary=f"paired difference to the control in `control` or `compared_to`: {entry.summary}",
                details=entry.details,
            )
            for entry in entries
            if entry.kind == "metric" and _normalise(entry.name) == base
        ]
    if matches:
        return matches
    nearest = _find_nearest(name, entries)
    found = ", ".join(f"{entry.kind} {entry.name}" for entry in nearest)
    raise UsageError(
        f"nothing is called {name!r}; "
        + (f"nearest: {found}" if nearest else "`sonde list` shows what can be listed")
    )


_NEAREST = 5


_LEAST_ALIKE, _LEAST_COVERED = 0.7, 0.4
"""Similarity of spelling, and share of words, of what is listed as near: several are, so fewer words do."""


def _find_nearest(name: str, entries: list[Entry]) -> list[Entry]:
    """Find the nearest entries, as `UnknownNameError` does: by spelling if it is a typo, else by meaning."""
    wanted = _normalise(name)
    by_key = {f"{entry.kind} {entry.name}": entry for entry in entries}
    spelled = suggest_by_spelling(wanted, {_normalise(entry.name) for entry in entries}, _LEAST_ALIKE)
    keys = [key for key, entry in by_key.items() if _normalise(entry.name) == spelled]
    descriptions = {key: f"{entry.words}. {entry.summary}" for key, entry in by_key.items()}
    meant = rank_by_meaning(name, descriptions, _LEAST_COVERED)
    ranked = [*keys, *meant] if spelled and is_typo(wanted, spelled) else [*meant, *keys]
    return [by_key[key] for key in dict.fromkeys(ranked)][:_NEAREST]


def _normalise(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lstrip("-").lower())


def _names_of(entry: Entry) -> set[str]:
    aliases = entry.details.get("also called", ())
    flags = str(entry.details.get("flag", "")).split(", ")
    # An option of a lens or of a table, and a quirk of a paper, have a last name of their own.
    last_name = entry.name.rpartition(".")[2] if entry.kind in ("option", "quirk") else ""
    return {_normalise(name) for name in (entry.name, last_name, *aliases, *flags)} - {""}


def _describe_task(header: Header) -> Details:
    family = TASKS.get_folder_summary(header.name)
    if not family:
        return {"how": f"-t {header.name}"}
    task = TASKS.load(header.name)
    lenses, languages = find_lenses(header.name), get_languages(task)
    label = f"sonde label {header.name} -c CORPUS -o FILE"
    run = f"sonde run -l {lenses[0] if len(lenses) == 1 else 'LENS'} -t {header.name}"
    return {
        "family": family,
        "target": task.target,
        "lenses": lenses,
        "labels": tuple(getattr(task, "labels", ())),
        "languages": () if languages == LANGUAGES.names() else languages,
        "quirks": tuple(get_quirk_lines(task)),
        "also called": header.aliases,
        "how": f"{run}; {label}" if lenses else label,
    }


def _own_names(registry: Registry[Any]) -> Iterator[str]:
    return (name for name in registry.names() if registry.is_own(name))


def _describe_lens(header: Header) -> Details:
    if not LENSES.is_own(header.name):
        return {"how": f"-l {header.name}"}
    lens = LENSES.load(header.name)
    return {
        "reads": header.needs,
        "tasks": lens.tasks,
        "takes tasks about": tuple(sorted(lens.targets)),
        "headline": lens.headline.measure if lens.headline else "",
        "metrics": tuple(read_metrics(LENSES, header.name)),
        "quirks": tuple(lens.quirks),
        "how": f"sonde run -l {header.name}; options: sonde list options {header.name}",
    }


def _describe_language(header: Header) -> Details:
    if not LANGUAGES.is_own(header.name):
        return {"how": f"--language {header.name}"}
    return {
        "suffixes": LANGUAGES.load(header.name).suffixes,
        "tasks it lacks": tuple(get_unsupported_tasks(header.name)),
        "how": f"sonde run --language {header.name}",
    }


def _describe_plot(header: Header) -> Details:
    return {
        "lens": PLOTS.get_folder_name(header.name),
        "how": f"sonde figures RUN {header.name}; run.plot({header.name!r}) in Python",
    }


_DESCRIBE: Mapping[str, Callable[[Header], Details]] = {
    "tasks": _describe_task,
    "lenses": _describe_lens,
    "languages": _describe_language,
    "plots": _describe_plot,
    "corpora": lambda header: {"how": f"sonde run -c {header.name}[:ARGUMENT]"},
    "executors": lambda header: {"how": f"sonde run --executor {header.name}"},
}


def _list_models() -> Iterator[Entry]:
    copies, checkpoints = locate_checkpoints(), known_checkpoints()
    for checkpoint in checkpoints:
        cells = {name.replace("_", "-"): f"{cell.value:,}" if isinstance(cell.value, int) else cell.value
                 for name, cell in checkpoint.cells.items()}  # fmt: skip
        yield Entry(
            kind="model",
            name=checkpoint.name,
            summary=checkpoint.header.summary,
            details={
                **cells,
                "lacks": checkpoint.lacks,
                "used in": checkpoint.papers,
                "on this machine": str(copies.get(checkpoint.name, "no")),
                "how": f"sonde run -m {checkpoint.name}",
            },
        )
    for name in sorted(copies.keys() - {checkpoint.name for checkpoint in checkpoints}):
        details = {"on this machine": str(copies[name]), "how": f"sonde run -m {name}"}
        yield Entry(kind="model", name=name, summary="a model in the hub cache", details=details)


def _list_experiments() -> Iterator[Entry]:
    for header in experiment_headers():
        details = {"how": f"sonde run -f {header.name}"}
        yield Entry(kind="experiment", name=header.name, summary=header.summary, details=details)


def _list_options() -> Iterator[Entry]:
    for owner, options in all_options().items():
        for option in options:
            yield Entry(
                kind="option",
                name=option.name if owner == RUN else f"{owner}.{option.name}",
                summary=option.line,
                details=_describe_option(owner, option),
                words=option.search_text,
            )


def _describe_option(owner: str, option: OptionDescription) -> Details:
    is_switch = option.values.kind is bool
    value = "true" if is_switch else option.values.word.upper().replace(" ", "_")
    flag = option.flag and (f"sonde run {option.flag}" if is_switch else f"sonde run {option.flag} {value}")
    return {
        "of": "every run" if owner == RUN else f"the lens {owner}",
        "flag": ", ".join(filter(None, (option.short, option.flag))),
        "type": option.values.type,
        "values": option.values.range_text,
        "default": option.default_text,
        "rescores only": "yes: changing it does not rerun the model" if option.scoring else "",
        "how": "; ".join(filter(None, (flag, f"in an experiment file {option.name}")))
        if owner == RUN
        else f"sonde run --option {owner}.{option.name}={value}",
    }


def _list_metrics() -> Iterator[Entry]:
    for lens in _own_names(LENSES):
        directions = {
            metric.metric: metric.direction
            for metric in LENSES.load(lens).comparable_metrics
            if metric.direction
        }
        for name, metric in read_metrics(LENSES, lens).items():
            details = {"lens": lens, "unit": metric.unit, "better": directions.get(name, "")}
            yield Entry(kind="metric", name=name, summary=metric.means, details=details)


def _list_quirks() -> Iterator[Entry]:
    owners = [
        *((LENSES, name) for name in _own_names(LENSES)),
        *((TASKS, name) for name in _own_names(TASKS)),
    ]
    quirks: dict[str, tuple[str, list[str]]] = {}
    for registry, owner in owners:
        lines = LENSES.load(owner).quirks if registry is LENSES else get_quirk_lines(TASKS.load(owner))
        for name, line in lines.items():
            quirks.setdefault(name, (line, []))[1].append(f"{registry.kind} {owner}")
    for name, (line, of) in sorted(quirks.items()):
        details = {
            "paper": name.partition(".")[0],
            "of": tuple(dict.fromkeys(of)),
            "how": f"sonde run --quirk {name}; --mode paper switches on all of the lens",
        }
        yield Entry(kind="quirk", name=name, summary=line, details=details)


def _list_columns() -> Iterator[Entry]:
    meanings: dict[tuple[str, str], list[str]] = {}
    for table, address in TABLES.items():
        module, _, constant = address.rpartition(".")
        columns: Columns = getattr(importlib.import_module(module), constant)
        for name, (_, meaning) in columns.items():
            meanings.setdefault((name, meaning), []).append(table)
    for (name, meaning), tables in meanings.items():
        yield Entry(kind="column", name=name, summary=meaning, details={"of": tuple(tables)})


def _list_terms() -> Iterator[Entry]:
    return (Entry(kind="term", name=name, summary=meaning) for name, meaning in load_glossary().items())


_OTHERS: Mapping[str, Callable[[], Iterator[Entry]]] = {
    "options": _list_options,
    "metrics": _list_metrics,
    "quirks": _list_quirks,
    "models": _list_models,
    "experiments": _list_experiments,
    "columns": _list_columns,
    "terms": _list_terms,
}


def resolve_kind(name: str) -> str:
    """Return a kind of `KINDS` by its name, in the singular or plural.

    Raises:
        UnknownNameError: There is no such kind; the nearest is named.
    """
    kinds = {alias: kind for kind in KINDS for alias in (kind, singular(kind))}
    if name.lower() not in kinds:
        raise UnknownNameError("kind", name, KINDS)
    return kinds[name.lower()]
