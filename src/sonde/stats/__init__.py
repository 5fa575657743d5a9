"""Statistics: estimator, intervals, verdicts, power and extremes; pure functions over arrays."""
