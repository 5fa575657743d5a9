"""CuBERT's baselines: models without pre-training, or with token vectors alone, on a task's examples."""
