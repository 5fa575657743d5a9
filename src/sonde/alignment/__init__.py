"""Alignment: characters, subwords, code tokens and syntax nodes, many to many."""
