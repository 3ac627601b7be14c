"""lightning: a Trainer fits a module with a validation loop, and loads its checkpoint."""

import logging
import tempfile
import warnings

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(lightning.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 3)
        )

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def on_validation_epoch_end(self):
        print(f"{self.trainer.callback_metrics['val'].item():.6f}")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


lightning.seed_everything(0, verbose=False)
x = torch.randn(64, 4)
data = TensorDataset(x, x[:, :3].argmax(1))
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        num_sanity_val_steps=0,
    )
    model = Model()
    trainer.fit(model, DataLoader(data, 16, shuffle=True), DataLoader(data, 32))
    trainer.save_checkpoint(f"{folder}/a.ckpt")
    again = Model.load_from_checkpoint(f"{folder}/a.ckpt")
print(
    again.hparams.width,
    all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)),
)
