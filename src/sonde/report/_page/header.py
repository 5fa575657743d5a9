"""The top and the foot of the page: the answer in words, what was measured and how, and how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.report._shared.numbers import clusters, count, interval, no_verdict, number, with_interval
from sonde.report._shared.plot import Cell, Table
from sonde.report._shared.run import BITS_PER_NAT, MIN_COUNT, ModelInfo, RunData
from sonde.results.dimensions import dimension, dimensions_are, dimensions_named
from sonde.results.verdict import ENOUGH_CLUSTERS, why_no_verdict

_METRICS = {
    "bits_per_byte": ("Bits per byte", 1.0, 3),
    "bits_per_character": ("Bits per character", 1.0, 3),
    "coverage": ("Characters covered by subwords, %", 100.0, 1),
    "nats_per_token": ("Bits per code token", BITS_PER_NAT, 2),
    "bits": ("Bits per subword", 1.0, 2),
    "top1": ("Top-1 accuracy, %", 100.0, 1),
    "top5": ("Right among five, %", 100.0, 1),
    "ece": ("Calibration error, points", 100.0, 1),
}

LENS = "surprisal"
"""The lens whose finding is the page's title."""

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The answer for one model and language.

    Attributes:
        value: Bits per byte, as a number.
        interval: Its interval, empty where none is known.
        model: Name as shown.
        language: Public name.
        corpus: Names of the corpora.
        read: How much was read, from how many clusters.
        detail: The other half of the sentence.
        shared: The same over what all models of the run cover; empty where that is all that this one read.
        behind: The same behind the text of the files before the items; empty where that was not asked for.
        caveat: Why it allows no verdict, empty where it allows one.
    """

    value: str
    interval: str
    model: str
    language: str
    corpus: str
    read: str
    detail: str
    shared: str
    behind: str
    caveat: str


def headlines(run: RunData) -> list[Headline]:
    """One answer a model and language, in the run's order."""
    rows = run.scores(metrics=["bits_per_byte"], where=dimensions_are({}))
    found: list[Headline] = []
    for model in run.models:
        for row in rows.filter(pl.col("model") == model.name).sort("language").iter_rows(named=True):
            bounds = interval(row)
            found.append(
                Headline(
                    value=number(row["value"]),
                    interval="" if bounds == "–" else bounds,
                    model=model.label,
                    language=language_name(row["language"]),
                    corpus=_corpora(run, row["language"]),
                    read=_read(run, row),
                    detail=_extremes(run, model, row["language"]),
                    shared=_shared(run, row),
                    behind=_behind(run, row),
                    caveat=why_no_verdict(row),
                )
            )
    return found


def _behind(run: RunData, row: Mapping[str, Any]) -> str:
    """What the text of the file before each item changes."""
    rows = run.scores(metrics=["bits_per_byte"], by="before")
    same = (pl.col("model") == row["model"]) & (pl.col("language") == row["language"])
    named = {one["label"]: one for one in rows.filter(same).iter_rows(named=True)}
    if len(named) < 2:
        return ""
    behind, change = (with_interval(named[name]) for name in ("file", "file-none"))
    return f"behind the text of its file {behind} bits per byte, a change of {change}"


def functions_alone(run: RunData) -> bool:
    """Whether the run's items are functions that were read only without the file around them."""
    selection = (run.summary.get("arguments") or {}).get("selection") or {}
    behind = run.scores(metrics=["bits_per_byte"], where=dimensions_are({"before": "file"}))
    return selection.get("unit") == "function" and behind.is_empty()


def language_name(language: str) -> str:
    """A language as prose writes it."""
    return language.capitalize()


def _read(run: RunData, row: Mapping[str, Any]) -> str:
    model = next(model for model in run.models if model.name == row["model"])
    # Other lenses of the run may have read other items of the same corpus.
    scored = run.observations(model, ["item_id", "language"]).filter(pl.col("language") == row["language"])
    items = scored.select(pl.col("item_id").n_unique()).collect(engine="streaming").item()
    units = f"{count(items)} items from " if items else ""
    return f"{units}{count(row['n_clusters'])} clusters, {count(row['n'])} bytes"


def _shared(run: RunData, row: Mapping[str, Any]) -> str:
    """What can be compared between models: the same number over the characters that all of them cover."""
    rows = run.scores(metrics=["bits_per_byte"], where=dimensions_are({"text": "shared"}))
    same = (pl.col("model") == row["model"]) & (pl.col("language") == row["language"])
    for one in rows.filter(same & (pl.col("n") < row["n"])).iter_rows(named=True):
        return f"{with_interval(one)} over the {count(one['n'])} bytes that all models of the run cover"
    return ""


def _corpora(run: RunData, language: str) -> str:
    entries = [entry for entry in run.summary.get("corpus") or () if entry.get("language") == language]
    return " and ".join(dict.fromkeys(str(entry.get("name")) for entry in entries))


