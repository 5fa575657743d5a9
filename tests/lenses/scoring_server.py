"""A server in a test that scores prompts with a model of this machine, as vLLM does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase


class ScoringModel:
    """Completions of a model, with log-probabilities of the prompt in one of the two ways.

    Args:
        model: A causal model of transformers.
        tokenizer: Its tokenizer.
        start: Id of the token that the server puts before each prompt; None for none.
        way: ``"echo"`` or ``"prompt_logprobs"``; the other one is declined.
        longest: Tokens of a prompt at most.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        *,
        start: int | None,
        way: str,
        longest: int = 1 << 20,
    ) -> None:
        self._model, self._tokenizer = model.float().eval(), tokenizer
        self._start, self._way, self._longest = start, way, longest

    @torch.inference_mode()
    def __call__(self, body: Mapping[str, Any]) -> Any:
        """The answer to a request, or the code of an error and its reason."""
        if ("echo" in body) != (self._way == "echo"):
            return 400, "unknown parameter"
        ids = self._tokenizer(body["prompt"], add_special_tokens=False)["input_ids"]
        ids = ids if self._start is None else [self._start, *ids]
        if len(ids) > self._longest:
            return 400, f"maximum context length is {self._longest} tokens, and the prompt has {len(ids)}"
        logs = self._model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1}
        choice = self._echoed(ids, logs, body) if self._way == "echo" else self._prompted(ids, logs, body)
        return {"choices": [choice], "usage": usage}

    def _text(self, number: int) -> str:
        return self._tokenizer.decode([number])

    def _echoed(self, ids: list[int], logs: torch.Tensor, body: Mapping[str, Any]) -> dict[str, Any]:
        written = int(logs[-1].argmax())
        best = logs[:-1].topk(body["logprobs"], -1)
        among = [
            {self._text(number): log for number, log in zip(numbers, row, strict=True)}
            for numbers, row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        own = [float(logs[place, number]) for place, number in enumerate(ids[1:])]
        told = {
            "tokens": [self._text(number) for number in [*ids, written]],
            "token_logprobs": [None, *own, float(logs[-1, written])],
            "top_logprobs": [None, *among, {self._text(written): float(logs[-1, written])}],
        }
        return {"text": "", "logprobs": told}

    def _prompted(self, ids: list[int], logs: torch.Tensor, body: Mapping[str, Any]) -> dict[str, Any]:
        rows: list[dict[str, Any] | None] = [None]
        for place, number in enumerate(ids[1:]):
            own = logs[place]
            numbers = dict.fromkeys([number, *own.topk(body["prompt_logprobs"]).indices.tolist()])
            rows.append(
                {
                    str(one): {
                        "logprob": float(own[one]),
                        "rank": int((own >= own[one] - 1e-4).sum()),
                        "decoded_token": self._text(one),
                    }
                    for one in numbers
                }
            )
        return {"text": "", "prompt_logprobs": rows}
