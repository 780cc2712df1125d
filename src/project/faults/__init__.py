"""Finds every fault of YAML files and command-line options before a run starts, each with its place.

jsonargparse stops at the first fault, and knows no line numbers.
"""
