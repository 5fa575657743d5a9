"""Facts at the top of the report: what was measured and how, how to repeat it, and what is missing.

The missing part lists what was not scored, or allows no verdict, with a remedy for each (`LeftOut`).
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from pydantic import BaseModel, Field, field_validator

from sonde.base.formatting import bracket, count, format_name, legible, number, plural
from sonde.languages import format_language
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import LensTitle
from sonde.report.text import group_by_family, group_by_reason, task_description, task_label
from sonde.results.schema import REASON, dimension_value
from sonde.results.scores import LEFT_OUT
from sonde.results.text_format import MARK_MEANINGS, mark_reason
from sonde.stats.verdict import MIN_CLUSTERS, MIN_SEEDS, no_verdict_reason
from sonde.tasks import COPIES, TESTED

Facts = Sequence[tuple[str, str]]


def describe_corpora(run: RunData) -> list[dict[str, Any]]:
    """Describe each corpus and language: its size, and what was skipped for which reason."""
    return [
        {
            "name": str(entry.get("name", "")),
            "language": format_language(str(entry.get("language", ""))),
            "counts": ", ".join(_list_counts(entry)),
            "hash": str(entry.get("hash", ""))[:12],
            "few": int(entry.get("clusters") or MIN_CLUSTERS) < MIN_CLUSTERS,
            "skipped": [(str(reason), count(n)) for reason, n in (entry.get("skipped") or {}).items() if n],
        }
        for entry in run.summary.get("corpus") or ()
    ]


def _list_counts(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield how much a corpus holds; of a user's table rows in place of files."""
    table = entry.get("table")
    if table:
        yield f"{count(table['used'])} of {plural(table['rows'], 'row')} used"
    for key in ("items", "files", "clusters"):
        # Rows without a group are clustered by their code when the data set is built, which says how many.
        is_told_elsewhere = key == "files" or (key == "clusters" and entry.get(key) == entry.get("items"))
        if key in entry and not (table and is_told_elsewhere):
            yield plural(entry[key], key[:-1])


def describe_user_labels(run: RunData) -> list[str]:
    """Describe data sets of a user's labels: near-duplicate rows, and how many are tested; each once."""
    reports = [
        report
        for lens_reports in (run.summary.get("data_sets") or {}).values()
        for report in lens_reports.values()
    ]
    sentences = [str(report[key]["said"]) for report in reports for key in (COPIES, TESTED) if key in report]
    return [f"{text[:1].upper()}{text[1:]}." for text in dict.fromkeys(sentences)]


def describe_models(run: RunData) -> list[tuple[str, Facts]]:
    """Describe each model by its name: its shape, its inputs and the coverage of its tokenizer."""
    return [(model.name, _describe_model(run, model)) for model in run.models]


def list_key_settings(run: RunData, settings: Facts) -> Facts:
    """List the settings that qualify every number.

    Args:
        run: The run.
        settings: Facts of `describe_method`.
    """
    facts: list[tuple[str, str]] = []
    for model in run.models:
        facts_by_name = model.facts
        size = (
            f", {_millions(facts_by_name['parameters'])} parameters"
            if facts_by_name.get("parameters")
            else ""
        )
        facts.append(("Model" if not run.several else model.label, f"{model.name}{size}"))
    alignments = [(model, (run.summary.get("alignment") or {}).get(model.slug) or {}) for model in run.models]
    for model, counts in alignments:
        share = _share(counts, "covered", "characters", "of characters")
        merged_share = _share(counts, "merged", "subwords", "of subwords merged")
        name = f"Aligned, {model.label}" if run.several else "Aligned"
        facts.append((name, "; ".join(filter(None, (share, merged_share)))))
    method = dict(settings)
    facts += [(name, method.get(name, "")) for name in ("Mode", "Quirks on", "Seed", "Intervals", "Time")]
    return [(name, value) for name, value in facts if value]


def _millions(parameters: float) -> str:
    return f"{number(parameters / 1e6, 1)} million" if parameters >= 1e5 else count(parameters)


