"""Checks of the trace readers against the tools that wrote the traces, and against plain Python."""
