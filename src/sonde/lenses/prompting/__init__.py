"""Asks a model in words to list API names, and scores its answers (INK, the generative variant).

The lens prompts any decoder of transformers, in its chat template if it has one, or any server that speaks
OpenAI's protocol (``openai:NAME`` with the option ``base_url``). The instruction is that of INK's generative
variant.

Each reply is parsed in two ways: as published, and leniently, so that lists in the style of chat models
count. Replies are stored as they arrive, so that a killed run resumes after the last one.

The scores are P@k and MRR of the listed answers, and the shares of replies that were refusals or short.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import StoreError
from sonde.base.formatting import plural
from sonde.base.options import Count, option
from sonde.languages import format_language
from sonde.lenses.engine.lens import (
    LensSettings,
    Method,
    ScoringContext,
    ServerOptions,
    Training,
    TrainingLens,
)
from sonde.models import Capabilities, ModelSpec
from sonde.models.engine.external import Reply, get_server
from sonde.models.engine.files import uses_server
from sonde.results import Mean, means
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import Columns, has_dimensions, to_schema
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score, split_by_model
from sonde.results.text_format import SHARE, verdict_mark
from sonde.tasks.engine.cloze_options import PromptOptions

MASK = "<mask>"


ANSWERS = 20
"""Answers asked for."""


INSTRUCTION = (
    f"Predict top-{ANSWERS} answers of {MASK} part of the following Python API fully qualified name, pay "
    f"attention to the connected characters right after {MASK}. Note the number of masked characters is at "
    f"least one. Print each of {ANSWERS} answers per line with index"
)
"""As published (INK, section 4.5)."""


def build_prompt(language: str, prefix: str, suffix: str) -> str:
    """Build the prompt: instruction (the published one names Python), and statement with the mask.

    >>> build_prompt("java", "a.", "(")[33:61]
    'part of the following Java A'
    """
    return f"{INSTRUCTION.replace('Python', format_language(language))}\n{prefix}{MASK}{suffix}"


_INDEX_LINE = re.compile(r"^\s*\d+[.):]?\s*(?P<answer>.*?)\s*$")


_QUOTES = "`'\"“”‘’*"


_THOUGHTS = re.compile(r"^\s*<think(?:ing)?>(?P<thinking>.*?)(?:</think(?:ing)?>|\Z)", re.DOTALL)


_ENTRY = re.compile(r"^\s*(?:\d+\s*[.):\]]|\d+\s+|[-*+•–]\s)\s*(?P<answer>.+?)\s*$")


_RULE = re.compile(r"^[\s|:+-]*$")


_QUOTATION = re.compile(r"`+([^`]+)`+|\*\*([^*]+)\*\*")


_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


_LEFT_CONTEXT, _RIGHT_CONTEXT = re.compile(r"[\w.]*$"), re.compile(r"[\w.]*")


_REFUSAL = re.compile(
    r"\b(?:I(?:'m| am) (?:sorry|unable|not able)|I (?:can(?:no|')?t|cannot|won't|will not|do not|don't)"
    r"|as an AI\b|(?:can(?:no|')t|cannot) (?:help|assist|comply|provide))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedAnswers:
    """Answers read from a reply.

    Attributes:
        strict: Distinct answers of lines with an index, in their order, at most `ANSWERS`: the published way.
        lenient: Distinct names of numbered and bulleted lines, of table rows and of lines that hold a name
            alone; of a whole name (``np.zeros`` for ``np.<mask>``) the part that was left out.
        thinking: What stands before the reply between ``<think>`` and ``</think>``, which no answer is read
            of.
        refused: Whether it lists nothing either way and says that it will not, or cannot.
    """

    strict: tuple[str, ...]
    lenient: tuple[str, ...]
    thinking: str
    refused: bool


def parse_reply(reply: str, prefix: str = "", suffix: str = "") -> ListedAnswers:
    r"""Read a reply both ways.

    Args:
        reply: The reply, with what the model thinks before it if that is part of it.
        prefix: What stands before the part that was left out.
        suffix: The text after it.

    >>> parse_reply("Sure!\n1. `zeros`\n2) 'ones'\n3: zeros\n\nI hope this helps.").strict
    ('zeros', 'ones')
    >>> parse_reply("- **zeros**: an array of zeros\n- `np.ones()`", prefix="np.").lenient
    ('zeros', 'ones')
    >>> parse_reply("| # | name |\n|---|---|\n| 1 | `zeros(shape)` |").lenient
    ('zeros',)
    >>> parse_reply("I'm sorry, I cannot help with that.").refused
    True
    """
    match = _THOUGHTS.match(reply)
    text = reply[match.end() :] if match else reply
    strict = _first(_iterate_indexed_lines(text))
    lenient = _first(filter(None, (_strip_context(name, prefix, suffix) for name in _names(text))))
    is_refusal = not strict and not lenient and _REFUSAL.search(text) is not None
    return ListedAnswers(
        strict=strict,
        lenient=lenient,
        thinking=match["thinking"].strip() if match else "",
        refused=is_refusal,
    )


def _first(answers: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(answers))[:ANSWERS]


def _iterate_indexed_lines(text: str) -> Iterator[str]:
    """Yield the lines with an index, without quotes and backticks."""
    for line in text.splitlines():
        match = _INDEX_LINE.match(line)
        if match is not None and (answer := match["answer"].strip(_QUOTES).strip()):
            yield answer


def _names(text: str) -> Iterator[str]:
    """Names, one a line; of lines of prose none."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        row = line.strip()
        if row.startswith("|") and row.count("|") > 1:
            # The row above the rule of a table is its heading.
            heading = index + 1 < len(lines) and "-" in lines[index + 1] and _RULE.match(lines[index + 1])
            cells = [] if heading or _RULE.match(row) else row.strip("|").split("|")
            names = (_name(cell) for cell in cells if not cell.strip().rstrip(".").isdigit())
            yield from [name for name in names if name][:1]
        elif entry := _ENTRY.match(line):
            if name := _name(entry["answer"]):
                yield name
        elif _NAME.fullmatch(stripped_name := row.strip(_QUOTES + ",;").removesuffix("()").strip(_QUOTES)):
            yield stripped_name


