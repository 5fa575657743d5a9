"""Mean loss of each kind of subword by perplexed: `python score_perplexed.py MODEL TEXTS`."""

import json
import sys
import time
from pathlib import Path

import datasets
import transformers
from perplexed.core import perplexed  # pyright: ignore[reportMissingImports]

TOGETHER = 16


def main(model: str, texts: str) -> None:
    """Print the seconds of loading and of scoring."""
    begun = time.perf_counter()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    loaded_model = transformers.AutoModelForCausalLM.from_pretrained(model).eval()
    # It pads every text to the longest that the tokenizer allows, which a bundled tokenizer leaves open.
    tokenizer.model_max_length = loaded_model.config.max_position_embeddings
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    loaded = time.perf_counter()
    rows = datasets.Dataset.from_dict({"text": json.loads(Path(texts).read_text(encoding="utf-8"))})
    perplexed(
        loaded_model,
        rows,
        tokenizer,
        batch_size=TOGETHER,
        num_proc=1,
        device="cpu",
        collate_fn=transformers.default_data_collator,
    )
    print(json.dumps({"loading": loaded - begun, "scoring": time.perf_counter() - loaded}))


if __name__ == "__main__":
    main(*sys.argv[1:])
