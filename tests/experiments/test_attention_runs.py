"""The attention lens in whole runs: several models on the same items, ablations, and a given snippet."""

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from transformers import LongformerConfig, LongformerForMaskedLM

from sonde.base.errors import SondeError
from sonde.cli.commands import main
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.lenses.attention.errors import DRAWN
from sonde.report import write_report
from sonde.store.run_folder import RunDirectory
from tests.slices import with_slices

from .conftest import save_decoder, save_tokenizer

UNSHARED = "dropped=not read by every model of the run"


def function(number: int) -> str:
    """Functions that grow, so that only some fit into a small context."""
    name = f"work_{number}"
    lines = [
        f"def {name}(value, other_{number}):",
        f"    if value > {number}:",
        f"        value = other_{number}(value)",
    ]
    for step in range(number % 6):
        lines += [f"    for item_{step} in value:", f"        {name}(item_{step}, key={step * number})"]
    return "\n".join([*lines, f"    return value + {number}"])


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("attention")
    for package in range(12):
        (root / f"package{package}").mkdir()
        text = "\n\n\n".join(function(package * 5 + index) for index in range(5))
        (root / f"package{package}" / "module.py").write_text(text + "\n")
    return root


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_decoder(tmp_path_factory.mktemp("models") / "short", context=120)


def experiment(code: Path, *models: Path, **changes: object) -> Experiment:
    values: dict[str, object] = {
        "models": tuple(map(str, models)),
        "lenses": ("attention",),
        "corpora": (f"local:{code}",),
        "selection": Selection(limit=60, near_duplicates=False),
        **changes,
    }
    return Experiment(**values)  # type: ignore[arg-type]


def scores(folder: Path, model: Path) -> pl.DataFrame:
    return with_slices(pl.read_parquet(folder / "scores.parquet")).filter(pl.col("model") == str(model))


def edges(table: pl.DataFrame) -> dict[tuple[str, str], float]:
    rows = table.filter(pl.col("metric") == "edges").select("slice", "split", "value")
    return {(name, split): value for name, split, value in rows.iter_rows()}


def items(table: pl.DataFrame) -> dict[str, float]:
    rows = table.filter(pl.col("metric") == "items")
    return dict(zip(rows["slice"], rows["value"], strict=True))


