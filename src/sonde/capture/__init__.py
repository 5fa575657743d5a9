"""Capture: the only place where a model runs; requests in, reduced observations out.

`prepare` makes items ready for a model, a `Pass` says what is wanted of them (see `sonde.capture.requests`),
and `observe` gives it item by item, in bounded memory: no attention map and no logits are ever kept whole.

    model = sonde.load_model("sonde/mini-decoder")
    items = select("local:src", Selection(limit=10)).items
    wanted = [Pass(Plain(), (HiddenStates(pooling=("mean",)),))]
    for captured in observe(model, prepare(model, items), wanted):
        captured.states["mean"]  # layer x d_model, the embeddings first

What is changed on the way is a request too (`sonde.capture.interventions`): the item read with a state
mapped, or with another one in its place, at a layer, in heads, at some subwords.

    silent = Put(np.zeros((1, 48), np.float32))
    wanted = [Pass(Changed(Plain(), (Change(2, silent, "heads", (1,)),), "head 2.1"), (TokenScores(),))]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sonde.capture.interventions import Affine, Change, Put
from sonde.capture.requests import (
    Answer,
    AnswerRanks,
    AttentionRows,
    Changed,
    HeadOutputs,
    HiddenStates,
    ItemCapture,
    LayerScores,
    Masked,
    Pass,
    Plain,
    Prepared,
    TokenScores,
    WordAttention,
    prepare,
)
from sonde.capture.settings import VERSION, CaptureOptions, CaptureSettings

if TYPE_CHECKING:
    from sonde.capture.forward import observe, observe_lenses

__all__ = [
    "VERSION",
    "Affine",
    "Answer",
    "AnswerRanks",
    "AttentionRows",
    "CaptureOptions",
    "CaptureSettings",
    "Change",
    "Changed",
    "HeadOutputs",
    "HiddenStates",
    "ItemCapture",
    "LayerScores",
    "Masked",
    "Pass",
    "Plain",
    "Prepared",
    "Put",
    "TokenScores",
    "WordAttention",
    "observe",
    "observe_lenses",
    "prepare",
]


def __getattr__(name: str) -> Any:
    # What needs torch is imported when it is asked for: plans and lenses do without.
    if name not in ("observe", "observe_lenses"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sonde.capture import forward

    return getattr(forward, name)
