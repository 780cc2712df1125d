"""What each step of a training run leaves behind, so that two runs can be compared."""

from project.trace.tracer import Tracer as Tracer
