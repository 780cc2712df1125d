"""Parameter names and shapes of networks for pictures, a few layers of each."""

from __future__ import annotations

import random

from corpus.causes.parameter_layers import Layout, affine, norm


def resnet(rng: random.Random) -> Layout:
    width = rng.choice((64, 128, 256))
    layer = rng.randint(1, 4)
    layout: Layout = {"conv1.weight": (64, 3, 7, 7)} | norm("bn1", 64)
    for block in range(rng.randint(1, 2)):
        for conv in range(1, rng.randint(2, 3) + 1):
            layout |= {f"layer{layer}.{block}.conv{conv}.weight": (width, width, 3, 3)}
            layout |= norm(f"layer{layer}.{block}.bn{conv}", width)
    layout |= {f"layer{layer}.0.downsample.0.weight": (width, 64, 1, 1)} | norm(f"layer{layer}.0.downsample.1", width)
    return layout | affine("fc", rng.choice((10, 100, 1000)), rng.choice((512, 2048)))


def vgg(rng: random.Random) -> Layout:
    layout = affine("features.0", 64, 3, 3, 3) | affine(f"features.{rng.choice((5, 7, 10))}", 128, 64, 3, 3)
    return layout | affine("classifier.0", 4096, 25088) | affine("classifier.6", rng.choice((10, 2, 1000)), 4096)


def densenet(rng: random.Random) -> Layout:
    block, layer = rng.randint(1, 4), rng.randint(1, 24)
    name = f"features.denseblock{block}.denselayer{layer}"
    layout = norm(f"{name}.norm1", 64) | {f"{name}.conv1.weight": (128, 64, 1, 1)} | norm(f"{name}.norm2", 128)
    return layout | {f"{name}.conv2.weight": (32, 128, 3, 3)} | affine("classifier", rng.choice((14, 1000)), 1024)


def mobilenet(rng: random.Random) -> Layout:
    name = f"features.{rng.randint(1, 17)}.conv"
    layout: Layout = {f"{name}.0.0.weight": (96, 1, 3, 3)} | norm(f"{name}.0.1", 96)
    return layout | {f"{name}.1.weight": (24, 96, 1, 1)} | affine("classifier.1", rng.choice((5, 1000)), 1280)


def efficientnet(rng: random.Random) -> Layout:
    name = f"_blocks.{rng.randint(0, 15)}"
    layout: Layout = {"_conv_stem.weight": (32, 3, 3, 3), f"{name}._expand_conv.weight": (96, 16, 1, 1)}
    layout |= norm(f"{name}._bn0", 96) | affine(f"{name}._se_reduce", 4, 96, 1, 1)
    return layout | affine("_fc", rng.choice((8, 1000)), rng.choice((1280, 1536)))


def vit(rng: random.Random) -> Layout:
    width, block = rng.choice((192, 384, 768, 1024)), rng.randint(0, 11)
    layout: Layout = {"cls_token": (1, 1, width), "pos_embed": (1, rng.choice((197, 577, 50, 785)), width)}
    layout |= affine("patch_embed.proj", width, 3, 16, 16) | affine(f"blocks.{block}.attn.qkv", 3 * width, width)
    return (
        layout
        | affine(f"blocks.{block}.mlp.fc1", 4 * width, width)
        | affine("head", rng.choice((1000, 10, 21843)), width)
    )


def swin(rng: random.Random) -> Layout:
    layer, block = rng.randint(0, 3), rng.randint(0, 5)
    stem = rng.choice((f"layers.{layer}.blocks.{block}", f"layers.{layer}.residual_group.blocks.{block}"))
    windows = rng.choice((64, 1024, 4096, 16))
    layout: Layout = {f"{stem}.attn_mask": (windows, 64, 64), f"{stem}.attn.relative_position_bias_table": (169, 3)}
    layout |= {f"{stem}.attn.relative_position_index": (49, 49)} | affine(f"{stem}.attn.qkv", 288, 96)
    return layout | affine("upsample.0", 256, 64, 3, 3)


def unet(rng: random.Random) -> Layout:
    level = rng.randint(1, 4)
    layout = affine("inc.double_conv.0", 64, rng.choice((1, 3)), 3, 3) | norm("inc.double_conv.1", 64)
    layout |= affine(f"down{level}.maxpool_conv.1.double_conv.0", 128, 64, 3, 3) | affine(
        f"up{level}.up", 1024, 512, 2, 2
    )
    return layout | affine("outc.conv", rng.choice((1, 2, 21)), 64, 1, 1)


def yolo(rng: random.Random) -> Layout:
    index = rng.randint(0, 23)
    layout: Layout = {"model.0.conv.weight": (32, 3, 6, 6), f"model.{index}.cv1.conv.weight": (64, 128, 1, 1)}
    layout |= norm(f"model.{index}.cv1.bn", 64) | {"model.24.anchors": (3, 3, 2)}
    return layout | affine(f"model.24.m.{rng.randint(0, 2)}", rng.choice((255, 18, 21, 36)), 128, 1, 1)


def detection(rng: random.Random) -> Layout:
    classes = rng.choice((91, 2, 21, 81))
    layout = affine("roi_heads.box_predictor.cls_score", classes, 1024) | affine(
        "roi_heads.box_predictor.bbox_pred", 4 * classes, 1024
    )
    layout |= affine(f"backbone.fpn.inner_blocks.{rng.randint(0, 3)}", 256, 2048, 1, 1) | affine(
        "rpn.head.conv", 256, 256, 3, 3
    )
    return layout | affine("roi_heads.mask_predictor.mask_fcn_logits", classes, 256, 1, 1)


def segmentation(rng: random.Random) -> Layout:
    layout: Layout = {"backbone.conv1.weight": (64, 3, 7, 7), "aspp.convs.0.0.weight": (256, 2048, 1, 1)} | norm(
        "aspp.convs.0.1", 256
    )
    return (
        layout
        | affine("decoder.last_conv.8", rng.choice((21, 19, 2)), 256, 1, 1)
        | affine("aux_classifier.4", 21, 256, 1, 1)
    )


def detr(rng: random.Random) -> Layout:
    layer = rng.randint(0, 5)
    layout = affine("class_embed", rng.choice((92, 251, 3)), 256) | {
        "query_embed.weight": (rng.choice((100, 300)), 256)
    }
    layout |= affine(f"transformer.encoder.layers.{layer}.linear1", 2048, 256)
    return layout | {f"transformer.decoder.layers.{layer}.self_attn.in_proj_weight": (768, 256)}


def clip(rng: random.Random) -> Layout:
    layer = rng.randint(0, 11)
    layout: Layout = {
        "visual.class_embedding": (768,),
        "visual.positional_embedding": (rng.choice((50, 197, 257)), 768),
    }
    layout |= {"token_embedding.weight": (49408, 512), "logit_scale": ()}
    return layout | affine(f"visual.transformer.resblocks.{layer}.attn.out_proj", 768, 768)


def convnet(rng: random.Random) -> Layout:
    layout = affine("conv1", rng.choice((6, 16, 32)), rng.choice((1, 3)), 5, 5) | affine("conv2", 64, 32, 3, 3)
    return layout | norm("bn2", 64) | affine("fc1", 128, rng.choice((9216, 3136, 400))) | affine("fc2", 10, 128)
