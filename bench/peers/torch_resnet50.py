"""PyTorch eager: ResNet-50 as torchvision has it ("v1.5"), images/s on synthetic data.

usage: torch_resnet50.py [--device cuda] [--precision BF16] [--batch 64] [--size 224] [--steps 60]
                         [--threads N]

Channels last, cuDNN's benchmark mode, momentum SGD; the precision is bf16 by autocast, TF32, or
fp32. Images and labels are made once and stay where they are, so nothing is read or copied. Prints
one line of JSON: images/s over the second half of the steps, the loss of the first and of the last.
Exit status 77: PyTorch has no such device.
"""

import argparse
import contextlib
import json
import math
import sys
import time

import torch
from torch import nn

SKIPPED = 77
PARAMETERS = 25557032  # for 1000 classes


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (with the stride), 1 x 1, and a shortcut, projected where shapes differ."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True), nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                                          nn.BatchNorm2d(4 * width))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            width = 64 << stage
            layers.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def autocast_of(options):
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "TF32"
    torch.backends.cudnn.allow_tf32 = options.precision == "TF32"
    if options.precision == "BF16":
        return lambda: torch.autocast(options.device, torch.bfloat16)
    return contextlib.nullcontext


def train(options):
    """Images/s, and the loss of each step."""
    model = resnet50().to(options.device, memory_format=torch.channels_last)
    if sum(values.numel() for values in model.parameters()) != PARAMETERS:
        sys.exit(f"torch_resnet50: this is no ResNet-50 of {PARAMETERS} parameters")
    autocast = autocast_of(options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(options.batch, 3, options.size, options.size, device=options.device)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (options.batch,), device=options.device)
    criterion = nn.CrossEntropyLoss()
    finish = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    losses, half, began = [], options.steps // 2, None
    for step in range(options.steps):
        if step == half:
            finish()
            began = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    finish()
    seconds = time.monotonic() - began
    return options.batch * (options.steps - half) / seconds, [float(loss) for loss in losses]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precision", choices=("FP32", "TF32", "BF16"), default="BF16")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch has no CUDA device", file=sys.stderr)
        sys.exit(SKIPPED)
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    rate, losses = train(options)
    if not all(math.isfinite(loss) for loss in losses):
        sys.exit(f"torch_resnet50: losses are {losses}")
    print(json.dumps({"images_per_s": rate, "first_loss": losses[0], "last_loss": losses[-1],
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