def _extremes(run: RunData, model: ModelInfo, language: str) -> str:
    rows = run.scores(metrics=["bits"], by="construct").filter(
        (pl.col("model") == model.name)
        & (pl.col("language") == language)
        & (pl.col("n") >= MIN_COUNT)
        & (pl.col("label") != "")
    )
    firm = [row for row in rows.sort("value").iter_rows(named=True) if not no_verdict(row)]
    if len(firm) < 2:
        return ""
    worst, best = firm[-1], firm[0]
    return (
        f"most confused by “{_readable(worst['label'])}” ({with_interval(worst)} bits a subword), "
        f"least by “{_readable(best['label'])}” ({with_interval(best)})"
    )


def _readable(label: str) -> str:
    return label.replace("_", " ")


def scoreboard(run: RunData) -> Table | None:
    """Every overall number with interval, n and clusters."""
    rows = run.scores(metrics=list(_METRICS), where=dimensions_are({}) | dimensions_named("text"))
    if rows.is_empty():
        return None
    order = {metric: place for place, metric in enumerate(_METRICS)}
    parts = {"all": "everything", "code": "code", "layout": "blanks", "shared": "what all models cover"}
    rows = rows.with_columns(text=dimension("text").fill_null("all"))
    cells = [
        (
            order[row["metric"]],
            (
                Cell(_METRICS[row["metric"]][0]),
                Cell(parts[row["text"]]),
                Cell(row["shown"]),
                Cell(row["language"]),
                Cell(_scaled(row), row["value"]),
                Cell(_scaled_interval(row), row["ci_low"]),
                Cell(count(row["n"]), row["n"]),
                Cell(clusters(row), row["n_clusters"]),
            ),
        )
        for row in rows.sort("text", "model", "language").iter_rows(named=True)
    ]
    cells.sort(key=lambda entry: entry[0])
    columns = ["Metric", "Of", "Model", "Language", "Value", "95 % interval", "n", "Clusters"]
    return Table(
        summary="Every overall number",
        columns=columns,
        rows=[row for _, row in cells],
        numeric=frozenset(columns[-4:]),
    )


def _scaled(row: Mapping[str, Any]) -> str:
    _, scale, digits = _METRICS[row["metric"]]
    return number(row["value"] * scale, digits)


def _scaled_interval(row: Mapping[str, Any]) -> str:
    _, scale, digits = _METRICS[row["metric"]]
    return interval(row, scale, digits)


def tiles(run: RunData) -> list[dict[str, str]]:
    """The few numbers shown large, where the run has one model and one language."""
    rows = run.scores(metrics=list(_METRICS), where=dimensions_are({}))
    if run.several or rows["language"].n_unique() != 1:
        return []
    shown = rows.filter(pl.col("binning").ne_missing("equal_mass"))
    named = {row["metric"]: row for row in shown.iter_rows(named=True)}
    return [
        {
            "label": _METRICS[metric][0],
            "value": _scaled(named[metric]),
            "interval": _scaled_interval(named[metric]),
        }
        for metric in ("bits_per_byte", "bits", "nats_per_token", "top1", "ece")
        if metric in named
    ]


def corpus_facts(run: RunData) -> list[dict[str, Any]]:
    """What was read: one entry a corpus and language, with what was skipped and why."""
    return [
        {
            "name": str(entry.get("name", "")),
            "language": language_name(str(entry.get("language", ""))),
            "counts": ", ".join(
                f"{count(entry.get(key))} {key}" for key in ("items", "files", "clusters") if key in entry
            ),
            "hash": str(entry.get("hash", ""))[:12],
            "few": int(entry.get("clusters") or ENOUGH_CLUSTERS) < ENOUGH_CLUSTERS,
            "skipped": [(str(reason), count(n)) for reason, n in (entry.get("skipped") or {}).items() if n],
        }
        for entry in run.summary.get("corpus") or ()
    ]


def model_facts(run: RunData) -> list[tuple[str, Facts]]:
    """What each model is, how it was fed, and how much of the text its tokenizer explains."""
    return [(model.name, _facts_of(run, model)) for model in run.models]


def glance(run: RunData) -> Facts:
    """The settings that qualify every number, in one short list."""
    facts: list[tuple[str, str]] = []
    for model in run.models:
        known = model.facts
        size = f", {_millions(known['parameters'])} parameters" if known.get("parameters") else ""
        facts.append(("Model" if not run.several else model.label, f"{model.name}{size}"))
    covered = [(model, (run.summary.get("alignment") or {}).get(model.slug) or {}) for model in run.models]
    for model, counts in covered:
        share = _share(counts, "covered", "characters", "of characters")
        merged = _share(counts, "merged", "subwords", "of subwords merged")
        name = f"Aligned, {model.label}" if run.several else "Aligned"
        facts.append((name, "; ".join(filter(None, (share, merged)))))
    method = dict(method_facts(run))
    facts += [(name, method.get(name, "")) for name in ("Mode", "Quirks on", "Seed", "Intervals", "Time")]
    return [(name, value) for name, value in facts if value]


