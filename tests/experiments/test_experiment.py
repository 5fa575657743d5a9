from pathlib import Path

import pytest

import sonde.experiments
from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.corpora import Selection
from sonde.experiments import Experiment, default_output, load_experiment, merge_overrides, parse_options


def write(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text)
    return path


def test_the_demo_is_an_experiment_file() -> None:
    demo = load_experiment(Path(sonde.experiments.__file__).parent / "demo.toml")
    assert demo == Experiment(selection=Selection(limit=1500))


def test_every_key_arrives(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
models = ["a", "b@v1"]
lenses = ["surprisal"]
corpora = ["local:src"]
mode = "paper"
quirks = ["perplexed.shift"]
include_seen = true
[selection]
limit = 5
languages = ["python"]
seed = 7
[options.surprisal]
minimum = 3
""",
    )
    experiment = load_experiment(path)
    assert experiment.models == ("a", "b@v1")
    assert experiment.selection == Selection(limit=5, languages=("python",), seed=7)
    assert experiment.options == {"surprisal": {"minimum": 3}}
    assert (experiment.mode, experiment.include_seen, experiment.seed) == ("paper", True, 7)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("model = ['a']", UnknownNameError, "unknown experiment key 'model'; did you mean 'models'"),
        ("models = 'a'", UsageError, "models = 'a' is not a list of texts; in .*experiment.toml"),
        ("models = [1]", UsageError, "is not a list of texts"),
        ("include_seen = 'no'", UsageError, "include_seen = 'no' is not true or false; in "),
        ("include_seen = 1", UsageError, "include_seen = 1 is not true or false"),
        ("[selection]\nparses = 'no'", UsageError, "parses = 'no' is not true or false; in "),
        ("[selection]\nlimit = true", UsageError, "limit = True is not a whole number of at least 1"),
        ("[selection]\nlimit = 0", UsageError, "limit = 0 is not a whole number of at least 1"),
        ("[selection]\nseed = 1.5", UsageError, "seed = 1.5 is not a whole number of at least 0"),
        ("[selection]\nseed = -1", UsageError, "seed = -1 is not a whole number of at least 0"),
        (f"[selection]\nseed = {10**25}", UsageError, "seed = 1000.* is not at most 2147483647"),
        ("[selection]\nmin_chars = nan", UsageError, "min_chars = nan is not a whole number"),
        ("[selection]\nlicences = ['MIT', 3]", UsageError, "is not a list of texts"),
        (
            "[selection]\nunit = 'functon'",
            UnknownNameError,
            "'functon'; did you mean 'function'",
        ),
        ("mode = 3", UsageError, "mode = 3 is not one of corrected, paper"),
        ("options = 3", UsageError, "options = 3 is not a table"),
        ("[options]\nsurprisal = 3", UsageError, "options.surprisal = 3 is not a table"),
        (
            "[options.surprisal]\nmin_count = [3]",
            UsageError,
            "surprisal.min_count = .* is not a text",
        ),
        ("[options.surprisal]\nmin_count = 2020-01-01", UsageError, "options.surprisal.min_count = "),
        ("mode = 'papper'", UnknownNameError, "unknown mode 'papper'; did you mean 'paper'"),
        ("[selection]\nlimits = 3", UnknownNameError, "unknown selection key 'limits'; did you mean 'limit'"),
        ("[selection]\nlimit = [3]", UsageError, "limit = .* is not a whole number of at least 1; in "),
        ("selection = 3", UsageError, "selection = 3 is not a table; in "),
        ("models = [", InputError, "not TOML"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        load_experiment(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent.toml'.*No such file"):
        load_experiment(tmp_path / "absent.toml")


def test_options_lie_over_the_file() -> None:
    base = Experiment(
        models=("a",), selection=Selection(limit=5), options={"surprisal": {"min_count": 3, "x": 1}}
    )
    given = {
        "models": ["b"],
        "limit": 9,
        "unit": None,
        "options": {"surprisal": {"min_count": 7}, "probe": {"seeds": 2}},
    }
    result = merge_overrides(base, given)
    assert result.models == ("b",)
    assert result.selection == Selection(limit=9)
    assert result.options == {"surprisal": {"min_count": 7, "x": 1}, "probe": {"seeds": 2}}
    assert merge_overrides(base, {**given, "options": {}}).options == base.options
    with pytest.raises(UnknownNameError, match="corrected"):
        merge_overrides(None, {"mode": "corected"})


def test_options_have_the_type_that_they_have_in_the_lens() -> None:
    written = ["cloze.min_count=7", "cloze.reference=007", "cloze.separator=a=b", "cloze.propagate=True"]
    expected = {"min_count": 7, "reference": "007", "separator": "a=b", "propagate": True}
    assert parse_options(written, ["cloze"]) == {"cloze": expected}
    # Of a lens that the experiment does not name nothing is known.
    assert parse_options(["cloze.reference=007"], ["surprisal"]) == {"cloze": {"reference": 7}}


@pytest.mark.parametrize("text", ["minimum=3", "surprisal.minimum", ".x=1", ""])
def test_malformed_options_are_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected LENS.NAME=VALUE"):
        parse_options([text], ["surprisal"])


def test_the_same_arguments_give_the_same_folder() -> None:
    assert default_output(Experiment(), "demo") == default_output(Experiment(), "demo")
    assert default_output(Experiment(), "demo") != default_output(Experiment(mode="paper"), "demo")


def test_the_cap_of_a_cluster_is_an_option(tmp_path: Path) -> None:
    from_file = load_experiment(write(tmp_path, "[selection]\nper_cluster = 7\n"))
    assert from_file.selection.per_cluster == 7
    assert merge_overrides(from_file, {"per_cluster": 0}).selection.per_cluster == 0
    assert Selection().per_cluster == 200
