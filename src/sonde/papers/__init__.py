"""The publications of five papers, a folder each: their corpora, file formats, labels and oddities.

sonde itself imports none of it: what is here is registered as any package registers an extension, by the
entry points of ``pyproject.toml``. A paper may lean on everything else, and no paper on another;
the lexers that several of them count in are modules of this folder.
"""

from __future__ import annotations
