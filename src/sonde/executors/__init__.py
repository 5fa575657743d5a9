"""Executors: one map over jobs, in this process or in several."""
