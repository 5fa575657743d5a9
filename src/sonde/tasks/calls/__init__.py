"""Origin of calls and their arguments."""