def _describe_model(run: RunData, model: ModelInfo) -> Facts:
    model_facts = model.facts
    shape = [f"{count(model_facts[key])} {word}" for key, word in _SHAPE.items() if model_facts.get(key)]
    alignment = (run.summary.get("alignment") or {}).get(model.slug) or {}
    facts = [
        ("Revision", str(model_facts.get("revision") or "")),
        ("Shape", ", ".join(filter(None, (str(model_facts.get("kind") or ""), *shape)))),
        ("Special tokens", _format_mapping(model_facts.get("special"))),
        ("Seen in training", _format_seen_items(model_facts)),
        ("Alignment", _coverage(alignment)),
        ("Card", str(model_facts.get("card") or "")),
    ]
    return [(name, value) for name, value in facts if value]


_SHAPE = {
    "layers": "layers",
    "d_model": "wide",
    "parameters": "parameters",
    "vocab": "vocabulary entries",
    "context": "subwords of context",
}


def _format_seen_items(model_facts: Mapping[str, Any]) -> str:
    if model_facts.get("seen") is None:
        return ""
    exclusion = " and left out" if model_facts.get("seen_excluded", True) and model_facts["seen"] else ""
    return f"{count(model_facts['seen'])} items{exclusion}"


def _coverage(counts: Mapping[str, Any]) -> str:
    parts = [
        _share(counts, "covered", "characters", "of characters covered by subwords"),
        _share(counts, "tokens_whole", "tokens", "of code tokens end where subwords do"),
        _share(counts, "merged", "subwords", "of subwords span several tokens"),
        _share(counts, "layout", "subwords", "are whitespace"),
        _share(counts, "unknown", "subwords", "unknown to the vocabulary"),
    ]
    return "; ".join(filter(None, parts))


def _share(counts: Mapping[str, Any], part: str, total: str, unit: str) -> str:
    if not counts.get(total) or counts.get(part) is None:
        return ""
    return f"{number(100 * counts[part] / counts[total], 1)} % {unit}"


def describe_method(run: RunData, titles: Sequence[LensTitle], intervals: str) -> Facts:
    """Describe mode, quirks, seed, forward passes, time, hardware and versions of a run.

    Args:
        run: The run.
        titles: Titles of the lenses of the run.
        intervals: Method of the intervals in the header.
    """
    summary = run.summary
    timing = {
        name: value for name, value in (summary.get("timing") or {}).items() if isinstance(value, int | float)
    }
    facts = [
        ("Mode", str(summary.get("mode") or "")),
        ("Quirks on", ", ".join(map(str, summary.get("quirks") or ())) or "none"),
        ("Seed", str(summary.get("seed", ""))),
        ("Intervals", intervals),
        ("Forward passes", _format_mapping(summary.get("forwards"))),
        ("Time", ", ".join(f"{name} {number(seconds, 1)} s" for name, seconds in timing.items())),
        ("Precision", _precision(run, titles)),
        ("Heads", _heads(run)),
        ("Hardware", _format_mapping(summary.get("hardware"))),
        ("Execution", _format_mapping(summary.get("execution"))),
        (
            "Versions",
            ", ".join(f"{name} {version}" for name, version in (summary.get("versions") or {}).items()),
        ),
    ]
    return [(name, value) for name, value in facts if value]


def _precision(run: RunData, titles: Sequence[LensTitle]) -> str:
    """Describe the dtype of the models, and what was computed in float32."""
    weights = {str((model.facts.get("reading") or {}).get("weights") or "") for model in run.models} - {""}
    if not weights:
        return ""
    exact = [title.in_float32 for title in titles if title.in_float32]
    rest = f"; {', '.join(exact)} in float32" if exact else ""
    return f"weights in {' and '.join(sorted(weights))}{rest}"


def _heads(run: RunData) -> str:
    """Describe the heads of checkpoints that are no language models."""
    heads = {model.name: str((model.facts.get("reading") or {}).get("head") or "") for model in run.models}
    return "; ".join(f"{legible(name)}: {legible(head)}" for name, head in heads.items() if head)


