"""Training: vocabulary, packed data and pre-training by recipe."""
