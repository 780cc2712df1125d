"""The checkpoint file of both twins, and the position of a saved run."""
