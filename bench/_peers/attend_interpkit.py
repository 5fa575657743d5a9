"""Attention of every head by interpkit: `python attend_interpkit.py MODEL TEXTS`."""

import contextlib
import io
import json
import sys
import time
from pathlib import Path

import interpkit  # pyright: ignore[reportMissingImports]


def main(model: str, texts: str) -> None:
    """Print the seconds of loading and of reading."""
    begun = time.perf_counter()
    loaded_model = interpkit.load(model, attention_impl="eager", device="cpu")
    loaded = time.perf_counter()
    for text in json.loads(Path(texts).read_text(encoding="utf-8")):
        # It prints what it finds of each text.
        with contextlib.redirect_stdout(io.StringIO()):
            loaded_model.attention(text)
    print(json.dumps({"loading": loaded - begun, "scoring": time.perf_counter() - loaded}))


if __name__ == "__main__":
    main(*sys.argv[1:])