def _format_mapping(value: Any) -> str:
    """Format a small mapping as text, without empty entries."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{str(k).replace('_', ' ')} {_format_mapping(v)}"
            for k, v in value.items()
            if v not in (None, "", [], {})
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    return str(value) if value is not None else ""


_LIST_OPTIONS = (
    ("-m", "models"),
    ("-l", "lenses"),
    ("-t", "tasks"),
    ("-c", "corpora"),
    ("--quirk", "quirks"),
)


def format_rerun_command(run: RunData) -> str:
    """Format the command that repeats the run; empty if ``run.json`` lacks the arguments."""
    arguments = run.summary.get("arguments") or {}
    if not arguments.get("models"):
        return ""
    parts = ["sonde", "run"]
    for option, key in _LIST_OPTIONS:
        for value in arguments.get(key) or ():
            parts += [option, str(value)]
    for lens, options in (arguments.get("options") or {}).items():
        for name, value in options.items():
            parts += ["--option", f"{lens}.{name}={str(value).lower() if isinstance(value, bool) else value}"]
    selection = arguments.get("selection") or {}
    for language in selection.get("languages") or ():
        parts += ["--language", str(language)]
    for key in ("unit", "limit", "seed"):
        if selection.get(key) is not None:
            parts += [f"--{key}", str(selection[key])]
    capture = arguments.get("capture") or {}
    for key in ("context", "stride", "bos"):
        if capture.get(key) not in (None, "auto"):
            parts += [f"--{key}", str(capture[key])]
    if arguments.get("mode"):
        parts += ["--mode", str(arguments["mode"])]
    return shlex.join(parts)


def describe_tasks(run: RunData, lens: str) -> list[tuple[str, Facts]]:
    """Describe the tasks of a lens by family: their names in charts, and what they ask."""
    rows = run.every_score.filter(pl.col("lens") == lens)
    tasks = [task for task in rows["task"].unique(maintain_order=True) if task]
    facts_by_family = {
        family: [(task_label(task), meaning) for task in family_tasks if (meaning := task_description(task))]
        for family, family_tasks in group_by_family(tasks).items()
    }
    return [(family.capitalize(), facts) for family, facts in facts_by_family.items() if facts]


def join_leads(run: RunData, leads: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Join the leads of each lens, and say which lenses have no number.

    Args:
        run: The run.
        leads: Lens and lead of each section; a lead may be empty.
    """
    sentences: dict[str, list[str]] = {}
    for lens, lead in leads:
        if lead:
            sentences.setdefault(lens, []).append(lead)
    for lens in run.lenses_without_numbers:
        sentences[lens] = [f"Lens {format_name(lens)} scored, and none of its rows holds a number"]
    return {lens: " ".join(lens_sentences) for lens, lens_sentences in sentences.items()}


class LeftOut(BaseModel, frozen=True, extra="forbid"):
    """Something that was asked for and not scored, or numbers that allow no verdict."""

    what: str
    why: str
    remedy: str = Field(description="what would change it; empty for nothing")

    @field_validator("*", mode="before")
    @classmethod
    def _make_legible(cls, text: str) -> str:
        # Names in run.json need not be valid Unicode, which pydantic refuses.
        return legible(text)


def list_missing_results(run: RunData) -> list[LeftOut]:
    """List what was not scored, then the numbers that allow no verdict, by reason."""
    return [
        *_list_skipped_jobs(run),
        *_list_omitted_methods(run),
        *_list_omitted_code(run),
        *_list_inconclusive_numbers(run),
    ]


def _list_skipped_jobs(run: RunData) -> Iterator[LeftOut]:
    """List models that a lens does not read, and tasks without a data set."""
    for entry in run.summary.get("refused") or ():
        message = str(entry.get("reason") or "")
        reason, _, remedy = message.rpartition("; ")
        if entry.get("model"):
            subject = f"{format_name(entry.get('lens'))} of {entry['model']}"
        else:
            subject = (
                f"{format_name(entry.get('task'))} in {format_language(str(entry.get('language') or ''))}"
            )
        yield LeftOut(what=subject, why=reason or message, remedy=_to_sentence(remedy) if reason else "")


def _list_omitted_methods(run: RunData) -> Iterator[LeftOut]:
    """List baselines and tasks that a lens left out while it scored."""
    rows = run.every_row.filter(pl.col("metric") == LEFT_OUT)
    rows = rows.select("lens", "control", reason=dimension_value(REASON)).unique(maintain_order=True)
    for (lens,), part in rows.partition_by("lens", as_dict=True, maintain_order=True).items():
        for control, reasons in group_by_reason(part.select("control", "reason").iter_rows()).items():
            method = f", {format_name(control)}" if control else ""
            for reason in reasons:
                yield LeftOut(what=f"{format_name(lens)}{method}", why=reason, remedy="")


