"""How two occurrences of variables relate."""
