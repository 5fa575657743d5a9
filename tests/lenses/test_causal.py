"""The lens `causal` on a model of which is known what decides its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.lenses.planted import (
    BOS,
    HELD,
    ORDER,
    UNITS,
    USED,
    Kind,
    Ran,
    edges_of,
    first_letters_of,
    labels_of,
    loss_at_answers,
    orders_of,
    planted,
    run_lens,
    some_items,
)

from sonde.base.errors import UnknownNameError, UsageError
from sonde.capture.requests import Prepared
from sonde.lenses import LENSES, LensSettings
from sonde.lenses.causal import erase_maps
from sonde.lenses.causal.erase_controls import HIT, find_following_heads
from sonde.lenses.causal.findings import collect_erasures, lead_sentences
from sonde.lenses.causal.interventions import FittedIntervention, read_fits, read_options
from sonde.results.schema import REASON
from sonde.results.scores import LEFT_OUT, scores_to_frame

BEST = (("selection", "best"),)


@pytest.fixture(scope="module")
def erased(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    items = some_items(160, "halves")
    folder = tmp_path_factory.mktemp("run")
    return run_lens(planted("halves"), items, labels_of(items), {"methods": ("erase",)}, folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "halves"])
def test_the_model_has_learned_what_was_planted(kind: Kind) -> None:
    assert np.mean(list(loss_at_answers(planted(kind), some_items(160, kind)[:20]))) < 0.02


@pytest.mark.slow
def test_both_properties_are_decoded(erased: Ran) -> None:
    for task in (USED, HELD):
        best = max(
            score.value
            for score in erased.scores
            if (score.task, score.metric, score.control, score.dimensions) == (task, "accuracy", None, ())
        )
        assert best > 0.97
        assert erased.value(task=task, metric="gain", dimensions=BEST).ci_low > 0.3  # type: ignore[operator]


@pytest.mark.slow
def test_only_erasing_the_used_one_raises_the_loss(erased: Ran) -> None:
    """A third of the subwords are answers, of one bit each: 0.33 bits per subword, were all of it lost."""
    used = erased.value(task=USED, metric="bits", control=None, dimensions=BEST)
    assert used.value > 0.25
    for control in ("donors", "control_task", "uniform", "as_wide"):
        beyond = erased.value(task=USED, metric="excess", control=control, dimensions=BEST)
        assert beyond.ci_low is not None and beyond.ci_low > 0.2
        assert beyond.seeds == (20 if control in ("donors", "control_task") else 10)
    for layer in range(3):
        held = erased.value(task=HELD, metric="bits", control=None, split="test", layer=layer, dimensions=())
        assert abs(held.value) < 0.01
    # Where the letter was not fetched yet, there is nothing to erase.
    start = erased.value(task=USED, metric="bits", control=None, split="test", layer=0, dimensions=())
    assert abs(start.value) < 0.01


def test_what_is_left_is_probed_in_functions_that_no_map_was_fitted_to(erased: Ran) -> None:
    """At the layer itself a new probe is nearer to the commonest class than to what it found before."""
    for task in (USED, HELD):
        at = {"task": task, "metric": "accuracy"}
        common = erased.value(**at, control="majority", dimensions=(("erased", "nothing"),))
        functions = erased.rows.filter((pl.col("what") == "mean") & (pl.col("kind") == "leace"))
        splits = {item for item, side in read_fits(erased.settings).splits.items() if side != "train"}
        assert set(functions["item_id"]) == splits
        assert common.n == sum(UNITS for _ in splits)
        for layer in (1, 2):
            before = erased.value(**at, control=None, layer=layer, dimensions=(("erased", "nothing"),))
            after = erased.value(**at, control=None, layer=layer, dimensions=(("erased", str(layer)),))
            assert before.value > 0.97 and after.value < common.value + 0.2


def test_effects_are_by_function_and_their_subwords_add_up(erased: Ran) -> None:
    effects = erased.rows.filter(pl.col("what") == "effect")
    sizes = effects.group_by("item_id", "subject", "kind", "layer").agg(pl.col("n").sum())
    assert sizes["n"].unique().to_list() == [18]
    assert effects["item_id"].n_unique() < len(some_items(160, "halves"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "dimension", "said"),
    [
        (8, 2, "fewer than two classes of "),
        (30, 2, "effective clusters at least, and the training split has 1"),
        # With about as many tokens as dimensions a map erases what only chance ties to the classes.
        (100, 50, "from 32 dimensions is fitted to 1,600 tokens at least, and "),
    ],
)
def test_nothing_is_erased_from_too_little(
    count: int, dimension: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase_maps, "A_DIMENSION", dimension)
    items = some_items(count)
    ran = run_lens(planted(), items, labels_of(items), {"methods": ("erase",)}, tmp_path)
    assert {score.metric for score in ran.scores} == {LEFT_OUT} and len(ran.tables) == 1
    reasons = {score.task: dict(score.dimensions)[REASON] for score in ran.scores}
    assert set(reasons) == {USED, HELD}
    for reason in reasons.values():
        assert said in reason


def carrier() -> tuple[int, int]:
    """The head without which the answers cost the most, found by silencing each with a hook of its own."""
    loaded, items = planted(), some_items(160)[:10]
    cost: dict[tuple[int, int], float] = {}
    for layer in range(2):
        for head in range(4):

            def silence(_: Any, given: tuple[Any, ...], head: int = head) -> tuple[Any, ...]:
                states = given[0].clone()
                states[..., head * 8 : (head + 1) * 8] = 0.0
                return (states, *given[1:])

            hook = loaded.model.model.layers[layer].self_attn.o_proj.register_forward_pre_hook(silence)
            cost[layer, head] = float(np.mean(list(loss_at_answers(loaded, items))))
            hook.remove()
    return max(cost, key=lambda place: cost[place])


@pytest.mark.slow
def test_only_ablating_the_head_that_fetches_raises_the_loss(tmp_path: Path) -> None:
    """Of two relations one is followed by the head that fetches the letter; the other's head is of no use."""
    items = some_items(160)
    labels = {**labels_of(items), "syntax_relations": edges_of(items)}
    ran = run_lens(planted(), items, labels, {"methods": ("ablate",), "draws": 3}, tmp_path)
    used = carrier()
    found: dict[tuple[int | None, int | None], float] = {}
    for relation in ("letter->sign", "answer->letter"):
        at = (("relation", relation), ("where", "elsewhere"))
        effect = ran.value(metric="bits", control=None, dimensions=at)
        found[effect.layer, effect.head] = effect.value
    assert used in found and len(found) == 2
    for head, value in found.items():
        assert value > 0.2 if head == used else abs(value) < 0.01
    together = ran.value(metric="excess", control="random", dimensions=(("relation", "all of them"),))
    assert together.ci_low is not None and together.ci_low > 0.2


