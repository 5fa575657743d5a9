"""What the tree at hand gives, value by value beside what an earlier tree gave: ``make reference``."""
