"""Fine-tuning of tiny models: what is learned, what is kept, and that a kill changes nothing."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.training.finetune import checkpoint
from sonde.training.finetune.batches import Batch, collate, order_batches
from sonde.training.finetune.data import (
    FIRST,
    SECOND,
    EncodedExample,
    Sample,
    TaskData,
    build_text_encoder,
    encode_samples,
)
from sonde.training.finetune.model import LoadedBody, build_headed_model
from sonde.training.finetune.recipe import FinetuneRecipe
from sonde.training.finetune.tune import CHECKPOINT, rate_factor, tune

WORDS = ["<pad>", "<s>", "</s>", "<mask>", "<unk>", *"abcdefghijklmnopqrstuvwxyz", *"=+-()"]
SMALL = {
    "vocab_size": len(WORDS), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
TINY = FinetuneRecipe(length=32, epochs=3, batch=8, rates=(3e-3,), checkpoint=3)


def save_tokenizer(folder: Path, *, around: bool) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if around:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>", "bos_token": "<s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)


def save(folder: Path, kind: str) -> ModelSpec:
    torch.manual_seed(0)
    roles = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    made = {
        "bert": lambda: BertForMaskedLM(BertConfig(**SMALL)),
        "modernbert": lambda: ModernBertForMaskedLM(ModernBertConfig(**SMALL, **roles)),
        "llama": lambda: LlamaForCausalLM(LlamaConfig(**SMALL, bos_token_id=1, eos_token_id=2)),
        "t5": lambda: T5ForConditionalGeneration(
            T5Config(vocab_size=len(WORDS), d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
        ),
    }[kind]()
    made.save_pretrained(folder)
    save_tokenizer(folder, around=kind != "llama")
    return ModelSpec(name=str(folder), device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModelSpec]:
    held: dict[str, ModelSpec] = {}

    def spec(kind: str) -> ModelSpec:
        if kind not in held:
            held[kind] = save(tmp_path_factory.mktemp("model") / kind, kind)
        return held[kind]

    return spec


def texts(size: int, seed: int) -> list[Sample]:
    """Is the first letter the last one too? Letters of both classes are equally frequent."""
    rng = np.random.default_rng(seed)
    found: list[Sample] = []
    for number in range(size):
        middle = rng.choice(list("cdefgh"), int(rng.integers(2, 6)))
        first, last = rng.choice(list("ab"), 2)
        text = " ".join([first, *middle, last])
        found.append(Sample(f"{seed}-{number}", text, int(first == last)))
    return found


def split(samples: Callable[[int, int], list[Sample]], *sizes: int) -> TaskData:
    train, valid, test = (samples(size, seed) for seed, size in enumerate(sizes))
    return TaskData(("no", "yes"), train, valid, test)


@pytest.fixture(scope="module")
def pattern() -> TaskData:
    return split(texts, 60, 24, 24)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    head = folder / "head.safetensors"
    return load_file(folder / "model.safetensors") | (load_file(head) if head.is_file() else {})


def encode_all(samples: list[Sample], loaded: LoadedModel, length: int) -> list[EncodedExample]:
    """Examples in a model's subwords."""
    return encode_samples(
        samples, build_text_encoder(loaded.tokenizer, loaded.special, loaded.capabilities.kind), length
    )


class KilledError(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 5, 8, 14, 24, 31, 48])
def test_a_killed_training_goes_on_to_the_same_weights(
    step: int, specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    """Of 48 updates, 24 at each of two rates, with dropout; a checkpoint is written at every third."""
    spec = specs("bert")
    recipe = dataclasses.replace(TINY, rates=(1e-3, 3e-3))
    undisturbed = tune(spec, pattern, recipe, tmp_path / "whole")
    done: list[int] = []

    def kill(at: int) -> None:
        done.append(at)
        if len(done) == step:
            raise KilledError

    with pytest.raises(KilledError):
        tune(spec, pattern, recipe, tmp_path / "broken", on_step=kill)
    torch.rand(step)
    resumed = tune(spec, pattern, recipe, tmp_path / "broken", on_step=kill)
    assert 48 <= len(done) <= 48 + 3
    assert resumed.courses == undisturbed.courses
    assert resumed.setting == undisturbed.setting
    first, second = weights_of(undisturbed.folder), weights_of(resumed.folder)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    np.testing.assert_array_equal(resumed.test.probability, undisturbed.test.probability)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "llama", "t5"])
