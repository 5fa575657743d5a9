"""RoBERTa and its like (CodeBERT, GraphCodeBERT, UniXcoder): positions start behind the padding id."""

from typing import Any

from sonde.models.engine.architectures import EncoderFamily
from sonde.models.engine.config_values import number


def _context(config: Any) -> int:
    """Return the usable positions: 0 to the padding id are never used, so 514 rows take 512 subwords."""
    return number(config, "max_position_embeddings") - number(config, "pad_token_id", default=1) - 1


family = EncoderFamily(
    model_types=frozenset({"roberta", "camembert", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm"}),
    context=_context,
)
