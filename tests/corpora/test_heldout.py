from sonde.base.fingerprint import unit_hash
from sonde.corpora import is_holdout_package


def test_about_three_names_in_ten_are_reserved() -> None:
    held = [name for name in (f"distribution-{n}" for n in range(2_000)) if is_holdout_package(name)]
    assert 0.27 < len(held) / 2_000 < 0.33


def test_the_name_alone_decides() -> None:
    for name in ("numpy", "java.util.concurrent", "scikit-learn"):
        assert is_holdout_package(name) == (unit_hash("reserved", name) < 0.3)
