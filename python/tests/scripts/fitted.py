"""Trains a small module for two epochs with Lightning: as a rank of a job, or, as reference, in one
process.

usage: fitted.py job|alone OUT [accumulate] [manual] [clip] [servers] [sampler] [twice] [devices]
[again] [test] [half] [resume]
"""

import sys

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.set_num_threads(1)
RANKS, BATCH = 2, 4


class Module(L.LightningModule):
    def __init__(self, wants):
        super().__init__()
        self.wants = wants
        self.automatic_optimization = "manual" not in wants
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)
        )
        self.epoch_ends = 0

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self.layers(x), y)
        self.log("loss", loss, sync_dist=True)
        if not self.automatic_optimization:
            opt = self.optimizers()
            opt.zero_grad()
            self.manual_backward(loss)
            opt.step()
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self.layers(x), y), sync_dist=True)

    test_step = validation_step

    def configure_optimizers(self):
        if "servers" in self.wants:
            return torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)
        opt = torch.optim.AdamW(self.parameters(), 0.02)
        return [opt], [
            {"scheduler": torch.optim.lr_scheduler.StepLR(opt, 3, 0.5), "interval": "step"}
        ]


class Together:
    """Batches of one process that are those of all ranks together, as Lightning's own sampler has
    them."""

    def __init__(self, data):
        self.sampler = self
        self.batch_size = RANKS * BATCH
        self.shares = [DistributedSampler(data, RANKS, rank, seed=3) for rank in range(RANKS)]

    def set_epoch(self, epoch):
        for share in self.shares:
            share.set_epoch(epoch)

    def __len__(self):
        return len(self.shares[0]) // BATCH

    def __iter__(self):
        shares = [list(share) for share in self.shares]
        for first in range(0, len(shares[0]), BATCH):
            yield [i for share in shares for i in share[first : first + BATCH]]


def loader(how, wants, seed):
    data = torch.Generator().manual_seed(seed)
    data = TensorDataset(
        torch.randn(32, 8, generator=data), torch.randint(0, 3, (32,), generator=data)
    )
    batch = BATCH if how == "job" else RANKS * BATCH
    if "sampler" in wants:
        import strata

        return DataLoader(data, batch, sampler=strata.Sampler(data, seed=5))
    if how == "alone" and seed == 1:
        return DataLoader(data, batch_sampler=Together(data))
    return DataLoader(data, batch)


def main(how, out, *wants):
    in_job = how == "job"
    if in_job:
        from strata.lightning import StrataStrategy
    L.seed_everything(3, verbose=False)
    module = Module(wants)
    checkpoint = ModelCheckpoint(
        dirpath="checkpoints", filename=how, enable_version_counter=False, save_weights_only=False
    )
    trainer = L.Trainer(
        strategy=StrataStrategy() if in_job else "auto",
        devices=2 if "devices" in wants else 1,
        accelerator="cpu",
        max_epochs=1 if "half" in wants else 2,
        accumulate_grad_batches=2 if "accumulate" in wants else 1,
        gradient_clip_val=0.5 if "clip" in wants else None,
        logger=False,
        use_distributed_sampler=in_job and ("sampler" not in wants or "twice" in wants),
        callbacks=[checkpoint],
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    if "test" in wants:
        print("tested:", trainer.test(module, loader(how, wants, 2), verbose=False))
        return
    if in_job and trainer.global_rank:
        # Ranks begin with rank 0's weights.
        torch.nn.init.zeros_(module.layers[0].weight)
    path = "checkpoints/job.ckpt" if "resume" in wants else None
    trainer.fit(module, loader(how, wants, 1), loader(how, wants, 2), ckpt_path=path)
    if "again" in wants:
        trainer.fit(module, loader(how, wants, 1))
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    agree = trainer.strategy.reduce_boolean_decision(trainer.global_rank == 0)
    torch.save((weights, metrics, trainer.global_step, agree), f"{out}.{trainer.global_rank}")


if __name__ == "__main__":
    main(*sys.argv[1:])
