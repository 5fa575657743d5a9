"""What every task shares: labels, data sets, sampling, faults, pairs and the baselines of the surface."""
