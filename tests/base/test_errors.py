import pytest

from sonde.base.errors import InputError, SondeError, StoreError, UnknownNameError, UsageError, explain_nan


def test_exit_codes_follow_the_contract() -> None:
    assert UsageError("x").exit_code == 2
    assert InputError("x").exit_code == 2
    assert UnknownNameError("lens", "x", []).exit_code == 2
    assert StoreError("x").exit_code == 1
    assert SondeError("x").exit_code == 1


def test_unknown_name_names_thing_value_and_nearest() -> None:
    error = UnknownNameError("lens", "suprisal", ["surprisal", "probe"])
    assert str(error) == "unknown lens 'suprisal'; did you mean 'surprisal'?"
    assert error.suggestion == "surprisal"


def test_unknown_name_without_a_near_one_lists_what_there_is() -> None:
    assert "known: probe, surprisal" in str(UnknownNameError("lens", "zzz", ["surprisal", "probe"]))
    assert "known: none" in str(UnknownNameError("lens", "zzz", []))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_who_ran_in_float32_is_not_told_to_run_in_float32(dtype: str) -> None:
    said = explain_nan(dtype)
    assert dtype in said and "--dtype" not in said and "damaged" in said
    assert "--dtype float32" in explain_nan("torch.float16")
