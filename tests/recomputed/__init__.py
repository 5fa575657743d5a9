"""Numbers of a finished run computed again without sonde: ``python -m tests.recomputed RUN_FOLDER``.

Nothing here imports sonde. Texts and labels come from the run's tables (docs/files.md), definitions from
docs/methods.md and docs/causal.md, and everything that a model says from transformers alone.
"""
