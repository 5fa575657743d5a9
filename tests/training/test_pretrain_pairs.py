import itertools
import json
import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.recipes import silent
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoTokenizer,
    BertConfig,
    BertForPreTraining,
)

from sonde.alignment.subwords import encode
from sonde.base.errors import InputError
from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import ProgramLexer
from sonde.models import ModelSpec, load_model
from sonde.training.pretrain.data import find_break_offsets, find_line_starts, pack_documents
from sonde.training.pretrain.objectives import (
    DocumentLines,
    PairDataset,
    SentencePair,
    build_all_pairs,
    iterate_document_pairs,
    mask_fixed_count,
    pair_losses,
)
from sonde.training.pretrain.pretrain import pretrain
from sonde.training.pretrain.recipe import PairsConfig, read_recipe
from sonde.training.pretrain.vocabulary import BOS, EOS, MASK, PAD, SPECIALS

pytestmark = pytest.mark.usefixtures("one_thread")

PAD_ID, BOS_ID, EOS_ID, MASK_ID = (SPECIALS.index(piece) for piece in (PAD, BOS, EOS, MASK))


def cut(text: str, language: str = "python") -> list[str]:
    """The logical lines of a text, its characters taken as subwords."""
    breaks = find_break_offsets(get_facet(language, "program", ProgramLexer), text)
    assert breaks is not None
    edges = [*find_line_starts(breaks, text, np.arange(len(text))).tolist(), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def test_logical_lines_are_those_of_python():
    text = (
        "import a\n\n# about f\ndef f(x,\n      y):\n    '''Says.\n\n    More.'''\n"
        "    if x: return 1; z = 2\n    return [\n        y\n    ]\n"
    )
    assert cut(text) == [
        "import a\n\n",
        "# about f\ndef f(x,\n      y):\n    ",
        "'''Says.\n\n    More.'''\n    ",
        "if x: return 1; z = 2\n    ",
        "return [\n        y\n    ]\n",
    ]


def test_logical_lines_of_java_are_its_lines():
    assert cut("class A {\n  int x;\n\n}\n", "java") == ["class A {\n  ", "int x;\n\n", "}\n"]


def test_a_text_that_the_lexer_refuses_has_no_lines():
    facet = get_facet("python", "program", ProgramLexer)
    assert find_break_offsets(facet, "x = '''open\n") is None
    assert find_break_offsets(facet, "\n") == []


def published(documents, index, most, short, draw):
    """Pairs of a document as BERT's generator makes them, on lists of lists; what a pop takes is recorded."""
    document = documents[index]
    target = most
    if draw.random() < short:
        target = draw.randint(2, most)
    found, chunk, length, i = [], [], 0, 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            a_end = draw.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            first = [token for line in chunk[:a_end] for token in line]
            if len(chunk) == 1 or draw.random() < 0.5:
                for _ in range(10):
                    other = draw.randrange(len(documents))
                    if other != index:
                        break
                second = []
                for line in documents[other][draw.randrange(len(documents[other])) :]:
                    second.extend(line)
                    if len(second) >= target - len(first):
                        break
                i -= len(chunk) - a_end
                found.append((first, second, 1))
            else:
                found.append((first, [token for line in chunk[a_end:] for token in line], 0))
            sizes = [len(first), len(second)] if found[-1][2] else [len(first), len(found[-1][1])]
            pops = [0, 0]
            while sum(sizes) > most:
                longer = 0 if sizes[0] > sizes[1] else 1
                sizes[longer] -= 1
                pops[longer] += 1
            # One toss for each subword, in one go a side.
            fronts = [draw.getrandbits(pop).bit_count() if pop else 0 for pop in pops]
            cut_sides = [
                side[front : len(side) - (pop - front)]
                for side, front, pop in zip(found[-1][:2], fronts, pops, strict=True)
            ]
            found[-1] = (*cut_sides, found[-1][2])
            chunk, length = [], 0
        i += 1
    return found


documents_of_lines = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=12), min_size=2, max_size=5)


@settings(max_examples=200, deadline=None)
@given(documents_of_lines, st.integers(4, 30), st.sampled_from([0.0, 0.5]), st.integers(0, 10**6))
def test_pairs_are_those_of_the_published_generator(sizes, most, short, seed):
    counter = itertools.count()
    documents = [[[next(counter) for _ in range(size)] for size in document] for document in sizes]
    edges, place = [], 0
    for document in sizes:
        edges.append([place + done for done in itertools.accumulate(document, initial=0)])
        place = edges[-1][-1]
    for index in range(len(documents)):
        expected = published(documents, index, most, short, random.Random(seed))
        own = list(iterate_document_pairs(edges, index, most, short, random.Random(seed)))
        assert [(list(range(*pair[:2])), list(range(*pair[2:4])), pair.random) for pair in own] == expected


