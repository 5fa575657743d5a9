"""The card of a fine-tuned model: what it was trained on, how often it is right, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sonde.base.files import write_atomic
from sonde.lenses.finetune.data import EXAMPLE, TEST
from sonde.results import mean_rows
from sonde.results.scores import Score
from sonde.results.text_format import format_score

if TYPE_CHECKING:
    from sonde.training.finetune.data import TaskData
    from sonde.training.finetune.tune import FinetuneResult

NAME = "README.md"

_OWN = """\
It is a classifier of transformers:

```python
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model = AutoModelForSequenceClassification.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
```

or, with whatever stands before a text put there as in training:
"""


def write_card(tuned: FinetuneResult, rows: pl.DataFrame, data: TaskData, about: Mapping[str, Any]) -> None:
    """Write the card into the folder of a model.

    Args:
        tuned: The training.
        rows: Its item table.
        data: What it was trained on.
        about: Task, language, base model, method and seed.
    """
    write_atomic(Path(tuned.folder) / NAME, render_card(tuned, rows, data, about))


def render_card(tuned: FinetuneResult, rows: pl.DataFrame, data: TaskData, about: Mapping[str, Any]) -> str:
    """The card as Markdown; see `write_card`."""
    setting, kind = tuned.setting, tuned.head
    tried = ", ".join(
        f"rate {one.rate:g} x batch {one.batch} x {one.epochs} epochs"
        for one in sorted(tuned.courses, key=str)
    )
    classes = "\n".join(f"- `{name}`" for name in data.classes)
    own = _OWN if kind == "OwnHead" else ""
    return f"""\
---
library_name: {"transformers" if own else "sonde"}
pipeline_tag: text-classification
base_model: {about["base"]}
tags: [code, {about["task"]}]
---

# {about["task"]} ({about["language"]}), {about["method"]} from {about["base"]}

Trained by sonde's lens `finetune`, method `{about["method"]}`, seed {about["seed"]}; its head is a `{kind}`.

## Classes

{classes}

## Training and test

- Examples: {len(data.train):,} to learn from, {len(data.valid):,} to choose on, {len(data.test):,} to test.
- Tried: {tried}.
- Chosen on validation: rate {setting.rate:g}, batch {setting.batch}, epoch {tuned.epoch} of \
{setting.epochs}; {100 * tuned.valid.share:.1f} % right there.
- Test: {_describe_test(rows)}.

One training from one seed: another seed may give another model. The examples are those of the task, in which
bugs are put in by rule; how often it is right on bugs that people made is not in these numbers.

## Use

{own}
```python
import sonde

model = sonde.FineTuned.from_pretrained("FOLDER")
model.tell(["def f(a, b):\\n    return a"])
```

`sonde predict FOLDER FILE... --format sarif` says of each function of a file what it says; every lens that
needs states reads the folder as a model (`sonde run -m FOLDER -l probe`).
"""


def _describe_test(rows: pl.DataFrame) -> str:
    tested = rows.filter((pl.col("kind") == EXAMPLE) & (pl.col("split") == TEST))
    if tested.is_empty():
        return "not tested"
    template = Score(model="", lens="", metric="accuracy", value=0.0, n=0, n_clusters=0)
    clusters = tested["cluster"].rank("dense").to_numpy() - 1
    (score,) = mean_rows(template, tested["correct"].to_numpy()[None], clusters)
    row = {name: getattr(score, name) for name in ("value", "ci_low", "ci_high")}
    said = f"{format_score(row, 100)} % right of {score.n:,} examples"
    return f"{said} in {score.n_clusters} clusters (95 % interval over clusters)"
