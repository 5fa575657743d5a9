"""Saving a model as transformers does, but for a head that its files never held."""

from __future__ import annotations

from pathlib import Path

from sonde.models._family import LoadedModel
from sonde.models._preflight import head_weights
from sonde.models._quiet import quiet


def save_model(loaded: LoadedModel, folder: Path) -> None:
    """Write the weights and configuration of a model; a head of random weights is left out.

    Raises:
        OSError: The folder cannot be written.
    """
    model = loaded.model
    kept = None
    if not loaded.capabilities.head:
        absent = head_weights(model, ())
        kept = {name: weight for name, weight in model.state_dict().items() if name not in absent}
    with quiet():
        model.save_pretrained(folder, state_dict=kept)
