"""Whether a fault was put into a function."""
