"""Licences by name: the wording of metadata, as identifiers that an allow-list can name.

An expression (SPDX 2.3, annex D) is allowed if all operands of an ``AND`` are, and one operand of an ``OR``
is. An exception (``WITH``) only permits more, so it never forbids. Debian's machine-readable copyright files
(DEP 5) are read for the licence of a package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from sonde.base.errors import UnknownNameError
from sonde.corpora.engine.source_files import read_document

GROUPS = {
    "permissive": (
        *("0BSD", "Apache", "BSD", "BSL-1.0", "CC0-1.0", "HPND", "ISC", "MIT", "MIT-0", "MIT-CMU", "NCSA"),
        *("PostgreSQL", "PSF", "PSF-2.0", "Python-2.0", "Unlicense", "X11", "Zlib", "ZPL"),
    ),
    "weak-copyleft": ("CDDL", "EPL", "LGPL", "MPL"),
}
"""Names that stand for several: what asks for attribution at most, and what binds only its own files."""


FAMILIES = ("AGPL", "Apache", "Artistic", "BSD", "CDDL", "EPL", "GPL", "LGPL", "MPL", "PSF", "ZPL")
"""Names that allow every version, and what metadata says without a version."""


_COMMON = (
    *("0BSD", "AGPL-3.0", "AGPL-3.0-only", "AGPL-3.0-or-later", "Apache-1.1", "Apache-2.0", "Artistic-2.0"),
    *("BSD-2-Clause", "BSD-3-Clause", "BSD-4-Clause", "BSL-1.0", "CC0-1.0", "CDDL-1.0", "EPL-1.0", "EPL-2.0"),
    *("GPL-2.0", "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0", "GPL-3.0-only", "GPL-3.0-or-later", "HPND"),
    *("ISC", "LGPL-2.1", "LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0", "LGPL-3.0-only"),
    *("LGPL-3.0-or-later", "MIT", "MIT-0", "MIT-CMU", "MPL-1.1", "MPL-2.0", "NCSA", "PostgreSQL", "PSF-2.0"),
    *("Python-2.0", "Unlicense", "WTFPL", "X11", "Zlib", "ZPL-2.1"),
)


_GNU_VERSION = re.compile(r"(?<!\d)([123](?:\.[01])?)(?!\d)(.*later|\+)?")


# Words of classifiers and free text, tried in this order; what a name alone leaves open stays a family.
_WORDS = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"\bpublic domain\b", "LicenseRef-Public-Domain"),
        (r"\bzero[- ]clause|\b0BSD\b", "0BSD"),
        (r"\b(?:3|three)[- ]clause|BSD[- ]3|\b(?:new|modified|revised) BSD", "BSD-3-Clause"),
        (r"\b(?:2|two)[- ]clause|BSD[- ]2|\b(?:simplified|freebsd)\b", "BSD-2-Clause"),
        (r"\bBSD\b", "BSD"),
        (r"\bapache\b.*\b2|\bASL[- ]?2", "Apache-2.0"),
        (r"\bapache\b", "Apache"),
        (r"\bMIT\b.*\bCMU\b|\bMIT-CMU\b", "MIT-CMU"),
        (r"\bMIT\b|\bexpat\b", "MIT"),
        (r"\bISC\b", "ISC"),
        (r"\bpython software foundation\b|\bPSF[- ]?2|\bPSFL?\b", "PSF-2.0"),
        (r"(?:\bmozilla\b|\bMPL\b).*2|\bMPL2", "MPL-2.0"),
        (r"\bmozilla public\b|\bMPL\b", "MPL"),
        (r"\beclipse public\b.*2|\bEPL[- v]*2", "EPL-2.0"),
        (r"\beclipse public\b|\bEPL\b", "EPL"),
        (r"\bunlicense\b", "Unlicense"),
        (r"\bCC0\b", "CC0-1.0"),
        (r"\bzlib\b", "Zlib"),
        (r"\bboost\b", "BSL-1.0"),
        (r"\bzope\b|\bZPL\b", "ZPL"),
        (r"\bhistorical permission\b|\bHPND\b", "HPND"),
    )
)


_GNU = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"\baffero\b|\bAGPL", "AGPL"),
        (r"\blesser general\b|\blibrary general\b|\bLGPL", "LGPL"),
        (r"\bgeneral public\b|\bGPL", "GPL"),
    )
)


_PARTS = re.compile(r"\s*(\(|\)|\bAND\b|\bOR\b|\band\b|\bor\b(?!\s+later)|[/;,&|])\s*")


_NAME_WITH_NOTE = re.compile(r"(?P<name>[^\s()]+)\s*\([^()]*\)")


_OR_SIGNS = ("or", "/", "|")


_AND_SIGNS = ("and", "&", ",", ";")


_JOINS = (*_OR_SIGNS, *_AND_SIGNS)


class AllowList:
    """The licences that a corpus may hold.

    Args:
        names: SPDX identifiers, families (`FAMILIES`) or groups (`GROUPS`), in any case; ``LicenseRef-...``
            is what a user has named. None allows everything.

    Raises:
        UnknownNameError: A name that means no licence; the nearest is named.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(licence for name in names for licence in _expand_entry(name))

    def allows(self, licence: str) -> bool:
        """Return whether a licence from metadata is allowed; an unknown one only if everything is.

        >>> AllowList(["MIT", "BSD"]).allows("BSD-3-Clause AND (MIT OR GPL-2.0)")
        True
        """
        if not self._names:
            return True
        return bool(licence.strip()) and self._any(_split(licence))

    def _any(self, parts: list[str]) -> bool:
        """Evaluate an expression, of which one operand of an OR must be allowed. Consumes ``parts``."""
        is_allowed = self._all(parts)
        while parts and parts[0].lower() in _OR_SIGNS:
            parts.pop(0)
            is_allowed |= self._all(parts)
        return is_allowed

    def _all(self, parts: list[str]) -> bool:
        """Evaluate an operand of an OR; a comma and the like count as AND, since they are ambiguous."""
        is_allowed = self._allows_part(parts)
        while parts and parts[0] != ")" and parts[0].lower() not in _OR_SIGNS:
            if parts[0].lower() in _AND_SIGNS:
                parts.pop(0)
            is_allowed &= self._allows_part(parts)
        return is_allowed

    def _allows_part(self, parts: list[str]) -> bool:
        if not parts:
            return False
        part = parts.pop(0)
        if part == "(":
            is_allowed = self._any(parts)
            if parts and parts[0] == ")":
                parts.pop(0)
            return is_allowed
        name = identify_licence(part).lower()
        plain = re.sub(r"(?:-only|-or-later|\+)$", "", name)
        family = name.partition("-")[0]
        return bool({name, plain} & self._names) or (
            family in self._names and any(family == candidate.lower() for candidate in FAMILIES)
        )


