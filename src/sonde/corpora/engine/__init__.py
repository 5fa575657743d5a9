"""What every corpus shares: reading, selecting, removing duplicates, building, locking."""
