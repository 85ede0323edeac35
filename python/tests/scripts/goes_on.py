"""A script as its user writes it, with dropout, batch normalisation and a scheduler. In the step
that is named, and when there is a checkpoint, rank 1 dies, once, or waits to be killed."""

import argparse
import glob
import os
import pathlib
import signal
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import strata.torch as st

parser = argparse.ArgumentParser()
parser.add_argument("--place")
parser.add_argument("--die-at", type=int, default=-1)
parser.add_argument("--hang-at", type=int, default=-1)
parser.add_argument("--checkpoints", default="")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--without", default="")
parser.add_argument("--loop", choices=("epochs", "range"), default="epochs")
options = parser.parse_args()

torch.manual_seed(1)
points = torch.rand(160, 2) * 2 - 1
data = TensorDataset(points, (points.square().sum(1) < 0.6).long())
model = torch.nn.Sequential(
    torch.nn.Linear(2, 8),
    torch.nn.BatchNorm1d(8),
    torch.nn.ReLU(),
    torch.nn.Dropout(0.2),
    torch.nn.Linear(8, 2),
)
optimizer = torch.optim.AdamW(model.parameters(), 0.05)
optimizer = st.DistributedOptimizer(optimizer, model, optimizer_on=options.place)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.6)
if options.without != "keep":
    st.keep(scheduler=scheduler)
sampler = st.Sampler(data, shuffle=True)
loader = DataLoader(data, 8, sampler=sampler, num_workers=options.workers)


def meet_the_end(step: int) -> None:
    if int(os.environ["RANK"]) != 1 or step not in (options.die_at, options.hang_at):
        return
    mark = pathlib.Path("met")
    if mark.exists():
        return
    while not glob.glob(f"{options.checkpoints}/*/manifest.json"):
        time.sleep(0.02)
    mark.touch()
    if step == options.hang_at:
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)


made = []
epochs = st.epochs(options.epochs) if options.loop == "epochs" else range(options.epochs)
for epoch in epochs:
    sampler.set_epoch(epoch)
    length = len(loader)
    seen = 0
    for x, y in loader:
        meet_the_end(10 * epoch + seen)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        st.report(loss=loss.item())
        made.append(loss.item())
        seen += 1
    assert seen == length
    if options.loop == "epochs":
        print(f"epoch {epoch}: loss {loss.item():.4f}")  # no epoch is empty
    with torch.no_grad():
        model.eval()
        st.report(test_accuracy=(model(points).argmax(1) == data.tensors[1]).float().mean())
        model.train()
st.finish()
rank = os.environ["RANK"]
torch.save(
    {
        "model": model.state_dict(),
        "rate": optimizer.param_groups[0]["lr"],
        "random": torch.rand(2),
        "made": made,
    },
    f"rank{rank}.pt",
)