def _name(entry: str) -> str:
    """Return the name that an entry of a list begins with: what is quoted first, else its first word."""
    quotation = _QUOTATION.search(entry)
    text = (quotation[1] or quotation[2]) if quotation else entry
    match = _NAME.match(text.strip().strip(_QUOTES).lstrip("."))
    return match[0] if match else ""


def _strip_context(name: str, prefix: str, suffix: str) -> str:
    """Strip from a name what repeats the text around the mask.

    >>> _strip_context("np.zeros_like", "np.zeros", "(")
    '_like'
    >>> _strip_context("numpy.zeros", "np.", "(")
    'zeros'
    """
    left, right = _LEFT_CONTEXT.search(prefix), _RIGHT_CONTEXT.match(suffix)
    if left and left[0] and name.startswith(left[0]):
        name = name.removeprefix(left[0])
    elif left and left[0].endswith("."):
        name = name.rpartition(".")[2]
    return name.removesuffix(right[0]) if right and name != right[0] else name


Replies = Callable[[Sequence[str]], Iterable[tuple[str, Reply | None]]]
"""From prompts to each with what is replied, in any order; None where the model could not be asked."""


ROWS_COLUMNS: Columns = {
    "query_id": (pl.String, "the query"),
    "item_id": (pl.String, "the text of the query"),
    "rank": (
        pl.Int32,
        "position of the right answer in the list, parsed as published; null if it is missing",
    ),
    "listed": (pl.Int32, "number of distinct answers, parsed as published, at most 20"),
    "top": (pl.List(pl.String), "these answers, in order"),
    "rank_lenient": (pl.Int32, "as `rank`, parsed leniently: bullets, tables, quoted names and calls too"),
    "listed_lenient": (pl.Int32, "as `listed`, parsed leniently"),
    "top_lenient": (pl.List(pl.String), "as `top`, parsed leniently"),
    "refused": (
        pl.Boolean,
        "whether the model refused: the reply is a refusal without a list, or the server reports one",
    ),
    "unread": (pl.Boolean, "whether no answer was found in the reply either way, without a refusal"),
    "cut": (pl.Boolean, "whether the reply ends at the token limit; null if the server does not report it"),
    "short": (pl.Boolean, "whether fewer than 20 answers were found, parsed as published"),
    "asked": (pl.Boolean, "whether the prompt fitted into the model"),
    "reply": (pl.String, "the raw reply"),
    "thinking": (pl.String, "the model's reasoning before the reply, which is not parsed for answers"),
    "read_tokens": (pl.Int32, "tokens of the prompt, as the server counts them; null if it does not"),
    "written_tokens": (pl.Int32, "tokens of the reply, reasoning included, likewise"),
}
"""Columns of the prompting lens's item table, one row a query."""


ROWS_SCHEMA = to_schema(ROWS_COLUMNS)


