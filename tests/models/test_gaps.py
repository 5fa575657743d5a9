"""How encoder-decoders are asked for what is left out of a text."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from sonde.models import Gap, ModelSpec, describe_model, describe_special
from tests.denoisers import SENTINELS, SPECIAL, save_bart, save_t5

TEXTS = ["import numpy as np", "from os.path import join", "np.zeros(1)"]


def gap_of(folder: Path) -> Gap | None:
    return describe_special(ModelSpec(name=str(folder))).gap


def test_t5_writes_behind_its_sentinel(tmp_path: Path) -> None:
    folder = save_t5(tmp_path, TEXTS)
    sign = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(SENTINELS[0])
    assert gap_of(folder) == Gap(sign=sign, before=(0, sign), repeats=False)
    assert describe_model(ModelSpec(name=str(folder))).masks


def test_a_sentinel_among_the_pieces_is_found(tmp_path: Path) -> None:
    folder = save_t5(tmp_path, TEXTS, sentinels=("\u2581<extra_id_0>",))
    gap = gap_of(folder)
    assert gap is not None and gap.before[-1] == gap.sign


def test_without_a_sentinel_there_is_no_gap(tmp_path: Path) -> None:
    folder = save_t5(tmp_path, TEXTS, sentinels=())
    assert gap_of(folder) is None
    assert not describe_model(ModelSpec(name=str(folder))).masks


@pytest.mark.parametrize("plbart", [False, True])
def test_bart_writes_the_text_again(plbart: bool, tmp_path: Path) -> None:
    folder = save_bart(tmp_path, TEXTS, plbart=plbart)
    found = gap_of(folder)
    assert found is not None and found.repeats and found.sign == SPECIAL.index("<mask>")
    # What the model itself puts before its target.
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    ids = AutoTokenizer.from_pretrained(folder)("np.zeros", return_tensors="pt")["input_ids"]
    shifted = model.prepare_decoder_input_ids_from_labels(ids) if not plbart else _shifted(model, ids)
    assert tuple(shifted[0, : len(found.before)].tolist()) == found.before


def _shifted(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    seen: list[torch.Tensor] = []

    def look(_: object, __: object, arguments: dict[str, torch.Tensor]) -> None:
        seen.append(arguments["input_ids"])

    model.get_decoder().register_forward_pre_hook(look, with_kwargs=True)  # type: ignore[operator]
    model(input_ids=ids, labels=ids)
    return seen[0]
