"""Scripts that a person would write with transformers, PyTorch and scikit-learn alone; see `bench.whole`."""
