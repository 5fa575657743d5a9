"""Charts and drawings: their parts, colours and files."""
