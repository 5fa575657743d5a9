"""Relations between two occurrences of variables."""
