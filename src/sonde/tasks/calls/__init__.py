"""Where calls and their arguments come from."""
