"""A tokenizer held against the tokenizer.json of its model: transformers makes some anew from their class.

A class brings its own split into words and its own normalisation, so a model whose file says others would be
given subwords that it was never trained on, without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.models._family import ModelSpec
from sonde.models._fetch import fetch
from sonde.models._files import VOCABULARY_LIMIT, file_of, read_object
from sonde.models._resolve import locate

FILE = "tokenizer.json"

_SETTINGS = {
    "do_lower_case": ("normalizer", "lowercase"),
    "strip_accents": ("normalizer", "strip_accents"),
    "tokenize_chinese_chars": ("normalizer", "handle_chinese_chars"),
    "add_prefix_space": ("pre_tokenizer", "add_prefix_space"),
}
"""Settings of tokenizer_config.json that change how a text is cut, each with what it is in the file."""

_WORDS = """
getHTTPResponse2XX snake_case_name __init__ MAX_LEN camelCase x86_64 i ΑΒΓδ İıß naïve Café \ufb01 ½²
don't I'LL we've they'd `quoted` 'single' "double" e\u0301 n\u0303 \u200bzero\ufeffwidth
日本語のテキスト 한국어 مرحبا ไทย हिन्दी \U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308
0 12 123 1234 12345 1234567 3.14159 1e-6 0xFFee 1_000_000 v1.2.3 ٣٤٥
!= -> === :: ... // /* */ #!/ <?php @@ $$x && || ~!@#$%^&*() \\n a,b;c:d --flag=value
https://example.org/a?b=c&d=%20 user@example.org C:\\path\\file /usr/lib
"""
_CODE = (
    "def f(self, *args, **kwargs):\n    return [x ** 2 for x in args if x != 0]\n",
    "class A:\n\n    def g(self):\n        '''A summary.'''\n        raise ValueError(f\"{self!r}: no\")\n",
    "public static <T> List<T> of(T... all) {\n\treturn new ArrayList<>(Arrays.asList(all)); // all\n}\n",
    "func (s *Server) Serve(ctx context.Context) error {\n\tif err := s.run(ctx); err != nil {\n\t}\n",
    "const f = async (a, b = {}) => { await g(`${a}-${b?.c ?? 1}`); };\r\n",
    '<?php\nfunction f(?int $x): string { return "{$x}\'s" . PHP_EOL; }\n',
    "def each(&block)\n  @all.map { |x| x.to_s }.each(&block)\n  nil unless @open\nend\n",
    "# A comment.  Two blanks;   three\n\n\n\nx = 1\n",
)


def texts() -> Iterator[str]:
    """Yield some hundred texts of all kinds that tokenizers are known to cut differently."""
    yield from _CODE
    for word in _WORDS.split():
        yield word
        yield f" {word} {word}"
    for count in (1, 2, 3, 4, 7, 8, 16, 33):
        yield f"x{' ' * count}y"
        yield f"{' ' * count}x"
        yield "\t" * count + "x" + "\n" * count
    yield from ("\r", "a\r\nb", "a \n b", "trailing  ", "a\x00b\x1bc", "\x85\u2028", "no\u00a0break\u3000at")


def may_be_read_from_file(spec: ModelSpec) -> bool:
    """Tell whether a model has a tokenizer.json, and no code of its own that would have to run beside it."""
    return file_of(locate(spec), FILE) is not None and "auto_map" not in _settings(spec)


def like_its_file(spec: ModelSpec, tokenizer: Any | None, settings: dict[str, Any]) -> tuple[Any, str]:
    """Return a tokenizer that cuts texts as its model's tokenizer.json does, and what was found.

    Args:
        spec: The model.
        tokenizer: What transformers makes of its files; None where its class cannot be made from them.
        settings: What it was made with beside the files.

    Returns:
        The tokenizer itself, or the file's where they differ; and a clause for ``run.json``, which names the
        class.

    Raises:
        InputError: The model's files contradict each other.
    """
    name = type(tokenizer).__name__
    path = file_of(locate(spec), FILE)
    if path is None:
        return tokenizer, f"{name}, without a {FILE}"
    wanted = _subwords_of_file(spec, path)
    if tokenizer is None:
        why = "the class of its type cannot be made from it"
    elif not getattr(tokenizer, "is_fast", False):
        why = f"{name} gives no character offsets"
    elif unlike := count_unlike(tokenizer, wanted):
        why = f"{name} cuts {unlike} of {len(wanted)} texts otherwise"
    else:
        return tokenizer, f"{name}, as its {FILE}"
    _check_settings(spec, path)
    from transformers import PreTrainedTokenizerFast

    as_saved = fetch(PreTrainedTokenizerFast, spec, **settings)
    if unlike := count_unlike(as_saved, wanted):
        raise InputError(
            f"model {spec.name!r}: {type(as_saved).__name__} cuts {unlike} of {len(wanted)} texts otherwise "
            f"than its {FILE}; save the tokenizer again beside the model"
        )
    return as_saved, f"its {FILE}, since {why}"


def _subwords_of_file(spec: ModelSpec, path: Path) -> list[list[int]]:
    from tokenizers import Tokenizer

    try:
        held = Tokenizer.from_file(str(path))
    except Exception as error:
        line = " ".join(str(error).split())[:200]
        raise InputError(f"model {spec.name!r}: its {FILE} cannot be read: {line}; fetch it again") from error
    return cut_texts(held)


def cut_texts(tokenizer: Any) -> list[list[int]]:
    """Cut the texts, whole: what a file says of truncating and padding is not about how words are cut."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [found.ids for found in tokenizer.encode_batch(list(texts()), add_special_tokens=False)]


def count_unlike(tokenizer: Any, wanted: list[list[int]]) -> int:
    """Count the texts that a tokenizer, called as it is when a model is read, cuts otherwise."""
    try:
        found = [tokenizer(text, add_special_tokens=False).input_ids for text in texts()]
    except Exception:
        # Where the unknown token is no word, or the class takes the words of a page; the libraries have no
        # error of their own.
        return len(wanted)
    return sum(ids != others for ids, others in zip(found, wanted, strict=True))


def _check_settings(spec: ModelSpec, path: Path) -> None:
    """Refuse a tokenizer.json beside a tokenizer_config.json that says something else about the text.

    Raises:
        InputError: They contradict each other.
    """
    settings = _settings(spec)
    held = read_object(path, spec.name, limit=VOCABULARY_LIMIT)
    for setting, (part, field) in _SETTINGS.items():
        asked = settings.get(setting)
        if asked is not None and (found := set(_values(held.get(part), field))) and found != {asked}:
            raise InputError(
                f"model {spec.name!r}: its tokenizer_config.json has {setting} = {asked} and its {FILE} "
                f"{', '.join(map(str, sorted(found, key=str)))}; correct the one that is wrong"
            )


def _settings(spec: ModelSpec) -> dict[str, Any]:
    path = file_of(locate(spec), "tokenizer_config.json")
    return {} if path is None else read_object(path, spec.name)


def _values(node: Any, field: str) -> Iterator[Any]:
    """Yield every value of a field in a nested part of a tokenizer."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == field:
                yield value
            yield from _values(value, field)
    elif isinstance(node, list):
        for one in node:
            yield from _values(one, field)
