#!/usr/bin/env bash
# Trains on several machines under Slurm: one torchrun on each, which starts that machine's processes.
#
#     sbatch --nodes 2 --gpus-per-node 4 scripts/slurm.sh --config configs/default.yaml --config configs/ddp.yaml
#     sbatch --nodes 2 --export ALL,COMMAND=hand,RANKS=2 scripts/slurm.sh --config …      # by hand; two processes each
#
# A job that Slurm starts anew goes on from the last.ckpt of its own run (docs/nodes.md). The signal comes 120 seconds
# before the end; the ranks have 100 of these to finish a step, and to save.
#
#SBATCH --job-name=twinloop
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
set -euo pipefail

ranks=${RANKS:-${SLURM_GPUS_ON_NODE:-1}}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun torchrun \
    --nnodes "$SLURM_NNODES" --nproc-per-node "$ranks" \
    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$first:29400" \
    --shutdown-timeout 100 \
    -m project "${COMMAND:-fit}" "$@" --trainer.num_nodes "$SLURM_NNODES" --trainer.devices "$ranks"
