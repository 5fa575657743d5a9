"""Progress as a person sees it: bars on a terminal, one changing line in a notebook, lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from sonde.base.formatting import duration
from sonde.base.progress import Advance
from sonde.base.terminal import escape_text, print_lines, print_note

_SECONDS_BETWEEN_LINES = 10.0


_SHARE_BETWEEN_LINES = 0.02
"""Of the time so far: a stage of hours has some hundred lines, and one of a minute has six."""


_SECONDS_BETWEEN_UPDATES = 0.5
"""Of the line in a notebook."""


_SECONDS_UNTIL_SHOWN = 2.0
"""A stage that is over sooner has no line of its own in a notebook."""


class _Position:
    """Position of a stage: units done and the time left, safe to read from another thread."""

    def __init__(self, title: str, total: int | None) -> None:
        self.title, self.total = title, total
        self.begin = time.monotonic()
        self._lock = threading.Lock()
        self._done = self._reused = 0
        self._estimate: tuple[float, float] | None = None

    def advance(self, count: int = 1, /, *, remaining: float | None = None, reused: bool = False) -> None:
        """Take in finished units, and when the stage will end; see `Advance`."""
        with self._lock:
            self._done += count
            self._reused += count if reused else 0
            self._estimate = None if remaining is None else (time.monotonic(), remaining)

    def remaining_seconds(self) -> float | None:
        """Return the last estimate, else one from the units done; None if neither is known."""
        with self._lock:
            left, estimate = (self.total or 0) - self._done, self._estimate
            measured = self._done - self._reused
        now = time.monotonic()
        if estimate is not None:
            return max(0.0, estimate[0] + estimate[1] - now)
        if not self.total or not measured:
            return None
        return (now - self.begin) * left / measured

    def describe(self) -> str:
        """Describe the position in one line."""
        remaining = self.remaining_seconds()
        left = "" if remaining is None else f", about {duration(remaining)} left"
        count = f"{self._done}/{self.total or '?'} after " if self._done or self.total else ""
        return f"{self.title}: {count}{time.monotonic() - self.begin:.0f} s{left}"


@contextmanager
def _repeat(action: Callable[[], object], seconds: float) -> Generator[None]:
    """Call an action again and again in a thread, so that a long step of the computation is not silent."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            action()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _RemainingColumn(ProgressColumn):
    """The time left of a stage."""

    def render(self, task: Task) -> Text:
        position: _Position = task.fields["position"]
        remaining = None if task.finished else position.remaining_seconds()
        text = "" if remaining is None else f"about {duration(remaining)} left"
        return Text(text, style="progress.remaining")


class TerminalProgress:
    """Progress bars that stay when they are done."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Generator[Advance]:
        """See `sonde.base.progress.Progress.stage`."""
        columns = (
            TextColumn("{task.description:<10}", markup=False),
            BarColumn(bar_width=36),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _RemainingColumn(),
        )
        with Progress(*columns, console=self._console) as bars:
            position = _Position(title, total)
            bar = bars.add_task(escape_text(title), total=total, position=position)

            def advance(count: int = 1, /, **known: Any) -> None:
                position.advance(count, **known)
                bars.advance(bar, count)

            yield advance
            if total is None:
                bars.update(bar, total=1, completed=1)

    def note(self, line: str) -> None:
        """See `sonde.base.progress.Progress.note`."""
        self._console.print(escape_text(line), markup=False, highlight=False, soft_wrap=True)


class PlainProgress:
    """Progress as lines: at the start of each stage, every ten seconds or so, and at its end."""

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Generator[Advance]:
        """See `sonde.base.progress.Progress.stage`."""
        position = _Position(title, total)
        last = position.begin
        lock = threading.Lock()

        def say() -> None:
            nonlocal last
            with lock:
                now = time.monotonic()
                pause = max(_SECONDS_BETWEEN_LINES, _SHARE_BETWEEN_LINES * (now - position.begin))
                if now - last >= pause:
                    last = now
                    self.note(position.describe())

        def advance(count: int = 1, /, **known: Any) -> None:
            position.advance(count, **known)
            say()

        self.note(f"{title}: begins")
        with _repeat(say, _SECONDS_BETWEEN_LINES):
            yield advance
        self.note(f"{title}: done in {time.monotonic() - position.begin:.1f} s")

    def note(self, line: str) -> None:
        """See `sonde.base.progress.Progress.note`."""
        print_note(line)


class NotebookProgress:
    """Progress as one line per stage that changes in place, below the cell that computes."""

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Generator[Advance]:
        """See `sonde.base.progress.Progress.stage`."""
        from IPython.display import display

        position = _Position(title, total)
        handle: Any = None
        last = position.begin
        lock = threading.Lock()

        def show(line: str) -> None:
            nonlocal handle
            content = {"text/plain": escape_text(line)}
            if handle is None:
                handle = display(content, raw=True, display_id=True)
            else:
                handle.update(content, raw=True)

        def refresh() -> None:
            nonlocal last
            with lock:
                now = time.monotonic()
                wait = _SECONDS_BETWEEN_UPDATES if handle else _SECONDS_UNTIL_SHOWN
                if now - last >= wait:
                    last = now
                    show(position.describe())

        def advance(count: int = 1, /, **known: Any) -> None:
            position.advance(count, **known)
            refresh()

        with _repeat(refresh, _SECONDS_UNTIL_SHOWN):
            yield advance
        if handle is not None:
            show(f"{title}: done in {time.monotonic() - position.begin:.1f} s")

    def note(self, line: str) -> None:
        """See `sonde.base.progress.Progress.note`."""
        print_lines(line)


def make_progress() -> TerminalProgress | PlainProgress | NotebookProgress:
    """Create the progress that fits: of a notebook, else of standard error."""
    if _is_notebook():
        return NotebookProgress()
    return TerminalProgress(Console(stderr=True)) if sys.stderr.isatty() else PlainProgress()


def _is_notebook() -> bool:
    """Return whether a kernel of Jupyter runs this process; IPython in a terminal has none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
