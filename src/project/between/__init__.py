"""Between two optimizer steps: signals, saving, early stopping."""
