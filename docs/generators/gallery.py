"""Write the gallery's pages and README's table, from the stored figures of its runs.

Each sentence is chosen by the verdict that its run allows, so a page says so if a finding changes.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from generators.markdown import format_table
from sonde.base.formatting import count, duration, join_names, plural
from sonde.report.section import PLOTS
from sonde.results.headlines import ABOVE, BELOW, LEVEL, OPEN, SLIGHT
from sonde.results.text_format import TOO_LITTLE, with_interval

Figures = Mapping[str, Any]

ROOT = Path(__file__).parents[2]
NAMES = {
    "Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf": "Qwen2.5-Coder",
    "SmolLM2-135M-Instruct.Q4_1.gguf": "SmolLM2",
    "gemma-3-270m-q4_k_m.gguf": "Gemma",
    "all-mpnet-base-v2": "MPNet",
    "all-MiniLM-L6-v2": "MiniLM",
    "mini-decoder": "the bundled decoder",
}
"""Names of the models in sentences, by the last part of their path."""

_HEAD = """\
# Gallery

Runs of public and bundled models, each by one command: {made} of {all} are made, and their last calls took
{time} together. `make models` fetches the models, and `make gallery` makes the runs. An interrupted call
resumes, and runs that lack their models or packages are skipped. The figures on these pages, and the example
answers and outputs in README, come from stored results (`docs/gallery/results.json`). Brackets hold 95 %
intervals, clustered by module or package.

