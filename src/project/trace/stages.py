"""The stages of a step, and the usual causes of a difference in each."""

from __future__ import annotations

USUAL_CAUSES: dict[str, str] = {
    "data": (
        "another batch size or order of examples: shuffling on in one run only, another sampler seed, set_epoch "
        "forgotten, a sampler replaced by the framework, a last batch or window dropped, other files, another "
        "tokenizer or text length"
    ),
    "rng": (
        "something drew from the global random stream in one run only: a validation's loader without a generator of "
        "its own, a sanity check, weights drawn after seeding, an augmentation, another seed"
    ),
    "forward": (
        "other weights or buffers at the start, training or evaluation mode (dropout), autocast around another part, "
        "label smoothing or class weights, a softmax too many, mean against sum, another device or library version"
    ),
    "backward": (
        "gradients kept from the step before (zero_grad forgotten or misplaced), the loss divided before backward, "
        "another loss scale, an operation whose backward pass is not deterministic"
    ),
    "reduce": "ranks averaged where they should be summed, a reduction per micro-batch against one per window",
    "unscale": "gradients never unscaled, or unscaled after they were used; another scale after an overflow",
    "normalise": (
        "the window's gradients divided by the number of micro-batches, or by a fixed number, instead of the number of "
        "examples that went in; a mean of unequal micro-batch means"
    ),
    "clip": (
        "clipping before unscaling or before normalising, another bound, norm against value, a norm summed in another "
        "order of parameters"
    ),
    "optimizer": (
        "another weight decay, momentum or epsilon, parameters in other groups, a step skipped for an overflow in one "
        "run only, a window that never became a step"
    ),
    "scheduler": (
        "another learning rate or schedule; advanced per micro-batch, per epoch or on a skipped step instead of per "
        "optimizer step; another number of total steps"
    ),
    "evaluation": (
        "evaluation in training mode, a metric averaged over batches instead of examples, rows left out or counted "
        "twice, a validation at another step"
    ),
    "checkpoint": "a buffer that is not saved, a plain tensor where a buffer belongs, weights saved at another step",
}
"""By stage; the text follows "usual causes:"."""

STAGES = tuple(USUAL_CAUSES)
"""In the order in which a step goes through them."""
