"""A normalisation layer in training got one value per channel, so it has no variance to divide by."""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpus import library_frames
from corpus.library_frames import frame
from corpus.message import Frame, Message
from corpus.raising import rendered
from corpus.wordings import Operation, raised_messages

CAUSE = "batchnorm_single_value"
NUM_RAISED = 6

_CHANNELS = (1, 2, 4, 8, 10, 16, 24, 32, 48, 50, 64, 96, 100, 120, 128, 144, 160, 192, 200, 256, 320, 384, 480, 500, 512, 576, 640, 728, 768, 960, 1000, 1024, 1152, 1280, 1536, 2048, 4096)  # fmt: skip
_FUNCTIONAL = "torch/nn/functional.py"
_NORM = "torch/nn/modules/batchnorm.py"
_OLD_RAISE = "raise ValueError('Expected more than 1 value per channel when training, got input size {}'.format(size))"
_RAISE = 'raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")'
_MODELS: tuple[tuple[str, str, str], ...] = (
    ("torchvision/models/segmentation/deeplabv3.py", "forward", "_res.append(conv(x))"),
    ("torchvision/models/segmentation/_utils.py", "forward", "x = self.classifier(x)"),
    ("torchvision/models/inception.py", "forward", "aux = self.AuxLogits(x)"),
    ("torchvision/models/googlenet.py", "forward", "aux1 = self.aux1(x)"),
    ("torchvision/models/resnet.py", "_forward_impl", "x = self.layer4(x)"),
    ("segmentation_models_pytorch/decoders/deeplabv3/decoder.py", "forward", "res.append(conv(x))"),
    ("segmentation_models_pytorch/base/modules.py", "forward", "x = self.bn(x)"),
    ("mmseg/models/decode_heads/psp_head.py", "forward", "ppm_out = ppm(x)"),
    ("mmseg/models/decode_heads/aspp_head.py", "forward", "resize(self.image_pool(x), size=x.size()[2:])"),
    ("mmcv/cnn/bricks/conv_module.py", "forward", "x = self.norm(x)"),
    ("timm/models/efficientnet.py", "forward_features", "x = self.bn2(x)"),
    ("timm/layers/norm_act.py", "forward", "x = F.batch_norm("),
    ("efficientnet_pytorch/model.py", "forward", "x = self._bn0(self._conv_stem(x))"),
    ("fastai/layers.py", "forward", "return self.layers(x)"),
    ("fastai/tabular/model.py", "forward", "if self.n_cont != 0: x_cont = self.bn_cont(x_cont)"),
    ("fastai/tabular/models.py", "forward", "return self.layers(x)"),
    ("pytorch_tabnet/tab_network.py", "forward", "x = self.initial_bn(x)"),
    ("pytorch_tabular/models/common/layers/batch_norm.py", "forward", "return self.bn(x)"),
    ("torch_geometric/nn/norm/batch_norm.py", "forward", "return self.module(x)"),
    ("dgl/nn/pytorch/conv/ginconv.py", "forward", "rst = self.apply_func(rst)"),
    ("facenet_pytorch/models/inception_resnet_v1.py", "forward", "x = self.last_bn(x)"),
    ("pcdet/models/backbones_3d/vfe/pillar_vfe.py", "forward", "x = self.norm(x.permute(0, 2, 1)).permute(0, 2, 1) if self.use_norm else x"),
    ("torchreid/models/osnet.py", "forward", "v = self.fc(v)"),
    ("ultralytics/nn/modules/conv.py", "forward", "return self.act(self.bn(self.conv(x)))"),
    ("pl_bolts/models/self_supervised/byol/models.py", "forward", "return self.model(x)"),
    ("torchsummary/torchsummary.py", "summary", "model(*x)"),
    ("torch/nn/modules/container.py", "forward", "input = module(input)"),
)  # fmt: skip
_CORE = frozenset(("batch_norm_1d", "batch_norm_2d", "pooled", "instance_norm_2d"))


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of this cause, drawn from `rng`."""
    yield from raised_messages(CAUSE, _RAISED, rng, NUM_RAISED, core=_CORE)
    for _ in range(60):
        yield rendered(CAUSE, "value", _value(rng, _size(rng)), "ValueError", core=True, frames=_frames(rng))
    for _ in range(30):
        yield rendered(CAUSE, "value_list", _value(rng, str(_shape(rng))), "ValueError", core=True, frames=_frames(rng))
    for _ in range(12):
        inner = _frames(rng)
        text = library_frames.replica(rng, "ValueError", _value(rng, _size(rng)), inner[-3:])
        yield rendered(CAUSE, "replica", text, "ValueError", core=True)
        text = f"{rng.choice((_OLD_RAISE, _RAISE))}\nValueError: {_value(rng, _size(rng))}"
        yield rendered(CAUSE, "raise_line", text, "", core=True)
        spatial = f"Expected more than 1 spatial element when training, got input size {_size(rng)}"
        yield rendered(CAUSE, "spatial", spatial, "ValueError", core=True, frames=_instance_frames(rng))
    for group, exception, texts in _elsewhere(rng):
        for text in texts:
            yield rendered(CAUSE, group, text, exception)


def _value(rng: random.Random, size: str) -> str:
    end = rng.choice(("", "", "", "."))
    return f"Expected more than 1 value per channel when training, got input size {size}{end}"


def _shape(rng: random.Random) -> list[int]:
    return [1, rng.choice(_CHANNELS), *[1] * rng.choice((0, 0, 1, 2, 2, 2, 3))]


def _size(rng: random.Random) -> str:
    return f"torch.Size({_shape(rng)})"


def _frames(rng: random.Random) -> tuple[Frame, ...]:
    """Return a model's frame, the layer's, and the two of the check, or a part of them."""
    file, function, source = rng.choice(_MODELS)
    check = (
        (frame(rng, _FUNCTIONAL, (1254, 1364, 1619, 1623, 1652, 1693, 1902, 2011), "batch_norm", _OLD_RAISE),)
        if rng.random() < 0.4
        else (
            frame(rng, _FUNCTIONAL, (2054, 2147, 2280, 2419, 2448, 2480, 2507), "batch_norm", "_verify_batch_size(input.size())"),
            frame(rng, _FUNCTIONAL, (2021, 2037, 2114, 2247, 2248, 2416, 2448), "_verify_batch_size", rng.choice((_OLD_RAISE, _RAISE))),
        )
    )  # fmt: skip
    layer = frame(rng, _NORM, (49, 66, 76, 83, 107, 131, 136, 167, 168, 171, 179, 193, 741), "forward", rng.choice(("return F.batch_norm(", "exponential_average_factor, self.eps)")))  # fmt: skip
    return (
        frame(rng, file, tuple(range(40, 400, 7)), function, source),
        *library_frames.layer_call(rng),
        layer,
        *check,
    )


def _instance_frames(rng: random.Random) -> tuple[Frame, ...]:
    forward = frame(
        rng,
        "torch/nn/modules/instancenorm.py",
        (47, 72, 74, 81, 124),
        "forward",
        "return self._apply_instance_norm(input)",
    )
    check = frame(rng, _FUNCTIONAL, (2080, 2149, 2300, 2495, 2554), "_verify_spatial_size", 'raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")')  # fmt: skip
    return (forward, check)


def _elsewhere(rng: random.Random) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (group, exception, texts) of the same check under compile, script, export and other libraries."""
    sizes = [_shape(rng) for _ in range(5)]
    texts = [_value(rng, f"torch.Size({size})") for size in sizes]
    yield (
        "dynamo_fake",
        "torch._dynamo.exc.TorchRuntimeError",
        [
            f"Failed running call_module L__self___bn{number}(*(FakeTensor(..., device='cuda:0', size={tuple(size)}),), **{{}}):\n{text}"
            for number, (size, text) in enumerate(zip(sizes, texts, strict=True))
        ],
    )
    yield (
        "dynamo_node",
        "torch._dynamo.exc.TorchRuntimeError",
        [
            f"Dynamo failed to run FX node with fake tensors: call_function <function batch_norm at 0x7f3c1d0e51b0>(*(FakeTensor(..., size={tuple(size)}),), **{{}}): "
            f"got ValueError('{text}')"
            for size, text in zip(sizes, texts, strict=True)
        ],
    )
    yield (
        "worker_process",
        "torch.multiprocessing.spawn.ProcessRaisedException",
        [
            f"\n\n-- Process {rank} terminated with the following error:\nValueError: {text}"
            for rank, text in enumerate(texts)
        ],
    )
    yield (
        "ray_task",
        "ray.exceptions.RayTaskError(ValueError)",
        [
            f"ray::ImplicitFunc.train() (pid={rng.randrange(999, 60000)}, ip=10.0.0.{rng.randrange(2, 99)})\nValueError: {text}"
            for text in texts
        ],
    )


