"""Known wordings of weights that do not fit: torch 0.x, Hugging Face, PEFT, accelerate, diffusers, detectron2, DCP."""

# ruff: noqa: E501
# Wordings stand as they are printed, one a line: folding them would hide what is compared.

from __future__ import annotations

from corpus.message import Frame
from corpus.slots import Slot, Wording, between, one_of

SLOTS: dict[str, Slot] = {
    "cls": one_of("BertForSequenceClassification", "GPT2LMHeadModel", "ViTForImageClassification", "LlamaForCausalLM", "Wav2Vec2ForCTC", "T5ForConditionalGeneration", "RobertaForTokenClassification"),
    "net": one_of("ResNet", "Net", "DataParallel", "UNet", "VGG", "Generator", "Seq2Seq", "SwinTransformer", "Darknet"),
    "repo": one_of("bert-base-uncased", "roberta-base", "google/vit-base-patch16-224", "facebook/wav2vec2-base", "xlm-roberta-base", "./output/checkpoint-500", "meta-llama/Llama-2-7b-hf"),
    "key": one_of("module.conv1.weight", "module.features.0.weight", "fc.weight", "classifier.weight", "layer4.2.bn3.num_batches_tracked", "encoder.embed_tokens.weight", "_orig_mod.blocks.0.attn.qkv.weight", "decoder.1.bias", "model.model.0.conv.weight", "backbone.body.layer1.0.conv1.weight"),
    "keys": one_of("'bert.pooler.dense.bias', 'bert.pooler.dense.weight'", "'classifier.bias', 'classifier.weight'", "'lm_head.bias', 'lm_head.dense.weight'", "'score.weight'", "'cls.predictions.decoder.weight', 'cls.seq_relationship.bias'", "'encoder.embed_positions.weights'"),
    "plain": one_of("fc.weight", "classifier.6.weight", "embedding.weight", "conv1.weight", "pos_embed", "decoder.weight", "hidden2tag.weight", "head.bias", "rnn.weight_ih_l0"),
    "lora": one_of("q_proj", "v_proj", "k_proj", "o_proj", "gate_proj", "query_key_value", "c_attn"),
    "layer": between(0, 39),
    "rank": one_of(4, 8, 16, 32, 64, 128),
    "classes": one_of(2, 3, 5, 10, 20, 21, 81, 91, 100, 1000),
    "width": one_of(64, 128, 256, 512, 768, 1024, 2048, 4096),
    "vocab": one_of(30522, 32000, 32001, 32064, 50257, 50265, 128256, 28996, 250002),
    "file": one_of("checkpoint_best.pt", "checkpoints/last.ckpt", "model_final.pth", "weights/best.pt", "/content/drive/MyDrive/model.pth", "epoch_12.pth"),
}  # fmt: skip

_LOAD = (
    Frame(
        "torch/nn/modules/module.py", 1407, "load_state_dict", 'self.__class__.__name__, "\\n\\t".join(error_msgs)))'
    ),
)
_OLD_LOAD = (Frame("torch/nn/modules/module.py", 490, "load_state_dict", ".format(name))"),)
_HF = (
    Frame("transformers/modeling_utils.py", 3850, "from_pretrained", ") = cls._load_pretrained_model("),
    Frame("transformers/modeling_utils.py", 4335, "_load_pretrained_model", 'raise RuntimeError(f"Error(s) in loading state_dict for {model.__class__.__name__}:\\n\\t{error_msg}")'),
)  # fmt: skip
_ACCELERATE = (Frame("accelerate/utils/modeling.py", 285, "set_module_tensor_to_device", "raise ValueError("),)
_DCP = (Frame("torch/distributed/checkpoint/default_planner.py", 301, "create_default_local_load_plan", "raise RuntimeError(f\"Missing key in checkpoint state_dict: {fqn}.\")"),)  # fmt: skip

