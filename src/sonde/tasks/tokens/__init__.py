"""What a single token is."""
