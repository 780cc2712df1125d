"""Invented programs: the frames of a user's script and of the frameworks around it, whatever the error is.

Nothing here knows the cause of an error. Names, files and source lines are drawn alike for all causes, so that a
classifier cannot learn a cause from the program around it.
"""
# ruff: noqa: E501  (running text and pools are kept on long lines)

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from corpus.message import Frame

T = TypeVar("T")

PROJECTS = (
    "nerf-lite", "seg_baseline", "tts-exp", "DeepSort", "mnist", "cv_project", "bert-finetune", "GANs", "yolo-custom", "asr",
    "kaggle", "thesis_code", "diffusion-playground", "point_cloud", "crnn.pytorch", "rl-zoo", "llm_tuning", "homework3",
    "retinanet", "st-gcn", "pose_est", "recsys", "lora-train", "SRResNet", "vit-small", "graphnets", "audio_cls", "demo",
    "fewshot", "unet3d", "captioning", "timeseries-forecast",
)  # fmt: skip
ROOTS = (
    "/home/user/{p}/", "/home/ubuntu/{p}/", "/workspace/{p}/", "/content/{p}/", "/root/{p}/", "/data/code/{p}/", "/mnt/hdd/{p}/",
    "C:\\Users\\user\\{p}\\", "D:\\work\\{p}\\", "/kaggle/working/{p}/", "/Users/me/{p}/", "/scratch/{p}/src/", "./", "",
    "C:/Users/admin/PycharmProjects/{p}/", "/opt/ml/code/", "/home/student/Desktop/{p}/", "/app/",
)  # fmt: skip
FILES = (
    "train.py", "main.py", "run.py", "model.py", "tools/train_net.py", "engine.py", "trainer.py", "test.py", "finetune.py",
    "models/network.py", "lib/core/function.py", "src/train.py", "train_ddp.py", "inference.py", "demo.py", "utils/trainer.py",
    "modeling.py", "losses.py", "networks.py", "eval.py", "my_model.py", "data/dataset.py", "scripts/run_experiment.py",
    "main_pretrain.py", "solver.py", "predict.py", "layers.py", "train_gan.py", "sample.py", "export.py", "lightning_module.py",
)  # fmt: skip
FUNCTIONS = (
    "main", "train", "train_one_epoch", "forward", "fit", "run", "train_step", "training_step", "validate", "step", "do_train",
    "train_epoch", "evaluate", "_run_batch", "loss_fn", "compute_loss", "train_model", "run_step", "__init__", "get_loss",
    "update", "optimize_parameters", "predict", "sample", "load_model", "test", "encode", "backward", "shared_step", "learn",
)  # fmt: skip
SOURCES = (
    "main()", "main(args)", "train(args)", "train(model, train_loader, optimizer, epoch)", "loss.backward()", "output = model(data)",
    "outputs = model(inputs)", "loss = criterion(outputs, labels)", "trainer.fit(model, datamodule=dm)", "trainer.train()",
    "optimizer.step()", "for i, batch in enumerate(train_loader):", "pred = self.net(x)", "x = self.layer1(x)",
    "loss = self.compute_loss(batch)", "y_hat = self(x)", "logits = self.classifier(features)", "out = self.model(images)",
    "scaler.scale(loss).backward()", "model.load_state_dict(checkpoint['model'])", "loss, acc = train_one_epoch(model, loader)",
    "model = model.to(device)", "features = self.backbone(images)", "x = self.encoder(src, mask)", "h = self.act(self.fc(h))",
    "total_loss += loss.item()", "images, targets = next(iter(loader))", "x, y = batch", "losses = self.head(feats, targets)",
    "return self.decoder(z)", "results = model.train(data='data.yaml', epochs=100, imgsz=640)", "app.run(train)",
    "ckpt = torch.load(args.resume, map_location='cpu')", "err = loss_function(prediction, target)", "runner.run(loaders, cfg.workflow)",
    "accelerator.backward(loss)", "attn = self.attn(q, k, v)", "for x, y in tqdm(dataloader):", "return self.fn(x) + x",
    "self.optimizer.zero_grad()", "fake = netG(noise)", "D_loss = gan_loss(real, fake)", "model = build_model(cfg)", "scores.append(score)",
    "hidden = self.rnn(emb, hidden)", "mp.spawn(main_worker, nprocs=ngpus, args=(args,))", "self.run_train()", "z = model.encode(x)",
)  # fmt: skip

