"""Parameter names and shapes of architectures that people load weights into, a few layers of each.

A layout maps names to shapes; names that end like a running statistic stand for buffers.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from corpus.causes import vision_parameters as vision
from corpus.causes.parameter_layers import Layout, affine, norm

Draw = Callable[[random.Random], Layout]

BUFFERS = (
    "running_mean", "running_var", "num_batches_tracked", "position_ids", "attn_mask", "relative_position_index",
    "inv_freq", "anchors",
)  # fmt: skip


def _bert(rng: random.Random) -> Layout:
    width, layer = rng.choice((768, 1024, 312)), rng.randint(0, 11)
    stem = rng.choice(("bert.", "roberta.", "", "encoder.bert."))
    name = f"{stem}encoder.layer.{layer}"
    layout: Layout = {
        f"{stem}embeddings.position_ids": (1, 512),
        f"{stem}embeddings.word_embeddings.weight": (rng.choice((30522, 28996, 21128, 50265)), width),
        f"{stem}embeddings.token_type_embeddings.weight": (2, width),
    }
    for part in ("query", "key", "value"):
        layout |= affine(f"{name}.attention.self.{part}", width, width)
    layout |= affine(f"{name}.output.LayerNorm", width) | affine(f"{stem}pooler.dense", width, width)
    return layout | affine("classifier", rng.choice((2, 3, 9, 17)), width)


def _gpt2(rng: random.Random) -> Layout:
    layer = rng.randint(0, 23)
    layout: Layout = {"transformer.wte.weight": (50257, 768), "transformer.wpe.weight": (1024, 768)}
    layout |= affine(f"transformer.h.{layer}.attn.c_attn", 768, 2304) | affine(
        f"transformer.h.{layer}.mlp.c_fc", 768, 3072
    )
    return layout | {"lm_head.weight": (50257, 768)}


def _llama(rng: random.Random) -> Layout:
    width, layer = rng.choice((4096, 5120, 2048)), rng.randint(0, 31)
    name = f"model.layers.{layer}"
    layout: Layout = {"model.embed_tokens.weight": (rng.choice((32000, 32001, 128256)), width)}
    layout |= {f"{name}.self_attn.{part}_proj.weight": (width, width) for part in "qkvo"}
    layout |= {f"{name}.self_attn.rotary_emb.inv_freq": (64,), f"{name}.mlp.gate_proj.weight": (11008, width)}
    return layout | {f"{name}.input_layernorm.weight": (width,), "lm_head.weight": (32000, width)}


def _t5(rng: random.Random) -> Layout:
    block = rng.randint(0, 11)
    layout: Layout = {"shared.weight": (32128, 512), "encoder.embed_tokens.weight": (32128, 512)}
    for part in "qkvo":
        layout[f"decoder.block.{block}.layer.1.EncDecAttention.{part}.weight"] = (512, 512)
    return layout | {"lm_head.weight": (32128, 512)}


def _diffusion(rng: random.Random) -> Layout:
    block = rng.randint(1, 19)
    stem = rng.choice(("", "model.diffusion_model."))
    name = f"{stem}input_blocks.{block}"
    layout = affine(f"{stem}input_blocks.0.0", 320, rng.choice((4, 9)), 3, 3) | affine(f"{name}.0.in_layers.0", 320)
    layout |= affine(f"{name}.0.emb_layers.1", 320, 1280) | affine(f"{name}.0.skip_connection", 320, 640, 1, 1)
    return layout | affine(f"{name}.1.qkv", 960, 320, 1) | affine(f"{name}.1.norm", 320)


def _vae(rng: random.Random) -> Layout:
    stem = rng.choice(("first_stage_model.", ""))
    layout = affine(f"{stem}encoder.conv_in", 128, 3, 3, 3) | affine(
        f"{stem}encoder.down.{rng.randint(0, 3)}.block.0.norm1", 128
    )
    return layout | affine(f"{stem}quant_conv", 8, 8, 1, 1) | affine(f"{stem}post_quant_conv", 4, 4, 1, 1)


def _recurrent(rng: random.Random) -> Layout:
    hidden, inputs = rng.choice((64, 128, 256, 512)), rng.choice((40, 80, 100, 300))
    name = rng.choice(("lstm", "rnn", "encoder.lstm", "bilstm", "decoder.rnn"))
    layout: Layout = {"embedding.weight": (rng.randint(2000, 40000), inputs)}
    layout |= {f"{name}.weight_ih_l0": (4 * hidden, inputs), f"{name}.weight_hh_l0": (4 * hidden, hidden)}
    return layout | {f"{name}.bias_ih_l0": (4 * hidden,)} | affine("hidden2tag", rng.randint(2, 60), hidden)


def _speech(rng: random.Random) -> Layout:
    layer = rng.randint(0, 11)
    name = rng.choice((f"encoder.layers.{layer}", f"wav2vec2.encoder.layers.{layer}"))
    layout = affine(f"{name}.attention.k_proj", 768, 768) | affine(f"{name}.final_layer_norm", 768)
    return layout | {"masked_spec_embed": (768,)} | affine("lm_head", rng.choice((32, 36, 44)), 768)


def _tts(rng: random.Random) -> Layout:
    layout: Layout = {"embedding.weight": (rng.choice((148, 178, 70)), 512), "dec.conv_pre.weight_g": (512, 1, 1)}
    layout |= {f"dec.ups.{rng.randint(0, 3)}.weight_v": (512, 256, 16), "emb_g.weight": (rng.choice((109, 1)), 256)}
    return (
        layout
        | affine("enc_p.encoder.norm_layers_1.0", 192)
        | affine("decoder.linear_projection.linear_layer", 80, 1536)
    )


def _generator(rng: random.Random) -> Layout:
    layout = affine("model.1", 64, 3, 7, 7) | affine(f"model.{rng.randint(10, 18)}.conv_block.1", 256, 256, 3, 3)
    return (
        layout | affine("model.26", 3, 64, 7, 7) | {"mapping.fc0.weight": (512, 512), "synthesis.b4.const": (512, 4, 4)}
    )


def _mlp(rng: random.Random) -> Layout:
    hidden = rng.choice((32, 64, 100, 128, 256, 512))
    first, last = rng.choice(
        (("fc1", "fc3"), ("linear1", "out"), ("net.0", "net.4"), ("layers.0", "layers.2"), ("hidden", "output"))
    )
    return affine(first, hidden, rng.choice((784, 4, 8, 3072, 17))) | affine(last, rng.choice((1, 2, 4, 10)), hidden)


def _policy(rng: random.Random) -> Layout:
    layout: Layout = {"log_std": (rng.randint(1, 17),)} | affine("mlp_extractor.policy_net.0", 64, rng.randint(3, 376))
    return layout | affine("action_net", rng.randint(1, 17), 64) | affine("value_net", 1, 64)


def _graph(rng: random.Random) -> Layout:
    layout = affine("convs.0.lin", 64, rng.choice((1433, 500, 9))) | {"convs.1.att_src": (1, 8, 64)}
    return layout | norm("bns.0.module", 64) | affine("lin", rng.choice((7, 1, 40)), 64)


def _points(rng: random.Random) -> Layout:
    layout = affine("feat.stn.conv1", 64, rng.choice((3, 6)), 1) | norm("feat.bn1", 64)
    return (
        layout
        | affine("sa1.mlp_convs.0", 64, rng.choice((3, 6, 9)), 1, 1)
        | affine("fc3", rng.choice((40, 10, 13)), 256)
    )


ARCHITECTURES: dict[str, tuple[bool, tuple[str, ...], Draw]] = {
    # core or not, class names, layout
    "resnet": (True, ("ResNet", "DataParallel", "ResNet50", "Classifier"), vision.resnet),
    "bert": (True, ("BertForSequenceClassification", "BertModel", "RobertaForSequenceClassification", "Model"), _bert),
    "convnet": (True, ("Net", "CNN", "LeNet", "ConvNet"), vision.convnet),
    "llama": (True, ("LlamaForCausalLM", "PeftModelForCausalLM", "Transformer"), _llama),
    "vit": (True, ("VisionTransformer", "ViT", "MaskedAutoencoderViT"), vision.vit),
    "recurrent": (True, ("RNNModel", "LSTMTagger", "BiLSTM_CRF", "Seq2Seq"), _recurrent),
    "unet": (True, ("UNet", "Unet", "AttU_Net"), vision.unet),
    "yolo": (True, ("Model", "DetectionModel", "Darknet"), vision.yolo),
    "detection": (True, ("FasterRCNN", "MaskRCNN"), vision.detection),
    "mlp": (True, ("MLP", "Net", "Sequential", "QNetwork"), _mlp),
    "diffusion": (True, ("UNetModel", "LatentDiffusion", "ControlLDM"), _diffusion),
    "vgg": (False, ("VGG", "VGG16"), vision.vgg),
    "densenet": (False, ("DenseNet", "DenseNet121"), vision.densenet),
    "mobilenet": (False, ("MobileNetV2", "SSD"), vision.mobilenet),
    "efficientnet": (False, ("EfficientNet", "EfficientDetBackbone"), vision.efficientnet),
    "gpt2": (False, ("GPT2LMHeadModel", "GPT"), _gpt2),
    "t5": (False, ("T5ForConditionalGeneration", "BartForConditionalGeneration"), _t5),
    "swin": (False, ("SwinTransformer", "SwinIR", "Swin2SR"), vision.swin),
    "vae": (False, ("AutoencoderKL", "VQModel"), _vae),
    "segmentation": (False, ("DeepLab", "DeepLabV3"), vision.segmentation),
    "detr": (False, ("DETR", "DeformableDETR"), vision.detr),
    "speech": (False, ("Wav2Vec2ForCTC", "HubertModel"), _speech),
    "tts": (False, ("Tacotron2", "SynthesizerTrn", "Generator"), _tts),
    "clip": (False, ("CLIP", "CLIPModel"), vision.clip),
    "generator": (False, ("ResnetGenerator", "UnetGenerator", "Generator"), _generator),
    "policy": (False, ("ActorCriticPolicy", "DQN", "Actor"), _policy),
    "graph": (False, ("GCN", "GAT"), _graph),
    "points": (False, ("PointNetCls", "PointNet2"), _points),
}  # fmt: skip
