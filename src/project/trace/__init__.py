"""Traces: a record of every step of a training run, so that two runs can be compared."""

from project.trace.tracer import Tracer as Tracer
