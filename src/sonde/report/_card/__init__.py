"""The card of a run: what its lenses found, as data that outlives the run and as part of a model card."""
