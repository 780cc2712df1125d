"""Several processes: how they start, agree, stop and share tensors."""
