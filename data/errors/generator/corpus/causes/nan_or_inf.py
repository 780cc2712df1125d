"""Messages of programs that found NaN or infinite values and refused to go on."""
# ruff: noqa: E501  (wordings are kept on one line)

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import numpy as np
import torch
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor, distributions, nn

from corpus.message import Message
from corpus.wordings import Operation, Wording, raised_messages, rendered_messages

CAUSE = "nan_or_inf"
NAN = float("nan")


def _anomaly(forward: Callable[[Tensor], Tensor]) -> Operation:
    """Return an operation whose backward gives NaN while anomalies are looked for."""

    def run(r: random.Random) -> object:
        x = torch.zeros(r.randint(1, 3), requires_grad=True)
        with torch.autograd.detect_anomaly(check_nan=True):
            torch.autograd.backward(forward(x).sum())
            return None

    return run


def _bad(r: random.Random, *shape: int) -> Tensor:
    x = torch.tensor([round(r.uniform(-2, 2), 4) for _ in range(math.prod(shape))])
    x[: r.randint(1, x.numel())] = NAN
    return x.view(shape)


def _clip(r: random.Random) -> object:
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.tensor([r.choice((NAN, float("inf"))), 1.0])
    return nn.utils.clip_grad_norm_(
        [parameter], 1.0, norm_type=r.choice((1.0, 2.0, float("inf"))), error_if_nonfinite=True
    )


def _table(r: random.Random) -> np.ndarray:
    array = np.ones((6, 2))
    array[r.randint(0, 5), 0] = r.choice((np.nan, np.inf))
    return array


