"""Known wordings of refused or broken checkpoint files: torch 0.x to 2.6, safetensors, Hugging Face, Lightning, Keras files."""

# ruff: noqa: E501
# Wordings stand as they are printed, one a line: folding them would hide what is compared.

from __future__ import annotations

from corpus.message import Frame
from corpus.slots import Slot, Wording, between, one_of

SLOTS: dict[str, Slot] = {
    "file": one_of("checkpoints/last.ckpt", "model.pth", "best.pt", "weights/yolov5s.pt", "pytorch_model.bin", "resnet50-19c8e357.pth", "/content/drive/MyDrive/model.pt", "epoch_12.pth", "C:\\Users\\user\\.cache\\torch\\hub\\checkpoints\\vgg16-397923af.pth", "results/net_G_latest.pth.tar", "vocoder.pkl"),
    "global": one_of("numpy.core.multiarray._reconstruct", "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "ultralytics.nn.tasks.DetectionModel", "argparse.Namespace", "models.yolo.Model", "__main__.Net", "pathlib.PosixPath", "omegaconf.dictconfig.DictConfig", "omegaconf.listconfig.ListConfig", "easydict.EasyDict", "fairseq.data.dictionary.Dictionary", "TTS.utils.radam.RAdam", "pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint", "getattr", "collections.defaultdict", "numpy.dtype", "torch.nn.modules.container.Sequential", "transformers.training_args.TrainingArguments", "utils.config.Config", "torchvision.models.resnet.ResNet", "pyannote.audio.core.task.Specifications", "sklearn.preprocessing._label.LabelEncoder", "functools.partial", "builtins.set", "pandas._libs.internals._unpickle_block"),
    "module": one_of("models", "models.yolo", "utils", "network", "net", "ultralytics.nn.modules.block", "omegaconf", "pytorch_lightning", "torch.ao", "src.models", "fairseq.dataclass", "numpy._core", "tokenizer", "lib.core", "torch_utils", "dnnlib", "pathlib._local", "torchvision.ops.misc"),
    "attribute": one_of("Net", "MyModel", "CNN", "UNet", "ResNet", "Config", "Classifier", "Attention", "C3k2", "SPPF", "Vocab", "LSTMModel", "Encoder"),
    "place": one_of("<module '__main__' from 'predict.py'>", "<module '__main__' from 'app.py'>", "<module '__main__' (built-in)>", "<module '__main__' from 'C:\\\\Users\\\\user\\\\project\\\\test.py'>", "<module 'models.common' from '/content/yolov5/models/common.py'>", "<module '__main__' from '/usr/local/bin/gunicorn'>", "<module 'ultralytics.nn.modules.block' from 'ultralytics/nn/modules/block.py'>", "<module 'torch.nn.modules.activation' from 'torch/nn/modules/activation.py'>"),
    "key": one_of("'<'", "'v'", "'\\x0a'", "'\\x00'", "'\\xff'", "'\\x1f'", "'{'", "'\\x08'", "'H'", "'\\xef'", "'3'", "'P'", "'\\xa8'", "'\\x89'", "'#'", "'E'", "'\\x1a'", "'V'"),
    "opcode": one_of(149, 118, 60, 123, 10, 0, 105, 98, 253, 228, 142, 35, 8, 239),
    "bytes": between(40, 94_371_840),
    "size": one_of(512, 1728, 2304, 4096, 8192, 36864, 65536, 262144, 589824, 1048576),
    "huge": one_of(-7659745797817883467, 4341532590478036892, -4972443196325756932, 8023674917311205224, 288230376151711744, 0, 4613885461326106726),
    "hash": one_of("19c8e357", "f37072fd", "b627a593", "5c106cde", "397923af", "11ad3fa6", "abde1a3e"),
    "digest": one_of("d2e1a0b68f6bd8d3f1b2c5e0f4c6a7b8d9e0a1b2c3d4e5f60718293a4b5c6d7e", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "4f1d0e5ab9c87766554433221100ffeeddccbbaa99887766554433221100ffee"),
    "build": one_of("../caffe2/serialize/inline_container.cc", "/pytorch/caffe2/serialize/inline_container.cc", "inline_container.cc", "..\\caffe2\\serialize\\inline_container.cc", "/opt/conda/conda-bld/pytorch_1607370172916/work/caffe2/serialize/inline_container.cc"),
    "line": between(107, 960),
    "record": one_of("data/0", "data/94201234", "data/139725611", "data/2", "data/52", "data.pkl", ".format_version", "byteorder", "version"),
    "missing": one_of("data.pkl", "constants.pkl", "version", "code/__torch__.py", ".data/version"),
    "codec": one_of("'ascii' codec can't decode byte 0x8c in position 2: ordinal not in range(128)", "'ascii' codec can't decode byte 0xc3 in position 4: ordinal not in range(128)", "'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte", "'utf-8' codec can't decode byte 0xb8 in position 9: invalid start byte", "'gbk' codec can't decode byte 0x80 in position 64: illegal multibyte sequence", "'charmap' codec can't decode byte 0x8f in position 51: character maps to <undefined>", "'ascii' codec can't decode byte 0xda in position 5: ordinal not in range(128)"),
    "hub": one_of("microsoft/phi-2", "facebook/bart-large-cnn", "bert-base-uncased", "openai/whisper-small", "google/pegasus-xsum", "runwayml/stable-diffusion-v1-5"),
}  # fmt: skip

_LEGACY = (
    Frame("torch/serialization.py", 595, "load", "return _legacy_load(opened_file, map_location, pickle_module, **pickle_load_args)"),
    Frame("torch/serialization.py", 764, "_legacy_load", "magic_number = pickle_module.load(f, **pickle_load_args)"),
)  # fmt: skip
_ZIP = (
    Frame("torch/serialization.py", 585, "load", "with _open_zipfile_reader(opened_file) as opened_zipfile:"),
    Frame("torch/serialization.py", 242, "__init__", "super(_open_zipfile_reader, self).__init__(torch._C.PyTorchFileReader(name_or_buffer))"),
)  # fmt: skip
_ONLY = (
    Frame("torch/serialization.py", 1470, "load", "raise pickle.UnpicklingError(_get_wo_message(str(e))) from None"),
)
_FIND = (
    Frame("torch/serialization.py", 1131, "_load", "result = unpickler.load()"),
    Frame("torch/serialization.py", 1124, "find_class", "return super().find_class(mod_name, name)"),
)
_OLD = (
    Frame("torch/serialization.py", 358, "load", "return _load(f, map_location, pickle_module)"),
    Frame("torch/serialization.py", 542, "_load", "result = unpickler.load()"),
)
_HF = (Frame("transformers/modeling_utils.py", 529, "load_state_dict", "check_torch_load_is_safe()"),)
_SAFE = (
    Frame(
        "transformers/modeling_utils.py",
        483,
        "load_state_dict",
        'with safe_open(checkpoint_file, framework="pt") as f:',
    ),
)

REFUSED = (
    Wording("weights only 2.6", "_pickle.UnpicklingError", "Weights only load failed. This file can still be loaded, to do so you have two options, do those steps only if you trust the source of the checkpoint. \n\t(1) In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. Do it only if you got the file from a trusted source.\n\t(2) Alternatively, to load with `weights_only=True` please check the recommended steps in the following error message.\n\tWeightsUnpickler error: Unsupported global: GLOBAL {global} was not an allowed global by default. Please use `torch.serialization.add_safe_globals([{global}])` or the `torch.serialization.safe_globals([{global}])` context manager to allowlist this global if you trust this class/function.", core=True, frames=_ONLY),
    Wording("weights only tail", "_pickle.UnpicklingError|", "WeightsUnpickler error: Unsupported global: GLOBAL {global} was not an allowed global by default. Please use `torch.serialization.add_safe_globals([{global}])` or the `torch.serialization.safe_globals([{global}])` context manager to allowlist this global if you trust this class/function.", core=True, frames=_ONLY),
    Wording("weights only 2.4", "_pickle.UnpicklingError", "Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. Do it only if you got the file from a trusted source.\n Please file an issue with the following so that we can make `weights_only=True` compatible with your use case: WeightsUnpickler error: Unsupported global: GLOBAL {global} was not an allowed global by default. Please use `torch.serialization.add_safe_globals` to allowlist this global if you trust this class/function.", frames=_ONLY),
    Wording("weights only 2.0", "_pickle.UnpicklingError", "Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution.Do it only if you get the file from a trusted source. WeightsUnpickler error: Unsupported class {global}", frames=_ONLY),
    Wording("weights only 2.0", "_pickle.UnpicklingError|RuntimeError", "Unsupported class {global}", frames=(Frame("torch/_weights_only_unpickler.py", 214, "load", 'raise RuntimeError(f"Unsupported class {full_path}")'),)),
    Wording("weights only operand", "_pickle.UnpicklingError", "Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. Do it only if you got the file from a trusted source.\n Please file an issue with the following so that we can make `weights_only=True` compatible with your use case: WeightsUnpickler error: Unsupported operand {opcode}", core=True, frames=_ONLY),
    Wording("weights only operand", "_pickle.UnpicklingError", "WeightsUnpickler error: Unsupported operand {opcode}", core=True, frames=_ONLY),
    Wording("weights only build", "_pickle.UnpicklingError", "Weights only load failed. WeightsUnpickler error: Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got <class '{global}'>", frames=_ONLY),
    Wording("weights only reduce", "_pickle.UnpicklingError", "Weights only load failed. WeightsUnpickler error: Trying to call reduce for unrecognized function <class '{global}'>", frames=_ONLY),
    Wording("weights only old file", "RuntimeError", "Cannot use ``weights_only=True`` with files saved in the legacy .tar format. In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. Do it only if you got the file from a trusted source."),
    Wording("weights only warning", "FutureWarning", "You are using `torch.load` with `weights_only=False` (the current default value), which uses the default pickle module implicitly. It is possible to construct malicious pickle data which will execute arbitrary code during unpickling (See https://github.com/pytorch/pytorch/blob/main/SECURITY.md#untrusted-models for more details). In a future release, the default value for `weights_only` will be flipped to `True`.", core=True),
    Wording("cve", "ValueError", "Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, we now require users to upgrade torch to at least v2.6 in order to use the function. This version restriction does not apply when loading files with safetensors.\nSee the vulnerability report here https://nvd.nist.gov/vuln/detail/CVE-2025-32434", core=True, frames=_HF),
    Wording("cve", "ValueError", "Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, we now require users to upgrade torch to at least v2.6 in order to use the function.", core=True, frames=_HF),
    Wording("numpy refuses", "ValueError", "Object arrays cannot be loaded when allow_pickle=False"),
    Wording("numpy refuses", "ValueError", "Cannot load file containing pickled data when allow_pickle=False"),
    Wording("numpy refuses", "_pickle.UnpicklingError", "Failed to interpret file '{file}' as a pickle"),
    Wording("storage persistent id", "_pickle.UnpicklingError", "A load persistent id instruction was encountered,\nbut no persistent_load function was specified.", core=True),
    Wording("storage persistent id", "_pickle.UnpicklingError", "A load persistent id instruction was encountered, but no persistent_load function was specified.", core=True),
    Wording("jit as state dict", "UserWarning", "'torch.load' received a zip file that looks like a TorchScript archive dispatching to 'torch.jit.load' (call 'torch.jit.load' directly to silence this warning)"),
    Wording("jit refused", "RuntimeError", "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`."),
)  # fmt: skip

BROKEN = (
    Wording("load key", "_pickle.UnpicklingError", "invalid load key, {key}.", core=True, frames=_LEGACY),
    Wording("central directory", "RuntimeError", "PytorchStreamReader failed reading zip archive: failed finding central directory", core=True, frames=_ZIP),
    Wording("central directory", "RuntimeError", "[enforce fail at {build}:{line}] . PytorchStreamReader failed reading zip archive: failed finding central directory", core=True, frames=_ZIP),
    Wording("zip archive", "RuntimeError", "PytorchStreamReader failed reading zip archive: invalid header or archive is corrupted", frames=_ZIP),
    Wording("zip archive", "RuntimeError", "PytorchStreamReader failed reading zip archive: not a ZIP archive", frames=_ZIP),
    Wording("zip record", "RuntimeError", "PytorchStreamReader failed reading file {record}: invalid header or archive is corrupted", frames=_ZIP),
    Wording("zip record", "RuntimeError", "PytorchStreamReader failed reading file {record}: file read failed", frames=_ZIP),
    Wording("zip record", "RuntimeError", "PytorchStreamReader failed reading file {record}: invalid header or archive is corrupted. This is an internal miniz error. If you are seeing this error, there is a high likelihood that your checkpoint file is corrupted. This can happen if the checkpoint was not saved properly, was transferred incorrectly, or the file was modified after saving.", frames=_ZIP),
    Wording("zip locate", "RuntimeError", "PytorchStreamReader failed locating file {missing}: file not found", core=True, frames=_ZIP),
    Wording("zip locate", "RuntimeError", "[enforce fail at {build}:{line}] . PytorchStreamReader failed locating file {missing}: file not found", core=True, frames=_ZIP),
    Wording("zip locate", "RuntimeError", "[enforce fail at {build}:{line}] . file not found: archive/{missing}", core=True, frames=_ZIP),
    Wording("zip version", "RuntimeError", "version_ <= kMaxSupportedFileFormatVersion INTERNAL ASSERT FAILED at {build}:{line}, please report a bug to PyTorch. Attempted to read a PyTorch file with version 3, but the maximum supported version for reading is 2. Your PyTorch installation may be too old.", core=True, frames=_ZIP),
    Wording("zip write", "RuntimeError", "[enforce fail at {build}:{line}] . PytorchStreamWriter failed writing file {record}: file write failed"),
    Wording("zip write", "RuntimeError", "[enforce fail at {build}:{line}] . unexpected pos {bytes} vs {bytes2}"),
    Wording("unexpected eof", "RuntimeError", "unexpected EOF, expected {bytes} more bytes. The file might be corrupted.", core=True, frames=(Frame("torch/serialization.py", 549, "_load", "deserialized_objects[key]._set_from_file(f, offset, f_should_read_directly)"),)),
    Wording("unexpected eof", "RuntimeError", "unexpected EOF. The file might be corrupted.", core=True),
    Wording("unexpected eof", "", "terminate called after throwing an instance of 'std::runtime_error'\n  what():  unexpected EOF, expected {bytes} more bytes. The file might be corrupted.", core=True),
    Wording("storage size", "RuntimeError", "storage has wrong size: expected {huge} got {size}", core=True, frames=_LEGACY[:1]),
    Wording("magic number", "RuntimeError", "Invalid magic number; corrupt file?", core=True, frames=_LEGACY[:1]),
    Wording("protocol version", "RuntimeError", "Invalid protocol version: {size}", frames=_LEGACY[:1]),
    Wording("protocol version", "ValueError", "unsupported pickle protocol: 5", frames=_LEGACY),
    Wording("protocol version", "ValueError", "unsupported pickle protocol: 4", frames=_OLD),
    Wording("jit archive", "RuntimeError", "{file} is a zip archive (did you mean to use torch.jit.load()?)", core=True, frames=(Frame("torch/serialization.py", 536, "_load", 'raise RuntimeError("{} is a zip archive (did you mean to use torch.jit.load()?)".format(f.name))'),)),
    Wording("jit archive of a folder", "RuntimeError", "Only one file(not dir) is allowed in the zipfile"),
    Wording("ran out", "EOFError", "Ran out of input", core=True, frames=_LEGACY),
    Wording("truncated", "_pickle.UnpicklingError", "pickle data was truncated", core=True, frames=_LEGACY),
    Wording("truncated", "_pickle.UnpicklingError", "unpickling stack underflow", frames=_LEGACY, core=True),
    Wording("pickle memo", "_pickle.UnpicklingError", "Memo value not found at index {opcode}", frames=_LEGACY),
    Wording("pickle memo", "_pickle.UnpicklingError", "could not find MARK", frames=_LEGACY),
    Wording("pickle memo", "_pickle.UnpicklingError", "the STRING opcode argument must be quoted", frames=_LEGACY),
    Wording("pickle memo", "_pickle.UnpicklingError", "unregistered extension code {opcode}", frames=_LEGACY),
    Wording("tar", "tarfile.ReadError", "invalid header", frames=(Frame("torch/serialization.py", 1053, "legacy_load", "with closing(tarfile.open(fileobj=f, mode='r:', format=tarfile.PAX_FORMAT)) as tar, \\"),)),
    Wording("tar", "tarfile.ReadError", "file could not be opened successfully: truncated header ({file})", frames=_LEGACY[:1]),
    Wording("class gone", "AttributeError", "Can't get attribute '{attribute}' on {place}", core=True, frames=_FIND),
    Wording("class gone", "AttributeError", "Can't get attribute '_rebuild_parameter_with_state' on <module 'torch._utils' from 'torch/_utils.py'>", frames=_FIND, core=True),
    Wording("old rebuild", "AttributeError", "Can't get attribute '_rebuild_tensor_v2' on <module 'torch._utils' from '/usr/local/lib/python3.6/dist-packages/torch/_utils.py'>", frames=_OLD),
    Wording("module gone", "ModuleNotFoundError", "No module named '{module}'", core=True, frames=_FIND),
    Wording("module gone", "ImportError", "No module named {module}", core=True, frames=_OLD),
    Wording("encoding", "UnicodeDecodeError", "{codec}", core=True, frames=_LEGACY),
    Wording("encoding", "UnicodeDecodeError", "{codec}", core=True, frames=_OLD),
    Wording("posix path", "NotImplementedError", "cannot instantiate 'PosixPath' on your system", frames=(Frame("{lib}/pathlib.py", 1049, "__new__", 'raise NotImplementedError("cannot instantiate %r on your system"'),)),
    Wording("posix path", "pathlib.UnsupportedOperation", "cannot instantiate 'WindowsPath' on your system", frames=_FIND),
    Wording("hash", "RuntimeError", "invalid hash value (expected \"{hash}\", got \"{digest}\")", frames=(Frame("torch/hub.py", 648, "download_url_to_file", 'raise RuntimeError(f\'invalid hash value (expected "{hash_prefix}", got "{digest}")\')'),), core=True),
    Wording("hash", "RuntimeError", "Model has been downloaded but the SHA256 checksum does not not match. Please retry loading the model.", frames=(Frame("whisper/__init__.py", 57, "_download", "raise RuntimeError("),), core=True),
    Wording("hash", "RuntimeError", "File not found or corrupted.", core=True),
    Wording("bad zip", "zipfile.BadZipFile", "File is not a zip file"),
    Wording("bad zip", "zipfile.BadZipFile", "Bad CRC-32 for file 'archive/{record}'"),
    Wording("bad zip", "zipfile.BadZipFile", "Bad magic number for central directory"),
    Wording("safetensors", "safetensors_rust.SafetensorError", "Error while deserializing header: HeaderTooLarge", core=True, frames=_SAFE),
    Wording("safetensors", "safetensors_rust.SafetensorError", "Error while deserializing header: MetadataIncompleteBuffer", core=True, frames=_SAFE),
    Wording("safetensors header", "safetensors_rust.SafetensorError", "Error while deserializing header: InvalidHeaderDeserialization", frames=_SAFE),
    Wording("safetensors header", "safetensors_rust.SafetensorError|Exception", "Error while deserializing header: HeaderTooSmall", frames=_SAFE),
    Wording("safetensors header", "safetensors_rust.SafetensorError", "Error while deserializing header: incomplete metadata, file not fully covered", frames=_SAFE),
    Wording("safetensors header", "safetensors_rust.SafetensorError", "Error while deserializing header: header too large", frames=_SAFE),
    Wording("safetensors header", "safetensors_rust.SafetensorError", "Error while deserializing header: invalid JSON in header: EOF while parsing a value at line 1 column 0", frames=_SAFE),
    Wording("safetensors metadata", "OSError", "The safetensors archive passed at {file} does not contain the valid metadata. Make sure you save your model with the `save_pretrained` method.", frames=_SAFE),
    Wording("hf load", "OSError", "Unable to load weights from pytorch checkpoint file for '{hub}' at '{file}'. If you tried to load a PyTorch model from a TF 2.0 checkpoint, please set from_tf=True.", core=True),
    Wording("hf load", "OSError", "Unable to load weights from checkpoint file for '{hub}' at '{file}'", core=True),
    Wording("hf lfs", "OSError", "You seem to have cloned a repository without having git-lfs installed. Please install git-lfs and run `git lfs install` followed by `git lfs pull` in the folder you cloned."),
    Wording("hf consistency", "OSError", "Consistency check failed: file should be of size {bytes} but has size {bytes2} ({file}).\nThis is usually due to network issues while downloading the file. Please retry with `force_download=True`."),
    Wording("webui", "", "The file may be malicious, so the program is not going to read it.\nYou can skip this check with --disable-safe-unpickle commandline argument.\n_pickle.UnpicklingError: invalid load key, {key}."),
    Wording("webui", "", "Error verifying pickled file from {file}:\nException: global '{global}' is forbidden"),
)  # fmt: skip
