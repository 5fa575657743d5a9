"""Sections of the page: a folder a lens, a file a section, its stem the public name."""