def lines_of(sizes: list[list[int]]) -> DocumentLines:
    edges, first, place = [], [0], 0
    for document in sizes:
        edges += [place + done for done in itertools.accumulate(document, initial=0)]
        place = edges[-1] + 1
        first.append(len(edges))
    return DocumentLines(np.array(edges), np.array(first))


def test_every_line_is_read_in_every_duplicate_and_half_the_pairs_are_random():
    draw = random.Random(5)
    lines = lines_of([[draw.randint(1, 12) for _ in range(120)] for _ in range(30)])
    once = build_all_pairs(lines, 67, PairsConfig(duplicates=1, short=0.0), seed=1)
    twice = build_all_pairs(lines, 67, PairsConfig(duplicates=2, short=0.0), seed=1)
    assert np.array_equal(twice[: len(once)], once)
    assert not np.array_equal(twice[len(once) :], once)
    lengths = (once[:, 1] - once[:, 0]) + (once[:, 3] - once[:, 2])
    assert lengths.max() == 64
    assert np.mean(lengths == 64) > 0.9
    assert ((once[:, 1] > once[:, 0]) & (once[:, 3] > once[:, 2])).all()
    assert abs(once[:, 4].mean() - 0.5) < 3 * math.sqrt(0.25 / len(once))
    # What follows does so directly, but for what was cut; what is random is of another document.
    document = np.searchsorted(lines.edges[lines.documents[1:] - 1], once[:, [0, 2]], side="right")
    assert (document[once[:, 4] == 0, 0] == document[once[:, 4] == 0, 1]).all()
    assert (document[once[:, 4] == 1, 0] != document[once[:, 4] == 1, 1]).all()


def test_one_document_has_no_other():
    with pytest.raises(InputError, match="two at least") as caught:
        build_all_pairs(lines_of([[3, 4, 5]]), 32, PairsConfig(), seed=0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("length", "most", "number"), [(100, 0, 15), (100, 20, 15), (512, 20, 20), (5, 20, 1)]
)
def test_a_fixed_number_of_subwords_is_hidden(length, most, number):
    tokens = np.array([BOS_ID, *range(10, 8 + length), EOS_ID])
    kinds = {"masked": 0, "kept": 0, "random": 0}
    for seed in range(300):
        shown, labels = mask_fixed_count(
            tokens,
            share=0.15,
            maximum=most,
            vocabulary=2000,
            draw=np.random.default_rng(seed),
        )
        chosen = labels >= 0
        assert chosen.sum() == number
        assert np.array_equal(labels[chosen], tokens[chosen])
        assert np.array_equal(shown[~chosen], tokens[~chosen])
        kinds["masked"] += int((shown[chosen] == MASK_ID).sum())
        kinds["kept"] += int((shown[chosen] == tokens[chosen]).sum())
        kinds["random"] += int(((shown != MASK_ID) & (shown != tokens))[chosen].sum())
    total = 300 * number
    for kind, share in (("masked", 0.8), ("kept", 0.1), ("random", 0.1)):
        assert abs(kinds[kind] / total - share) < 4 * math.sqrt(share * (1 - share) / total)


@pytest.mark.parametrize("size", [300, 70_000])
def test_a_sample_is_what_the_tokenizer_makes_of_two_stretches(pairs_path, tmp_path, size):
    recipe = read_recipe(pairs_path)
    stream = np.random.default_rng(0).integers(5, size, 500).astype(np.uint32 if size > 2**16 else np.uint16)
    pairs = np.array([SentencePair(0, 12, 20, 37, 1), SentencePair(40, 45, 45, 51, 0)])
    dataset = PairDataset(stream, pairs, recipe)
    seen = set()
    for k in range(4):
        row = pairs[dataset.course.block(k)]
        first, second = stream[row[0] : row[1]].tolist(), stream[row[2] : row[3]].tolist()
        sample = dataset[k]
        true = torch.where(sample["labels"] >= 0, sample["labels"], sample["input_ids"])
        expected = [BOS_ID, *first, EOS_ID, *second, EOS_ID]
        assert true.tolist() == expected + [PAD_ID] * (32 - len(expected))
        assert sample["token_type_ids"].tolist()[: len(expected)] == [0] * (len(first) + 2) + [1] * (
            len(second) + 1
        )
        assert int(sample["attention_mask"].sum()) == len(expected)
        assert int(sample["next_sentence_label"]) == row[4]
        seen.add(tuple(sample["input_ids"].tolist()))
    # Two pairs; the second pass hides the same.
    assert len(seen) == 2
    passes = np.zeros(500, int)
    for k in range(len(dataset)):
        row = pairs[dataset.course.block(k)]
        passes[row[0] : row[1]] += 1
        passes[row[2] : row[3]] += 1
    assert np.array_equal(dataset.token_passes(), passes)