def _millions(parameters: float) -> str:
    return f"{number(parameters / 1e6, 1)} million" if parameters >= 1e5 else count(parameters)


def _facts_of(run: RunData, model: ModelInfo) -> Facts:
    known = model.facts
    shape = [f"{count(known[key])} {word}" for key, word in _SHAPE.items() if known.get(key)]
    alignment = (run.summary.get("alignment") or {}).get(model.slug) or {}
    facts = [
        ("Revision", str(known.get("revision") or "")),
        ("Shape", ", ".join(filter(None, (str(known.get("kind") or ""), *shape)))),
        ("Special tokens", _plain(known.get("special"))),
        ("Seen in training", _seen(known)),
        ("Alignment", _coverage(alignment)),
        ("Card", str(known.get("card") or "")),
    ]
    return [(name, value) for name, value in facts if value]


_SHAPE = {
    "layers": "layers",
    "d_model": "wide",
    "parameters": "parameters",
    "vocab": "vocabulary entries",
    "context": "subwords of context",
}


def _seen(known: Mapping[str, Any]) -> str:
    if known.get("seen") is None:
        return ""
    kept = " and left out" if known.get("seen_excluded", True) and known["seen"] else ""
    return f"{count(known['seen'])} items{kept}"


def _coverage(counts: Mapping[str, Any]) -> str:
    parts = [
        _share(counts, "covered", "characters", "of characters covered by subwords"),
        _share(counts, "tokens_whole", "tokens", "of code tokens end where subwords do"),
        _share(counts, "merged", "subwords", "of subwords span several tokens"),
        _share(counts, "layout", "subwords", "are blanks"),
        _share(counts, "unknown", "subwords", "unknown to the vocabulary"),
    ]
    return "; ".join(filter(None, parts))


def _share(counts: Mapping[str, Any], part: str, whole: str, words: str) -> str:
    if not counts.get(whole) or counts.get(part) is None:
        return ""
    return f"{number(100 * counts[part] / counts[whole], 1)} % {words}"


def method_facts(run: RunData) -> Facts:
    """Mode, quirks, seed, forwards, timing, hardware, versions."""
    summary = run.summary
    timing = {
        name: value for name, value in (summary.get("timing") or {}).items() if isinstance(value, int | float)
    }
    facts = [
        ("Mode", str(summary.get("mode") or "")),
        ("Quirks on", ", ".join(map(str, summary.get("quirks") or ())) or "none"),
        ("Seed", str(summary.get("seed", ""))),
        ("Intervals", _methods(run)),
        ("Forward passes", _plain(summary.get("forwards"))),
        ("Time", ", ".join(f"{name} {number(seconds, 1)} s" for name, seconds in timing.items())),
        ("Precision", _precision(run)),
        ("Hardware", _plain(summary.get("hardware"))),
        ("Execution", _plain(summary.get("execution"))),
        (
            "Versions",
            ", ".join(f"{name} {version}" for name, version in (summary.get("versions") or {}).items()),
        ),
    ]
    return [(name, value) for name, value in facts if value]


def _precision(run: RunData) -> str:
    """In what the models of the run were computed, and what decides ranks."""
    weights = {str((model.facts.get("reading") or {}).get("weights") or "") for model in run.models} - {""}
    if not weights:
        return ""
    return f"weights in {' and '.join(sorted(weights))}; ranks, entropies and attention rows in float32"


def _methods(run: RunData) -> str:
    rows = run.scores(metrics=["bits_per_byte", "bits"], where=dimensions_are({}))
    methods = {method.partition(",")[0] for method in rows["ci_method"].drop_nulls().to_list() if method}
    return f"95 %, {', '.join(sorted(methods))} by repository, module or file" if methods else ""


def _plain(value: Any) -> str:
    """A small mapping as text; empty entries are left out."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{_readable(str(k))} {_plain(v)}" for k, v in value.items() if v not in (None, "", [], {})
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    return str(value) if value is not None else ""


_REPEATED = (
    ("-m", "models"),
    ("-l", "lenses"),
    ("-t", "tasks"),
    ("-c", "corpora"),
    ("--quirk", "quirks"),
)


def rerun(run: RunData) -> str:
    """The command that repeats the run; empty where ``run.json`` does not say."""
    arguments = run.summary.get("arguments") or {}
    if not arguments.get("models"):
        return ""
    parts = ["sonde", "run"]
    for option, key in _REPEATED:
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
