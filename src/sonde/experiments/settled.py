"""The first steps of a run, which a plan of it takes as well: what is asked, what is read, which jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sonde.corpora import ItemSet
from sonde.experiments._experiment import Execution, Experiment
from sonde.experiments._outcome import Session
from sonde.experiments._progress import Progress
from sonde.experiments.checks import Readable, check_names, readable
from sonde.experiments.choices import components, lens_choices, model_choices, settled_options
from sonde.experiments.lens_choice import LensChoice
from sonde.experiments.overrides import with_full_names
from sonde.experiments.plan import ModelChoice, Plan, Reading, plan
from sonde.experiments.readings import read


def settled(
    experiment: Experiment, execution: Execution, progress: Progress
) -> tuple[Session, tuple[LensChoice, ...], Readable]:
    """An experiment whose names and options are checked, before anything is read.

    Returns:
        The run, its lenses, and which models each of them reads.

    Raises:
        SondeError: Something that is named does not exist, or does not go together.
    """
    experiment = with_full_names(experiment)
    session = Session.of(experiment, execution, progress)
    lenses = lens_choices(experiment)
    check_names(experiment, execution, lenses)
    able = readable(lenses, experiment, execution)
    lenses = settled_options(lenses, able.by_lens)
    session.outcome.refused += able.left_out
    for refused in able.left_out:
        session.progress.note(f"{refused.model} is left out of the lens {refused.lens}: {refused.reason}")
    return session, lenses, able


def read_by_models(
    session: Session, lenses: Sequence[LensChoice], able: Readable
) -> tuple[list[Reading], list[ItemSet], tuple[ModelChoice, ...]]:
    """What each lens is shown, written into the folder of the run, with the models that read it.

    Raises:
        SondeError: A corpus cannot be read, or gives no items.
    """
    readings, sets = read(session, lenses)
    readings = [
        dataclasses.replace(reading, models=tuple(able.by_lens[reading.lens.name])) for reading in readings
    ]
    models = model_choices(session.experiment, session.execution, readings, able.models)
    return readings, sets, models


def planned(session: Session, models: Sequence[ModelChoice], readings: Sequence[Reading]) -> Plan:
    """The jobs of a stage of a run."""
    languages = {reading.group.language for reading in readings}
    versions = {language: components(language) for language in sorted(languages)}
    return plan(session.outcome.directory, models, readings, versions)