def identify_licence(words: str) -> str:
    """Return the SPDX identifier of a licence from metadata, its family if no version is given, or the words.

    >>> identify_licence("BSD License"), identify_licence("The MIT License (MIT)"), identify_licence("GPLv3+")
    ('BSD', 'MIT', 'GPL-3.0-or-later')
    """
    licence = re.sub(r"\s+with\s+.*", "", words, flags=re.IGNORECASE | re.DOTALL).strip()
    for identifier in _COMMON:
        if licence.lower() == identifier.lower():
            return identifier
    for pattern, name in _GNU:
        if pattern.search(licence):
            version = _GNU_VERSION.search(licence)
            if version is None:
                return name
            number = version[1] if "." in version[1] else f"{version[1]}.0"
            return f"{name}-{number}{'-or-later' if version[2] else ''}"
    return next((name for pattern, name in _WORDS if pattern.search(licence)), licence)


def _split(licence: str) -> list[str]:
    """Split a licence into names, brackets and operators; drop a bracket that repeats the name before it."""
    plain = _NAME_WITH_NOTE.sub(
        lambda match: match[0] if match["name"].lower() in _JOINS else match["name"], licence
    )
    return [part for part in _PARTS.split(plain) if part.strip()]


def _expand_entry(name: str) -> tuple[str, ...]:
    """Return the lower-case names that an entry of an allow-list stands for."""
    lower = name.lower()
    if lower in GROUPS:
        return tuple(licence.lower() for licence in GROUPS[lower])
    common = {licence.lower() for licence in (*_COMMON, *FAMILIES)}
    if lower not in common and not lower.startswith("licenseref-") and not _in_spdx(name):
        raise UnknownNameError(
            "licence", name, (*GROUPS, *FAMILIES, *_COMMON), "an SPDX identifier, or LicenseRef-NAME as given"
        )
    return (lower,)


def _in_spdx(name: str) -> bool:
    try:
        return canonicalize_license_expression(name).lower() == name.lower()
    except InvalidLicenseExpression:
        return False


_EVERY_FILE = re.compile(r"^Files:\s*\*", re.MULTILINE)


_LICENCE = re.compile(r"^License: *(\S.*)$", re.MULTILINE)


def copyright_licence(path: Path, corpus: str) -> str:
    """Return the licence that a copyright file gives for all other files; empty if it gives none.

    Args:
        path: The file; it need not be there.
        corpus: The corpus, for messages.
    """
    if not path.is_file():
        return ""
    text = read_document(path, corpus).decode("utf-8", "replace")
    if not text.startswith("Format:"):
        return ""
    matches = (_LICENCE.search(part) for part in re.split(r"\n\s*\n", text) if _EVERY_FILE.search(part))
    return next((match[1].strip() for match in matches if match), "")