def _channels(rng: random.Random) -> int:
    return rng.choice(_CHANNELS[:-6])


def _layer(layer: Callable[[int], nn.Module], num_ones: int, batch: int, rng: random.Random) -> object:
    """Run a layer in training on one value per channel."""
    channels = _channels(rng)
    return layer(channels)(torch.zeros(batch, channels, *[1] * num_ones))


def _function(rng: random.Random) -> Tensor:
    channels = _channels(rng)
    return F.batch_norm(torch.zeros(1, channels), None, None, training=True)


def _group_norm(rng: random.Random) -> Tensor:
    channels = _channels(rng)
    return F.group_norm(torch.zeros(1, channels), channels)


def _instance_norm_function(rng: random.Random) -> Tensor:
    return F.instance_norm(torch.zeros(rng.randint(1, 4), _channels(rng), 1))


def _pooled(rng: random.Random) -> object:
    """The image-level branch of an ASPP head: pooling leaves one pixel."""
    channels = _channels(rng)
    branch = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(channels), nn.ReLU())
    return branch(torch.zeros(1, channels, rng.randint(2, 8), rng.randint(2, 8)))


def _point_head(rng: random.Random) -> object:
    channels = _channels(rng)
    head = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(channels), nn.ReLU(), nn.Dropout(0.0))
    return head(torch.zeros(1, channels, 1).amax(2, keepdim=True))


