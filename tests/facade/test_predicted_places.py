"""What probes say of places in new functions, held to scikit-learn on the states of the run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sonde
from sonde.api.predictions import FORMS
from sonde.base.errors import UsageError
from sonde.corpora import Item
from sonde.languages.engine.tagging import KTX_CLASSES
from sonde.results.layers import summarise_layers
from sonde.tasks.engine.task import TASKS
from tests.facade.test_own_labels import L2, regression

CODE = """def area(shape, scale=1):
    total = 0
    for part in shape.parts:
        if part.kind == "square" and not part.hole:
            total += part.side ** 2
    return total * scale
"""


@pytest.fixture(scope="module")
def probed(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> sonde.Run:
    """Probes of tokens and of pairs of tokens in a few functions of the standard library."""
    return sonde.run(
        models=encoder,
        lenses="probe",
        tasks=("ktx", "next_use"),
        corpora="stdlib",
        limit=60,
        output=tmp_path_factory.mktemp("runs") / "places",
        options={"probe": {"controls": False, "curves": False, "l2": str(L2)}},
        include_seen=True,
        workers=1,
    )


@pytest.fixture(scope="module")
def texts(probed: sonde.Run) -> dict[str, str]:
    return dict(probed.items.select("item_id", "text").collect().iter_rows())


@pytest.mark.slow
@pytest.mark.parametrize("task", ["ktx", "next_use"])
def test_a_place_gets_what_the_probes_of_all_folds_say(
    probed: sonde.Run, texts: dict[str, str], task: str, tmp_path: Path
) -> None:
    states = probed.states(task, 1)
    labels, fold = (states.examples[name].to_numpy() for name in ("label", "fold"))
    number = int(fold.max()) + 1
    models = [
        regression(states.values, labels, (fold != tested) & (fold != (tested + 1) % number), L2)
        for tested in range(number)
    ]
    checked = 0
    for place, row in enumerate(states.examples.head(12).iter_rows(named=True)):
        text = texts.get(row["item_id"], "")
        if not text.startswith("def "):
            continue
        path = tmp_path / f"{place}.py"
        path.write_text(text, encoding="utf-8")
        found = probed.predict(path, task=task, layer=1)
        line = 1 + text.count("\n", 0, row["start"])
        column = row["start"] - text.rfind("\n", 0, row["start"])
        ends = [(row["start"], row["end"])]
        if row["other_start"] is not None:
            ends.append((row["other_start"], row["other_end"]))
        shown = " ... ".join(text[start:end] for start, end in ends)
        (one,) = {
            (own.line, own.column, own.text): own
            for own in found.functions
            if (own.line, own.column, own.text) == (line, column, shown)
        }.values() or [None]
        if one is None:
            # A file of its own may end elsewhere than the item.
            continue
        assert one.right == row["label"]
        chances = dict.fromkeys(one.chances, 0.0)
        for scaler, model in models:
            said = model.predict_proba(scaler.transform(states.values[[place]]))[0]
            for name, chance in zip(model.classes_.tolist(), said.tolist(), strict=True):
                chances[name] += chance / number
        np.testing.assert_allclose(
            [one.chances[name] for name in chances], [*chances.values()], atol=0.02, err_msg=shown
        )
        checked += 1
    assert checked >= 5


@pytest.mark.slow
def test_every_place_of_a_new_function_is_predicted(probed: sonde.Run, tmp_path: Path) -> None:
    path = tmp_path / "area.py"
    path.write_text(f"import math\n\n\n{CODE}\n\n{CODE.replace('area', 'other')}", encoding="utf-8")
    found = probed.predict(path, task="ktx")
    labelled = TASKS.load("ktx").label([Item("i", CODE, "python", "function")], {})["i"]
    of_first = [one for one in found.functions if one.name == "area"]
    assert [one.right for one in of_first] == labelled["label"].to_list()
    assert {one.label for one in found.functions} <= set(KTX_CLASSES)
    assert [(one.text, one.line) for one in of_first if one.right == "KFC"][:2] == [("for", 6), ("in", 6)]
    assert (of_first[0].text, of_first[0].line, of_first[0].column) == ("def", 4, 1)
    text = FORMS["text"](found)
    right = sum(one.label == one.right for one in found.functions)
    assert f"in these files: right in {right:,} of {2 * len(of_first):,} places" in text
    (account,) = [one for one in summarise_layers(probed.scores) if one.key[1] == "ktx"]
    (probe,) = found.probes
    assert probe.encoded == account.describe() and f"; {probe.encoded}" in text
    assert '"right": "KFC"' in FORMS["json"](found) and '"snippet"' in FORMS["sarif"](found)


@pytest.mark.slow
def test_functions_without_a_place_are_named(probed: sonde.Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n", encoding="utf-8")
    (tmp_path / "b.py").write_text(CODE, encoding="utf-8")
    found = probed.predict([tmp_path / "a.py", tmp_path / "b.py"], task="ktx")
    assert any("task 'ktx' finds nothing in it" in line for line in found.skipped)


def test_places_that_only_a_table_knows_are_refused(
    encoder: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = tmp_path / "spans.jsonl"
    rows = [
        f'{{"id": {n}, "code": "def f{n}(a):\\n    return {"a" if n % 2 else "[a]"}\\n", '
        f'"start": 4, "end": 6, "label": "{"one" if n % 2 else "many"}", "group": "{n}"}}'
        for n in range(60)
    ]
    table.write_text("\n".join(rows), encoding="utf-8")
    run = sonde.run(
        models=encoder,
        lenses="probe",
        corpora=f"labelled:{table}?start=start&end=end&group=group",
        output=tmp_path / "run",
        options={"probe": {"controls": False, "curves": False}},
        workers=1,
    )
    (tmp_path / "b.py").write_text(CODE, encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be found from the code"):
        run.predict(tmp_path / "b.py")
