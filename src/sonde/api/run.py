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
    # What stands before the slash may be a keyword as well (PEP 692), which pyright does not know.
    **arguments: Unpack[RunArguments],  # pyright: ignore[reportGeneralTypeIssues]
) -> Run:
    """Measure models on code, or go on where an earlier call stood; the same call again finds all done.

        sonde.run("gpt2", "local:src", lens="surprisal", limit=50)

    Models and corpora may be given by position or by name; an `Experiment` may stand in place of the models.
    Arguments are named as the options of ``sonde run`` and have its defaults: the same values give the same
    scores in the same folder. An argument for several values takes a list or a single value, and also has the
    singular name of the command line. What is given lies over ``experiment`` or ``file``; without any
    argument it is the demo, with ``languages`` alone the demo in them.

    Some lenses start processes, which import the script that calls: there the call belongs under
    ``if __name__ == "__main__":``. Notebooks and ``python -c`` need nothing.

    Args:
        models: Paths, hub names (``name@revision``) or bundled names; ``name?adapter=PATH&quantise=8bit`` for
            one with an adapter, or with weights of fewer bits.
        model: One model; the same as ``models``.
        corpora: ``stdlib``, ``local:DIR``, ...; ``sonde list corpora``.
        corpus: One corpus; the same as ``corpora``.
        lenses: Public names or ``.py`` files; ``sonde list lenses``.
        lens: One lens; the same as ``lenses``.
        tasks: Run these instead of the defaults, public names or ``.py`` files; ``sonde list tasks``.
        task: One task; the same as ``tasks``.
        languages: Only these.
        language: One language; the same as ``languages``.
        experiment: What is measured, as plain data.
        file: Or an experiment file (TOML).
        unit: What an item is: ``"function"`` or ``"file"``.
        limit: At most this many items a task and language; a larger limit contains a smaller one.
        per_cluster: At most this many items a cluster; 0 for no cap.
        cut_off: Only items written wholly before this day (``"2024-12-31"``) or wholly since.
        transform: The same programs in other words: ``"rename"``, ``"shuffle"``, ``"mislead"``, ``"layout"``,
            ``"comments"``, ``"docstrings"`` or ``"swap"``.
        context: At most this many subwords are read at once.
        stride: Subwords by which windows of a longer text are apart.
        bos: Whether a text is read behind the token that begins one: ``"auto"``, ``"none"`` or ``"always"``.
        mode: ``"corrected"``, or ``"paper"``: as published, quirks included.
        quirks: Single quirks of a paper that are switched on.
        quirk: One quirk; the same as ``quirks``.
        adapter: A PEFT adapter over each model.
        quantise: ``"8bit"`` or ``"4bit"``: bits of the weights of linear layers, by bitsandbytes.
        seed: Seed of sampling and of everything random.
        options: Options of lenses, ``{"probe": {"folds": 3}}``, or as on the command line,
            ``["probe.folds=3"]``; ``sonde list options``.
        option: One option, ``"probe.folds=3"``; the same as ``options``.
        include_seen: Score items of a bundled model's training data too.
        lock: Run on exactly the items of a lock file.
        output: Folder of the run, or an address (``s3://bucket/run``); by default a folder below ``runs/``
            that is named after what is measured.
        executor: Where jobs run; this machine by default.
        address: Where a Ray cluster answers; by default at ``RAY_ADDRESS``, else one is started here.
        budget: A time, as ``"2h"``: items are read in their order until it is up, and those are scored.
            The same call again goes on from there.
        workers: Processes at a time; by default 1 with a model, else one a core.
        device: ``"auto"`` by default, ``"cpu"``, ``"cuda"``, ...
        device_map: Where the parts of a model lie: ``"auto"``, or devices by module (also as a JSON file),
            ``"cpu"`` and ``"disk"`` among them; by default all on the device.
        dtype: ``"auto"`` by default (that of its weights, but float32 for float16 on a processor),
            ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"tf32"``.
        batch_tokens: Subwords that a model reads at once; fewer take less memory and change no score.
        trust_remote_code: Let a hub model run its code.
        progress: Where the run reports its progress: by default bars on a terminal, a line that changes in a
            notebook, and lines on standard error elsewhere; False for none.

    Returns:
        The finished run. Its page is built when `Run.page` is asked for.

    Raises:
        SondeError: One line for a person, as on the command line; whatever was finished is kept.
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
