"""Benchmarks: ratios within one run, printed beside their targets. Nothing here is a test."""
