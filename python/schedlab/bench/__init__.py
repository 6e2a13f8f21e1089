"""Benchmarks on real machines: other tools' output parsed, and commands run and stored."""
