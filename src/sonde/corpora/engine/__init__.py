"""The machinery shared by all corpora: read, select, deduplicate, build, lock."""
