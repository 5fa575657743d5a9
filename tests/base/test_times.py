import pytest

from sonde.base.errors import UsageError
from sonde.base.options import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90m", 5400),
        ("1h30m", 5400),
        ("3600s", 3600),
        ("1.5h", 5400),
        (" 2H ", 7200),
        ("1h2m3s", 3723),
    ],
)
def test_a_time_is_read_as_it_is_written(text: str, seconds: float) -> None:
    assert parse_duration(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["", "soon", "2", "-2h", "0h", "0s", "30m1h", "2h later", "1e9h"])
def test_anything_else_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a duration; write it as 2h, 90m, 1h30m or 3600s$"):
        parse_duration(text, "--budget")
