"""``sonde.run``: what ``sonde run`` does, from Python."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace

from sonde.api.cost import fit_to_budget
from sonde.api.outputs import OutputOptions
from sonde.api.results import Run
from sonde.base.errors import UsageError
from sonde.base.progress import NullProgress, Progress
from sonde.experiments import Experiment
from sonde.experiments.arguments import DeviceMap, GivenOptions, Names, Place, from_arguments
from sonde.experiments.run import run as carry_out
from sonde.store.remote import sync_folder


def run(
    experiment: Experiment | None = None,
    *,
    file: Place | None = None,
    models: Names | None = None,
    lenses: Names | None = None,
    tasks: Names | None = None,
    corpora: Names | None = None,
    languages: Names | None = None,
    unit: str | None = None,
    limit: int | None = None,
    per_cluster: int | None = None,
    cut_off: str | None = None,
    transform: str | None = None,
    context: int | None = None,
    stride: int | None = None,
    bos: str | None = None,
    mode: str | None = None,
    quirks: Names | None = None,
    adapter: Place | None = None,
    quantise: str | None = None,
    seed: int | None = None,
    options: GivenOptions | None = None,
    include_seen: bool | None = None,
    lock: Place | None = None,
    output: Place | None = None,
    executor: str | None = None,
    address: str | None = None,
    budget: str | None = None,
    workers: int | None = None,
    device: str | None = None,
    device_map: DeviceMap | None = None,
    dtype: str | None = None,
    batch_tokens: int | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Measure models on code, or go on where an earlier call stood; the same call again finds all done.

    Arguments are named as the options of ``sonde run`` and have its defaults: the same values give the same
    scores in the same folder. Where several may be named, one may be given alone. What is given lies over
    ``experiment`` or ``file``; without any argument it is the demo, with ``languages`` alone the demo in
    them.

    Some lenses start processes, which import the script that calls: there the call belongs under
    ``if __name__ == "__main__":``. Notebooks and ``python -c`` need nothing.

    Args:
        experiment: What is measured, as plain data.
        file: Or an experiment file (TOML).
        models: Paths, hub names (``name@revision``) or bundled names; ``name?adapter=PATH&quantise=8bit``
            for one with an adapter, or with weights of fewer bits.
        lenses: Public names or ``.py`` files; ``sonde list lenses``.
        tasks: Run these instead of the defaults, public names or ``.py`` files; ``sonde list tasks``.
        corpora: ``stdlib``, ``local:DIR``, ...; ``sonde list corpora``.
        languages: Only these.
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
        adapter: A PEFT adapter over each model.
        quantise: ``"8bit"`` or ``"4bit"``: bits of the weights of linear layers, by bitsandbytes.
        seed: Seed of sampling and of everything random.
        options: Options of lenses, ``{"probe": {"folds": 3}}``, or as on the command line,
            ``["probe.folds=3"]``; ``sonde list options``.
        include_seen: Score items of a bundled model's training data too.
        lock: Run on exactly the items of a lock file.
        output: Folder of the run, or an address (``s3://bucket/run``); by default a folder below ``runs/``
            that is named after what is measured.
        executor: Where jobs run; this machine by default.
        address: Where a Ray cluster answers; by default at ``RAY_ADDRESS``, else one is started here.
        budget: A time, as ``"2h"``: the largest sample is taken whose expected time fits, the same again when
            the same call is repeated. Finding it out takes a few runs on some items, in processes of their
            own.
        workers: Processes at a time; by default 1 with a model, else one a core.
        device: ``"auto"`` by default, ``"cpu"``, ``"cuda"``, ...
        device_map: Where the parts of a model lie: ``"auto"``, or devices by module (also as a JSON file),
            ``"cpu"`` and ``"disk"`` among them; by default all on the device.
        dtype: ``"auto"`` by default, ``"float32"``, ``"bfloat16"``, ``"float16"``.
        batch_tokens: Subwords that a model reads at once; fewer take less memory and change no score.
        trust_remote_code: Let a hub model run its code.
        progress: Is told where the run stands; nothing is said by default.

    Returns:
        The finished run. Its page is built when `Run.page` is asked for.

    Raises:
        SondeError: One line for a person, as on the command line; whatever was finished is kept.
    """
    _check_main_guard()
    wanted, execution = from_arguments(
        experiment=experiment,
        file=file,
        models=models,
        lenses=lenses,
        tasks=tasks,
        corpora=corpora,
        languages=languages,
        unit=unit,
        limit=limit,
        per_cluster=per_cluster,
        cut_off=cut_off,
        transform=transform,
        context=context,
        stride=stride,
        bos=bos,
        mode=mode,
        quirks=quirks,
        adapter=adapter,
        quantise=quantise,
        seed=seed,
        options=options,
        include_seen=include_seen,
        lock=lock,
        output=output,
        executor=executor,
        address=address,
        budget=budget,
        workers=workers,
        device=device,
        device_map=device_map,
        dtype=dtype,
        batch_tokens=batch_tokens,
        trust_remote_code=trust_remote_code,
    )
    with sync_folder(execution.output, (progress or NullProgress()).note) as folder:
        # The page is not part of this call.
        wanted, execution = fit_to_budget(
            wanted, replace(execution, output=folder), wanted=OutputOptions(page=False), progress=progress
        )
        return Run(carry_out(wanted, execution, progress).directory.root)


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
