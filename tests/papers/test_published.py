"""What papers published: every table can be read, follows from the others, and has a place here."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path

import pytest

from sonde.base.errors import InputError, UnknownNameError
from sonde.experiments import Experiment, load_experiment
from sonde.experiments.arguments import from_arguments
from sonde.experiments.catalogue import (
    describe_replication,
    experiment_files,
    experiment_headers,
    find_experiment_file,
    published_files,
)
from sonde.experiments.resolve import check_names, resolve_lenses
from sonde.languages import get_facet
from sonde.languages.engine.relations import Relations
from sonde.lenses import LENSES
from sonde.results.published import PublishedTable, matches_selector, parse_published_table

TABLES = {
    name: parse_published_table(name, describe_replication(Experiment(replicates=(name,)))["tables"][name])
    for name in published_files()
}
EXPERIMENTS = {name: load_experiment(path) for name, path in experiment_files().items()}

Values = dict[str, dict[str, float]]


def values(name: str) -> Values:
    held: Values = {}
    for figure in TABLES[name].figures:
        held.setdefault(figure.row, {})[figure.column] = figure.value
    return held


def near(figures: Mapping[str, float], others: Mapping[str, float], tolerance: float) -> None:
    assert figures.keys() == others.keys()
    apart = {
        key: (figures[key], others[key]) for key in figures if abs(figures[key] - others[key]) > tolerance
    }
    assert apart == {}


def test_each_of_the_papers_has_its_tables() -> None:
    assert {name.partition("/")[0] for name in TABLES} == {
        "codesyntax",
        "cubert",
        "ink",
        "inspect",
        "perplexed",
    }
    assert sum(len(table.figures) for table in TABLES.values()) > 1700


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_figure_has_a_place(table: PublishedTable) -> None:
    """A figure is answered by scores or says why not, and some file replicates its table."""
    with_it = [one for one in EXPERIMENTS.values() if table.name in one.replicates]
    assert with_it
    lenses = {lens for experiment in with_it for lens in experiment.lenses}
    tasks = {task for experiment in with_it for task in experiment.tasks}
    models = {model for experiment in with_it for model in experiment.models}
    for figure in table.figures:
        assert figure.nowhere or figure.asked
        for one in figure.asked:
            assert one["lens"] in lenses and one["metric"]
            assert not tasks or one["task"] in tasks
            assert one["model"] in models
    assert all(cause.endswith(".") for cause in table.causes)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_file_names_what_there_is(name: str) -> None:
    experiment = EXPERIMENTS[name]
    for choice in resolve_lenses(experiment):
        LENSES.load(choice.source).typed_options.read(experiment.options.get(choice.name, {}))
    assert set(experiment.replicates) <= TABLES.keys()
    text = experiment_files()[name].read_text(encoding="utf-8")
    assert f"sonde run -f {name}\n" in text and "One H100" in text and "Cut down" in text


def test_names_are_found_beside_paths(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text("limit = 3")
    assert find_experiment_file(own) == (own, "mine")
    path, name = find_experiment_file(Path("inspect/table2.toml"))
    assert path.is_file() and name == "inspect-table2"
    # A table that another file replicates too leads there.
    assert find_experiment_file(Path("inspect/table4")) == (path, name)
    with pytest.raises(
        UnknownNameError, match=r"unknown experiment 'inspect/tabel2'; did you mean 'inspect/table2'"
    ):
        find_experiment_file(Path("inspect/tabel2.toml"))
    with pytest.raises(InputError, match=r"'elsewhere/table2.toml': No such file"):
        from_arguments(file="elsewhere/table2.toml")
    assert {header.name for header in experiment_headers()} == EXPERIMENTS.keys()
    assert all(header.summary for header in experiment_headers())


def test_a_file_keeps_its_options_where_none_is_given_beside_it() -> None:
    experiment, execution = from_arguments(file="inspect/table2", models=["sonde/mini-encoder"], limit=60)
    assert experiment.options == EXPERIMENTS["inspect/table2"].options != {}
    assert experiment.replicates == EXPERIMENTS["inspect/table2"].replicates
    assert execution.output.name.startswith("inspect-table2-")


def test_a_table_that_nobody_published_is_refused_before_anything_is_read() -> None:
    experiment, execution = from_arguments(file="perplexed/table1", models=["sonde/mini-decoder"])
    wrong = Experiment(models=experiment.models, replicates=("perplexed/table7",))
    with pytest.raises(UnknownNameError, match="'perplexed/table7'; did you mean 'perplexed/table1'"):
        check_names(wrong, execution, ())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": [{"name": "a", "values": [1.0], "wehre": {}}]}, "unknown key 'wehre'"),
        ({"rows": [{"name": "a", "values": [1.0, 2.0]}]}, "row 'a' has 2 values for 1 columns"),
        ({"where": {"metrik": "x"}}, "scores have no column 'metrik'"),
        ({"columns": {"c": {"how": "sum"}}}, "how = 'sum' is not one of"),
    ],
)
def test_a_table_with_a_slip_is_refused(wrong: dict[str, object], message: str) -> None:
    good = {
        **dict.fromkeys(("title", "source", "paper", "unit"), "x"),
        "scale": 1.0,
        "digits": 1,
        "causes": [],
        "columns": {"c": {}},
        "rows": [{"name": "a", "values": [1.0]}],
    }
    assert parse_published_table("p/t", good).figures[0].value == 1.0
    with pytest.raises(InputError, match=message):
        parse_published_table("p/t", {**good, **wrong})


def test_a_blank_is_no_figure() -> None:
    assert "SRK" not in values("inspect/table3")["CodeBERT"]
    assert values("inspect/table3")["BERT"]["SRK"] == 0.0


def test_a_condition_is_met_by_its_columns_and_dimensions_alone() -> None:
    row = {
        "model": "a/b@1?quantise=8bit",
        "metric": "accuracy",
        "k": None,
        "control": None,
        "dimensions": [{"name": "epochs", "value": "2"}],
    }
    fitting = {"model": "a/b", "k": "none", "dimensions": {"epochs": "2"}}
    assert matches_selector(row, fitting)
    for other in ({"model": "a/c"}, {"k": 1}, {"dimensions": {"epochs": "3"}}, {"control": "majority"}):
        assert not matches_selector(row, {**fitting, **other})
    assert not matches_selector(row, {"model": "a/b"})


# What follows from other figures was copied by itself: a slip of either copy would show.

CODE = ("CodeBERT", "CodeBERTa", "CReviewer", "CodeT5", "GCodeBERT", "JavaBERT", "PLBART", "UniXCoder")


def test_what_inspect_says_below_its_table_follows_from_it() -> None:
    table = values("inspect/table2")
    by_task = {task: [table[model][task] for model in CODE] for task in table["BERT"]}
    near(table["Maximum"], {task: max(held) for task, held in by_task.items()}, 0.001)
    near(
        table["Standard deviation"], {task: statistics.pstdev(held) for task, held in by_task.items()}, 0.061
    )
    ahead = {task: max(held) - table["BERT"][task] for task, held in by_task.items()}
    near(table["Difference from BERT"], ahead, 0.051)
    below = {model: sum(table[model][task] < table["BERT"][task] for task in by_task) for model in CODE}
    names = {"CReviewer": "CodeReviewer", "GCodeBERT": "GraphCodeBERT"}
    told = {model: values("inspect/table4")[names.get(model, model)]["< BERT"] for model in CODE}
    near(told, below, 0)


def test_shares_of_inspect_follow_from_its_accuracies() -> None:
    table, shares = values("inspect/table2"), values("inspect/table3")
    for model in CODE:
        base, own = table["BERT"], table[model]
        held = {task: 100 * (own[task] - base[task]) / (100 - base[task]) for task in own}
        held = {task: share for task, share in held.items() if share > 0}
        told = dict(shares[model])
        if model == "CodeBERTa":
            # The 1.0 stands under SCK and belongs to VCU; the table says so among its causes.
            told["VCU"] = told.pop("SCK")
        near(told, held, 0.15)


def test_tables_of_cubert_agree_where_they_overlap() -> None:
    epochs, fractions, lengths = (values(f"cubert/table{number}") for number in (2, 3, 4))
    for number in (2, 10, 20):
        near(
            epochs[f"CuBERT, {number} epochs"],
            fractions[f"{number} epochs, 100 % of the training examples"],
            0,
        )
    last = dict(lengths["512 subwords"])
    assert last.pop("Misuse on BiLSTM") == epochs["BiLSTM, CBOW, negative sampling"]["Misuse"]
    near(last, epochs["CuBERT, 20 epochs"], 0)


@pytest.mark.parametrize(
    ("relations", "averages", "language"),
    [
        ("table9", "table3", "python"),
        ("table10", "table5", "python"),
        ("table11", "table3", "java"),
        ("table12", "table5", "java"),
    ],
)
def test_averages_of_codesyntax_follow_from_its_relations(
    relations: str, averages: str, language: str
) -> None:
    by_relation, average = values(f"codesyntax/{relations}"), values(f"codesyntax/{averages}")
    for column, row in (("CuBERT", "CuBERT"), ("Offset", "offset")):
        mean = statistics.fmean(one[column] for one in by_relation.values())
        assert mean == pytest.approx(average[f"{language.capitalize()}, {row}"]["k=1"], abs=0.051)
    for one in by_relation.values():
        assert one["CuBERT"] - one["Offset"] == pytest.approx(one["Difference"], abs=0.151)
    assert by_relation.keys() == set(get_facet(language, "relations", Relations).averaged_relations)


def test_differences_of_codesyntax_follow_from_its_scores() -> None:
    for number in (3, 5):
        table = values(f"codesyntax/table{number}")
        for language in ("Python", "Java"):
            own, base = (table[f"{language}, {one}"] for one in ("CuBERT", "combined"))
            near(table[f"{language}, CuBERT less combined"], {k: own[k] - base[k] for k in own}, 0.101)
    for language in ("english", "german"):
        table = values(f"codesyntax/table4-{language}")
        offset = table.pop(f"{language.capitalize()}, offset")
        told = table.pop(f"{language.capitalize()}, best model less best baseline")
        near(told, {k: max(one[k] for one in table.values()) - offset[k] for k in offset}, 0.101)
    every = values("codesyntax/table9")
    for relation, figures in values("codesyntax/table6").items():
        near(figures, every[relation], 0)


def test_the_summary_of_perplexed_is_the_mean_of_its_tags() -> None:
    table = values("perplexed/table1")
    for side, more in (("internal", 0), ("external", 39)):
        tags = [one for row, one in table.items() if row.endswith(f", {side}") and "->" in row]
        summary = table[f"Summary, {side}"]
        assert len(tags) == 12
        assert summary["Mean"] == pytest.approx(statistics.fmean(one["Mean"] for one in tags), abs=0.0006)
        spread = statistics.pstdev(one["Mean"] for one in tags)
        assert summary["Standard deviation"] == pytest.approx(spread, abs=0.0006)
        # The paper's external counts add up to 39 more than it says; the table says so among its causes.
        assert sum(one["Count"] for one in tags) == summary["Count"] + more


def test_tables_of_ink_agree_where_they_overlap() -> None:
    every, seen = values("ink/table4"), values("ink/table6")
    for what in ("Call", "Import"):
        for model in ("CodeBERT-MLM", "GraphCodeBERT-MLM"):
            known, unknown = (seen[f"{what}, {one}, {model}"] for one in ("seen", "unseen"))
            mean = {k: (281945 * known[k] + 7640 * unknown[k]) / 289585 for k in known}
            near(every[f"{what}, {model}"], mean, 0.011)
    for name in ("table4", "table5", "table6"):
        for figures in values(f"ink/{name}").values():
            assert list(figures.values()) == sorted(figures.values()) and len(figures) == 7
    for counts in values("ink/table1").values():
        assert counts["Total"] == counts["First"] + counts["Last"] + counts["Full"]
