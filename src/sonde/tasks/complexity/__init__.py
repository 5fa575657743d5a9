"""How long, deep and branched a function is."""
