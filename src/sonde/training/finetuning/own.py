"""The classifier that transformers has for an architecture, made of a loaded model; saved as one again."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sonde.base.fingerprint import derive_seed
from sonde.models import LoadedModel
from sonde.models._quiet import quiet
from sonde.training.finetuning.recipe import FineTuning

_DROPOUTS = ("classifier_dropout", "cls_dropout", "seq_classif_dropout", "classif_dropout")


def own_classifier(loaded: LoadedModel, classes: Sequence[str], recipe: FineTuning) -> Any | None:
    """A model of the class that ``AutoModelForSequenceClassification`` picks, with the loaded body.

    Args:
        loaded: The model; the weights that both have are shared with it.
        classes: Names of the classes, in their order.
        recipe: The dropout before the last layer, and the seed of what the checkpoint does not hold.

    Returns:
        The classifier; None where transformers has none for it, one that is not made of this body, or one
        that reads the sign before a text where the tokenizer puts none.
    """
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as KNOWN

    config = loaded.model.config
    if loaded.capabilities.kind == "encoder-decoder" or getattr(config, "auto_map", None):
        return None
    picked: Any = KNOWN.get(type(config), None)
    named = hasattr(config, "classifier_pooling") or loaded.capabilities.kind == "decoder"
    if picked is None or not (named or loaded.special.prefix):
        # Such classifiers read the first subword, which here is the text's own.
        return None
    config = copy.deepcopy(config)
    config.num_labels = len(classes)
    config.id2label = dict(enumerate(classes))
    config.label2id = {name: place for place, name in enumerate(classes)}
    config.problem_type = "single_label_classification"
    # Decoders are read at the last subword that is no padding.
    config.pad_token_id = loaded.special.pad
    for name in _DROPOUTS:
        if hasattr(config, name):
            setattr(config, name, recipe.dropout)
    if hasattr(config, "classifier_pooling"):
        config.classifier_pooling = "mean"
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(derive_seed("head", recipe.seed) % 2**63)
        own = picked._from_config(config, attn_implementation=config._attn_implementation)
    own = own.to(loaded.device, loaded.model.dtype)
    held, known = loaded.model.state_dict(), own.state_dict()
    prefix = f"{own.base_model_prefix}."
    shared = {
        name: weight for name, weight in held.items() if name in known and known[name].shape == weight.shape
    }
    lost = [name for name in held if name.startswith(prefix) and name not in shared]
    if lost or not any(name.startswith(prefix) for name in shared):
        return None
    own.load_state_dict(shared, strict=False, assign=True)
    return own.requires_grad_().eval()


def save_own(own: Any, loaded: LoadedModel, folder: Path) -> None:
    """Save a classifier, with the head that the model had before where it has kept one.

    The files then hold both: transformers reads the classifier, and sonde's lenses read the language model.
    Architectures whose two heads share weights (ModernBERT) have lost the old one.

    Args:
        own: The classifier.
        loaded: The model that it was made of.
        folder: Where to.
    """
    state, old = own.state_dict(), loaded.model.state_dict()
    prefix = f"{own.base_model_prefix}."
    changed = any(name in state and not name.startswith(prefix) for name in old)
    # What is a second name of another weight is made again when the model is read.
    again = set(getattr(loaded.model, "all_tied_weights_keys", None) or ())
    more = {name: weight for name, weight in old.items() if name not in state and name not in again}
    # What was drawn where the files held no head is none.
    held = not changed and loaded.capabilities.head
    both = held and bool(more)
    with quiet():
        own.save_pretrained(folder, state_dict=state | (more if both else {}))
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    tied = loaded.model.config.tie_word_embeddings and held
    if both or tied:
        config["architectures"] = [type(own).__name__, type(loaded.model).__name__]
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
