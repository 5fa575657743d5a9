"""Settings of capture; only context and step change a number beyond its rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sonde.base.errors import UsageError
from sonde.base.options import Count, NonNegative, Share, ValidatedRecord, check_fields, option

VERSION = "5"
"""Raised whenever a captured number may change; part of the fingerprint of every observation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings(ValidatedRecord):
    """Settings for cutting, batching and reducing inputs.

    Attributes:
        token_budget: Padded tokens per batch; 0 means by device (1,024 on a CPU, where
            larger batches leave its cache and pad more; 32,768 on an accelerator).
        context: Positions a window may hold, special tokens included; 0 means all that the model can take.
        step: Positions by which each further window of a long item advances, a whole window at most; 0 means
            half a window.
        chunk: Positions whose logits exist at the same time; 0 means by device (512 on a CPU, fewer where
            their logits would take more than 128 MiB; 2,048 on an accelerator).
        block: Items that are batched together; bounds memory whatever the length of the job; 0 means by
            device (256 on a CPU, 1,024 on an accelerator, whose batches need more to choose from).
        fill: Real tokens that a batch holds at least, as a share of its padded ones; 0 means by device (0.85
            on an accelerator, where a batch of 32,768 reaches from long rows to short ones; on a CPU, whose
            batches are small, none).
        share: Whether a decoder reads once what several texts of a block begin with.
    """

    token_budget: NonNegative = 0
    context: NonNegative = 0
    step: NonNegative = 0
    chunk: NonNegative = 0
    block: NonNegative = 0
    fill: Share = 0.0
    share: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Options of a run for the forward passes of all its lenses."""

    context: Count | None = option(
        None,
        "most positions that a model reads at once, with special tokens; longer texts are read "
        "in overlapping windows",
        flag="--context",
        unset="the maximum of the model",
        synonyms=("maximum length", "truncation", "window size"),
    )
    stride: Count | None = option(
        None,
        "positions by which each further window advances, at most the context",
        flag="--stride",
        unset="half a window",
        synonyms=("overlap", "sliding window"),
    )
    bos: Literal["auto", "none", "always"] = option(
        "auto",
        "token that a decoder reads before each text: auto (start token, else end-of-text token, "
        "else none), always (as auto, but an error if the model has neither) or none. If the "
        "tokenizer adds a start token to every text, each window of a longer text begins with "
        "it. An option of a lens takes precedence",
        flag="--bos",
        synonyms=("start token", "beginning of sequence", "special tokens"),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.context is not None and self.stride is not None and self.stride > self.context:
            raise UsageError(
                f"stride = {self.stride} is more than context = {self.context}, so that windows would leave "
                "gaps; give a stride of at most the context"
            )

    @property
    def settings(self) -> CaptureSettings:
        """Return the settings for cutting inputs."""
        return CaptureSettings(context=self.context or 0, step=self.stride or 0)
