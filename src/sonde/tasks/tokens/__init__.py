"""Classes of single tokens."""