"""


def load_recipes() -> dict[str, Figures]:
    """Load the runs by name, in the order of the pages."""
    return tomllib.loads((ROOT / "recipes" / "gallery" / "runs.toml").read_text(encoding="utf-8"))


def load_results() -> dict[str, Figures]:
    """Load the stored figures by run; runs that were never made are missing."""
    path = ROOT / "docs" / "gallery" / "results.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def percent(row: Figures) -> str:
    """Format a share with its interval."""
    return f"{with_interval(row, 100, 0)} %"


def points(row: Figures) -> str:
    """Format a difference of shares with its interval."""
    return f"{with_interval(row, 100, 1, '+')} points"


def shorten_model(name: str) -> str:
    """Return the name of a model in a sentence."""
    base, mark, suffix = name.rpartition("/")[2].partition("?")
    return NAMES.get(base, base) + (" in 8 bits" if mark and suffix == "quantise=8bit" else "")


def select(figures: Figures, lens: str, **columns: Any) -> list[Figures]:
    """Return the answers of a lens with these values."""
    answers = [answer for answer in figures["answers"] if answer["lens"] == lens]
    return [answer for answer in answers if all(answer[name] == value for name, value in columns.items())]


def select_slices(figures: Figures, **columns: Any) -> list[Figures]:
    """Return the slices with these values, the greatest first."""
    rows = [row for row in figures["slices"] if all(row[name] == value for name, value in columns.items())]
    return sorted(rows, key=lambda row: -row["value"])


_CONCLUSIONS = {
    ABOVE: "more than",
    BELOW: "less than",
    SLIGHT: "apart by less than matters from",
    LEVEL: "not distinguishable from",
    OPEN: "too little data for a verdict against",
}


def compare_with_control(answer: Figures) -> str:
    """Describe how a score compares with its best control, to follow "that is"."""
    control = f"{answer['control_name']} ({percent(answer['control'])})"
    return f"{_CONCLUSIONS[answer['verdict']]} {control}"


_OUTCOMES = {
    "better": "is better",
    "worse": "is worse",
    "slight": "differs by less than matters",
    "alike": "shows no difference that matters",
    "undecided": "shows no clear difference",
}


def describe_outcome(row: Figures, unit: str, scale: float = 1.0, digits: int = 3) -> str:
    """Describe the difference of a model from the first one, as the predicate of a sentence."""
    outcome = "has too little data for a verdict" if row["said"] == TOO_LITTLE else _OUTCOMES[row["outcome"]]
    return f"{outcome} ({with_interval(row, scale, digits, '+')} {unit})"


def describe_languages(figures: Figures) -> Iterator[str]:
    """Yield what the run over six languages teaches."""
    answers = sorted(select(figures, "surprisal", task=""), key=lambda answer: answer["score"]["value"])
    low, high = answers[0], answers[-1]
    yield (
        f"Qwen2.5-Coder needs {with_interval(low['score'])} bits per byte of {low['language']} "
        f"(n = {low['size']})."
    )
    yield (
        f"It needs {with_interval(high['score'])} bits per byte of {high['language']} (n = {high['size']})."
    )
    between = join_names([answer["language"] for answer in answers[1:-1]])
    if low["score"]["ci_high"] < high["score"]["ci_low"]:
        yield f"The two intervals do not overlap; between them: {between}."
    else:
        yield f"The two intervals overlap, so neither is shown to be easier; between them: {between}."
    for language in sorted({answer["language"] for answer in answers}):
        rows = select_slices(figures, dimension="construct", metric="bits", language=language.lower())
        if rows:
            yield (
                f"The highest mean in {language} is that of `{rows[0]['slice']}`: "
                f"{with_interval(rows[0])} bits per subword (n = {count(rows[0]['n'])} subwords)."
            )
    yield "Constructs are not tested against each other here: the next may be as high."


def describe_models(figures: Figures) -> Iterator[str]:
    """Yield what the run of four decoders teaches."""
    answers = sorted(select(figures, "surprisal", task=""), key=lambda answer: answer["score"]["value"])
    scores = {shorten_model(answer["model"]): answer["score"] for answer in answers}
    base = "Qwen2.5-Coder"
    rest = [score["value"] for name, score in scores.items() if name != base]
    yield (
        f"{base} needs {with_interval(scores[base])} bits per byte (n = {answers[0]['size']}), the others "
        f"{min(rest):.2f} to {max(rest):.2f}."
    )
    for row in figures["differences"]:
        if row["metric"] == "bits_per_character":
            name = shorten_model(row["model"])
            yield (
                f"{name[0].upper()}{name[1:]} needs {with_interval(scores[name])}; compared with {base} it "
                f"{describe_outcome(row, 'bits per character')}."
            )
    for row in figures["outcomes"]:
        name = shorten_model(row["model"])
        yield (
            f"{name[0].upper()}{name[1:]} is worse in {row['worse']:,} of {row['compared']:,} numbers "
            f"comparable across tokenizers, and better in {row['better']:,}."
        )


def describe_heads_and_pairs(figures: Figures) -> Iterator[str]:
    """Yield what the run of heads and minimal pairs teaches."""
    (answer,) = select(figures, "attention")
    yield (
        f"The best head of each relation finds {percent(answer['score'])} at the first try "
        f"(n = {answer['size']})."
    )
    yield f"That is {compare_with_control(answer)}."
    gains = select_slices(figures, dimension="relation", metric="first_hit_gain", compared_to="combined")
    if gains:
        gain = gains[0]
        head = f"head {gain['head']} of layer {gain['layer']}"
        yield (
            f"The highest mean gain of {plural(len(gains), 'relation')} is that of `{gain['slice']}`: "
            f"{points(gain)} (n = {count(gain['n'])} edges)."
        )
        yield f"This is {head}, compared with the better of both rules."
    else:
        yield "No single relation occurs in ten effective clusters, so none has a verdict of its own."
    (answer,) = select(figures, "surprisal", task="variable_misuse")
    yield (
        f"Qwen2.5-Coder prefers a function to the same with another variable in "
        f"{percent(answer['score'])} (n = {answer['size']})."
    )
    yield f"That is {compare_with_control(answer)}."


def choose_probe(answers: Sequence[Figures]) -> Figures:
    """Return the answer with the highest gain, of those above their baseline if there are any."""
    return max(answers, key=lambda row: (row["verdict"] == ABOVE, row["gain"].get("value", -1.0)))


def describe_probes(figures: Figures) -> Iterator[str]:
    """Yield what the run of probes teaches."""
    answers = select(figures, "probe")
    models = list(dict.fromkeys(answer["model"] for answer in answers))
    parts: list[str] = []
    for model in models:
        rows = [answer for answer in answers if answer["model"] == model]
        above = sum(answer["verdict"] == ABOVE for answer in rows)
        parts.append(f"{shorten_model(model)} in {above} of {plural(len(rows), 'task')}")
    yield f"Probes beat their best baseline: {join_names(parts)}."
    best = choose_probe(answers)
    subject = "The highest mean gain" if best["verdict"] == ABOVE else "No gain is shown; the highest mean"
    yield (
        f"{subject} is on `{best['task']}`: layer {best['layer']} of {shorten_model(best['model'])} "
        f"is right in {percent(best['score'])} (n = {best['size']})."
    )
    yield f"That is {compare_with_control(best)}; paired difference: {points(best['gain'])}."
    for row in figures["differences"]:
        if row["metric"] == "accuracy":
            outcome = describe_outcome(row, "points", 100, 1)
            yield f"Compared with MPNet, MiniLM {outcome} on `{row['task']}`."


def describe_own_labels(figures: Figures) -> Iterator[str]:
    """Yield what the run on labels from a CSV teaches."""
    answer = select(figures, "probe")[0]
    yield (
        f"A probe of MiniLM gets the label of {percent(answer['score'])} of functions right "
        f"(n = {answer['size']}, layer {answer['layer']})."
    )
    gain = points(answer["gain"])
    yield f"That is {compare_with_control(answer)}; paired difference: {gain}."
    if answer["verdict"] == ABOVE:
        yield "So its states tell more about the label than the surface of the code does."
    elif answer["verdict"] == OPEN:
        yield "The table is too small for a verdict."
    else:
        yield "So this table does not show that its states tell more than the surface of the code."


def describe_eight_bit(figures: Figures) -> Iterator[str]:
    """Yield what the run of rounded weights teaches."""
    row, counts = figures["differences"][0], figures["outcomes"][0]
    change = describe_outcome(row, "bits per subword", digits=4)
    yield f"In 8 bits, the bundled decoder {change}; n = {count(row['n'])} subwords."
    yield (
        f"Of {plural(counts['compared'], 'number')}, {counts['worse']:,} got worse and {counts['better']:,} "
        f"better by an amount that matters; {counts['slight']:,} moved by less than that."
    )
    yield (
        f"{counts['alike']:,} show no difference that matters, {counts['undecided']:,} leave it open, and "
        f"{counts['no_verdict']:,} rest on too little data for a verdict."
    )


DESCRIBE: Mapping[str, Callable[[Figures], Iterator[str]]] = {
    "eight-bit": describe_eight_bit,
    "own-labels": describe_own_labels,
    "probes": describe_probes,
    "models": describe_models,
    "heads-and-pairs": describe_heads_and_pairs,
    "languages": describe_languages,
}


def render_page() -> str:
    """Return the overview, with a line for each run, made or not."""
    results, recipes = load_results(), load_recipes()
    made = [name for name in DESCRIBE if name in results]
    rows = [
        (
            f"[{recipes[name]['title']}](gallery/{name}.md)",
            next(describe(results[name])),
            duration(results[name]["seconds"]),
        )
        if name in results
        else (recipes[name]["title"], "not made yet", "")
        for name, describe in DESCRIBE.items()
    ]
    time = duration(sum(results[name]["seconds"] for name in made))
    head = _HEAD.format(made=len(made), all=len(DESCRIBE), time=time)
    return f"{head}{format_table(['run', 'first finding', 'last call'], rows)}\n"


def shorten_terminal(lines: Sequence[str]) -> list[str]:
    """Return the answers, the differences between models and the meaning of marks, with ``...`` for the rest.

    Args:
        lines: What a finished run prints, in blocks between empty lines.
    """
    blocks = [list(block) for filled, block in itertools.groupby(lines, bool) if filled]
    parts: list[str] = []
    for number, block in enumerate(blocks):
        kept = number == 0 or block[0].startswith(("Compared with ", "Too little data for a verdict: "))
        part = "\n".join(block) if kept else "..."
        if parts[-1:] != [part]:
            parts.append(part)
    return "\n\n".join(parts).splitlines()


def render_run(name: str) -> str:
    """Return the page of a run: the command, what a reader learns, charts and a link to the report."""
    recipe, figures = load_recipes()[name], load_results()[name]
    sentences = "\n".join(f"- {sentence}" for sentence in DESCRIBE[name](figures))
    summaries = {header.name: header.summary for header in PLOTS.headers()}
    charts = "\n\n".join(f"![{summaries[plot]}]({name}-{plot}.svg)" for plot in recipe["plots"])
    note = f"\n{recipe['note']}\n" if "note" in recipe else ""
    terminal = shorten_terminal(figures["terminal"])
    shortened = ", shortened" if "..." in terminal else ""
    command = re.sub(r" (?=-[a-z] |--)", " \\\n  ", f"{recipe['command']} -o runs/gallery/{name}")
    return f"""\
