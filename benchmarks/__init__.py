"""Measure speed and memory. `python -m benchmarks` runs all parts and writes `results/`."""
