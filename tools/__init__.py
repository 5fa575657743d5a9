"""Guards over the whole tree, for those who change it."""
