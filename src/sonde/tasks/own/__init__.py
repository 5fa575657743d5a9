"""Your own labels."""
