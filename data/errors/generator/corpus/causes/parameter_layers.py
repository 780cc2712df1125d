"""What all layouts of parameters are made of: names mapped to shapes, affine layers, normalisation."""

from __future__ import annotations

Layout = dict[str, tuple[int, ...]]


def affine(name: str, *shape: int) -> Layout:
    """A weight of that shape and its bias."""
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def norm(name: str, width: int) -> Layout:
    """Batch normalisation with its running statistics."""
    statistics: Layout = {
        f"{name}.running_mean": (width,),
        f"{name}.running_var": (width,),
        f"{name}.num_batches_tracked": (),
    }
    return affine(name, width) | statistics
