"""What happens between two optimizer steps, beside the arithmetic: signals, saving, early stopping."""