# {recipe["title"]}

```sh
{command}
```

{sentences}
{note}
{charts}

The terminal prints{shortened}:

```
{chr(10).join(terminal)}
```

The last call took {duration(figures["seconds"])}, with sonde {figures["version"]}.
<a href="{name}-report.html">The report</a> is one file that needs no network;
`make gallery docs` puts it into the site.
"""


def example_surprisal(results: Mapping[str, Figures]) -> str:
    """Return an example of an answer about surprisal."""
    answers = sorted(select(results["models"], "surprisal", task=""), key=lambda row: row["score"]["value"])
    low, high = answers[0], answers[-1]
    return (
        f"{shorten_model(low['model'])} needs {with_interval(low['score'])} bits per byte, "
        f"{shorten_model(high['model'])} {with_interval(high['score'])} (n = {low['size']})"
    )


def example_pairs(results: Mapping[str, Figures]) -> str:
    """Return an example of an answer about minimal pairs."""
    (answer,) = select(results["heads-and-pairs"], "surprisal", task="variable_misuse")
    return (
        f"Qwen2.5-Coder prefers the right variable in {percent(answer['score'])} of the pairs; that is "
        f"{compare_with_control(answer)} (n = {answer['size']})"
    )


def example_probe(results: Mapping[str, Figures]) -> str:
    """Return an example of an answer about probes."""
    answer = choose_probe(select(results["probes"], "probe"))
    return (
        f"`{answer['task']}` in layer {answer['layer']} of {shorten_model(answer['model'])}: "
        f"{percent(answer['score'])} right; that is {compare_with_control(answer)}; paired difference: "
        f"{points(answer['gain'])} (n = {answer['size']})"
    )


def example_attention(results: Mapping[str, Figures]) -> str:
    """Return an example of an answer about heads."""
    (answer,) = select(results["heads-and-pairs"], "attention")
    return (
        f"Heads of Qwen2.5-Coder find {percent(answer['score'])}; that is {compare_with_control(answer)} "
        f"(n = {answer['size']})"
    )


def example_compare(results: Mapping[str, Figures]) -> str:
    """Return an example of an answer about two models."""
    row = results["eight-bit"]["differences"][0]
    change = describe_outcome(row, "bits per subword", digits=4)
    return f"The bundled decoder in 8 bits {change}; n = {count(row['n'])} subwords"


EXAMPLES: Mapping[str, tuple[str, Callable[[Mapping[str, Figures]], str]]] = {
    "surprisal": ("models", example_surprisal),
    "surprisal, minimal pairs": ("heads-and-pairs", example_pairs),
    "probe": ("probes", example_probe),
    "attention": ("heads-and-pairs", example_attention),
    "compare": ("eight-bit", example_compare),
}
"""Run and example of an answer, by row of README's table."""

