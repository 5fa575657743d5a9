"""Model families: a file a family, what transformers' configuration does not say by itself."""
