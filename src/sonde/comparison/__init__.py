"""Comparison of two models on the same items: what got better, what got worse, and how sure that is."""