OPERATIONS: dict[str, Operation] = {
    "anomaly_sqrt": _anomaly(lambda x: torch.sqrt(x) * 0),
    "anomaly_div": _anomaly(lambda x: x / x),
    "anomaly_pow": _anomaly(lambda x: (x**0.5) * 0),
    "anomaly_log": _anomaly(lambda x: (torch.log(x) * 0).exp()),
    "anomaly_acos": _anomaly(lambda x: torch.acos(x + 1) * 0),
    "anomaly_std": _anomaly(lambda x: torch.std(x[:1]) * 0),
    "anomaly_mul": _anomaly(lambda x: torch.exp(x + 1000) * x * 0),
    "clip_grad": _clip,
    "normal": lambda r: distributions.Normal(_bad(r, r.randint(1, 4)), torch.ones(1)),
    "normal_scale": lambda r: distributions.Normal(torch.zeros(1), _bad(r, r.randint(1, 4))),
    "categorical": lambda r: distributions.Categorical(logits=_bad(r, 1, r.randint(2, 5))),
    "categorical_probs": lambda r: distributions.Categorical(probs=_bad(r, 1, r.randint(2, 5))),
    "bernoulli": lambda r: distributions.Bernoulli(logits=_bad(r, r.randint(1, 4))),
    "beta": lambda r: distributions.Beta(_bad(r, r.randint(1, 3)), torch.ones(1)),
    "dirichlet": lambda r: distributions.Dirichlet(_bad(r, r.randint(2, 4))),
    "multivariate": lambda r: distributions.MultivariateNormal(_bad(r, 2), torch.eye(2)),
    "log_prob": lambda r: distributions.Normal(torch.zeros(1), torch.ones(1)).log_prob(_bad(r, r.randint(1, 4))),  # type: ignore[no-untyped-call]
    "multinomial": lambda r: torch.multinomial(r.choice((_bad(r, 4), torch.tensor([1.0, -1.0]), torch.tensor([float("inf"), 1.0]))), 1),
    "linalg_svd": lambda r: torch.linalg.svd(torch.full((r.randint(2, 9), 3), NAN)),
    "linalg_eigh": lambda r: r.choice((torch.linalg.eigh, torch.linalg.eig))(torch.full((3, 3), r.choice((NAN, float("inf"))))),
    "linalg_cholesky": lambda r: torch.linalg.cholesky(torch.full((r.randint(2, 9),) * 2, NAN)),
    "assert_close": lambda r: torch.testing.assert_close(torch.full((2,), NAN), torch.zeros(2)),
    "sklearn_fit": lambda r: r.choice((LinearRegression, Ridge))().fit(_table(r), np.ones(6)),
    "sklearn_svc": lambda r: SVC().fit(_table(r), np.arange(6) % 2),
    "sklearn_target": lambda r: LinearRegression().fit(np.ones((6, 2)), _table(r)[:, 0] * np.nan),
    "sklearn_metric": lambda r: r.choice((mean_squared_error, mean_absolute_error, r2_score))(_table(r)[:, 0] * np.nan, np.ones(6)),
    "sklearn_scaler": lambda r: StandardScaler().fit(np.full((2, 2), np.inf)),
    "numpy_chkfinite": lambda r: np.asarray_chkfinite(_table(r)),
    "numpy_integer": lambda r: r.choice((lambda: int(float("nan")), lambda: int(float("inf")), lambda: round(float("nan")), lambda: round(float("inf"))))(),
    "numpy_histogram": lambda r: np.histogram(_table(r)),
    "histc": lambda r: torch.histc(_bad(r, 4)),
    "numpy_svd": lambda r: np.linalg.svd(np.full((3, 3), np.nan)),
    "assert_finite": lambda r: torch._assert(bool(torch.isfinite(_bad(r, 3)).all()), r.choice(("non-finite loss", "loss is nan", "found nan in the output"))),  # type: ignore[no-untyped-call]
}  # fmt: skip
CORE = frozenset(
    ("anomaly_sqrt", "anomaly_div", "normal", "categorical", "multinomial", "sklearn_fit", "clip_grad", "numpy_integer")
)
WORDINGS = (
    Wording("anomaly", "RuntimeError", ("Function '{op}' returned nan values in its {i}th output.", "Function '{op}' returned nan values in its 0th output.", "Function '{op}' returned nan values in its 1th output."), core=True),
    Wording("loss_stop", "", ("Loss is nan, stopping training", "Loss is inf, stopping training", "Loss is nan, stopping training {'loss_classifier': tensor(nan, device='cuda:0', grad_fn=<NllLossBackward0>), 'loss_box_reg': tensor({float}, device='cuda:0')}", "loss is nan", "Loss is NaN at step {big}, stopping", "Model diverged with loss = NaN", "loss became infinite or NaN at iteration={big}!", "Training stopped: loss is nan or inf", "WARNING: non-finite loss, ending training  tensor([nan, nan, nan, nan], device='cuda:0')", "WARNING: non-finite loss, ending training ",
                              "Epoch {b} loss: nan accuracy: 0.1", "loss: nan grad_norm: nan lr: {float}", "train_loss=nan val_loss=nan", "NaN or Inf found in input tensor.", "NaN loss encountered, exiting", "epoch {b} train loss nan val loss nan", "{'loss': nan, 'grad_norm': nan, 'learning_rate': {float}, 'epoch': {float}}", "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': {float}, 'epoch': {float}}"), core=True),
    Wording("floating_point", "FloatingPointError", ("Loss became infinite or NaN at iteration={big}!\nloss_dict = {'loss_cls': nan, 'loss_box_reg': nan, 'loss_rpn_cls': nan, 'loss_rpn_loc': inf}", "Loss became infinite or NaN at iteration={b}!", "Predicted boxes or scores contain Inf/NaN. Training has diverged.", "Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering the learning rate, using gradient clipping or increasing the batch size.", "gradients are Nan/Inf", "invalid value encountered in true_divide", "overflow encountered in exp: loss is inf", "Loss is nan at step {b}"), core=True),
    Wording("found_inf", "RuntimeError", ("Found nan or inf in gradients at step {big}", "The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`", "The total norm of order {k}.0 for gradients from `parameters` is non-finite, so it cannot be clipped.", "Found NaN in output of layer {mod}", "Found inf/nan in {mod}.weight.grad", "Found NAN in output {i} at indices: tensor([[0, 1]]) where: tensor([nan], device='cuda:0')",
                                          "Detected NaN in the gradients, please check the data and the learning rate", "nan in loss", "Encountered nan in the loss", "The loss returned in `training_step` is nan or inf.", "Detected nan and/or inf values in `{mod}.weight`.", "Detected nan and/or inf values in `{mod}.bias`.", "rank {g} found NaN in local forward loss calculation. Device: {g}", "Rank {g}: found NaN in local grad norm in backward pass before data-parallel communication collective. Device: {g}", "Unexpected result nan (message='found NaN in local forward loss calculation')", "Unexpected result inf (message='found Inf in local forward loss calculation')",
                                          "nan encountered in forward pass of {mod}", "NaN or Inf found in the gradient of {mod}"), core=True),
    Wording("sampling", "RuntimeError", ("probability tensor contains either `inf`, `nan` or element < 0", "probability tensor contains either `inf`, `nan` or element < 0 (multinomial)", "invalid argument 2: invalid multinomial distribution (encountering probability entry < 0) at {root}/aten/src/TH/generic/THTensorRandom.cpp:{line}", "invalid multinomial distribution (encountering probability entry = infinity or NaN)", "invalid argument 2: invalid multinomial distribution (with replacement=False, not enough non-negative category to sample) at {root}/aten/src/TH/generic/THTensorRandom.cpp:{line}", "invalid multinomial distribution (sum of probabilities <= 0)", "probability tensor contains either inf, nan or element < 0 while sampling", "Assertion `probability tensor contains either `inf`, `nan` or element < 0` failed"), core=True),
    Wording("scaler", "FloatingPointError", ("Minimum loss scale reached ({float}). Your loss is probably exploding. Try lowering the learning rate, using gradient clipping or increasing the batch size.", "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.", "Loss scale has been reduced to the minimum: the gradients overflow at every step", "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 0.0", "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {float}", "[deepspeed] OVERFLOW! Rank {g} Skipping step. Attempted loss scale: {b}, reducing to {b}", "NaN or Inf found in fp16 gradients, skipped {b} consecutive steps", "float division by zero: loss scale is 0 after repeated overflows"), core=True),
    Wording("float_division", "ZeroDivisionError", ("float division by zero: loss scaler reduced to 0 after gradient overflow", "float division by zero while unscaling: inverse loss scale is inf")),
    Wording("constraint", "ValueError", ("Expected parameter loc (Tensor of shape ({b}, {k})) of distribution Normal(loc: torch.Size([{b}, {k}]), scale: torch.Size([{b}, {k}])) to satisfy the constraint Real(), but found invalid values:\ntensor([[nan, nan, nan]], device='cuda:0', grad_fn=<AddmmBackward0>)", "Expected parameter logits (Tensor of shape ({b}, {k})) of distribution Categorical(logits: torch.Size([{b}, {k}])) to satisfy the constraint IndependentConstraint(Real(), 1), but found invalid values:\ntensor([[nan, nan]], device='cuda:0', grad_fn=<SubBackward0>)",
                                         "Expected parameter probs (Tensor of shape ({b}, {k})) of distribution Categorical(probs: torch.Size([{b}, {k}])) to satisfy the constraint Simplex(), but found invalid values:\ntensor([[nan, nan, nan]])", "The parameter loc has invalid values", "The parameter logits has invalid values", "The parameter probs has invalid values", "The parameter scale has invalid values", "The value argument must be within the support", "The parameter covariance_matrix has invalid values", "Expected value argument (Tensor of shape ({b},)) to be within the support (Real()) of the distribution Normal, but found invalid values:\ntensor([nan, nan])",
                                         "Expected parameter scale (Tensor of shape ({b}, {k})) of distribution Normal(loc: torch.Size([{b}, {k}]), scale: torch.Size([{b}, {k}])) to satisfy the constraint GreaterThan(lower_bound=0.0), but found invalid values:\ntensor([[nan, nan]], grad_fn=<ExpBackward0>)"), core=True),
    Wording("input_contains", "ValueError", ("Input contains NaN, infinity or a value too large for dtype('float32').", "Input contains NaN, infinity or a value too large for dtype('float64').", "Input contains NaN.", "Input contains infinity or a value too large for dtype('float32').", "Input y_pred contains NaN.", "Input X contains NaN.", "Input y contains NaN.", "Input X contains infinity or a value too large for dtype('float64').", "cannot convert float NaN to integer", "array must not contain infs or NaNs", "autodetected range of [nan, nan] is not finite", "matrix contains invalid numeric entries", "Out of range float values are not JSON compliant: nan", "Input X contains NaN.\nLogisticRegression does not accept missing values encoded as NaN natively."), core=True),
    Wording("linalg", "torch._C._LinAlgError", ("linalg.svd: (Batch element {i}): The algorithm failed to converge because the input matrix contained non-finite values.", "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.", "torch.linalg.eigh: The algorithm failed to converge because the input matrix contained non-finite values.", "linalg.eigh: (Batch element {g}): The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {b}).", "linalg.svd: (Batch element 0): The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular values (error code: {b}).",
                                                "torch.linalg.eig: input tensor should not contain infs or NaNs.", "svd_cpu: the updating process of SBDSDC did not converge (error: {k})", "SVD did not converge", "symeig_cpu: the algorithm failed to converge; {k} off-diagonal elements of an intermediate tridiagonal form did not converge to zero.", "linalg.cholesky: The factorization could not be completed because the input is not positive-definite (the leading minor of order {k} is not positive-definite)."), core=True),
    Wording("numpy_linalg", "numpy.linalg.LinAlgError", ("SVD did not converge", "Array must not contain infs or NaNs", "Eigenvalues did not converge", "SVD did not converge in Linear Least Squares"), core=True),
    Wording("gradcheck", "RuntimeError", ("cost matrix contains nan values", "matrix contains invalid numeric entries", "Non-finite values in the input of the loss", "NaN values detected in input batch", "Nan found in weights of {mod}", "tensor({mod}) contains NaN", "output of {mod} is not finite: tensor([nan, nan, inf])", "Assertion `input >= 0. && input <= 1.` failed: input contains nan", "NaN grad in {mod}.weight", "Loss exploded to inf at step {big}")),
    Wording("assertion", "AssertionError", ("NaN in loss", "loss is nan", "Loss is not finite", "Model outputs contain NaN", "nan values in input", "boxes1 contain nan: (boxes1[:, 2:] >= boxes1[:, :2]).all()", "torch.isfinite(loss).all() is false", "not np.isnan(loss)", "NaN detected in {mod}", "grad norm is inf", "Loss is {i}.0 then nan: non-finite loss", "A tensor with all NaNs was produced: {mod}", "Non finite values found in the features"), core=False),
    Wording("diffusion", "modules.devices.NansException", ("A tensor with all NaNs was produced in Unet. This could be either because there's not enough precision to represent the picture, or because your video card does not support half type. Try setting the \"Upcast cross attention layer to float32\" option in Settings > Stable Diffusion or using the --no-half commandline argument to fix this.", "A tensor with all NaNs was produced in VAE. This could be because there's not enough precision to represent the picture. Try adding --no-half-vae commandline argument to fix this. Use --disable-nan-check commandline argument to disable this check.", "A tensor with all NaNs was produced in Unet.", "A tensor with all NaNs was produced in VAE."), core=True),
    Wording("lightning", "ValueError", ("The loss returned in `training_step` is nan.", "The loss returned in `training_step` is inf.", "Detected nan and/or inf values in `{mod}.weight`.", "Monitored metric val_loss = nan is not finite. Previous best value was inf. Signaling Trainer to stop.", "Monitored metric train_loss = nan is not finite. Previous best value was {float}. Signaling Trainer to stop."), core=True),
    Wording("prints", "", ("tensor(nan, device='cuda:0', grad_fn=<NllLossBackward0>)", "tensor(nan, grad_fn=<MseLossBackward0>)", "tensor([[nan, nan, nan], [nan, nan, nan]], grad_fn=<AddmmBackward0>)", "tensor(inf, device='cuda:0', grad_fn=<MeanBackward0>)", "loss nan after {b} iterations, all weights become nan", "step {big} loss nan grad norm nan", "iter {b}: train loss nan, val loss nan", "RuntimeWarning: invalid value encountered in log", "RuntimeWarning: divide by zero encountered in log loss = -inf", "RuntimeWarning: overflow encountered in exp", "[Epoch {b}/200] [D loss: nan] [G loss: nan]", "Epoch {b}, loss: nan, acc: {float}", "Validation loss: nan")),
    Wording("rl", "ValueError", ("The parameter probs has invalid values: tensor([[nan, nan]])", "NaN in the actor's output: action logits are nan", "Expected parameter loc (Tensor of shape (1, {k})) of distribution Normal(loc: torch.Size([1, {k}]), scale: torch.Size([1, {k}])) to satisfy the constraint Real(), but found invalid values", "probabilities contain NaN", "probabilities are not non-negative or contain NaN", "Action contains nan: [nan nan]", "observation contains NaN or inf"), core=False),
)  # fmt: skip


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of nan_or_inf."""
    yield from raised_messages(CAUSE, OPERATIONS, rng, 6, core=CORE)
    yield from rendered_messages(CAUSE, WORDINGS, rng, 5)
