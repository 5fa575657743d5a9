"""Statistics: the row schema of scores, metrics, clustered intervals."""
