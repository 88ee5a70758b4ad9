#!/usr/bin/env python3
"""A small data-parallel training for torchrun, or for any launcher that sets RANK, WORLD_SIZE, LOCAL_RANK,
MASTER_ADDR and MASTER_PORT. NCCL where there is a GPU for each rank, gloo else.

    torchrun --nproc_per_node=2 examples/train_ddp.py
    toporun torchrun --nproc_per_node=2 examples/train_ddp.py
    toporun mpirun -np 2 python3 examples/train_ddp.py      # toporun fills the variables in
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse_arguments():
    parser = argparse.ArgumentParser(description="linear regression on random data, data parallel")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="samples of each rank in a step")
    parser.add_argument("--width", type=int, default=256, help="features of a sample")
    # toporun names how many loader workers fit beside each rank.
    parser.add_argument("--num-workers", type=int, default=int(os.environ.get("TOPORUN_NUM_WORKERS", 0)))
    return parser.parse_args()


def has_own_gpu(gpus, environment):
    """Whether each rank has a GPU for itself where it sees `gpus` of them."""
    if gpus >= int(environment.get("LOCAL_WORLD_SIZE", 1)):
        return gpus > 0
    # Slurm shows each task another GPU, as device 0; torchrun's workers of a task would share it.
    return gpus == 1 and "SLURM_GPUS_PER_TASK" in environment and "TORCHELASTIC_RUN_ID" not in environment


def main():
    arguments = parse_arguments()
    local_rank = int(os.environ["LOCAL_RANK"])
    gpus = torch.cuda.device_count()
    use_gpu = has_own_gpu(gpus, os.environ)
    device = torch.device("cuda", local_rank % gpus) if use_gpu else torch.device("cpu")
    if use_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if use_gpu else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)  # the same data and first weights everywhere
    features = torch.randn(arguments.batch * size * 4, arguments.width)
    data = TensorDataset(features, features @ torch.randn(arguments.width, 1))
    sampler = DistributedSampler(data, num_replicas=size, rank=rank)
    loader = DataLoader(data, batch_size=arguments.batch, sampler=sampler, num_workers=arguments.num_workers,
                        pin_memory=use_gpu)
    model = DistributedDataParallel(torch.nn.Linear(arguments.width, 1).to(device),
                                    device_ids=[device.index] if use_gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    start, step, epoch = time.monotonic(), 0, 0
    first = last = None
    while step < arguments.steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for inputs, wanted in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs.to(device)), wanted.to(device))
            loss.backward()
            optimizer.step()
            last = loss.item()
            first = last if first is None else first
            step += 1
            if step == arguments.steps:
                break
    # One write a rank: lines of ranks that share a terminal stay whole.
    text = f"rank {rank} of {size} on {device}: loss {first:.2f} -> {last:.2f}, {time.monotonic() - start:.1f} s\n"
    os.write(1, text.encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
