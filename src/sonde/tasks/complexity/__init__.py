"""Length, depth and complexity of functions."""
