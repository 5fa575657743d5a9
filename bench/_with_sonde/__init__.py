"""What the scripts in `bench._by_hand` compute, by sonde; see `bench._real`."""
