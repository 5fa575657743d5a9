"""Names of the library APIs that code calls."""
