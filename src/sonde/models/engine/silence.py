"""Messages and errors of libraries while a model loads: kept off the terminal, or put into one line."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from sonde.base.errors import InputError, SondeError

MODEL_CODE_ERRORS = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Exceptions that a model's own code raises on input that it cannot process."""


def format_error(error: BaseException) -> str:
    """Format an exception of a library in one line: its message, or its type if that is empty."""
    return " ".join(str(error).split())[:300] or type(error).__name__


@contextmanager
def one_line_errors(
    subject: str,
    kinds: tuple[type[Exception], ...] = (Exception,),
    *,
    exempt_kinds: tuple[type[Exception], ...] = (),
    fix: str = "",
) -> Generator[None]:
    """Turn the errors of a library in this context into an `InputError` of one line; those of sonde pass.

    Args:
        subject: The begin of the line: what cannot be done.
        kinds: The errors.
        exempt_kinds: Those of them that are raised as they are.
        fix: The end of the line.
    """
    try:
        yield
    except (SondeError, *exempt_kinds):
        raise
    except kinds as error:
        raise InputError(f"{subject}: {format_error(error)}{fix}") from error


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
