"""Base: errors, keys, the registry, atomic files; knows nothing of code or models."""
