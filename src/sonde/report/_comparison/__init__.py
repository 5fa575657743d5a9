"""The page of a comparison: what got better, what got worse, what cannot be told."""
