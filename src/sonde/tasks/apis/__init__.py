"""Names of libraries that code calls."""
