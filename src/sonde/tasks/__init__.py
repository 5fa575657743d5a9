"""Tasks: questions about code, answered on characters before any tokenizer exists; a folder a family."""

from sonde.base.registry import Registry
from sonde.tasks._repository import importing, needs_imports, repositories
from sonde.tasks._task import (
    LABEL_SCHEMA,
    AccountingTask,
    CorpusTask,
    DrawingTask,
    Repository,
    RowTask,
    Task,
    ablations_of,
    languages_of,
    quirk_lines,
    quirks_of,
)

TASKS: Registry[Task] = Registry("sonde.tasks", "task", "task", protocols=(Task, CorpusTask), folders=True)

# The builder of data sets looks tasks up by name, so the registry has to be there before it.
from sonde.corpora._spread import Spread  # noqa: E402
from sonde.tasks._copies import COPIES  # noqa: E402
from sonde.tasks._dataset import (  # noqa: E402
    DRAWING,
    NO_PICKS,
    Estimate,
    build,
    drawn_from,
    first_drawn,
    gather_picks,
    is_picked,
)
from sonde.tasks._effective import effective_clusters, lack_of_clusters, more_clusters  # noqa: E402
from sonde.tasks._examples import EXAMPLE_SCHEMA, Dataset  # noqa: E402
from sonde.tasks._minimal_pairs import PAIRED_SCHEMA, build_pairs  # noqa: E402
from sonde.tasks._picked import PICKED, Picks, Question  # noqa: E402
from sonde.tasks._tables import label_items  # noqa: E402
from sonde.tasks._transformed import TRANSFORM_VERSION, PoolTransform, transform_dataset  # noqa: E402

__all__ = [
    "COPIES",
    "DRAWING",
    "EXAMPLE_SCHEMA",
    "LABEL_SCHEMA",
    "NO_PICKS",
    "PAIRED_SCHEMA",
    "PICKED",
    "TASKS",
    "TRANSFORM_VERSION",
    "AccountingTask",
    "CorpusTask",
    "Dataset",
    "DrawingTask",
    "Estimate",
    "Picks",
    "PoolTransform",
    "Question",
    "Repository",
    "RowTask",
    "Spread",
    "Task",
    "ablations_of",
    "build",
    "build_pairs",
    "drawn_from",
    "effective_clusters",
    "first_drawn",
    "gather_picks",
    "importing",
    "is_picked",
    "label_items",
    "lack_of_clusters",
    "languages_of",
    "more_clusters",
    "needs_imports",
    "quirk_lines",
    "quirks_of",
    "repositories",
    "transform_dataset",
]
