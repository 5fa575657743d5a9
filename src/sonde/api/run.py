"""``sonde.run``: what ``sonde run`` does, from Python."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from typing import Unpack

from sonde.api.results import Run
from sonde.base.errors import UsageError
from sonde.base.progress import NullProgress, Progress
from sonde.experiments import Experiment
from sonde.experiments.arguments import Names, RunArguments, from_arguments
from sonde.experiments.run import run as carry_out
from sonde.store.remote import sync_folder


def run(
    models: Names | Experiment | None = None,
    corpora: Names | None = None,
    /,
    # Parameters before the slash may be keywords as well (PEP 692), which pyright does not know.
    **arguments: Unpack[RunArguments],  # pyright: ignore[reportGeneralTypeIssues]
) -> Run:
    """Measure models on code. The same call again resumes, or reuses finished work.

        sonde.run("gpt2", "local:src", lens="surprisal", limit=50)

    Models and corpora may be passed by position or by name; an `Experiment` may replace the models. Arguments
    have the names and defaults of the options of ``sonde run``: the same values give the same scores in the
    same folder. An argument for several values takes a list or a single value, and also has the singular name
    of the command line. Arguments override the values of ``experiment`` or ``file``. Without arguments this
    is the demo; with ``languages`` only, the demo in these languages.

    Some lenses start processes, which import the calling script. So put the call of a script under
    ``if __name__ == "__main__":``. Notebooks and ``python -c`` need nothing.

    Args:
        models: Paths, hub names (``name@revision``) or bundled names; ``name?adapter=PATH&quantise=8bit`` for
            one with an adapter, or with quantised weights.
        model: One model; the same as ``models``.
        corpora: ``stdlib``, ``local:DIR``, ...; ``sonde list corpora``.
        corpus: One corpus; the same as ``corpora``.
        lenses: Public names or ``.py`` files; ``sonde list lenses``.
        lens: One lens; the same as ``lenses``.
        tasks: Tasks instead of the defaults; public names or ``.py`` files; ``sonde list tasks``.
        task: One task; the same as ``tasks``.
        languages: Only these.
        language: One language; the same as ``languages``.
        experiment: The experiment, as plain data.
        file: An experiment file (TOML), in place of ``experiment``.
        unit: What an item is: ``"function"`` or ``"file"``.
        limit: At most this many items per task and language; a larger limit contains a smaller one.
        per_cluster: At most this many items per cluster; 0 for no cap.
        cut_off: Only items written wholly before this day (``"2024-12-31"``) or wholly since.
        transform: Rewrite programs so that they do the same: ``"rename"``, ``"shuffle"``, ``"mislead"``,
            ``"layout"``, ``"comments"``, ``"docstrings"`` or ``"swap"``.
        context: Most positions that a model reads at once.
        stride: Positions by which each further window of a longer text advances.
        bos: Whether a decoder reads its start token before a text: ``"auto"``, ``"none"`` or ``"always"``.
        mode: ``"corrected"``, or ``"paper"``: as published, quirks included.
        quirks: Single quirks of a paper that are switched on.
        quirk: One quirk; the same as ``quirks``.
        adapter: A PEFT adapter over each model.
        quantise: ``"8bit"`` or ``"4bit"``: quantise linear layers with bitsandbytes.
        seed: Seed of sampling and of everything random.
        options: Options of lenses, ``{"probe": {"folds": 3}}``, or as on the command line,
            ``["probe.folds=3"]``; ``sonde list options``.
        option: One option, ``"probe.folds=3"``; the same as ``options``.
        include_seen: Score items of a bundled model's training data too.
        lock: Run on exactly the items of a lock file.
        output: Folder of the run, or an address (``s3://bucket/run``); by default a folder below ``runs/``
            named after the experiment.
        executor: Where jobs run; this machine by default.
        address: Address of a Ray cluster; by default ``RAY_ADDRESS``, else one is started here.
        budget: A time, as ``"2h"``: stop reading items after it, and score those that were read.
            The same call again resumes there.
        workers: Processes at a time; by default 1 with a model, else one per core.
        device: ``"auto"`` by default, ``"cpu"``, ``"cuda"``, ...
        device_map: Placement of the parts of a model: ``"auto"``, or devices by module (also as a JSON file),
            ``"cpu"`` and ``"disk"`` among them; by default all on the device.
        dtype: ``"auto"`` by default (that of its weights, but float32 for float16 on a CPU),
            ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"tf32"``.
        batch_tokens: Subwords that a model reads at once; fewer take less memory and change no score.
        trust_remote_code: Let a hub model run its code.
        progress: Where the run reports its progress: by default bars on a terminal, a line that changes in a
            notebook, and lines on standard error elsewhere; False for none.

    Returns:
        The finished run. `Run.page` builds its report on first use.

    Raises:
        SondeError: With the line that the command line prints; finished work is kept.
    """
    _check_main_guard()
    first = "experiment" if isinstance(models, Experiment) else "models"
    experiment, execution = from_arguments(by_position={first: models, "corpora": corpora}, **arguments)
    progress = _choose_progress(arguments.get("progress"))
    try:
        with sync_folder(execution.output, progress.note) as folder:
            # The page is not part of this call.
            outcome = carry_out(experiment, replace(execution, output=folder), progress)
            return Run(outcome.directory.root)
    except KeyboardInterrupt:
        progress.note(
            f"stopped; finished parts are kept in {execution.output}: the same call resumes the run"
        )
        raise


def _choose_progress(progress: Progress | bool | None) -> Progress:
    if progress is False:
        return NullProgress()
    if progress is None or progress is True:
        from sonde.base.progress_display import make_progress

        return make_progress()
    return progress


def _check_main_guard() -> None:
    """Refuse a call by a script that a process of a run only imports: it would run inside itself.

    Raises:
        UsageError: It is one.
    """
    # Set while a started process imports the script; Python itself asks it for the same purpose.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UsageError(
            "sonde.run was called while a process of a run imported this script; "
            'put the call under `if __name__ == "__main__":`'
        )