QUESTIONS = {
    "surprisal": "Which code does a model find improbable?",
    "surprisal, minimal pairs": "Does it prefer correct code to the same code with a fault?",
    "probe": "Which properties are encoded, and in which layer?",
    "attention": "Which heads follow syntactic relations?",
    "cloze": "Which API names does it complete?",
    "prompting": "Which API names does it list if prompted in words?",
    "fidelity": "What do quantised weights change, and where?",
    "finetune": "What does it learn from labels, compared with training from scratch?",
    "causal": "Does it use what it encodes?",
    "compare": "What changed between two models?",
}
"""Questions of README's table, by lens or command."""

GUIDES = {
    "surprisal": "docs/tutorial.md",
    "surprisal, minimal pairs": "docs/minimal-pairs.md",
    "probe": "docs/tasks.md",
    "attention": "docs/notebooks/attention.ipynb",
    "cloze": "docs/notebooks/cloze.ipynb",
    "prompting": "docs/notebooks/prompting.ipynb",
    "fidelity": "docs/comparing.md",
    "finetune": "docs/finetuning.md",
    "causal": "docs/causal.md",
    "compare": "docs/comparing.md",
}
"""Pages of README's table, for rows without an example."""


def render_readme() -> str:
    """Return README with its output of commands and its table of lenses, from the stored figures."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, render in README_BLOCKS.items():
        begin = f"<!-- gallery: {name} -->\n"
        head, _, rest = text.partition(begin)
        _, end, tail = rest.partition("<!-- end -->\n")
        text = f"{head}{begin}{render()}\n{end}{tail}"
    return text


def render_show() -> str:
    """Return the command that shows a function, with the beginning of what it prints."""
    figures = load_results()["show"]
    lines = figures["terminal"].splitlines()
    start = lines.index("Least expected subwords:")
    lines = [lines[0], "...", *lines[start : start + 4], "  ..."]
    return "\n".join(["```console", f"$ {load_recipes()['show']['command']}", *lines, "```"])


def render_python() -> str:
    """Return lines of Python with what they print, as comments."""
    code, output = load_recipes()["python"]["code"], load_results()["python"]["terminal"]
    return "\n".join(["```python", code.strip(), *(f"# {line}" for line in output.splitlines()), "```"])


def render_lenses() -> str:
    """Return a table of lenses: question, and an example of an answer from the gallery."""
    results = load_results()
    rows: list[tuple[str, str, str]] = []
    for name, question in QUESTIONS.items():
        run, example = EXAMPLES.get(name, ("", None))
        if example is not None and run in results:
            answer = f"{example(results)} ([run](docs/gallery/{run}.md))"
        else:
            answer = f"[guide]({GUIDES[name]})"
        # Comparing is a command, all others are lenses with a page of their own.
        page = GUIDES[name] if name == "compare" else f"docs/lenses/{name.partition(',')[0]}.md"
        rows.append((f"`{name}`", f"[{question}]({page})", answer))
    return format_table(["lens", "question", "example of an answer"], rows)


README_BLOCKS = {"show": render_show, "python": render_python, "lenses": render_lenses}
"""Blocks of README, by the name in their first line."""

PAGES: Mapping[str, Callable[[], str]] = {
    f"gallery/{name}.md": partial(render_run, name) for name in load_results() if name in DESCRIBE
}
"""The pages of the runs that were made."""
