"""Write the page of the study of real models, and the verdicts in docs/replication.md, from stored results.

A claim without a result says so. Verdicts and numbers are those that `make study` stored.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from generators.gallery import shorten_model
from generators.markdown import format_table
from sonde.base.formatting import count, duration, plural
from sonde.results.text_format import with_interval

Table = Mapping[str, Any]

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "recipes" / "studies" / "real-models"
RESULTS = ROOT / "docs" / "measured" / "study.json"
NOT_RUN = "not run yet"
SAMPLES = ("first", "second")

_HEAD = """\
# Real models: which claims hold

The study measures five public models and both bundled ones. It tries each claim on two samples that share no
cluster. {state} `make study` makes the runs and this page. `make study NAMES=--plan` prints only their
time and power.

- The claims, their rules and the hashes of the samples were committed before any run
  (`recipes/studies/real-models`).
- A verdict is about this checkpoint and this code. It replicates a paper only with the models of the paper.
- Brackets hold 95 % intervals. Tests of one family are adjusted by Benjamini and Hochberg at 5 %.
- Nothing counts as found in one sample only.

"""

_LIMITS = """\
## Limits

- Qwen2.5-Coder, SmolLM2 and Gemma are 4-bit files, dequantised to float32.
- Qwen2.5-Coder and SmolLM2 are instruct models.
- The models have probably read the standard library in training. The run in renamed code checks for that.
- The installed distributions are newer than the models, but much of their code is older.
- The detectable differences rest on assumed spreads, written down in `claims.toml`.
- MPNet and MiniLM have no masked-LM head, so they have no surprisal and complete no names.
- `names` reads whole files. Its second sample has another seed and may repeat names of the first.
- The table of runs marks samples that are not as locked, such as those of another Python.
"""


def load(name: str) -> dict[str, Table]:
    """Load a file of the study by name."""
    return tomllib.loads((STUDY / f"{name}.toml").read_text(encoding="utf-8"))


def load_results() -> Table:
    """Load the stored results; empty before the first run."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def explain_missing(claim: Table) -> str:
    """Return why a claim has no verdict."""
    if reason := claim.get("not_built"):
        return f"not built: {reason}"
    runs = load("runs")
    reasons = [runs[name]["left_out"] for name in claim["runs"] if "left_out" in runs[name]]
    return f"left out: {reasons[0]}" if reasons else NOT_RUN


def describe_sample(tests: Sequence[Table]) -> str:
    """Return the number of a sample with its interval and n; of several tests, their outcomes."""
    if not tests:
        return NOT_RUN
    if len(tests) > 1:
        counts = Counter(test["outcome"] for test in tests)
        return ", ".join(f"{number} {words}" for words, number in sorted(counts.items()))
    (test,) = tests
    is_share = not any(unit in test["metric"] for unit in ("nats", "bits", "excess"))
    number = with_interval(test, 100 if is_share else 1, 1 if is_share else 3, "+")
    return f"{number}{' points' if is_share else ''}, n = {count(test['n'])}"


def list_verdicts(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield rows of the table of verdicts: sentence, model, verdict and both samples."""
    claims, verdicts = load("claims"), load_results().get("verdicts", {})
    for name in names:
        sentence = claims[name]["sentence"]
        if not verdicts.get(name):
            yield sentence, "", explain_missing(claims[name]), "", ""
        for model, found in verdicts.get(name, {}).items():
            parts = (describe_sample(found["samples"].get(sample, ())) for sample in SAMPLES)
            yield sentence, shorten_model(model), found["verdict"], *parts


_TITLES = ("claim", "model", "verdict", "first sample", "second sample")


def list_untold() -> Iterator[str]:
    """Yield a bullet for each claim and model of which nothing can be told, with the first reason."""
    claims = load("claims")
    for name, models in load_results().get("verdicts", {}).items():
        for model, found in models.items():
            tests = [test for sample in found["samples"].values() for test in sample]
            reasons = [test["reason"] for test in tests if test["reason"]]
            if found["verdict"] == "not settled":
                reason = reasons[0] if reasons else "the samples or tests disagree"
                yield f"- {claims[name]['untold']} ({shorten_model(model)}: {reason}.)"


def describe_power(name: str) -> str:
    """Return the largest of the detectable differences that were computed when the samples were drawn."""
    path = STUDY / "locks.json"
    drawn = json.loads(path.read_text(encoding="utf-8"))["detectable"] if path.exists() else {}
    return f"{max(drawn[name].values()):g}" if name in drawn else "unknown"


def describe_runs() -> str:
    """Return the table of runs: planned and measured time, and whether the samples are the locked ones."""
    made = load_results().get("runs", {})
    rows: list[tuple[str, str, str]] = []
    for name, run in load("runs").items():
        samples = made.get(name, {}).values()
        times = [duration(sample["seconds"]) for sample in samples]
        unlocked = sum(not sample["locked"] for sample in samples)
        note = f" ({plural(unlocked, 'sample')} not as locked)" if unlocked else ""
        state = " and ".join(times) + note if times else run.get("left_out", NOT_RUN)
        rows.append((run["title"], str(run["minutes"]), state))
    return format_table(["run", "planned minutes per sample, two cores", "took"], rows)


def render_page() -> str:
    """Return the page."""
    claims, results = load("claims"), load_results()
    made = sum(len(results.get("runs", {}).get(name, {})) == len(SAMPLES) for name in load("runs"))
    state = f"{made} of {plural(len(load('runs')), 'run')} are made." if made else "No run is made yet."
    digest = hashlib.sha256((STUDY / "claims.toml").read_bytes()).hexdigest()
    if results and results["claims_sha256"] != digest:
        state += " The claims were changed after the last run."
    rules = [
        (claim["sentence"], claim["family"], f"{claim['least']:g}", describe_power(name), claim["refuted"])
        for name, claim in claims.items()
    ]
    titles = ("claim", "family", "difference that matters", "detectable", "refuted if")
    untold = "\n".join(list_untold()) or f"Nothing yet: the study is {NOT_RUN}."
    return "\n\n".join(
        (
            _HEAD.format(state=state).rstrip(),
            f"## Verdicts\n\n{format_table(_TITLES, list_verdicts(list(claims)))}",
            f"## What was not settled\n\n{untold}",
            f"## The claims as written down before\n\n{format_table(titles, rules)}",
            f"## Runs\n\n{describe_runs()}",
            _LIMITS,
        )
    )


BEGIN, END = "<!-- study -->\n", "<!-- end -->\n"


def render_replication() -> str:
    """Return docs/replication.md with its table of verdicts per paper."""
    text = (ROOT / "docs" / "replication.md").read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    claims = load("claims")
    rows = [
        (claims[name]["paper"], *row)
        for name in claims
        if "paper" in claims[name]
        for row in list_verdicts([name])
    ]
    return f"{head}{BEGIN}{format_table(['paper', *_TITLES], rows)}\n{END}{tail}"
