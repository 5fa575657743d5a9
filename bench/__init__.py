"""Benchmarks: ratios within one run, printed next to their targets. Nothing here is a test."""
