"""pytorch-lightning: Trainer with strategy ddp."""

import os

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, _):
        loss = (self.layer(batch[0]) - batch[1]).square().mean()
        self.log("loss", loss, sync_dist=True, on_epoch=True, on_step=False)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


pl.seed_everything(1)
data = TensorDataset(torch.randn(16, 2), torch.randn(16, 1))
trainer = pl.Trainer(
    accelerator="cpu",
    devices=int(os.environ["WORLD_SIZE"]),
    strategy="ddp",
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
model = Line()
trainer.fit(model, DataLoader(data, batch_size=4))
print(trainer.global_rank, trainer.callback_metrics["loss"].item(), model.layer.weight.tolist())
