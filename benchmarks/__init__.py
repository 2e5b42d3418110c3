"""Measurements. `python -m benchmarks` runs them and writes `results/`."""
