import dataclasses
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sonde.corpora import Item
from sonde.experiments.experiment import LensChoice
from sonde.experiments.plan import (
    CHARACTERS_A_JOB,
    ITEMS_A_JOB,
    Group,
    LensInput,
    ObserveJob,
    Plan,
    ResolvedModel,
    build_plan,
    cut_chunks,
)
from sonde.lenses import Control
from sonde.models import ModelSpec
from sonde.store.run_folder import RunDirectory


def items(sizes: list[int]) -> tuple[Item, ...]:
    return tuple(
        Item(
            item_id=str(index),
            text="x" * size,
            language="python",
            unit="function",
            path="p",
            name="n",
            offset=0,
            cluster="c",
            repository="r",
        )
        for index, size in enumerate(sizes)
    )


def lens(version: str = "1") -> LensChoice:
    return LensChoice(
        name="surprisal",
        source="surprisal",
        version=version,
        tasks=("t",),
        mode="corrected",
        quirks=(),
        options=(),
        seed=0,
    )


def planned(
    sizes: list[int],
    *,
    seen: set[str] = frozenset(),
    version: str = "1",
    labels: str = "l",
    components: str = "c",
    controls: tuple[Control, ...] = (),
) -> Plan:
    group = Group(corpus="stdlib", corpus_hash="h", language="python", items=items(sizes))
    model = ResolvedModel(name="m/x", spec=ModelSpec(name="m/x"), revision="r", seen=frozenset(seen))
    return build_plan(
        RunDirectory(Path("run")),
        [model],
        [LensInput(lens=lens(version), group=group, inputs=group.items, labels=labels, controls=controls)],
        {"python": components},
    )


def jobs(sizes: list[int], **changes: object) -> tuple[ObserveJob, ...]:
    return planned(sizes, **changes).jobs


@given(st.lists(st.integers(0, CHARACTERS_A_JOB + 10), max_size=300))
def test_chunks_hold_every_item_once_in_order_within_bounds(sizes: list[int]) -> None:
    found = list(cut_chunks(items(sizes)))
    assert [item.item_id for chunk in found for item in chunk] == [str(n) for n in range(len(sizes))]
    for chunk in found:
        assert 1 <= len(chunk) <= ITEMS_A_JOB
        assert len(chunk) == 1 or sum(len(item.text) for item in chunk) <= CHARACTERS_A_JOB


@given(st.lists(st.integers(0, 50_000), max_size=200), st.integers(0, 200))
def test_a_larger_limit_begins_with_the_jobs_of_a_smaller(sizes: list[int], limit: int) -> None:
    small, large = jobs(sizes[:limit]), jobs(sizes)
    # The last job of the smaller run may have been cut short by its limit.
    assert list(large[: max(len(small) - 1, 0)]) == list(small[:-1])


def test_seen_items_are_left_out() -> None:
    assert jobs([1, 1, 1], seen={"1"})[0].item_ids == ("0", "2")
    assert jobs([1], seen={"0"}) == ()


def test_whatever_can_change_a_part_changes_its_key() -> None:
    keys = {
        jobs([1, 2])[0].parts[0].key,
        jobs([1])[0].parts[0].key,
        jobs([1, 2], version="2")[0].parts[0].key,
        jobs([1, 2], labels="other")[0].parts[0].key,
        jobs([1, 2], components="other")[0].parts[0].key,
    }
    assert len(keys) == 5


def test_another_date_between_the_same_items_is_scored_anew_and_not_observed() -> None:
    (answer,) = planned([1, 2]).answers
    keys: set[str] = {answer.key}
    for periods in (("before", "after"), ("before", "before")):
        sided = tuple(
            dataclasses.replace(item, period=period)
            for item, period in zip(answer.reading.inputs, periods, strict=True)
        )
        again = dataclasses.replace(answer, reading=dataclasses.replace(answer.reading, inputs=sided))
        keys.add(again.key)
    assert len(keys) == 3


def test_parts_lie_where_the_contract_says() -> None:
    part = jobs([1])[0].parts[0]
    assert part.relative.startswith("observations/lens=surprisal/model=m_x/python-")
    assert part.relative.endswith(".parquet")


def test_control_read_a_share_of_the_inputs_and_are_kept_apart() -> None:
    made = planned([1] * 400, controls=(Control(1, 0.25), Control(2, 0.25)))
    (answer,) = made.answers
    by_seed = {control.seed: parts for control, parts in answer.controls}
    assert set(by_seed) == {1, 2}
    shown = {
        job.model.reinitialise: {
            id for other in made.jobs if other.model == job.model for id in other.item_ids
        }
        for job in made.jobs
    }
    assert len(shown[None]) == 400
    assert shown[1] == shown[2] < shown[None]
    assert 50 < len(shown[1]) < 150
    folders = {part.relative.rpartition("/")[0] for parts in by_seed.values() for part in parts}
    assert len(folders) == 2
    assert not folders & {part.relative.rpartition("/")[0] for part in answer.parts}


def test_what_several_lenses_read_is_forwarded_once() -> None:
    group = Group(corpus="stdlib", corpus_hash="h", language="python", items=items([1] * 5))
    model = ResolvedModel(name="m", spec=ModelSpec(name="m"), revision="r")
    both = [
        LensInput(lens=lens("1"), group=group, inputs=group.items, labels="l"),
        LensInput(lens=lens("2"), group=group, inputs=group.items[1:4], labels="l"),
    ]
    made = build_plan(RunDirectory(Path("run")), [model], both, {"python": "c"})
    assert sorted(id for job in made.jobs for id in job.item_ids) == ["0", "1", "2", "3", "4"]
    assert [len(answer.parts) for answer in made.answers] == [2, 1]
    (shared,) = (job for job in made.jobs if len(job.parts) == 2)
    assert shared.item_ids == ("1", "2", "3")