def collect_answers(examples: pl.DataFrame, replies: Replies, folder: Path) -> pl.DataFrame:
    """Build a row per query in `ROWS_SCHEMA`; each distinct prompt is asked once.

    Args:
        examples: Queries in `sonde.tasks.engine.cloze_queries.QUERY_SCHEMA`.
        replies: Asks the model.
        folder: Where replies are kept.

    Raises:
        StoreError: They cannot be kept.
    """
    queries = examples.to_dicts()
    prompts = [build_prompt(row["language"], row["prefix"], row["suffix"]) for row in queries]
    path = folder / "replies.jsonl"
    answers = _read_replies(path)
    missing = [prompt for prompt in dict.fromkeys(prompts) if prompt not in answers]
    for prompt, reply in replies(missing):
        answers[prompt] = reply
        _append_reply(path, prompt, reply)
    rows = [_row(row, answers[prompt]) for row, prompt in zip(queries, prompts, strict=True)]
    return pl.DataFrame(rows, schema=dict(ROWS_SCHEMA), orient="row")


def _row(query: Mapping[str, Any], reply: Reply | None) -> dict[str, Any]:
    answers = parse_reply(reply.text if reply else "", query["prefix"], query["suffix"])
    is_refusal = answers.refused or (reply is not None and reply.refused)
    return {
        "query_id": query["query_id"],
        "item_id": query["item_id"],
        "rank": _find_rank(query["answer"], answers.strict),
        "listed": len(answers.strict),
        "top": list(answers.strict),
        "rank_lenient": _find_rank(query["answer"], answers.lenient),
        "listed_lenient": len(answers.lenient),
        "top_lenient": list(answers.lenient),
        "refused": is_refusal,
        "unread": reply is not None and not (is_refusal or answers.strict or answers.lenient),
        "cut": reply.cut if reply else None,
        "short": len(answers.strict) < ANSWERS,
        "asked": reply is not None,
        "reply": reply.text if reply else None,
        "thinking": (reply.thinking or answers.thinking if reply else "") or None,
        "read_tokens": (reply.read if reply else 0) or None,
        "written_tokens": (reply.written if reply else 0) or None,
    }


def _find_rank(answer: str, names: Sequence[str]) -> int | None:
    return names.index(answer) + 1 if answer in names else None


def _read_replies(path: Path) -> dict[str, Reply | None]:
    """Read a file of replies by prompt, one per line, and remove a last line that is incomplete."""
    *lines, cut_line = path.read_text(encoding="utf-8").split("\n") if path.is_file() else [""]
    if cut_line:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    entries = map(json.loads, lines)
    return {prompt: Reply(**reply) if reply else None for prompt, reply in entries}


def _append_reply(path: Path, prompt: str, reply: Reply | None) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps([prompt, dataclasses.asdict(reply) if reply else None]) + "\n")
    except OSError as error:
        raise StoreError(f"{path}: replies cannot be kept: {error.strerror}") from error


class PromptingOptions(PromptOptions, ServerOptions):
    """The options of the lens, in addition to those of its task."""

    lens = "prompting"

    tokens: Count = option(256, "maximum tokens per reply")


KS = (1, 5, 10, 20)


GENERATIVE, LENIENT = "generative", "generative_lenient"
"""Lists parsed as published and leniently: their ranks share no table with those of masks or statements."""


def _table(frame: pl.DataFrame, template: Score, by: str | tuple[()] = ()) -> Iterator[Score]:
    strict = [
        Mean("share_refused", pl.col("refused") & pl.col("asked")),
        Mean("share_unread", pl.col("unread")),
        Mean("share_cut", pl.col("cut").fill_null(value=False)),
        Mean("share_short", pl.col("short") & ~pl.col("refused") & ~pl.col("unread")),
        Mean("share_too_long", ~pl.col("asked")),
    ]
    metrics = [
        *(Mean("p_at_k", (pl.col("rank") <= k).fill_null(value=False), fields={"k": k}) for k in KS),
        Mean("mrr", (1.0 / pl.col("rank")).fill_null(0.0), "unit"),
        *(strict if template.matching == GENERATIVE else ()),
        Mean("listed", pl.col("listed"), "nonnegative"),
    ]
    return means(frame, metrics, template, by=by, cluster="library")


NEEDS = ("decoder", "endpoint")

SYNONYMS = ("generation", "prompts", "chat")


TASK = "api_prompts"


