"""Surprisal of each subword by minicons: `python score_minicons.py MODEL TEXTS`."""

import json
import sys
import time
from pathlib import Path

from minicons.scorer import IncrementalLMScorer  # pyright: ignore[reportMissingImports]

TOGETHER = 16


def main(model: str, texts: str) -> None:
    """Print the seconds of loading and of scoring."""
    begun = time.perf_counter()
    scorer = IncrementalLMScorer(model, "cpu")
    loaded = time.perf_counter()
    rows = sorted(json.loads(Path(texts).read_text(encoding="utf-8")), key=len)
    for at in range(0, len(rows), TOGETHER):
        scorer.token_score(rows[at : at + TOGETHER], surprisal=True)
    print(json.dumps({"loading": loaded - begun, "scoring": time.perf_counter() - loaded}))


if __name__ == "__main__":
    main(*sys.argv[1:])
