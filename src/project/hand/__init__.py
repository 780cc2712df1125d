"""The twin written by hand in plain PyTorch; imports nothing of Lightning."""
