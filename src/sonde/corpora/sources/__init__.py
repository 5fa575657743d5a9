"""Where code comes from: a file a source, its stem the name before the colon."""
