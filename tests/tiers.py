"""The tier of every test: by its folder or file, here and nowhere else.

A file whose tier is not that of its folder stands in the table by its own name, or says so itself by a
`pytestmark`; so may a single test by a mark, if nothing else has given it a tier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent

TIERS: Mapping[str, str] = {
    "unit": "what one module or one folder of sonde does, on inputs made for it",
    "golden": "answers worked out by hand or published: edges, labels and metrics read off the text",
    "referee": "numbers and places held against other people's: scikit-learn, transformers, another parser",
    "end_to_end": "whole commands and experiments, their pages in a browser, kills and other machines",
    "structure": "the architecture, the documentation, and what every registered extension has to hold",
}

PLACES: Mapping[str, Sequence[str]] = {
    "unit": (
        "alignment", "base", "bench", "capture", "corpora", "executors", "fuzz", "languages", "lenses",
        "models", "reference", "report", "results", "security", "store", "tasks", "training",
        "experiments/test_experiment.py", "experiments/test_forecast.py",
        "experiments/test_format_inspect.py", "experiments/test_labels.py",
        "experiments/test_large_tables.py", "experiments/test_options.py", "experiments/test_plan.py",
        "experiments/test_pools.py", "experiments/test_tables.py", "facade/test_parts.py",
        "papers/test_perplexed_tags.py",
    ),
    "golden": (
        "golden",
        "languages/test_imports.py", "languages/test_imports_java.py", "languages/test_java.py",
        "languages/test_java_relations.py", "languages/test_javascript.py", "languages/test_locals.py",
        "languages/test_metrics.py", "languages/test_metrics_flow.py", "languages/test_metrics_tagging.py",
        "languages/test_program.py", "languages/test_python.py", "languages/test_python_relations.py",
        "languages/test_relation_cases.py", "languages/test_ruby.py", "lenses/test_surprisal_origin.py",
        "papers/test_published.py",
    ),
    "referee": (
        "artefacts", "own_parsers", "real", "recomputed",
        "capture/test_depth.py", "capture/test_gaps.py", "capture/test_infilling.py",
        "capture/test_interventions.py", "capture/test_padded.py", "capture/test_patches.py",
        "experiments/test_counting.py", "facade/test_own_labels.py", "facade/test_predicted_places.py",
        "facade/test_showing.py", "facade/test_states.py", "languages/test_go.py",
        "languages/test_imports_stdlib.py", "languages/test_java_relations_paper.py",
        "languages/test_javascript_referees.py", "languages/test_metrics_referees.py",
        "languages/test_php.py", "languages/test_program_java.py", "languages/test_program_properties.py",
        "languages/test_python_against_ast.py", "languages/test_python_against_tokenize.py",
        "languages/test_python_relations_referee.py", "languages/test_relation_trees.py",
        "languages/test_ruby_against_ripper.py", "languages/test_transforms.py", "lenses/test_attention.py",
        "lenses/test_cloze.py", "lenses/test_cloze_denoisers.py", "lenses/test_cloze_whole_names.py",
        "lenses/test_probe.py", "lenses/test_probe_folds.py", "lenses/test_surprisal_before.py",
        "lenses/test_surprisal_masked.py", "lenses/test_surprisal_pairs.py",
        "lenses/test_surprisal_published.py", "models/test_gguf.py", "models/test_heads.py",
        "models/test_plbart.py", "models/test_tokenizer_files.py", "results/test_examples.py",
        "tasks/test_cubert_tasks.py", "tasks/test_cues.py", "tasks/test_exchange.py",
        "training/test_baselines.py", "training/test_erasure.py", "training/test_finetuning_classes.py",
        "training/test_finetuning_heads.py", "training/test_finetuning_memory.py",
        "training/test_finetuning_size.py", "training/test_probes.py", "training/test_probes_more.py",
        "training/test_probes_real.py",
    ),
    "end_to_end": (
        "calibration", "experiments", "facade", "faults", "packaging",
        "contracts/test_every_language.py", "docs/test_tutorial.py", "executors/test_ray_lost.py",
        "lenses/test_cloze_bad_input.py", "lenses/test_finetune_bad_input.py", "papers/test_replication.py",
        "report/test_accessible.py", "report/test_browser.py", "report/test_cloze_browser.py",
        "report/test_comparison_page.py", "report/test_explorer_clicked.py", "security/test_run.py",
        "store/test_commands.py",
    ),
    "structure": (
        "contracts", "docs", "structure",
        "facade/test_names.py", "languages/test_contract.py", "report/test_card_docs.py",
        "report/test_contributing.py", "report/test_folders.py", "report/test_papers.py",
        "results/test_columns.py", "security/test_code.py",
    ),
}  # fmt: skip
"""Folders, and files that are not of their folder's tier, by tier; the longest name that fits decides."""

_BY_PLACE = {PurePosixPath(place): tier for tier, places in PLACES.items() for place in places}


def get_tier(path: PurePosixPath, marked: Sequence[str]) -> str:
    """Return the tier of a test in a file, relative to the folder of tests, with the tiers of its marks.

    Raises:
        ValueError: If it has no tier, or several.
    """
    if len(marked) > 1:
        raise ValueError(f"tests/{path} is marked as {' and '.join(marked)}; a test has one tier")
    if marked:
        return marked[0]
    for place in (path, *path.parents):
        if place in _BY_PLACE:
            return _BY_PLACE[place]
    raise ValueError(f"tests/{path} has no tier; name its folder or the file in tests/tiers.py")
