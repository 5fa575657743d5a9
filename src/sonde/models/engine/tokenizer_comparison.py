"""Comparison of two tokenizers on texts that tokenizers are known to cut differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

FILE = "tokenizer.json"


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


def sample_texts() -> Iterator[str]:
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


def cut_texts(tokenizer: Any) -> list[list[int]]:
    """Cut the texts, whole: what a file says of truncating and padding is not about how words are cut."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [
        encoding.ids for encoding in tokenizer.encode_batch(list(sample_texts()), add_special_tokens=False)
    ]


def count_unlike(tokenizer: Any, reference_ids: list[list[int]]) -> int:
    """Count the texts that a tokenizer, called as it is when a model is read, cuts otherwise."""
    try:
        token_ids = [tokenizer(text, add_special_tokens=False).input_ids for text in sample_texts()]
    except Exception:
        # Where the unknown token is no word, or the class takes the words of a page; the libraries have no
        # error of their own.
        return len(reference_ids)
    return sum(ids != reference for ids, reference in zip(token_ids, reference_ids, strict=True))