_CALL = ("_call_impl", "__call__", "_wrapped_call_impl")
_CALL_SOURCES = (
    "result = self.forward(*input, **kwargs)", "return forward_call(*input, **kwargs)", "return forward_call(*args, **kwargs)",
    "return self._call_impl(*args, **kwargs)", "result = self._slow_forward(*input, **kwargs)",
)  # fmt: skip
MODULE_LINES = (224, 325, 357, 477, 489, 491, 493, 532, 541, 547, 550, 722, 727, 744, 889, 1051, 1071, 1102, 1110, 1130, 1190, 1194,
                1212, 1501, 1511, 1518, 1527, 1532, 1541, 1553, 1562, 1736, 1739, 1747, 1750, 1773, 1784)  # fmt: skip

FRAMEWORKS: tuple[tuple[Frame, ...], ...] = (
    (
        Frame("torch/nn/parallel/data_parallel.py", 152, "forward", "outputs = self.parallel_apply(replicas, inputs, kwargs)"),
        Frame("torch/nn/parallel/parallel_apply.py", 85, "parallel_apply", "output.reraise()"),
        Frame("torch/_utils.py", 394, "reraise", "raise self.exc_type(msg)"),
    ),
    (
        Frame("torch/utils/data/dataloader.py", 521, "__next__", "data = self._next_data()"),
        Frame("torch/utils/data/dataloader.py", 1203, "_next_data", "return self._process_data(data)"),
        Frame("torch/_utils.py", 425, "reraise", "raise self.exc_type(msg)"),
    ),
    (
        Frame("torch/utils/data/_utils/fetch.py", 49, "fetch", "data = [self.dataset[idx] for idx in possibly_batched_index]"),
    ),
    (
        Frame("torch/_tensor.py", 487, "backward", "torch.autograd.backward("),
        Frame("torch/autograd/__init__.py", 200, "backward", "Variable._execution_engine.run_backward("),
    ),
    (
        Frame("torch/tensor.py", 102, "backward", "torch.autograd.backward(self, gradient, retain_graph, create_graph)"),
        Frame("torch/autograd/__init__.py", 90, "backward", "allow_unreachable=True)  # allow_unreachable flag"),
    ),
    (
        Frame("pytorch_lightning/trainer/trainer.py", 608, "fit", "call._call_and_handle_interrupt("),
        Frame("pytorch_lightning/trainer/call.py", 38, "_call_and_handle_interrupt", "return trainer_fn(*args, **kwargs)"),
        Frame("pytorch_lightning/loops/optimization/automatic.py", 134, "closure", "step_output = self._step_fn()"),
    ),
    (
        Frame("transformers/trainer.py", 1662, "train", "return inner_training_loop("),
        Frame("transformers/trainer.py", 1929, "_inner_training_loop", "tr_loss_step = self.training_step(model, inputs)"),
        Frame("transformers/trainer.py", 2699, "training_step", "loss = self.compute_loss(model, inputs)"),
    ),
    (
        Frame("detectron2/engine/train_loop.py", 155, "train", "self.run_step()"),
        Frame("detectron2/engine/defaults.py", 494, "run_step", "self._trainer.run_step()"),
    ),
    (
        Frame("ultralytics/engine/model.py", 802, "train", "self.trainer.train()"),
        Frame("ultralytics/engine/trainer.py", 207, "train", "self._do_train(world_size)"),
        Frame("ultralytics/engine/trainer.py", 380, "_do_train", "self.loss, self.loss_items = self.model(batch)"),
    ),
    (
        Frame("mmcv/runner/epoch_based_runner.py", 127, "run", "epoch_runner(data_loaders[i], **kwargs)"),
        Frame("mmcv/runner/epoch_based_runner.py", 50, "train", "self.run_iter(data_batch, train_mode=True, **kwargs)"),
    ),
    (Frame("accelerate/accelerator.py", 1853, "backward", "self.scaler.scale(loss).backward(**kwargs)"),),
    (Frame("torch/amp/autocast_mode.py", 16, "decorate_autocast", "return func(*args, **kwargs)"),),
    (Frame("torch/utils/_contextlib.py", 115, "decorate_context", "return func(*args, **kwargs)"),),
    (Frame("torch/optim/lr_scheduler.py", 68, "wrapper", "return wrapped(*args, **kwargs)"),),
    (Frame("torch/nn/parallel/distributed.py", 1040, "forward", "output = self._run_ddp_forward(*inputs, **kwargs)"),),
    (Frame("torch/distributed/elastic/multiprocessing/errors/__init__.py", 346, "wrapper", "return f(*args, **kwargs)"),),
    (Frame("torch/utils/checkpoint.py", 249, "checkpoint", "return CheckpointFunction.apply(function, preserve, *args)"),),
    (Frame("fastai/learner.py", 193, "_do_one_batch", "self('after_pred')"),),
    (Frame("torch/nn/modules/container.py", 117, "forward", "input = module(input)"),),
    (Frame("{lib}/runpy.py", 87, "_run_code", "exec(code, run_globals)"),),
    (Frame("gradio/routes.py", 439, "run_predict", "output = await app.get_blocks().process_api("),),
    (Frame("torch/jit/_trace.py", 1056, "trace_module", "module._c._create_method_from_trace("),),
    (Frame("torch/onnx/utils.py", 689, "_model_to_graph", "graph, params, torch_out, module = _create_jit_graph("),),
    (Frame("peft/peft_model.py", 1083, "forward", "return self.base_model("),),
    (Frame("diffusers/models/unet_2d_condition.py", 905, "forward", "sample = upsample_block("),),
    (Frame("torch/multiprocessing/spawn.py", 59, "_wrap", "fn(i, *args)"),),
)  # fmt: skip