def _scripted(rng: random.Random) -> object:
    channels = _channels(rng)
    return torch.jit.script(nn.BatchNorm1d(channels))(torch.zeros(1, channels))


_RAISED: dict[str, Operation] = {
    "batch_norm_1d": partial(_layer, nn.BatchNorm1d, 0, 1),
    "batch_norm_1d_length": partial(_layer, nn.BatchNorm1d, 1, 1),
    "batch_norm_2d": partial(_layer, nn.BatchNorm2d, 2, 1),
    "batch_norm_3d": partial(_layer, nn.BatchNorm3d, 3, 1),
    "sync_batch_norm": partial(_layer, nn.SyncBatchNorm, 0, 1),
    "sync_batch_norm_2d": partial(_layer, nn.SyncBatchNorm, 2, 1),
    "lazy_batch_norm": partial(_layer, lambda channels: nn.LazyBatchNorm1d(), 0, 1),
    "instance_norm_1d": partial(_layer, nn.InstanceNorm1d, 1, 2),
    "instance_norm_2d": partial(_layer, nn.InstanceNorm2d, 2, 3),
    "instance_norm_3d": partial(_layer, nn.InstanceNorm3d, 3, 1),
    "instance_norm_running": partial(_layer, lambda channels: nn.InstanceNorm2d(channels, track_running_stats=True), 2, 4),
    "functional": _function,
    "functional_instance": _instance_norm_function,
    "group_norm": _group_norm,
    "pooled": _pooled,
    "point_head": _point_head,
    "scripted": _scripted,
}  # fmt: skip
