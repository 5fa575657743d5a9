"""Code shared by all languages: grammars, trees, tokens, definitions, metrics, relations and edits."""
