"""Sections of the lens `finetune`."""
