"""Keys and logins stay out of lines, logs and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sonde.base.errors import InputError, UsageError, redact_secrets, set_log_folder
from sonde.cli.commands import app
from sonde.cli.output import run_command
from sonde.corpora import SkipCounter, read_files
from sonde.lenses.prompting import PromptingOptions
from sonde.store.run_folder import RunDirectory

KEY = "hf_0123456789secret"
LOGIN = "me:pass0123@word"


@pytest.mark.parametrize("name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "PGPASSWORD", "key"])
def test_values_of_variables_that_hold_keys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("SOME_KEY", "true")
    assert redact_secrets(f"got {KEY}, true") == "got ***, true"


def test_a_failing_index_with_a_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache" / "sonde"))
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{LOGIN}@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(InputError, match="cannot be reached") as caught:
        list(read_files("pypi:demo==1.0", (), SkipCounter()))
    assert "pass0123" not in str(caught.value) and "127.0.0.1" in str(caught.value)
    done = CliRunner().invoke(
        app, ["label", "len", "-c", "pypi:demo==1.0", "-o", str(tmp_path / "out.jsonl")]
    )
    assert "pass0123" not in done.output + str(done.exception)


def test_a_server_with_a_login_in_its_address_is_refused() -> None:
    with pytest.raises(UsageError, match="has a login in it; put the key into OPENAI_API_KEY") as caught:
        PromptingOptions.read({"base_url": f"https://{LOGIN}@host/v1"})
    assert "pass0123" not in str(caught.value)


def test_logs_and_summaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", KEY)

    def fails() -> None:
        set_log_folder(tmp_path)
        raise RuntimeError(f"https://{LOGIN}@host answers 401 to {KEY}")

    assert run_command(fails, ["run", f"--token={KEY}"]) == 1
    RunDirectory(tmp_path).write_summary({"arguments": [f"https://{LOGIN}@host", KEY]})
    said = capsys.readouterr().err + "".join(
        path.read_text() for path in tmp_path.rglob("*") if path.is_file()
    )
    assert "answers 401" in said and KEY not in said and "pass0123" not in said
