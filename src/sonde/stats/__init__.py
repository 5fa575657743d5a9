"""Statistics: the one estimator, intervals, verdicts, power and extremes; pure functions over arrays."""
