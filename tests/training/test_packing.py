import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.recipes import silent

from sonde.base.errors import StoreError
from sonde.training.pretrain.data import pack_documents
from sonde.training.pretrain.objectives import BlockDataset, BlockOrder, block_start, count_blocks
from sonde.training.pretrain.recipe import Recipe, read_recipe
from sonde.training.pretrain.vocabulary import BOS, EOS, MASK, SPECIALS


@pytest.fixture
def recipe(recipe_path) -> Recipe:
    return read_recipe(recipe_path)


def encoder(recipe_path) -> Recipe:
    recipe_path.write_text(recipe_path.read_text().replace('"decoder"', '"encoder"'))
    return read_recipe(recipe_path)


@given(st.integers(1, 500), st.integers(1, 40))
def test_blocks_cover_the_stream(tokens, width):
    covered = np.zeros(tokens, int)
    for index in range(count_blocks(tokens, width)):
        start = block_start(index, tokens, width)
        assert start == max(0, tokens - width) or start == index * width
        covered[start : start + width] += 1
    assert covered.min() >= 1
    assert covered.sum() <= tokens + width


@given(st.integers(1, 60), st.integers(0, 200), st.integers(1, 20))
def test_each_pass_takes_every_block_once(blocks, samples, stretch):
    course = BlockOrder(blocks, seed=4, stretch=stretch)
    order = [course.block(k) for k in range(samples)]
    for start in range(0, samples - blocks + 1, blocks):
        assert sorted(order[start : start + blocks]) == list(range(blocks))
    assert np.array_equal(course.passes(samples), np.bincount(order, minlength=blocks))


def test_order_depends_on_seed_and_pass():
    one, other = BlockOrder(100, seed=1), BlockOrder(100, seed=2)
    first = [one.block(k) for k in range(200)]
    assert first[:100] != [other.block(k) for k in range(100)]
    assert first[:100] != first[100:]


def test_a_short_run_sees_the_front_of_the_stream():
    passes = BlockOrder(10_000, seed=1, stretch=64).passes(200)
    assert passes[:192].min() == 1
    assert passes[256:].sum() == 0


def test_the_stream_is_the_documents(recipe, tmp_path):
    packed = pack_documents(recipe, tmp_path / "work", silent)
    assert len(packed.documents) == 40
    for row in packed.documents.iter_rows(named=True):
        tokens = packed.tokens[row["first"] : row["first"] + row["tokens"]]
        assert (tokens[0], tokens[-1]) == (SPECIALS.index(BOS), SPECIALS.index(EOS))
        text = packed.vocabulary.decode(tokens[1:-1].tolist())
        assert len(text.encode()) == row["bytes"]
        assert f"total_{row['path'].split('_')[1].removesuffix('.py')}" in text
        assert len(row["items"]) == 3


def test_preparing_twice_reads_what_is_there(recipe, tmp_path, monkeypatch):
    first = pack_documents(recipe, tmp_path, silent)
    monkeypatch.setattr("sonde.training.pretrain.data.choose_documents", None)
    second = pack_documents(recipe, tmp_path, silent)
    assert np.array_equal(first.tokens, second.tokens)
    stream = next(tmp_path.glob("data-*/tokens.bin"))
    stream.write_bytes(stream.read_bytes()[:-2])
    with pytest.raises(StoreError, match="damaged"):
        pack_documents(recipe, tmp_path, silent)


def test_two_that_prepare_at_once_do_not_write_into_one_stream(recipe, tmp_path):
    alone = pack_documents(recipe, tmp_path / "alone", silent)
    others = []

    def another(line: str) -> None:
        if "files chosen" in line:
            others.append(pack_documents(recipe, tmp_path / "shared", silent))

    outer = pack_documents(recipe, tmp_path / "shared", another)
    for one in (outer, *others):
        assert np.array_equal(one.tokens, alone.tokens)
    assert [path.name[:5] for path in (tmp_path / "shared").iterdir()] == ["data-"]


def test_a_decoder_predicts_every_subword_but_the_first(recipe, tmp_path):
    packed = pack_documents(recipe, tmp_path, silent)
    dataset = BlockDataset(packed.tokens, recipe)
    predicted: list[int] = []
    for k in range(dataset.course.blocks):
        block = dataset[k]["input_ids"]
        assert len(block) == recipe.training.block
        start = block_start(dataset.course.block(k), len(packed.tokens), dataset.width)
        predicted += range(max(start, 1), max(start, 1) + dataset.width)
        at = max(0, start - 1)
        assert np.array_equal(block, packed.tokens[at : at + recipe.training.block].astype(np.int64))
    assert set(predicted) >= set(range(1, len(packed.tokens)))


def test_an_encoder_reads_framed_blocks_and_the_same_holes_each_time(recipe_path, tmp_path):
    recipe = encoder(recipe_path)
    packed = pack_documents(recipe, tmp_path / "work", silent)
    dataset = BlockDataset(packed.tokens, recipe)
    sample, again, other = dataset[5], dataset[5], dataset[5 + dataset.course.blocks]
    shown, labels = sample["input_ids"], sample["labels"]
    assert len(shown) == recipe.training.block
    assert (int(shown[0]), int(shown[-1])) == (SPECIALS.index(BOS), SPECIALS.index(EOS))
    assert (shown == SPECIALS.index(MASK)).any()
    whole = torch.where(labels >= 0, labels, shown)[1:-1]
    start = block_start(dataset.course.block(5), len(packed.tokens), dataset.width)
    assert np.array_equal(whole, packed.tokens[start : start + dataset.width].astype(np.int64))
    assert torch.equal(shown, again["input_ids"])
    assert not torch.equal(shown, other["input_ids"])


def test_a_longer_run_begins_as_a_shorter_one(recipe_path, tmp_path):
    short = read_recipe(recipe_path)
    recipe_path.write_text(recipe_path.read_text().replace("steps = 12", "steps = 24"))
    long = read_recipe(recipe_path)
    packed = pack_documents(short, tmp_path / "work", silent)
    one, other = BlockDataset(packed.tokens, short), BlockDataset(packed.tokens, long)
    assert len(other) == 2 * len(one)
    assert all(torch.equal(one[k]["input_ids"], other[k]["input_ids"]) for k in range(len(one)))
