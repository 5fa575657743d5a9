"""Pre-training by recipe: vocabulary, packed data, the loop, figures and the card of a model."""