class Draw:
    """Draws from pools; the last fifth of every pool is kept out of training, so that surroundings differ by split."""

    def __init__(self, rng: random.Random, *, train: bool) -> None:
        self.rng = rng
        self.train = train

    def pick(self, pool: Sequence[T]) -> T:
        """Return one entry of `pool`."""
        return self.rng.choice(pool[: -(len(pool) // 5) or None] if self.train else pool)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < probability


def user_file(draw: Draw) -> str:
    """Return the path of an invented script."""
    root, file = draw.pick(ROOTS), draw.pick(FILES)
    return root.format(p=draw.pick(PROJECTS)) + (file.replace("/", "\\") if "\\" in root else file)


def user_frames(draw: Draw, num_frames: int) -> list[Frame]:
    """Return frames of an invented program, outermost first."""
    frames = []
    for depth in range(num_frames):
        function = "<module>" if depth == 0 and draw.chance(0.7) else draw.pick(FUNCTIONS)
        frames.append(Frame(user_file(draw), draw.rng.randint(5, 900), function, draw.pick(SOURCES)))
    return frames


def call_frame(draw: Draw) -> Frame:
    """Return the frame that every module call leaves, in the form of some torch version."""
    function, source = draw.pick(_CALL), draw.pick(_CALL_SOURCES)
    return Frame("torch/nn/modules/module.py", draw.pick(MODULE_LINES), function, source)


def site_prefix(draw: Draw) -> str:
    """Return a folder of installed packages, with its last separator."""
    python = f"python3.{draw.pick((5, 6, 7, 8, 9, 10, 11, 12, 13))}"
    name = draw.pick(("torch", "base", "env", "pt", "ml", "llm", "dl", "open-mmlab", "py38", "myenv"))
    return draw.pick(
        (
            f"/usr/local/lib/{python}/dist-packages/",
            f"/usr/local/lib/{python}/site-packages/",
            f"/home/user/anaconda3/envs/{name}/lib/{python}/site-packages/",
            f"/opt/conda/lib/{python}/site-packages/",
            f"/home/ubuntu/miniconda3/envs/{name}/lib/{python}/site-packages/",
            f"C:\\Users\\user\\Anaconda3\\envs\\{name}\\lib\\site-packages\\",
            f"/root/miniconda3/lib/{python}/site-packages/",
            f"~/.local/lib/{python}/site-packages/",
            f"D:\\anaconda\\envs\\{name}\\Lib\\site-packages\\",
            f"/home/user/{name}/.venv/lib/{python}/site-packages/",
            f"/databricks/{python}/lib/{python}/site-packages/",
        )
    )
