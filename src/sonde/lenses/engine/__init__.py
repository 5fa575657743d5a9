"""What every lens shares: the protocol, its defaults, tables of observations."""
