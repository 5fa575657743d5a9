"""What a run says before it trains: only what is not there yet."""

from pathlib import Path

import pytest

from sonde.base.progress import NullProgress
from sonde.experiments import Execution, Experiment, train
from sonde.experiments.experiment import LensChoice
from sonde.experiments.plan import Part, TrainJob
from sonde.experiments.progress import Session
from sonde.lenses import Method
from sonde.models import ModelSpec


class Told(NullProgress):
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


def job(root: Path, name: str, seed: int) -> TrainJob:
    lens = LensChoice(
        name="finetune",
        source="finetune",
        version="1",
        tasks=("t",),
        mode="corrected",
        quirks=(),
        options=(),
        seed=0,
    )
    return TrainJob(
        root=str(root),
        model=ModelSpec(name="org/m"),
        corpus="c",
        language="python",
        method=Method(name=name, task="t", seed=seed),
        part=Part(lens=lens, relative=f"{name}-{seed}.parquet", key="k"),
    )


@pytest.mark.parametrize("seconds", [None, 40.0])
def test_only_what_is_left_to_train_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None
) -> None:
    jobs = [job(tmp_path, name, seed) for name in ("pretrained", "scratch") for seed in range(5)]
    there = jobs if seconds is None else [one for one in jobs if one.method.seed < 3]
    for one in there:
        (tmp_path / one.part.relative).touch()

    def trained(one: TrainJob) -> float | None:
        return None if one in there else seconds

    monkeypatch.setattr(train, "train_job", trained)
    told = Told()
    session = Session(experiment=Experiment(), execution=Execution(output=tmp_path), progress=told)
    train.train_jobs(session, jobs)
    if seconds is None:
        assert told.lines == [] and session.outcome.trained == 0
        return
    first, *others = told.lines
    assert first.startswith("training 4 runs with org/m (pretrained 2, scratch 2); estimating time")
    assert others == [
        "training 4 runs with org/m (pretrained 2, scratch 2): about 40 s left at one run every 40 s "
        "(estimated from the first 3)"
    ]
