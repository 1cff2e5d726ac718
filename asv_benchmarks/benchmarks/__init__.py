"""Benchmarks: time, peak memory and quality, every kernel side by side."""
