"""The sources of code: one file per source, its stem the name before the colon."""
