from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CODE = '''
def area(shape, *, scale=1.0):
    """Surface of a shape, in square units."""
    if shape is None:
        raise ValueError("no shape")
    for side in shape.sides:
        scale *= length(side)
    return scale


class Shape:
    def sides(self):
        return [Side(one, other) for one, other in pairs(self.points)]
'''


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<bos>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CODE], trainer)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", pad_token="<pad>", mask_token="<mask>"
    ).save_pretrained(folder)


def save_decoder(folder: Path, *, context: int = 64, break_it: bool = False) -> Path:
    save_tokenizer(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    if break_it:
        with torch.no_grad():
            model.model.embed_tokens.weight[50:] = float("nan")
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_decoder(tmp_path_factory.mktemp("models") / "decoder")


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "encoder"
    save_tokenizer(folder)
    config = BertConfig(
        vocab_size=400, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven packages that call each other, with text that offsets trip over."""
    root = tmp_path_factory.mktemp("project")
    for package in range(11):
        folder = root / f"package{package}"
        folder.mkdir()
        functions = [
            f"def work_{package}_{index}(value, other={index}):\n"
            f"    # Grüße aus {package}\n"
            f"    total = 'é\U0001f600' * {package * 13 + index}\n"
            f"    for step in range({index + 2}):\n"
            f"        total += work_{(package + 1) % 11}_{index % 3}(value).strip()\n"
            f"        total = total + str(other_{package} - step)\n"
            f"    return len(total), print(value, {package}{index})\n"
            for index in range(30)
        ]
        for part in range(3):
            (folder / f"module{part}.py").write_text("\n\n".join(functions[part * 10 : part * 10 + 10]))
    return root
