"""Terms of the glossary marked in a text, so that a reader who points at one is told what it means."""

from __future__ import annotations

import re
from functools import cache

from markupsafe import Markup, escape

from sonde.results.glossary import glossary


@cache
def _pattern() -> re.Pattern[str]:
    # Longer terms first: a control task is not a control.
    terms = "|".join(re.escape(term) for term in sorted(glossary(), key=len, reverse=True))
    return re.compile(rf"\b({terms})(s|es)?\b", re.IGNORECASE)


def with_terms(text: str) -> Markup:
    """A text, escaped, with the first mention of each term marked.

    >>> print(with_terms("Chance & Chances"))
    <abbr title="what answering at random reaches">Chance</abbr> &amp; Chances
    """
    meanings = {term.lower(): meaning for term, meaning in glossary().items()}
    seen: set[str] = set()
    parts: list[Markup] = []
    end = 0
    for found in _pattern().finditer(text):
        term = found[1].lower()
        mark = Markup('<abbr title="{}">{}</abbr>').format(meanings[term], found[0])
        parts += [escape(text[end : found.start()]), escape(found[0]) if term in seen else mark]
        seen.add(term)
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])
