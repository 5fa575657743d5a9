import pytest
from packaging.licenses import canonicalize_license_expression

from sonde.base.errors import UnknownNameError
from sonde.corpora.engine.licences import GROUPS, AllowList, identify_licence


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("MIT", "MIT"),
        ("mit", "MIT"),
        ("The MIT License", "MIT"),
        ("MIT-CMU", "MIT-CMU"),
        ("Apache Software License", "Apache"),
        ("Apache 2.0", "Apache-2.0"),
        ("Apache License, Version 2.0", "Apache-2.0"),
        ("BSD License", "BSD"),
        ("3-Clause BSD License", "BSD-3-Clause"),
        ("New BSD", "BSD-3-Clause"),
        ("BSD 2-Clause License", "BSD-2-Clause"),
        ("Python Software Foundation License", "PSF-2.0"),
        ("Mozilla Public License 2.0", "MPL-2.0"),
        ("GNU General Public License v2", "GPL-2.0"),
        ("GNU General Public License v3 or later", "GPL-3.0-or-later"),
        ("GPLv3+", "GPL-3.0-or-later"),
        ("GNU Lesser General Public License v2.1", "LGPL-2.1"),
        ("GNU Affero General Public License v3", "AGPL-3.0"),
        ("GPL-2.0 WITH Classpath-exception-2.0", "GPL-2.0"),
        ("GNU GPL", "GPL"),
        ("Acme's own", "Acme's own"),
    ],
)
def test_words_of_metadata_have_one_name(words: str, name: str) -> None:
    assert identify_licence(words) == name


@pytest.mark.parametrize(
    ("names", "licence", "expected"),
    [
        (["MIT"], "MIT", True),
        (["mit"], "MIT License", True),
        (["MIT"], "MIT-CMU", False),
        (["BSD"], "BSD-3-Clause", True),
        (["BSD-3-Clause"], "BSD License", False),
        (["GPL"], "LGPL-2.1-only", False),
        (["LGPL-2.1"], "LGPL-2.1-or-later", True),
        (["GPL-2.0"], "GPL-2.0 WITH Classpath-exception-2.0", True),
        (["GPL-2.0"], "GPL-3.0-only", False),
        (["MIT"], "MIT AND BSD-3-Clause", False),
        (["MIT", "BSD"], "MIT AND BSD-3-Clause", True),
        (["MIT"], "GPL-3.0-only OR MIT", True),
        (["MIT", "BSD"], "BSD-3-Clause AND (MIT OR GPL-2.0-only)", True),
        (["MIT"], "BSD-3-Clause AND (MIT OR GPL-2.0-only)", False),
        (["MIT"], "(MIT OR GPL-2.0-only) AND (MIT OR BSD-3-Clause)", True),
        (["MIT"], "(MIT AND GPL-2.0-only) OR BSD-3-Clause", False),
        (["MPL"], "Mozilla Public License 2.0 (MPL 2.0)", True),
        (["ISC"], "ISC License (ISCL)", True),
        (["Apache"], "Apache License (2.0)", True),
        (["MIT"], "MIT License OR GNU General Public License v3 (GPLv3)", True),
        (["MIT"], "MIT/Apache-2.0", True),
        (["MIT"], "MIT, GPL-2.0", False),
        (["MIT"], "", False),
        (["MIT"], "Acme", False),
        (["MIT"], "(", False),
        (["MIT"], "MIT AND", False),
        (["LicenseRef-Acme"], "LicenseRef-Acme", True),
        (["permissive"], "Apache-2.0 AND BSD-2-Clause AND 0BSD", True),
        (["permissive"], "MPL-2.0 AND MIT", False),
        (["permissive", "weak-copyleft"], "MPL-2.0 AND MIT", True),
        ([], "", True),
    ],
)
def test_an_expression_is_allowed_where_its_parts_are(names: list[str], licence: str, expected: bool) -> None:
    assert AllowList(names).allows(licence) is expected


@pytest.mark.parametrize("name", [name for names in GROUPS.values() for name in names if "-" in name])
def test_names_in_groups_are_of_the_published_list(name: str) -> None:
    assert canonicalize_license_expression(name) == name


def test_any_published_name_may_be_allowed_and_a_typo_is_met_with_the_nearest() -> None:
    assert AllowList(["EUPL-1.2"]).allows("EUPL-1.2")
    for wrong, near in (("MITT", "'MIT'"), ("Apache2.0", "'Apache-2.0'"), ("permisive", "'permissive'")):
        with pytest.raises(UnknownNameError, match=f"unknown licence {wrong!r}; did you mean {near}"):
            AllowList(["MIT", wrong])