@pytest.fixture(scope="module")
def of_one(code: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "of-one"
    run(experiment(code, encoder), Execution(output=folder))
    return folder


@pytest.fixture(scope="module")
def of_both(code: Path, encoder: Path, short: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "of-both"
    run(experiment(code, encoder, short), Execution(output=folder))
    return folder


@pytest.mark.slow
def test_models_of_one_run_are_compared_on_the_items_that_fit_all(
    of_one: Path, of_both: Path, encoder: Path, short: Path
) -> None:
    alone = scores(of_one, encoder)
    together, other = scores(of_both, encoder), scores(of_both, short)

    observed = pl.read_parquet(of_both / RunDirectory(of_both).observations("attention", str(short)) / "*")
    fits = observed.filter(pl.col("dropped") == "")
    kept = set(fits["item_id"])
    too_long = observed["item_id"].n_unique() - len(kept)
    assert too_long and len(kept) > 10
    assert items(alone) == {"all": len(kept) + too_long}
    assert items(together) == {"all": len(kept), UNSHARED: too_long}
    assert items(other) == {"all": len(kept), "dropped=longer than the context": too_long}

    assert edges(together) == edges(other) != edges(alone)
    by_relation = dict(fits.group_by("relation").agg(pl.col("edges").sum()).iter_rows())
    assert {name: edges(together)[f"relation={name}", "valid"] + edges(together)[f"relation={name}", "test"]
            for name in by_relation} == by_relation  # fmt: skip
    assert together["item_set"].unique().to_list() != alone["item_set"].unique().to_list()
    first = (pl.col("metric") == "first_hit") & (pl.col("slice") == "all")
    assert set(together.filter(first)["item_set"]) == set(other.filter(first)["item_set"])
    assert set(together.filter(first)["fingerprint"]).isdisjoint(alone.filter(first)["fingerprint"])


@pytest.mark.slow
def test_the_run_says_how_near_to_eager_attention_each_model_was_read(of_both: Path) -> None:
    models = RunDirectory(of_both).read_summary()["models"]
    assert len(models) == 2
    for model in models:
        read = model["reading"]
        assert (read["weights"], read["attention"]) == ("float32", "fused")
        assert 0 <= read["difference"] < 1e-4


def test_attention_in_blocks_ends_the_run_in_one_line(code: Path, tmp_path: Path) -> None:
    folder = tmp_path / "longformer"
    save_tokenizer(folder)
    config = LongformerConfig(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        attention_window=[8, 8],
        pad_token_id=0,
    )
    LongformerForMaskedLM(config).save_pretrained(folder)
    with pytest.raises(SondeError, match="not by query and key") as refused:
        run(experiment(code, folder), Execution(output=tmp_path / "run"))
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_what_one_model_answers_among_others_is_kept(
    of_both: Path, code: Path, encoder: Path, short: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in of_both.rglob("*.parquet")}
    outcome = run(experiment(code, encoder, short), Execution(output=of_both))
    assert outcome.observed == 0
    assert before and before == {path: path.stat().st_mtime_ns for path in of_both.rglob("*.parquet")}


@pytest.mark.slow
def test_dependents_with_newlines_end_elsewhere_and_begin_where_they_did(
    of_one: Path, code: Path, encoder: Path, tmp_path: Path
) -> None:
    tables: list[pl.DataFrame] = []
    run(experiment(code, encoder, quirks=("codesyntax.newlines",)), Execution(output=tmp_path))
    for folder in (of_one, tmp_path):
        labels = pl.read_parquet(folder / "labels/task=syntax_relations/*.parquet")
        assert labels["newlines"].unique().to_list() == [folder == tmp_path]
        tables.append(
            scores(folder, encoder).filter(pl.col("slice").str.starts_with("relation=")).drop("fingerprint")
        )
    plain, longer = tables
    first = pl.col("metric").is_in(["first_hit", "mean_offset", "edges"])
    assert_frame_equal(plain.filter(first), longer.filter(first))
    keys = ["slice", "control", "metric", "k", "compared_to", "layer", "head"]
    last = [table.filter(pl.col("metric") == "last_hit").select(*keys, "value") for table in tables]
    bodies = pl.col("slice") == "relation=If:if->body"
    assert not last[0].filter(bodies).equals(last[1].filter(bodies))
    names = pl.col("slice") == "relation=For:for->target"
    assert_frame_equal(last[0].filter(names), last[1].filter(names))


SNIPPET = """def area(shape, *, scale=1.0):
    if shape is None:
        raise ValueError("<b>no & shape</b>\x0c")
    for side in shape.sides:
        scale = length(side, scale)
    return scale + 1
"""


def with_snippet(code: Path, path: Path, *models: Path, **changes: object) -> Experiment:
    return experiment(code, *models, options={"attention": {"snippet": str(path)}}, **changes)


def second_stage(folder: Path, model: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / RunDirectory(folder).observations("attention.1", str(model)) / "*")


@pytest.fixture(scope="module")
def drawn(code: Path, encoder: Path, short: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "drawn"
    given = folder.parent / "area.py"
    given.write_text(SNIPPET)
    run(with_snippet(code, given, encoder, short), Execution(output=folder))
    return folder


@pytest.mark.slow
def test_a_snippet_changes_no_score(drawn: Path, of_both: Path) -> None:
    plain, other = (
        with_slices(pl.read_parquet(folder / "scores.parquet")).drop("fingerprint")
        for folder in (of_both, drawn)
    )
    assert_frame_equal(plain, other)


@pytest.mark.slow
def test_of_a_snippet_and_of_few_functions_the_attention_is_kept(drawn: Path, encoder: Path) -> None:
    table = second_stage(drawn, encoder)
    kept = table.filter(pl.col("weights").is_not_null())
    of_snippet = pl.col("item_id").str.ends_with("-snippet")
    functions = kept.filter(~of_snippet)["item_id"].n_unique()
    # How many is drawn by hash: sixteen on average, where a run has more.
    assert 0 < functions < 2 * DRAWN
    heads = kept.filter(of_snippet)
    edges = table.filter(of_snippet & pl.col("weights").is_null())
    assert len(edges) > 5
    assert set(heads.select("layer", "head").rows()) == set(edges.select("layer", "head").rows())
    for row in edges.iter_rows(named=True):
        assert SNIPPET[row["asked_start"] : row["asked_end"]] == row["asked"]
        mine = heads.filter((pl.col("layer") == row["layer"]) & (pl.col("head") == row["head"]))
        starts, words = mine["starts"][0].to_list(), mine["words"][0].to_list()
        weights = np.frombuffer(mine["weights"][0], np.float16).reshape(len(words), len(words))
        places = list(zip(starts, words, strict=True))
        asked = weights[places.index((row["asked_start"], row["asked"]))]
        assert asked[places.index((row["picked_start"], row["picked"]))] == np.nanmax(asked)
        assert np.nansum(asked) > 0


@pytest.mark.slow
def test_the_page_draws_the_snippet_and_says_who_could_not_read_it(drawn: Path) -> None:
    page = write_report(drawn, figures=True).read_text(encoding="utf-8")
    section = page[page.index('<section id="attention_snippet"') :]
    section = section[: section.index("</section>")]
    assert section.count("<svg") == 2 * 4
    assert "no␣&" not in section.replace("&amp;", "") and "<b>no" not in section
    assert "edges in area.py the best heads find" in section
    assert len(list((drawn / "figures").glob("attention-snippet-*.png"))) == 2 * 4


@pytest.mark.slow
def test_a_snippet_longer_than_a_context_costs_that_drawing_alone(
    code: Path, encoder: Path, short: Path, tmp_path: Path
) -> None:
    given = tmp_path / "long.py"
    given.write_text(SNIPPET + SNIPPET.replace("area", "volume"))
    run(with_snippet(code, given, encoder, short), Execution(output=tmp_path / "run"))
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "short: long.py is not read, it is longer than the context; give a shorter one." in page
    assert "encoder, encoder: of" in page


@pytest.mark.slow
def test_a_snippet_in_a_language_that_is_not_read_is_said_so(
    code: Path, encoder: Path, tmp_path: Path
) -> None:
    given = tmp_path / "A.java"
    given.write_text("int f(int a) { return g(a); }\n")
    run(with_snippet(code, given, encoder), Execution(output=tmp_path / "run"))
    page = write_report(tmp_path / "run", figures=True).read_text(encoding="utf-8")
    assert "A.java is not drawn, since no relation of it has a best head here" in page
    assert not list((tmp_path / "run/figures").glob("attention-snippet-*"))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("missing.py", None, "missing.py': no such file"),
        (
            "words.txt",
            "def f(): pass",
            "its language has no syntactic relations; give a file in go or java or javascript or php or "
            "python",
        ),
        ("broken.py", "def f(:\n", "snippet 'broken.py': does not parse as python; give a complete function"),
        ("bare.py", "x\n", "snippet 'bare.py': contains no syntactic relation; give a longer one"),
        (
            "long.py",
            "f(x)\n" * 50,
            "too long for a picture (250 words, the maximum is 200); give a single function",
        ),
    ],
)
def test_a_snippet_that_cannot_be_drawn_is_one_line(
    name: str, text: str | None, words: str, code: Path, encoder: Path, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(SondeError) as raised:
        run(with_snippet(code, tmp_path / name, encoder), Execution(output=tmp_path / "run"))
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_the_option_of_the_command_line_names_the_snippet(
    code: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["-l", "attention", "-m", str(encoder), "-c", f"local:{code}", "--snippet", "/nowhere.py"]
    monkeypatch.setattr(sys, "argv", ["sonde", "run", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert "sonde: snippet '/nowhere.py': no such file" in capsys.readouterr().err


SENTENCE = (("the", "mice", "det"), ("old", "mice", "amod"), ("mice", "see", "nsubj"), ("see", "", "root"),
            ("a", "cat", "det"), ("cat", "see", "obj"), ("today", "see", "advmod"))  # fmt: skip


def treebank(path: Path) -> Path:
    """Sentences that leave out words in turn."""
    blocks: list[str] = []
    for number in range(40):
        left_out = {0, 1, 4, 6} - {(0, 1, 4, 6)[number % 4]} if number % 3 else set()
        kept = [word for at, word in enumerate(SENTENCE) if at not in left_out]
        place = {form: at for at, (form, _, _) in enumerate(kept, 1)}
        lines = [
            f"{at}\t{form}\t_\t_\t_\t_\t{place.get(head, 0)}\t{relation}\t_\t_"
            for at, (form, head, relation) in enumerate(kept, 1)
        ]
        blocks.append("\n".join([f"# sent_id = s{number}", f"# newdoc id = d{number}", *lines]))
    path.write_text("\n\n".join(blocks) + "\n\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["corrected", "paper"])
def test_the_root_of_a_sentence_is_missed_by_heads_and_offsets_alike(
    mode: str, encoder: Path, tmp_path: Path
) -> None:
    corpus = f"conllu:{treebank(tmp_path / 'bank.conllu')}"
    tables: list[pl.DataFrame] = []
    for name in (corpus, f"{corpus}?root=included"):
        folder = tmp_path / f"run-{len(tables)}"
        wanted = Experiment(
            models=(str(encoder),), lenses=("attention",), corpora=(name,), mode=mode,
            selection=Selection(near_duplicates=False),
        )  # fmt: skip
        run(wanted, Execution(output=folder))
        table = with_slices(pl.read_parquet(folder / "scores.parquet"))
        tables.append(table.filter(pl.col("metric").str.ends_with("_hit") & (pl.col("slice") != "head")))
    without, included = tables
    root = included.filter(pl.col("slice") == "relation=root")
    # Three metrics, every k, and nothing at all is found.
    predictors = {None, "one_head", "offset", "longest", "chance", "random_weights"}
    assert set(root["control"]) == predictors and len(root) == len(predictors) * 3 * 20
    assert root["value"].to_list() == [0.0] * len(root)
    keys = ["slice", "control", "metric", "k"]
    both = without.join(included, on=keys, nulls_equal=True, how="left")
    same = both.filter(pl.col("slice").str.starts_with("relation="))
    assert len(same) and same["value"].to_list() == same["value_right"].to_list()
    whole = both.filter(pl.col("slice") == "all")
    # "5 relations" without the root
    counts = whole["n_relations"].to_list()
    expected = [value * n / (n + 1) for value, n in zip(whole["value"], counts, strict=True)]
    assert whole["value_right"].to_list() == pytest.approx(expected) and max(expected) > 0
