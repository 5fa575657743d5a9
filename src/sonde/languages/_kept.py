"""What was made of the texts that are asked about in turn, kept within a number of characters."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")

# Callers ask the same text for its tree, its tokens and, when its batch has been forwarded, its constructs:
# the texts of a job's functions, or one large file.
_CHARACTERS = 200_000


class Kept(Generic[V]):
    """Answers by text, the oldest forgotten first; one text is kept however long it is.

    Args:
        make: The answer to a text.
        characters: How many characters the texts may have together.
    """

    def __init__(self, make: Callable[[str], V], characters: int = _CHARACTERS) -> None:
        self._make = make
        self._most = characters
        self._answers: OrderedDict[str, V] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def __call__(self, text: str) -> V:
        found = self._answers.get(text)
        if found is not None:
            return found
        made = self._make(text)
        with self._lock:
            if text not in self._answers:
                self._answers[text] = made
                self._held += len(text)
            while self._held > self._most and len(self._answers) > 1:
                self._held -= len(self._answers.popitem(last=False)[0])
        return made
