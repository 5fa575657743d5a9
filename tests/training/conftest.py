import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from sonde.training.pretrain import pretrain


@pytest.fixture
def one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, whose sums have one order, and a work folder of the test's own."""
    monkeypatch.setattr(pretrain, "WORK", tmp_path / "work")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A project of forty small files in two packages."""
    for number in range(40):
        package = tmp_path / "project" / ("north" if number % 2 else "south")
        package.mkdir(parents=True, exist_ok=True)
        (package / f"module_{number}.py").write_text(
            textwrap.dedent(
                f"""
                import collections

                def total_{number}(values, weights):
                    result = 0
                    for value, weight in zip(values, weights):
                        if weight > {number}:
                            result += value * weight
                    return result


                class Counter{number}:
                    def add(self, name):
                        self.names[name] = self.names.get(name, 0) + {number}
                        return self.names
                """
            )
        )
    return tmp_path / "project"


@pytest.fixture
def recipe_path(corpus: Path, tmp_path: Path) -> Path:
    """A recipe for a decoder of two layers, trained for twelve updates."""
    path = tmp_path / "tiny.toml"
    path.write_text(
        f"""
        name = "tiny"
        seed = 3
        [model]
        role = "decoder"
        architecture = "llama"
        context = 64
        [model.settings]
        hidden_size = 32
        intermediate_size = 48
        num_hidden_layers = 2
        num_attention_heads = 2
        tie_word_embeddings = true
        [vocabulary]
        size = 300
        [data]
        held_out = []
        [[data.corpora]]
        name = "local:{corpus}"
        language = "python"
        [training]
        steps = 12
        blocks_per_step = 4
        blocks_at_once = 2
        block = 32
        warmup_steps = 2
        log_every = 2
        checkpoint_minutes = 0.0
        precision = "float32"
        [evaluation]
        corpus = "local:{corpus}"
        bytes = 4000
        ngram = 3
        """
    )
    return path


@pytest.fixture
def pairs_path(recipe_path: Path) -> Path:
    """A recipe for a BERT of two layers on pairs of logical lines, with program tokens."""
    text = recipe_path.read_text()
    for old, new in (
        ('"decoder"', '"encoder"'),
        ('"llama"', '"bert"'),
        ("tie_word_embeddings = true", ""),
        ("size = 300", 'size = 300\n        pieces = "program"'),
        ("block = 32", 'block = 32\n        objective = "pairs"\n        masked = 0.15'),
        ("warmup_steps = 2", 'warmup_steps = 2\n        schedule = "linear"'),
        ("[evaluation]", "[pairs]\n        duplicates = 3\n        predictions = 4\n        [evaluation]"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = recipe_path.with_name("pairs.toml")
    path.write_text(text)
    return path
