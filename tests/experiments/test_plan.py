from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sonde.corpora import Item
from sonde.experiments.plan import (
    CHARACTERS_A_JOB,
    ITEMS_A_JOB,
    Group,
    LensChoice,
    ModelChoice,
    chunks,
    label_name,
    plan,
)
from sonde.models import ModelSpec
from sonde.store.rundir import RunDirectory


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
        name="surprisal", version=version, tasks=("t",), mode="corrected", quirks=(), options=(), seed=0
    )


def planned(
    sizes: list[int],
    *,
    seen: set[str] = frozenset(),
    version: str = "1",
    labels: str = "l",
    components: str = "c",
):
    group = Group(corpus="stdlib", corpus_hash="h", language="python", items=items(sizes))
    model = ModelChoice(name="m/x", spec=ModelSpec(name="m/x"), revision="r", seen=frozenset(seen))
    return plan(
        RunDirectory(Path("run")),
        [group],
        [model],
        [lens(version)],
        {label_name("t", group): labels},
        {"python": components},
    )


@given(st.lists(st.integers(0, CHARACTERS_A_JOB + 10), max_size=300))
def test_chunks_hold_every_item_once_in_order_within_bounds(sizes: list[int]) -> None:
    found = list(chunks(items(sizes)))
    assert [item.item_id for chunk in found for item in chunk] == [str(n) for n in range(len(sizes))]
    for chunk in found:
        assert 1 <= len(chunk) <= ITEMS_A_JOB
        assert len(chunk) == 1 or sum(len(item.text) for item in chunk) <= CHARACTERS_A_JOB


@given(st.lists(st.integers(0, 50_000), max_size=200), st.integers(0, 200))
def test_a_larger_limit_begins_with_the_jobs_of_a_smaller(sizes: list[int], limit: int) -> None:
    small, large = planned(sizes[:limit]), planned(sizes)
    # The last job of the smaller run may have been cut short by its limit.
    assert list(large[: max(len(small) - 1, 0)]) == list(small[:-1])


def test_seen_items_are_left_out() -> None:
    assert planned([1, 1, 1], seen={"1"})[0].item_ids == ("0", "2")
    assert planned([1], seen={"0"}) == ()


def test_whatever_can_change_a_part_changes_its_key() -> None:
    keys = {
        planned([1, 2])[0].parts[0].key,
        planned([1])[0].parts[0].key,
        planned([1, 2], version="2")[0].parts[0].key,
        planned([1, 2], labels="other")[0].parts[0].key,
        planned([1, 2], components="other")[0].parts[0].key,
    }
    assert len(keys) == 5


def test_parts_lie_where_the_contract_says() -> None:
    part = planned([1])[0].parts[0]
    assert part.relative.startswith("observations/lens=surprisal/model=m_x/python-")
    assert part.relative.endswith(".parquet")
