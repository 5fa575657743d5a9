"""Store: results by fingerprint, written atomically, checked when read."""
