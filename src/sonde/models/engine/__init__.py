"""Shared code of all models: finding, checking and loading checkpoints."""
