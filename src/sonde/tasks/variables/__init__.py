"""What two places of variables have to do with each other."""
