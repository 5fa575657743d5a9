"""A folder of code on this machine.

``local:DIR`` reads every source file below a folder, and ``local:FILE`` one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.corpora.engine.corpus import Packages, SkipCounter, SourceFile, holds_projects, is_project
from sonde.corpora.engine.licences import copyright_licence
from sonde.corpora.engine.source_files import (
    ANOTHER_PACKAGE,
    BUILD_FOLDERS,
    GENERATED_PATH,
    NOT_SOURCE,
    VENDOR_FOLDERS,
    count_unread_files,
    find_language,
    is_handwritten,
    read_text,
    suffix_table,
    walk,
)

SYNONYMS = ("directory", "path", "own code", "project")

_CACHE = "__pycache__"


def _is_excluded_folder(root: Path, intake: SkipCounter, path: str) -> bool:
    """Return whether a folder holds code not written for the project; if so, count it.

    A package may be called ``build``, the folder of a project's builds not.
    """
    pure = PurePosixPath(path)
    if pure.name == _CACHE or pure.name.endswith(".egg-info"):
        return True
    if pure.name in BUILD_FOLDERS and is_project(root / pure.parent):
        intake.note(GENERATED_PATH, f"{path}/")
    elif pure.name in NOT_SOURCE or (pure.name in VENDOR_FOLDERS and not intake.keep_all):
        intake.note(ANOTHER_PACKAGE, f"{path}/")
    else:
        return False
    return True


class Local:
    """`local:DIR`, or one file as `local:FILE`.

    A folder that holds projects (see `sonde.corpora.engine.corpus`) has each folder right below it as cluster
    and repository, and its own files under its own name. Any other folder is one repository by its name,
    with its packages as clusters. A project that is a source package of Debian has the licence that its
    ``debian/copyright`` says of all files. Hidden folders, virtual environments and ``__pycache__`` are left
    out. So are, counted, folders of builds and of other projects (``node_modules``, ``vendor``), and what
    was generated or minified, unless it is the one FILE. Tests are code too and stay.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield the folder's files, sorted by folder and name.

        Raises:
            InputError: DIR does not exist.
            UsageError: DIR is missing.
        """
        if not argument:
            raise UsageError("corpus 'local' needs a folder; name it as local:DIR")
        root = expand_home(argument)
        if not root.exists():
            raise InputError(f"corpus 'local:{argument}': no such file or folder")
        table = suffix_table(languages)
        if not root.is_dir():
            paths, is_single_file = [root.name], True
            root = root.absolute().parent
        else:
            all_paths, is_single_file = (
                [*walk(root, intake, partial(_is_excluded_folder, root, intake))],
                False,
            )
            count_unread_files(all_paths, languages, intake)
            paths = [path for path in all_paths if find_language(path, table)]
        name = root.resolve().name
        packages = None if holds_projects(root) else Packages.from_paths(paths)
        licences: dict[str, str] = {}
        for path in paths:
            text = read_text(root / path, path, intake)
            language = find_language(path, table)
            if text is None or language is None or not (is_single_file or is_handwritten(path, text, intake)):
                continue
            if packages is None:
                parts = PurePosixPath(path).parts
                cluster = repository = parts[0] if len(parts) > 1 else name
            else:
                cluster, repository = packages.package(path), name
            if packages is None and cluster not in licences:
                copyright_file = root / cluster / "debian/copyright"
                licences[cluster] = copyright_licence(copyright_file, f"local:{argument}")
            yield SourceFile(
                path=path,
                text=text,
                language=language,
                cluster=cluster,
                repository=repository,
                licence=licences.get(cluster, ""),
            )


source = Local()
