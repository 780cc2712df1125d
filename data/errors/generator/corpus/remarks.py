"""What people and programs write around an error: remarks, titles, log lines. The same pools serve every cause.

Remarks name GPUs, shapes, workers and checkpoints freely, whatever the error is: people describe their set-up, and a
classifier must not take the set-up for the cause.
"""
# ruff: noqa: E501  (running text and pools are kept on long lines)

from __future__ import annotations

LEADS = (
    "I get this when training:", "Getting the following error", "any idea what is wrong here?", "Hi, I am getting this error:",
    "I'm new to pytorch and stuck on this", "Here is the full traceback:", "When I run the code it fails with",
    "It throws the error below after a few iterations.", "I am trying to fine-tune a pretrained model on my own dataset.",
    "Hello everyone, I have a model that takes images of size 224x224 and I'm using batch size 32.", "After upgrading pytorch I see",
    "I'm training on 2 GPUs with DataParallel and", "My training loop is pretty standard, but", "Error message:", "**Describe the bug**",
    "This is my first time with LSTMs.", "Running on Colab with a T4 GPU.", "## Bug", "### 🐛 Describe the bug", "Output:",
    "I have the same problem with torch 1.13 and cuda 11.7", "What I did: python train.py --batch_size 16", "The code works on CPU but",
    "I followed the tutorial step by step but I got", "Training works fine but at validation I get this", "Logs:", "Stack trace",
    "I set num_workers=4 in the DataLoader and loaded the checkpoint from epoch 10.", "Using mixed precision (fp16) training.",
    "I have a custom dataset with 3 classes and", "can anyone help with this error please", "When calling loss.backward() I got:",
    "Trying to run the example notebook on my laptop (GTX 1650) I see", "the error is as follows", "Hi! thanks for the great work!",
    "I wrote a custom loss function and", "I modified the last layer of resnet18 and now it says", "Error occurs at the second epoch:",
    "I'm using distributed training (DDP) on a single node with 4 gpus.", "While converting my model to ONNX,", "### Error",
    "I'm implementing a GAN with two optimizers.", "my environment: Ubuntu 20.04, python 3.8, torch 1.9", "Steps to reproduce",
    "I installed pytorch from conda and tried to run the demo.", "With torch.compile enabled or not, same thing:", "console output",
    "I want to feed a tensor of shape (batch, seq, dim) to my network", "Then, the program exits with", "Traceback:",
    "Tried on two machines, both give me this:", "I resumed the training from a saved model and got", "The labels are integers 0..9.",
    "I am doing a reinforcement learning project (DQN).", "Inference with the pretrained weights gives", "On Windows 10 I got",
    "Why do I get this?", "I moved everything to cuda already, still", "On my Mac (M1) it shows", "Kaggle notebook, P100:",
    "Everything was working until yesterday.", "got stuck on this for 2 days", "I use BatchNorm and dropout in the model.",
    "Reproducible with the latest nightly.", "first batch passes, then:", "The last line is what confuses me.", "Title says it all.",
)  # fmt: skip
TAILS = (
    "any idea?", "How do I fix this?", "Thanks in advance!", "I can't figure out why.", "What does this mean?", "Please help.",
    "I've tried restarting and reducing the batch size but it didn't help.", "The input is a float tensor on the GPU.", "???",
    "It worked with an older version of PyTorch.", "Has anyone seen this before?", "Same code works on another machine.",
    "My model is a simple CNN with two linear layers.", "Any help would be appreciated.", "pytorch version is 1.4",
    "I am using a DataLoader with shuffle=True.", "Do I have to change the loss?", "It happens only on the last batch.",
    "I checked the shapes and they look right.", "Could it be the optimizer?", "I thought calling .cuda() would be enough.",
    "What am I doing wrong?", "I printed the tensor and it looks fine.", "Is this a bug?", "Would be great if someone could explain.",
    "Setting num_workers=0 changes nothing.", "I use Adam with lr 1e-3.", "where should I add retain_graph or detach?", "Sorry for my English",
    "Let me know if you need more of the code.", "It's fine on a single GPU though.", "Should I upgrade?", "+1 same here",
    "Tried on Python 3.9 as well.", "I load the weights with torch.load.", "Not sure if it's related to the tokenizer.",
    "I have no idea where this comes from", "The stack trace points to the forward function.", "(full log attached)", "Thank you",
    "How can I solve it without changing the architecture?", "Is there a workaround?", "Please let me know. Regards", "Edit: solved",
    "I am using the official docker image.", "Do I need to convert something to numpy?", "nvidia-smi looks normal.", "and then it stops",
)  # fmt: skip
TITLES = (
    "{e}", "{e} when using DataLoader", "[Bug] {e}", "{e} during training", "How to fix {e}", "Pytorch: {e}", "PyTorch - {e}",
    "Error: {e}", "{e} with custom dataset", "Getting \"{e}\" in my model", "{e} #{n}", "{e} · Issue #{n}", "Help with {e}",
    "why do I get '{e}'?", "{e} [closed]", "torch {e}", "{e} in PyTorch", "Training error - {e}", "`{e}` when running on multiple GPUs",
    "What does \"{e}\" mean?", "{e} on Colab", "Got {e} when I train on my own data", "{e} after loading checkpoint", "solving {e}",
    "BUG: {e}", "{e} (LSTM)", "[Question]: {e}", "LoRA training: {e}", "Finetuning fails with {e}", "{e}, how to solve it?",
    "[BUG] inference: {e}", "{e} - vision", "{e} while using mixed precision", "Unable to train: {e}", "{e} at loss.backward()",
)  # fmt: skip
NOISE = (
    "Epoch: [0][{n}/3124]\tTime 0.412 (0.502)\tLoss 2.3{n}", "epoch {n} loss 0.{n}", "  0%|          | 0/{n} [00:00<?, ?it/s]",
    " 12%|█▏        | {n}/7813 [01:02<07:41, 14.92it/s]", "Training:   0%|          | 0/{n} [00:03<?, ?it/s]", "Loading data...",
    "Epoch 0:   0%|          | 0/{n} [00:00<?, ?it/s]", "Using device: cuda", "Number of parameters: {n}0432", "Start training",
    "GPU available: True (cuda), used: True", "Files already downloaded and verified", "$ python train.py --epochs {n} --lr 0.001",
    "(base) user@server:~$ python main.py", "user@gpu-box:~/project$ CUDA_VISIBLE_DEVICES=0 python train.py", "Namespace(batch_size={n}, lr=0.01)",
    "UserWarning: The given NumPy array is not writeable", "=> loading checkpoint 'model_{n}.pth.tar'", "Device: cuda:0", "torch.Size([{n}, 3, 224, 224])",
    "PyTorch version: 2.1.0", "Is debug build: False", "torch==1.8.1+cu111", "Python version: 3.8 (64-bit runtime)", "CUDA runtime version: 11.8",
    "WARNING:root:Setting OMP_NUM_THREADS environment variable for each process to be 1", "wandb: Waiting for W&B process to finish... (failed 1).",
    "wandb: You can sync this run to the cloud by running:", "Process finished with exit code 1", "Aborted (core dumped)",
    "In [{n}]: trainer.train()", "[INFO] building model", "Global seed set to {n}", "Press any key to continue . . .",
    "Sanity Checking DataLoader 0:   0%|          | 0/2 [00:00<?, ?it/s]", "val_loss improved, saving model", "Exception raised from operator() (most recent call first):",
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x6c (0x7f3c1a{n}b in libc10.so)", "[Train] iter {n} lr 1.0e-04 loss 1.2{n}",
    "    | Name  | Type       | Params", "Some weights of the model checkpoint were not used when initializing", "Best acc@1: {n}.2",
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1.", "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "iter: {n}, loss_G: 1.0{n}, loss_D: 0.4", "Model loaded.", "FutureWarning: Pass `weights_only` explicitly", "Killing subprocess {n}",
    "    main()", "    raise e", "INFO: training started at step {n}", "cudnn version 8902", "torch 1.10.0, torchvision 0.11.1",
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: {n}) of binary: /usr/bin/python3",
    "Prompt executed in {n}.07 seconds", "INFO:     127.0.0.1:5{n} - \"POST /predict HTTP/1.1\" 500 Internal Server Error", "Loading pipeline components...: 100%|██████████| 7/7",
    "Loading checkpoint shards:  50%|█████     | 1/2", "Traceback (most recent call last):", "got prompt", "{{'loss': 0.{n}, 'learning_rate': 2e-05, 'epoch': 0.{d}}}", "Map: 100%|██████████| {n}/{n}",
    "Num GPUs: {n}", "step {n}: train loss 4.1{n}, val loss 4.2", "[2023-05-0{d} 1{d}:04:5{d}] start epoch", "Loading weights ... done ({n} ms)",
)  # fmt: skip
PREFIXES = (
    "[rank{d}]: ", "[rank0]: ", "# ", "> ", "[{d}]: ", "{d}: ", "    ", "[1,{d}]<stderr>:", "ERROR:root:", "[ERROR] ", "2023-0{d}-11 0{d}:1{d}:33,{n} ERROR ",
    "[2024-11-0{d} 12:4{d}:08,{n}] [ERROR] ", ">> ", "| ", "trainer-0 | ", "[default{d}]:", "(worker pid={n}) ", "//", "E   ", "pytorch-job-0: ", "stderr: ", "{d}/9 ",
    "INFO - 0{d}:22:1{d} - ", "t{d}> ",
)  # fmt: skip
OTHER_ERRORS = (
    "SystemExit: 1", "KeyboardInterrupt", "AttributeError: 'NoneType' object has no attribute 'close'", "KeyError: 'epoch'",
    "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.", "wandb.errors.UsageError: run failed",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "ValueError: I/O operation on closed file.", "hydra.errors.HydraException",
    "UnboundLocalError: local variable 'loss' referenced before assignment", "RuntimeError: training failed, see the log above", "Exception: step failed",
    "AttributeError: 'Trainer' object has no attribute '_results'", "NameError: name 'exit' is not defined", "bdb.BdbQuit", "TypeError: __exit__() missing",
    "StopIteration", "OSError: [Errno 5] Input/output error", "gradio.exceptions.Error: None", "ray.exceptions.RayTaskError: train failed", "RuntimeError: worker crashed",
)  # fmt: skip
