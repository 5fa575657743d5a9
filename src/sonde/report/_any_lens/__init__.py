"""What every lens gets from its scores alone: a headline, a chart and a table of all its numbers."""
