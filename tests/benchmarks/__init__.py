"""Measurements of what the README and the design promise: run by hand, never as timed tests."""
