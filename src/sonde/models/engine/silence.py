"""Messages of transformers and torch while they load: kept off the terminal, or put into one line."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

MODEL_CODE_ERRORS = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Exceptions that a model's own code raises on input that it cannot process."""


def format_error(error: BaseException) -> str:
    """Format an exception of a library in one line: its message, or its type if that is empty."""
    return " ".join(str(error).split())[:300] or type(error).__name__


@contextmanager
def silence_libraries() -> Generator[None]:
    """Hide the progress bars, retries and advice of the Hugging Face libraries in this context."""
    from transformers.utils import logging as transformers_logging

    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub", "accelerate", "peft")]
    levels = [logger.level for logger in loggers]
    has_progress_bars = transformers_logging.is_progress_bar_enabled()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if has_progress_bars:
            transformers_logging.enable_progress_bar()