def test_a_training_killed_again_and_again_ends_with_the_same_weights(
    kind: str, specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    """Each call is killed after so many updates as are drawn, until one is not; no step is spared."""
    recipe = dataclasses.replace(TINY, rates=(1e-3, 3e-3), epochs=2)
    undisturbed = tune(specs(kind), pattern, recipe, tmp_path / "whole")
    rng = np.random.default_rng(len(kind))
    kills = 0
    while True:
        left = int(rng.integers(recipe.checkpoint + 1, 12))

        def kill(at: int) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise KilledError

        try:
            resumed = tune(specs(kind), pattern, recipe, tmp_path / "broken", on_step=kill)
        except KilledError:
            kills += 1
            torch.rand(kills)
        else:
            break
    assert kills >= 3
    assert resumed.courses == undisturbed.courses
    first, second = weights_of(undisturbed.folder), weights_of(resumed.folder)
    assert all(torch.equal(first[name], second[name]) for name in first)
    np.testing.assert_array_equal(resumed.test.probability, undisturbed.test.probability)


def test_going_on_takes_up_the_checkpoint_and_not_the_beginning(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    steps: list[int] = []

    def kill(at: int) -> None:
        steps.append(at)
        if at == 7 and steps.count(7) == 1:
            raise KilledError

    with pytest.raises(KilledError):
        tune(specs("bert"), pattern, TINY, tmp_path, on_step=kill)
    tune(specs("bert"), pattern, TINY, tmp_path, on_step=kill)
    assert steps == [*range(1, 8), *range(7, 25)]


def test_a_checkpoint_of_another_architecture_is_refused(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    def kill(at: int) -> None:
        if at == 4:
            raise KilledError

    with pytest.raises(KilledError):
        tune(specs("bert"), pattern, TINY, tmp_path, on_step=kill)
    with pytest.raises(InputError, match="of another architecture; delete it"):
        tune(specs("llama"), pattern, TINY, tmp_path)


def test_a_full_disk_leaves_the_last_checkpoint(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(at: int) -> None:
        if at == 4:
            raise KilledError

    with pytest.raises(KilledError):
        tune(specs("bert"), pattern, TINY, tmp_path, on_step=stop)
    before = (tmp_path / "setting-0" / CHECKPOINT).read_bytes()

    def full(state: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.torch, "save", full)
    with pytest.raises(StoreError, match="No space left on device; free space"):
        tune(specs("bert"), pattern, TINY, tmp_path)
    assert (tmp_path / "setting-0" / CHECKPOINT).read_bytes() == before
    assert [path.name for path in (tmp_path / "setting-0").iterdir()] == [CHECKPOINT]


def test_no_room_for_weights_is_said_in_one_line(tmp_path: Path) -> None:
    """The writer of weights has an error of its own; here a file may not grow as large as they are."""
    resource = pytest.importorskip("resource")
    model = torch.nn.Linear(100, 100)
    checkpoint.write_weights(tmp_path / "best", model)
    before = (tmp_path / "best").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        torch.nn.init.zeros_(model.weight)
        with pytest.raises(StoreError, match=r"File too large.*; free space"):
            checkpoint.write_weights(tmp_path / "best", model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "best").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


@pytest.mark.parametrize("kind", ["bert", "modernbert", "llama", "t5"])
def test_every_kind_of_model_is_trained_and_can_be_read_again(
    kind: str, specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    spec = specs(kind)
    before = weights_before(spec)
    tuned = tune(spec, pattern, dataclasses.replace(TINY, epochs=1), tmp_path)
    read = load_model(ModelSpec(name=str(tuned.folder), device="cpu", dtype="float32"))
    after = dict(read.model.named_parameters())
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert any("embed" in name or "shared" in name for name in moved)
    assert any("layer" in name or "block" in name for name in moved)
    assert not any("decoder.block" in name for name in moved)
    assert tuned.test.probability.sum(1) == pytest.approx(np.ones(24))
    assert json.loads((tuned.folder / "head.json").read_text())["classes"] == ["no", "yes"]


def weights_before(spec: ModelSpec) -> dict[str, torch.Tensor]:
    return {name: one.clone() for name, one in load_model(spec).model.named_parameters()}


def test_a_frozen_body_stays_as_it_is(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    spec = specs("bert")
    before = weights_before(spec)
    tuned = tune(spec, pattern, dataclasses.replace(TINY, frozen=True), tmp_path)
    after = dict(load_model(ModelSpec(name=str(tuned.folder))).model.named_parameters())
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_fresh_control_is_drawn_by_its_seed(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    recipe = dataclasses.replace(TINY, epochs=1, frozen=True)
    drawn = [
        tune(dataclasses.replace(specs("bert"), reinitialise=seed), pattern, recipe, tmp_path / str(place))
        for place, seed in enumerate((1, 1, 2))
    ]
    first, again, other = (weights_of(one.folder) for one in drawn)
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.equal(first[name], again[name])
    assert not torch.equal(first[name], other[name])
    assert not torch.equal(first[name], weights_before(specs("bert"))[name])


@pytest.mark.slow
def test_a_pattern_of_two_places_is_learned(specs: Callable[[str], ModelSpec], tmp_path: Path) -> None:
    data = split(texts, 600, 100, 200)
    recipe = dataclasses.replace(TINY, epochs=20, batch=16, patience=20)
    tuned = tune(specs("bert"), data, recipe, tmp_path)
    assert tuned.test.share > 0.95


def test_the_best_epoch_and_rate_on_validation_are_kept(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    recipe = dataclasses.replace(TINY, rates=(1e-6, 1e-3, 3e-3), epochs=4)
    tuned = tune(specs("bert"), pattern, recipe, tmp_path)
    best = max(epoch.merit for course in tuned.courses.values() for epoch in course)
    assert (tuned.valid.share, -tuned.valid.loss) == best
    assert len(list(tmp_path.glob("setting-*/best.safetensors"))) == 1
    assert not list(tmp_path.glob("setting-*/checkpoint.pt"))
    chosen = tuned.courses[tuned.setting]
    assert next(epoch.epoch for epoch in chosen if epoch.merit == best) == tuned.epoch


def test_batches_and_epochs_are_chosen_like_rates(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    """A setting of a grid is trained as it is alone, so the grid's best is the best of them."""
    recipe = dataclasses.replace(
        TINY, rates=(1e-5, 3e-3), epochs=1, other_epochs=(3,), batch=32, other_batches=(8,)
    )
    tuned = tune(specs("bert"), pattern, recipe, tmp_path / "grid")
    assert len(tuned.courses) == 8
    assert {len(course) for setting, course in tuned.courses.items() if setting.epochs == 1} == {1}
    assert tuned.valid.share == max(epoch.valid for course in tuned.courses.values() for epoch in course)
    for setting in (recipe.settings[2], recipe.settings[7]):
        alone = FinetuneRecipe(
            length=32, epochs=setting.epochs, batch=setting.batch, rates=(setting.rate,), checkpoint=3
        )
        found = tune(specs("bert"), pattern, alone, tmp_path / str(recipe.settings.index(setting)))
        assert list(found.courses.values()) == [tuned.courses[setting]]


def test_training_ends_where_validation_no_longer_rises(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    recipe = dataclasses.replace(TINY, rates=(0.0,), epochs=50, patience=2)
    tuned = tune(specs("bert"), pattern, recipe, tmp_path)
    assert [epoch.epoch for epoch in tuned.courses[tuned.setting]] == [1, 2, 3]
    assert tuned.epoch == 1


def test_an_epoch_holds_every_example_once_in_an_order_of_its_seed() -> None:
    rng = np.random.default_rng(0)
    encoded = [EncodedExample(np.zeros(int(size)), np.zeros(0), 0) for size in rng.integers(1, 99, 1000)]
    batches = order_batches(encoded, 8, 3, 0)
    assert sorted(row for rows in batches for row in rows) == list(range(1000))
    assert batches == order_batches(encoded, 8, 3, 0)
    assert batches != order_batches(encoded, 8, 3, 1)
    assert batches != order_batches(encoded, 8, 4, 0)
    spread = [max(len(encoded[row].ids) for row in rows) * len(rows) for rows in batches]
    assert sum(spread) < 1.15 * sum(len(one.ids) for one in encoded)


def test_the_rate_rises_and_falls_in_lines() -> None:
    factors = [rate_factor(step, 20, 0.2) for step in range(20)]
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert np.allclose(np.diff(factors[4:]), -1 / 16)
    assert factors[-1] == pytest.approx(1 / 16)


def test_a_pair_keeps_its_second_text_and_says_which_is_which(specs: Callable[[str], ModelSpec]) -> None:
    loaded = load_model(specs("bert"))
    sample = Sample("x", " ".join("a" * 40) + "\n" + "b c d", 0, second=80)
    (found,) = encode_all([sample], loaded, 20)
    ids = [WORDS[number] for number in found.ids]
    assert ids == ["<s>", *"a" * 14, "</s>", "b", "c", "d", "</s>"]
    assert found.part.tolist() == [0, *[FIRST] * 14, 0, *[SECOND] * 3, 0]
    assert found.truncated
    data = TaskData(("no", "yes"), [sample], [sample], [sample])
    model = build_headed_model(loaded, data, dataclasses.replace(TINY, length=20))
    seen: dict[str, torch.Tensor] = {}
    model.body.inner.register_forward_pre_hook(lambda _, args, given: seen.update(given), with_kwargs=True)
    model(collate([0], [found], 0, torch.device("cpu")))
    assert seen["token_type_ids"].tolist() == [[0] * 16 + [1] * 4]


def test_a_limit_that_the_model_cannot_read_is_refused(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"length 65: .* reads 6 to 64 subwords"):
        tune(specs("bert"), pattern, dataclasses.replace(TINY, length=65), tmp_path)
    same = dataclasses.replace(pattern, classes=("no",))
    with pytest.raises(InputError, match="nothing to classify: all examples are 'no'"):
        tune(specs("bert"), same, TINY, tmp_path)


class TestMemoryThatRunsOut:
    """A batch that does not fit is read in portions that do, and the numbers are those of the whole one."""

    @pytest.fixture
    def scarce(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """A body without room for more than 100 padded subwords, and the sizes that it was given."""
        asked: list[int] = []
        usual = LoadedBody.forward

        def forward(body: LoadedBody, batch: Batch) -> torch.Tensor:
            asked.append(batch.ids.numel())
            states = usual(body, batch)
            if batch.ids.numel() > 100:
                if not states.requires_grad:
                    raise MemoryError
                states.register_hook(run_out)
            return states

        def run_out(gradient: torch.Tensor) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory")

        monkeypatch.setattr(LoadedBody, "forward", forward)
        return asked

    @pytest.mark.parametrize("kind", ["bert", "llama"])
    def test_portions_give_the_answers_of_the_whole(
        self,
        kind: str,
        specs: Callable[[str], ModelSpec],
        pattern: TaskData,
        tmp_path: Path,
        request: pytest.FixtureRequest,
    ) -> None:
        recipe = dataclasses.replace(TINY, dropout=0.0)
        without_dropout = read_without_dropout(specs(kind), tmp_path / "model")
        usual = tune(without_dropout, pattern, recipe, tmp_path / "usual")
        asked = request.getfixturevalue("scarce")
        found = tune(without_dropout, pattern, recipe, tmp_path / "scarce")
        assert usual.halved == 0 < found.halved <= 4
        assert sum(size > 100 for size in asked) == found.halved
        for one, other in zip(found.courses[found.setting], usual.courses[usual.setting], strict=True):
            assert one.loss == pytest.approx(other.loss, abs=1e-3)
        np.testing.assert_allclose(found.test.probability, usual.test.probability, atol=5e-3)

    def test_a_training_goes_on_with_what_fitted(
        self, specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path, scarce: list[int]
    ) -> None:
        def kill(at: int) -> None:
            if at == 7:
                raise KilledError

        with pytest.raises(KilledError):
            tune(specs("bert"), pattern, TINY, tmp_path, on_step=kill)
        met = sum(size > 100 for size in scarce)
        scarce.clear()
        found = tune(specs("bert"), pattern, TINY, tmp_path)
        assert sum(size > 100 for size in scarce) + met == found.halved > 0

    def test_an_example_that_does_not_fit_alone_is_said_in_one_line(
        self,
        specs: Callable[[str], ModelSpec],
        pattern: TaskData,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def none_left(body: LoadedBody, batch: Batch) -> torch.Tensor:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes")

        monkeypatch.setattr(LoadedBody, "forward", none_left)
        with pytest.raises(
            InputError, match=r"a single example of .* subwords does not fit .* finetune.length"
        ):
            tune(specs("bert"), pattern, TINY, tmp_path)

    def test_another_error_stays_what_it_is(
        self,
        specs: Callable[[str], ModelSpec],
        pattern: TaskData,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def broken(body: LoadedBody, batch: Batch) -> torch.Tensor:
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

        monkeypatch.setattr(LoadedBody, "forward", broken)
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            tune(specs("bert"), pattern, TINY, tmp_path)


def read_without_dropout(spec: ModelSpec, folder: Path) -> ModelSpec:
    """The same model with nothing left to chance: portions draw other numbers than the whole batch."""
    shutil.copytree(spec.name, folder)
    facts = json.loads((folder / "config.json").read_text())
    facts |= {name: 0.0 for name in facts if "dropout" in name and isinstance(facts[name], float)}
    (folder / "config.json").write_text(json.dumps(facts))
    return dataclasses.replace(spec, name=str(folder))
