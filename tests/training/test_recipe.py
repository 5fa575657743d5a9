from pathlib import Path

import pytest

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.training.pretrain.recipe import read_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_our_recipes_can_be_read(path):
    recipe = read_recipe(path)
    assert recipe.training.block <= recipe.model.context
    assert recipe.data.held_out == ("stdlib",)


@pytest.mark.parametrize("kind", ["", "-cpu", "-six"])
def test_our_models_share_one_vocabulary(kind):
    pair = [read_recipe(RECIPES[0].parent / f"mini-{role}{kind}.toml") for role in ("encoder", "decoder")]
    assert pair[0].vocabulary == pair[1].vocabulary
    assert pair[0].data == pair[1].data


def test_one_recipe_a_length():
    recipes = {r.training.block: r for r in map(read_recipe, RECIPES) if r.name[7:].isdigit()}
    assert set(recipes) == {128, 256, 512, 1024}
    assert {block * r.training.blocks_per_step for block, r in recipes.items()} == {128 * 1024}
    assert {
        (r.objective, r.training.masked, r.pairs.duplicates, r.pairs.predictions) for r in recipes.values()
    } == {("pairs", 0.15, 10, 20)}
    for block, recipe in recipes.items():
        assert recipe.model.context == block
        assert recipe.training.warmup_steps == recipe.training.steps // 10
        assert (recipe.data, recipe.vocabulary) == (recipes[128].data, recipes[128].vocabulary)


def test_the_objective_follows_from_the_role(recipe_path):
    assert read_recipe(recipe_path).objective == "causal"
    recipe_path.write_text(recipe_path.read_text().replace('"decoder"', '"encoder"'))
    assert read_recipe(recipe_path).objective == "masked"


def test_fields_arrive(recipe_path):
    recipe = read_recipe(recipe_path)
    assert (recipe.name, recipe.seed, recipe.training.steps) == ("tiny", 3, 12)
    assert recipe.model.settings["hidden_size"] == 32
    assert recipe.data.corpora[0].language == "python"


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ("steps = 12", "stepps = 12", UnknownNameError, "'steps'"),
        ("steps = 12", "", UsageError, "steps"),
        ("steps = 12", "steps = 0", UsageError, "steps = 0 is not a whole number of at least 1"),
        ('role = "decoder"', 'role = "seer"', UsageError, "seer"),
        ("block = 32", "block = 65", UsageError, "64"),
        ("blocks_at_once = 2", "blocks_at_once = 3", UsageError, "multiple"),
        ("[[data.corpora]]", "[data.corpus]", UsageError, "no corpus"),
        ("seed = 3", "seed =", InputError, "not TOML"),
        ('name = "tiny"', 'name = "tiny"\nspeed = 9', UnknownNameError, "speed"),
    ],
)
def test_what_is_wrong_is_said(recipe_path, old, new, kind, words):
    recipe_path.write_text(recipe_path.read_text().replace(old, new, 1))
    with pytest.raises(kind, match=words) as caught:
        read_recipe(recipe_path)
    assert "\n" not in str(caught.value)


def test_a_missing_recipe(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_recipe(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("steps = 12", 'steps = "12"', "steps = '12' is not a whole number of at least 1; in "),
        ("steps = 12", "steps = 12\nmasked = 1.0", "masked = 1.0 is not a number above 0 and below 1"),
        ("steps = 12", "steps = 12\nschedule = 'wds'", "unknown schedule 'wds'; did you mean 'wsd'"),
        ("steps = 12", "steps = 12\nblocks_at_once = 0", "blocks_at_once = 0 is not a whole number of at"),
        ("seed = 3", 'seed = 3\noptimiser = "muon"', "optimiser = 'muon' is not a table"),
        ("steps = 12", "", "training lacks steps"),
    ],
)
def test_every_field_is_of_its_type_and_in_its_range(recipe_path, old, new, words):
    text = recipe_path.read_text()
    kept = text.replace("blocks_at_once = 2\n", "") if "blocks_at_once" in new else text
    recipe_path.write_text(kept.replace(old, new, 1))
    with pytest.raises(UsageError, match=words) as caught:
        read_recipe(recipe_path)
    assert "\n" not in str(caught.value) and str(recipe_path) in str(caught.value)
