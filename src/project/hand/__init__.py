"""How, written by hand: plain PyTorch, and nothing of Lightning."""
