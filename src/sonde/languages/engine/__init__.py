"""What every language shares: grammars, trees, tokens, definitions, metrics, relations, edits."""
