"""Fine-tuning: a model's body with a small head, trained on the examples of one task."""