_REMEDIES = {
    "cap of its cluster": "Raise --per-cluster.",
    "training": "--include-seen scores it too; the number then includes memorisation.",
    "seen": "--include-seen scores it too; the number then includes memorisation.",
    "limit": "Raise --limit.",
    "budget": "Run the same command again to resume.",
    "older one": "Nothing: near-duplicate of an older version.",
    "duplicate": "Nothing: a copy would count the same code twice.",
    "cut-off date": "Choose another day (--cut-off), or read older and newer code of each repository.",
    "parse": "Repair the files, or leave them out.",
    "large": "Split the files, or leave them out.",
    "no label": "Label the rows.",
    "fewer than 5 rows": "Correct the labels, or label more rows with them.",
    "two labels": "Keep one of the labels of each text.",
    "unknown split": "Write train, valid or test.",
    "outside its text": "Count characters from 0; the end is exclusive.",
}
"""Remedies by a word of the reason why code was left out."""


def _list_omitted_code(run: RunData) -> Iterator[LeftOut]:
    """List code of a corpus that no lens read."""
    for entry in run.summary.get("corpus") or ():
        reasons = {**(entry.get("left_out") or {}), **(entry.get("skipped") or {})}
        for reason, items in reasons.items():
            if items:
                remedy = next((words for part, words in _REMEDIES.items() if part in str(reason)), "")
                corpus = f"{entry.get('name', '')}, {format_language(str(entry.get('language', '')))}"
                # Rows that a user labelled are looked up one by one.
                examples = (entry.get("examples") or {}).get(reason, ()) if entry.get("table") else ()
                why = f"{reason}{bracket(', '.join(map(str, examples)))}"
                yield LeftOut(what=f"{count(items)} of {corpus}", why=why, remedy=remedy)
        yield from _list_unread_columns(entry)
    for model in run.models:
        if model.facts.get("seen") and model.facts.get("seen_excluded", True):
            yield LeftOut(
                what=f"{count(model.facts['seen'])} items with {model.label}",
                why="in the model's training data",
                remedy=_REMEDIES["seen"],
            )


def _list_unread_columns(entry: Mapping[str, Any]) -> Iterator[LeftOut]:
    table = entry.get("table") or {}
    if columns := table.get("unread_columns"):
        yield LeftOut(
            what=f"{plural(len(columns), 'column')} of {entry.get('name', '')}",
            why=f"no role in the query: {', '.join(map(repr, columns))}",
            remedy=f"Name one after the file, as {table['hint']}." if table.get("hint") else "",
        )


def _list_inconclusive_numbers(run: RunData) -> Iterator[LeftOut]:
    """Count the numbers of each lens that allow no verdict, by what they lack."""
    lacks: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    columns = ["lens", "value", "ci_low", "ci_high", "ci_method", "n_clusters", "effective_clusters", "n_eff"]
    is_number = pl.col("control").is_null() & (pl.col("metric") != LEFT_OUT)
    numbers = run.every_score.filter(is_number).select(*columns, "seeds")
    for row in numbers.iter_rows(named=True):
        totals[row["lens"]] += 1
        if reason := no_verdict_reason(row):
            lacks[row["lens"]][mark_reason(reason).strip()] += 1
    for lens, kinds in lacks.items():
        for kind, scores in kinds.most_common():
            remedy = _MARK_REMEDIES[kind].format(lens=lens)
            subject = (
                f"{count(scores)} of the {plural(totals[lens], 'number')} of the lens {format_name(lens)}"
            )
            yield LeftOut(what=subject, why=MARK_MEANINGS[kind], remedy=remedy)


_MARK_REMEDIES: Mapping[str, str] = {
    "†": "Read more independent code: further repositories or packages (-c), not more of the same.",
    "‡": f"Train from more seeds (--option {{lens}}.seeds={MIN_SEEDS}).",
    "§": "Nothing: such a number is a count or a setting and is not estimated.",
    "¶": "Read more items (--limit), from further repositories or packages.",
}
"""What helps a number with a mark of `sonde.results.text_format.MARK_MEANINGS`."""


def _to_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}" if text else ""