def test_the_loss_is_that_of_transformers():
    torch.manual_seed(0)
    model = BertForPreTraining(
        BertConfig(
            vocab_size=90, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2
        )
    ).eval()
    labels = torch.randint(90, (3, 10)).masked_fill(torch.rand(3, 10) < 0.7, -100)
    inputs = {
        "input_ids": torch.randint(90, (3, 10)),
        "token_type_ids": torch.arange(10).ge(5).long().expand(3, 10),
        "attention_mask": torch.arange(10).lt(8).long().expand(3, 10),
        "labels": labels,
        "next_sentence_label": torch.tensor([0, 1, 1]),
    }
    masked, following = pair_losses(model, **inputs)
    torch.testing.assert_close(masked + following, model(**inputs).loss)


@pytest.mark.slow
def test_a_bert_is_made_that_every_lens_can_read(pairs_path, corpus):
    text = pairs_path.read_text()
    pairs_path.write_text(text.replace("steps = 12", "steps = 150").replace("minutes = 0.0", "minutes = 5"))
    lines: list[str] = []
    folder = pretrain(pairs_path, report=lines.append)
    losses = [float(line.split("loss ")[1].split()[0]) for line in lines if "loss " in line]
    assert np.mean(losses[-5:]) < 0.75 * losses[0]
    assert AutoConfig.from_pretrained(folder).architectures == ["BertForPreTraining"]
    masked = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    whole, report = AutoModelForPreTraining.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    assert not report["missing_keys"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    first, second = "def f(x):\n", "    return x_1\n"
    pair = tokenizer(first, second, return_tensors="pt")
    assert pair["token_type_ids"].tolist()[0] == [0] * (
        tokenizer(first, return_tensors="pt").input_ids.shape[1]
    ) + [1] * (tokenizer(second, return_tensors="pt").input_ids.shape[1] - 1)
    with torch.no_grad():
        torch.testing.assert_close(
            masked(**pair).logits, whole.eval()(**pair).prediction_logits, rtol=1e-5, atol=1e-5
        )
    loaded = load_model(ModelSpec(name=str(folder)))
    assert loaded.capabilities.masks
    assert loaded.special.mask == MASK_ID
    source = next(corpus.rglob("*.py")).read_text()
    assert encode(loaded.tokenizer, source).lossless
    told = json.loads((folder / "figures.json").read_text())["figures"]["next_sentence"]
    assert told["pairs"] > 10
    assert 0.5 <= told["majority"] <= 1
    card = (folder / "README.md").read_text()
    assert "program tokens" in card
    assert "at most 4 per pair" in card
    assert f"{100 * told['accuracy']:.1f}% of {told['pairs']} pairs" in card
    curve = (folder / "curve.csv").read_text().splitlines()
    assert curve[0] == "step,loss,rate"
    assert [int(row.split(",")[0]) for row in curve[1:]] == list(range(2, 151, 2))


def test_pairs_are_prepared_once(pairs_path, tmp_path, monkeypatch):
    recipe = read_recipe(pairs_path)
    first = pack_documents(recipe, tmp_path / "data", silent)
    monkeypatch.setattr("sonde.training.pretrain.data.build_all_pairs", None)
    again = pack_documents(recipe, tmp_path / "data", silent)
    assert first.pairs is not None
    assert again.pairs is not None
    assert np.array_equal(first.pairs, again.pairs)
    # A pair's stretches are logical lines: what stands before one ends with a break, or begins the file.
    starts = set(first.documents["first"].to_list())
    vocabulary = first.vocabulary
    whole = first.pairs[(first.pairs[:, 1] - first.pairs[:, 0] + first.pairs[:, 3] - first.pairs[:, 2]) < 29]
    assert len(whole)
    for place in whole[:, [0, 2]].flatten().tolist():
        before = vocabulary.decode(first.tokens[max(place - 9, 0) : place].tolist())
        blank = before[len(before.rstrip()) :]
        assert place - 1 in starts or "\n" in blank
