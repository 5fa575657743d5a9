"""What every model shares: finding, checking and loading checkpoints."""
