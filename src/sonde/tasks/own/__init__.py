"""A user's own labels."""