WORDINGS = (
    Wording("old unexpected key", "KeyError", "'unexpected key \"{key}\" in state_dict'", core=True, frames=_OLD_LOAD),
    Wording("old unexpected key", "KeyError", "'unexpected key {key} in state_dict'", core=True, frames=_OLD_LOAD),
    Wording("old missing keys", "KeyError", "'missing keys in state_dict: \"{{\\'{key}\\', \\'{key2}\\'}}\"'", frames=_OLD_LOAD),
    Wording("old missing keys", "KeyError", "'missing keys in state_dict: \"set([\\'{key}\\'])\"'", frames=_OLD_LOAD),
    Wording("old copying", "RuntimeError", "While copying the parameter named {plain}, whose dimensions in the model are torch.Size([{classes}, {width}]) and whose dimensions in the checkpoint are torch.Size([{classes2}, {width}]).", core=True, frames=_OLD_LOAD),
    Wording("old copying", "RuntimeError", "Error(s) in loading state_dict for {net}:\n\tWhile copying the parameter named \"{plain}\", whose dimensions in the model are torch.Size([{classes}, {width}]) and whose dimensions in the checkpoint are torch.Size([{classes2}, {width}]).", core=True, frames=_LOAD),
    Wording("copying failed", "RuntimeError", "Error(s) in loading state_dict for {net}:\n\tWhile copying the parameter named \"{plain}\", whose dimensions in the model are torch.Size([{classes}, {width}]) and whose dimensions in the checkpoint are torch.Size([{classes}, {width}]), an exception occurred : ('Cannot copy out of meta tensor; no data!',).", frames=_LOAD),
    Wording("copying failed", "RuntimeError", "Error(s) in loading state_dict for {net}:\n\tWhile copying the parameter named \"{key}\", expected torch.Tensor or Tensor-like object from checkpoint but received <class 'numpy.ndarray'>", frames=_LOAD),
    Wording("running statistics", "KeyError", "'Unexpected running stats buffer(s) \"{plain}.running_mean\" and \"{plain}.running_var\" for InstanceNorm2d with track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, this may be expected because InstanceNorm2d does not track running stats by default since 0.4.0. Please remove these keys from state_dict.'"),
    Wording("incompatible keys", "", "_IncompatibleKeys(missing_keys=['{key}', '{key2}'], unexpected_keys=['{key3}'])"),
    Wording("incompatible keys", "", "IncompatibleKeys(missing_keys=['{key}'], unexpected_keys=[])"),
    Wording("model copied", "AttributeError", "'{net}' object has no attribute 'copy'", core=True, frames=(Frame("torch/nn/modules/module.py", 803, "load_state_dict", "state_dict = state_dict.copy()"),)),
    Wording("model copied", "torch.nn.modules.module.ModuleAttributeError|AttributeError", "'{net}' object has no attribute 'copy'", core=True),
    Wording("model copied", "AttributeError", "'str' object has no attribute 'copy'", core=True, frames=(Frame("torch/nn/modules/module.py", 1455, "load_state_dict", "state_dict = state_dict.copy()"),)),
    Wording("state dict called", "AttributeError", "'function' object has no attribute 'copy'", frames=(Frame("torch/nn/modules/module.py", 1455, "load_state_dict", "state_dict = state_dict.copy()"),)),
    Wording("hf sizes", "RuntimeError", "Error(s) in loading state_dict for {cls}:\n\tsize mismatch for classifier.weight: copying a param with shape torch.Size([{classes}, {width}]) from checkpoint, the shape in current model is torch.Size([{classes2}, {width}]).\n\tsize mismatch for classifier.bias: copying a param with shape torch.Size([{classes}]) from checkpoint, the shape in current model is torch.Size([{classes2}]).\n\tYou may consider adding `ignore_mismatched_sizes=True` in the model `from_pretrained` method.", core=True, frames=_HF),
    Wording("hf sizes", "RuntimeError", "Error(s) in loading state_dict for {cls}:\n\tsize mismatch for model.embed_tokens.weight: copying a param with shape torch.Size([{vocab}, {width}]) from checkpoint, the shape in current model is torch.Size([{vocab2}, {width}]).\n\tYou may consider adding `ignore_mismatched_sizes=True` in the model `from_pretrained` method.", core=True, frames=_HF),
    Wording("hf not initialised", "", "Some weights of {cls} were not initialized from the model checkpoint at {repo} and are newly initialized: [{keys}]\nYou should probably TRAIN this model on a down-stream task to be able to use it for predictions and inference.", core=True),
    Wording("hf not used", "", "Some weights of the model checkpoint at {repo} were not used when initializing {cls}: [{keys}]\n- This IS expected if you are initializing {cls} from the checkpoint of a model trained on another task or with another architecture."),
    Wording("hf mismatched", "", "Some weights of {cls} were not initialized from the model checkpoint at {repo} and are newly initialized because the shapes did not match:\n- classifier.weight: found shape torch.Size([{classes}, {width}]) in the checkpoint and torch.Size([{classes2}, {width}]) in the model instantiated"),
    Wording("hf optimizer", "ValueError", "loaded state dict contains a parameter group that doesn't match the size of optimizer's group", core=True, frames=(Frame("torch/optim/optimizer.py", 120, "load_state_dict", 'raise ValueError("loaded state dict contains a parameter group "'),)),
    Wording("old optimizer", "ValueError", "loaded state dict has a different number of parameter groups", core=True, frames=(Frame("torch/optim/optimizer.py", 110, "load_state_dict", 'raise ValueError("loaded state dict has a different number of "'),)),
    Wording("optimizer state", "KeyError", "'param_groups'", frames=(Frame("torch/optim/optimizer.py", 107, "load_state_dict", "saved_groups = state_dict['param_groups']"),)),
    Wording("lora keys", "RuntimeError", "Error(s) in loading state_dict for PeftModelForCausalLM:\n\tsize mismatch for base_model.model.model.layers.{layer}.self_attn.{lora}.lora_A.default.weight: copying a param with shape torch.Size([{rank}, {width}]) from checkpoint, the shape in current model is torch.Size([{rank2}, {width}]).", core=True, frames=_LOAD),
    Wording("lora keys", "RuntimeError", "Error(s) in loading state_dict for LlamaForCausalLM:\n\tUnexpected key(s) in state_dict: \"base_model.model.model.layers.{layer}.self_attn.{lora}.lora_A.weight\", \"base_model.model.model.layers.{layer}.self_attn.{lora}.lora_B.weight\".", core=True, frames=_LOAD),
    Wording("lora adapters", "UserWarning", "Found missing adapter keys while loading the checkpoint: ['base_model.model.model.layers.{layer}.self_attn.{lora}.lora_A.default.weight']."),
    Wording("lora adapters", "", "Loading adapter weights from {repo} led to unexpected keys not found in the model:  ['layers.{layer}.self_attn.{lora}.lora_A.default.weight']."),
    Wording("lora adapters", "ValueError", "Target modules {{'{lora}', '{lora2}'}} not found in the base model. Please check the target modules and try again."),
    Wording("quantised keys", "RuntimeError", "Error(s) in loading state_dict for {cls}:\n\tUnexpected key(s) in state_dict: \"model.layers.{layer}.self_attn.{lora}.weight_format\", \"model.layers.{layer}.self_attn.{lora}.SCB\".", frames=_LOAD),
    Wording("quantised keys", "RuntimeError", "Error(s) in loading state_dict for Sequential:\n\tUnexpected key(s) in state_dict: \"{layer}.scale\", \"{layer}.zero_point\", \"{layer}._packed_params.dtype\", \"{layer}._packed_params._packed_params\".", frames=_LOAD),
    Wording("accelerate shape", "ValueError", "Trying to set a tensor of shape torch.Size([{vocab}, {width}]) in \"weight\" (which has shape torch.Size([{vocab2}, {width}])), this look incorrect.", frames=_ACCELERATE),
    Wording("accelerate shape", "ValueError", "Trying to set a tensor of shape torch.Size([{classes}]) in \"bias\" (which has shape torch.Size([{classes2}])), this looks incorrect.", frames=_ACCELERATE),
    Wording("accelerate missing", "ValueError", "{key} is on the meta device, we need a `value` to put in on {rank}.", frames=_ACCELERATE),
    Wording("diffusers", "ValueError", "Cannot load <class 'diffusers.models.unet_2d_condition.UNet2DConditionModel'> from {file} because the following keys are missing: \n {key}, {key2}. \n Please make sure to pass `low_cpu_mem_usage=False` and `device_map=None` if you want to randomly initialize those weights or else make sure your checkpoint file is correct."),
    Wording("diffusers", "ValueError", "Cannot load {file} because conv_in.weight expected shape tensor(..., device='meta', size=({width}, 4, 3, 3)), but got torch.Size([{width}, 9, 3, 3]). If you want to instead overwrite randomly initialized weights, please make sure to pass both `low_cpu_mem_usage=False` and `ignore_mismatched_sizes=True`."),
    Wording("detectron2", "", "Skip loading parameter 'roi_heads.box_predictor.cls_score.weight' to the model due to incompatible shapes: ({classes}, 1024) in the checkpoint but ({classes2}, 1024) in the model! You might want to double check if this is expected."),
    Wording("detectron2", "", "Some model parameters or buffers are not found in the checkpoint:\n{key}\n{key2}\nThe checkpoint state_dict contains keys that are not used by the model:\n  {key3}"),
    Wording("mmcv", "", "The model and loaded state dict do not match exactly\n\nunexpected key in source state_dict: {key}, {key2}\n\nmissing keys in source state_dict: {key3}"),
    Wording("mmcv", "", "The model and loaded state dict do not match exactly\n\nsize mismatch for {plain}: copying a param with shape torch.Size([{classes}, {width}]) from checkpoint, the shape in current model is torch.Size([{classes2}, {width}])."),
    Wording("fairseq", "Exception", "Cannot load model parameters from checkpoint {file}; please ensure that the architectures match."),
    Wording("lightning", "KeyError", "'Trying to restore optimizer state but checkpoint contains only the model. This is probably due to `ModelCheckpoint.save_weights_only` being set to `True`.'"),
    Wording("lightning", "RuntimeError", "Error(s) in loading state_dict for LitClassifier:\n\tMissing key(s) in state_dict: \"model.{plain}\", \"loss_fn.weight\". ", frames=(Frame("pytorch_lightning/core/saving.py", 233, "_load_state", "keys = obj.load_state_dict(checkpoint['state_dict'], strict=strict)"),)),
    Wording("dcp", "torch.distributed.checkpoint.api.CheckpointException|RuntimeError", "CheckpointException ranks:dict_keys([0])\nTraceback (most recent call last): (RANK 0)\nRuntimeError: Missing key in checkpoint state_dict: {key}.", frames=_DCP),
    Wording("dcp", "ValueError", "Size mismatch between saved torch.Size([{vocab}, {width}]) and current: torch.Size([{vocab2}, {width}]) for {plain}", frames=_DCP),
    Wording("printed keys", "", "Unexpected key {key} in state_dict with size torch.Size([{width}, {width2}, 3, 3])\nUnexpected key {key2} in state_dict with size torch.Size([{width}])"),
    Wording("truncated list", "", "\tUnexpected key(s) in state_dict: \"{key}\", \"{key2}\", \"{key3}\", \"{key4}\". \n\tsize mismatch for {plain}: copying a param with shape torch.Size([{classes}, {width}]) from checkpoint, the shape in current model is torch.Size([{classes2}, {width}]).", core=True),
    Wording("truncated list", "", "size mismatch for {plain}: copying a param with shape torch.Size([{vocab}, {width}]) from checkpoint, the shape in current model is torch.Size([{vocab2}, {width}]).", core=True),
    Wording("truncated list", "", "size mismatch for {plain}: copying a param of torch.Size([{classes}, {width}]) from checkpoint, where the shape is torch.Size([{classes2}, {width}]) in current model.", core=True),
)  # fmt: skip