@torch.no_grad()
def hits_by_hand(
    text: str, made: FittedIntervention | None, layer: int, head: int, edges: Sequence[tuple[int, ...]]
) -> int:
    """Edges whose earlier end gets the most attention of the later one, in an eager forward with a hook."""
    model = planted("orders").model
    hooks = []
    if made is not None:
        down, up, centre = (
            torch.tensor(part) for part in (made.affine.down, made.affine.up, made.affine.centre)
        )
        read = slice(1, 1 + len(text))

        def erased(states: torch.Tensor) -> torch.Tensor:
            changed = states.clone()
            changed[0, read] -= ((states[0, read] - centre) @ down) @ up
            return changed

        layers = model.model.layers
        if made.layer:
            hooks.append(layers[made.layer - 1].register_forward_hook(lambda _, __, out: erased(out)))
        else:
            hooks.append(layers[0].register_forward_pre_hook(lambda _, given: (erased(given[0]), *given[1:])))
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    row = torch.tensor([[BOS, *text.encode()]])
    attention = model(row, output_attentions=True).attentions[layer][0, head]
    model.set_attn_implementation(before)
    for hook in hooks:
        hook.remove()
    pairs = [sorted(edge) for edge in edges]
    return sum(int(attention[1 + later, 1 : 1 + later].argmax()) == earlier for earlier, later in pairs)


@pytest.mark.slow
def test_heads_behind_an_erasure_hit_as_many_edges_as_by_hand(tmp_path: Path) -> None:
    items = some_items(160, "orders")
    labels = {**orders_of(items), "syntax_relations": edges_of(items)}
    options = {"methods": ("erase", "ablate"), "draws": 1}
    ran = run_lens(planted("orders"), items, labels, options, tmp_path)
    fits = read_fits(ran.settings)
    heads = find_following_heads(fits)
    texts = {one.item.item_id: one.item.text for one in items}
    rows = ran.tables[1].filter(pl.col("what") == HIT)
    some = rows.filter(pl.col("item_id").is_in(rows["item_id"].unique().sort()[:4].implode()))
    changes = {(one.subject, one.kind, one.layer): one for one in fits.for_method("erase")}
    assert set(some["group"]) == {"letter->sign", "answer->letter"} and some["subject"].n_unique() == 2
    edges = edges_of(items)
    for row in some.iter_rows(named=True):
        made = changes.get((row["subject"], row["kind"], row["layer"]))
        mine = edges.filter(item_id=row["item_id"], label=row["group"]).select("start", "other_start").rows()
        wanted = hits_by_hand(texts[row["item_id"]], made, *heads[row["group"]], mine)
        assert (row["hits"], row["n"]) == (wanted, len(mine)), row
    lost = ran.value(task=ORDER, metric="hits_lost", control=None)
    beside = ran.value(task=ORDER, metric="hits_lost", control="as_wide")
    excess = ran.value(task=ORDER, metric="hits_excess", control="as_wide")
    assert excess.value == pytest.approx(lost.value - beside.value)