class PromptingLens(TrainingLens):
    """The prompting lens."""

    name = "prompting"
    version = "3"
    typed_options = PromptingOptions
    tasks = (TASK,)
    uses_datasets = True
    headline = HeadlineMetric(
        subject="Names listed in answer to prompts",
        measure="names right at the first try",
        metrics=("p_at_k",),
        where=has_dimensions({}) & (pl.col("k") == 1) & (pl.col("matching") == GENERATIVE),
    )
    comparable_metrics = (ComparableMetric(metric="p_at_k", direction="higher", k=1),)

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return why a model cannot be asked: it writes no text."""
        if capabilities.kind in ("decoder", "endpoint"):
            if not capabilities.lacks:
                return None
            return (
                f"lens 'prompting' needs a model that generates text, but this one has {capabilities.lacks}; "
                f"use another, for example sonde/mini-decoder"
            )
        return (
            f"lens 'prompting' needs a model that generates text, but this is an {capabilities.kind}; use a "
            f"decoder, for example sonde/mini-decoder, or the lens cloze"
        )

    def methods(self, tasks: Sequence[str], settings: LensSettings) -> tuple[Method, ...]:
        """Return one method per task: nothing is trained, but replies are kept."""
        return tuple(Method(name="prompted", task=task, seed=settings.seed) for task in tasks)

    def train(self, method: Method, training: Training) -> pl.DataFrame:
        """Ask the model; see `sonde.lenses.prompting.collect_answers` for the rows.

        Raises:
            UsageError: An option makes no sense.
            SondeError: The model cannot be asked.
        """
        options = PromptingOptions.read({**training.unkeyed, **training.settings.options})
        open_replies = _server if uses_server(training.model) else _writer
        return collect_answers(training.examples, open_replies(training.model, options), training.folder)

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Score P@k, MRR and shares of refusals and short lists, each with its interval.

        A refusal and a prompt that does not fit count as wrong.
        """
        rows = scoring.observations.collect().drop("item_id", "task", "seed", "method", strict=False)
        strict = scoring.labels[TASK].join(rows, on="query_id", how="inner", maintain_order="left")
        lenient = strict.with_columns(rank="rank_lenient", listed="listed_lenient")
        scores: list[Score] = []
        for frame, match_kind in ((strict, GENERATIVE), (lenient, LENIENT)):
            base = dataclasses.replace(scoring.template, task=TASK, matching=match_kind)
            scores += _table(frame.filter(pl.col("template").is_in(["call", "import"])), base)
            for template in frame["template"].unique(maintain_order=True).to_list():
                part = frame.filter(pl.col("template") == template)
                template_scores = base.within(("template", template))
                scores += _table(part, template_scores)
                scores += _table(part, template_scores, by="mode")
        return scores

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """Yield how often each model lists the right answer, and how often it lists none."""
        for model, language, rows in split_by_model(scores.filter(has_dimensions({}))):
            found = {(row["matching"], row["metric"], row["k"]): row for row in rows.iter_rows(named=True)}
            first, listed = found[GENERATIVE, "p_at_k", 1], found[GENERATIVE, "p_at_k", 20]
            lenient = found[LENIENT, "p_at_k", 20]
            size = f"{plural(first['n'], 'query')}, {plural(first['n_clusters'], 'library')}"
            refused, unread = (found[GENERATIVE, name, None] for name in ("share_refused", "share_unread"))
            yield ""
            yield (
                f"{model} lists names of {format_language(language)} APIs: top-1 accuracy "
                f"{SHARE.estimate(first)}, among 20 {SHARE.estimate(listed)} ({SHARE.estimate(lenient)} "
                f"parsed leniently); refused {SHARE.estimate(refused)}, unparsable {SHARE.estimate(unread)} "
                f"(n = {size}){verdict_mark(first)}"
            )


def _server(spec: ModelSpec, options: PromptingOptions) -> Replies:
    """Open a model on a server, several prompts at a time."""
    server = get_server(spec.name, options.server)

    def replies(prompts: Sequence[str]) -> Iterator[tuple[str, Reply]]:
        return server.ask_all(lambda prompt: server.chat(prompt, options.tokens), prompts)

    return replies


def _writer(spec: ModelSpec, options: PromptingOptions) -> Replies:
    """Open a model of this machine; without a chat template it continues the first index."""
    from sonde.capture.generate import generate_continuations, has_chat_template
    from sonde.models import load_model

    model = load_model(spec)
    chat = has_chat_template(model)
    reply_start = "" if chat else "1."

    def replies(prompts: Sequence[str]) -> Iterator[tuple[str, Reply | None]]:
        prompt_by_text = {prompt if chat else f"{prompt}\n{reply_start}": prompt for prompt in prompts}
        for prompt, text in generate_continuations(model, list(prompt_by_text), options.tokens, chat=chat):
            yield prompt_by_text[prompt], None if text is None else Reply(text=reply_start + text)

    return replies


lens = PromptingLens()
