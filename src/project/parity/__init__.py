"""`compare`: trains both twins, or takes two runs, and finds the first difference."""