def test_probes_of_the_other_property_are_as_right_behind_an_erasure(erased: Ran) -> None:
    """The letter and the half of the sign have nothing to do with each other."""
    chosen = erased.value(task=USED, metric="excess", control="as_wide", dimensions=BEST).layer
    at = (("erased", str(chosen)), ("erased_property", USED))
    assert erased.value(task=HELD, metric="accuracy", control=None, layer=chosen, dimensions=at).value > 0.95
    gain = erased.value(task=HELD, metric="gain", control="as_wide", layer=chosen, dimensions=at)
    assert gain.value > -0.05


def test_the_headline_says_what_is_used_and_what_is_held(erased: Ran) -> None:
    frame = scores_to_frame(erased.scores)
    lines = list(LENSES.load("causal").details(frame))
    ((_, _, found),) = collect_erasures(frame)
    assert {one.task: one.kind for one in found} == {USED: "used", HELD: "held"}
    assert lines[0] == lead_sentences("planted ()", found)
    assert lines[0].startswith("planted () uses identifier type: erasing identifier type at layer")
    assert ". It encodes but is not seen to use ktx: a probe of layer" in lines[0]
    assert "% of ktx (the commonest class" in lines[0]
    few = frame.with_columns(effective_clusters=pl.lit(8.0))
    ((_, _, found),) = collect_erasures(few)
    assert lead_sentences("planted", found).startswith(
        "Too little data on whether planted uses what it knows"
    )


@pytest.mark.slow
def test_a_property_of_the_whole_is_used_beyond_its_surface(tmp_path: Path) -> None:
    """The order of a string decides what comes next, and no count of its words tells it."""
    items = some_items(400, "orders")
    ran = run_lens(planted("orders"), items, orders_of(items), {"methods": ("erase",)}, tmp_path)
    ((_, _, (one,)),) = collect_erasures(scores_to_frame(ran.scores))
    assert (one.task, one.kind) == (ORDER, "used")
    assert set(one.excess) == {"permuted", "uniform", "as_wide", "surface"}
    assert 0.8 < one.realised["as_wide"]["value"] < 1.25
    spans = [
        made.eraser.down
        for made in read_fits(ran.settings).for_method("erase")
        if made.kind.startswith("as_wide ") and made.eraser is not None
    ]
    by_hand = [float((first.T @ second).squeeze() ** 2) for first, second in combinations(spans, 2)]
    assert one.overlap["as_wide"]["value"] == pytest.approx(np.mean(by_hand), rel=1e-4)


@pytest.mark.slow
def test_what_costs_as_much_as_something_as_wide_lies_between(tmp_path: Path) -> None:
    items = some_items(280, "rivals")
    ran = run_lens(planted("rivals"), items, first_letters_of(items), {"methods": ("erase",)}, tmp_path)
    ((_, _, (one,)),) = collect_erasures(scores_to_frame(ran.scores))
    assert one.kind == "between" and one.before is not None
    assert one.bits["ci_low"] > 0.25 * one.before["value"]
    said = lead_sentences("planted", [one])
    assert said.startswith("planted encodes, and may or may not use, identifier type: erasing")
    assert "of surprisal, less than matched directions," in said


def coins(items: list[Prepared], seed: int) -> dict[str, pl.DataFrame]:
    drawn = np.random.default_rng(seed).integers(0, 2, len(items))
    rows = [(one.item.item_id, str(side)) for one, side in zip(items, drawn.tolist(), strict=True)]
    return {ORDER: pl.DataFrame(rows, schema={"item_id": pl.String, "label": pl.String}, orient="row")}


def test_labels_by_coin_are_not_used(tmp_path: Path) -> None:
    items = some_items(160, "orders")
    for seed in range(2):
        ran = run_lens(planted("orders"), items, coins(items, seed), {"methods": ("erase",)}, tmp_path)
        for _, _, found in collect_erasures(scores_to_frame(ran.scores)):
            assert [one.kind for one in found] in (["neither"], ["open"])


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="patchh"):
        read_options(LensSettings(options={"methods": ("patchh",)}))
    with pytest.raises(UsageError, match="draws"):
        read_options(LensSettings(options={"draws": 0}))


def test_models_without_a_subword_to_ask_for_are_refused() -> None:
    able = planted().capabilities
    lens = LENSES.load("causal")
    assert lens.unsupported_reason(able) is None
    assert "no mask token" in (lens.unsupported_reason(replace(able, kind="encoder")) or "")
