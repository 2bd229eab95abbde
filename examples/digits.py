"""Learns to read handwritten digits, draws how that went, exports the network and runs it with the engine.

    pip install 'kuiperinfer[train]'
    python examples/digits.py                      # a convolutional network, 99 % right
    python examples/digits.py --network mlp --epochs 30 --folder out

The data are scikit-learn's 1797 digits of 8 × 8 pixels, which it brings along: nothing is downloaded. The folder then has
`digits.png` (loss and accuracy), `digits.safetensors` (weights) and `digits.pnnx.param` with its `.bin` (the network).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import kuiperinfer
from kuiperinfer import nn, optim
from kuiperinfer.tensor import Tensor, data, manual_seed, no_grad


class MLP(nn.Sequential):
    """Two hidden layers. (N, 1, 8, 8) -> (N, 10)"""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU())
        self.append(nn.Linear(64, 10))


class Block(nn.Module):
    """A convolution around which its input passes. (N, C, H, W) -> (N, C, H, W)"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.norm(self.conv(x)) + x)


class CNN(nn.Module):
    """Convolutions, batch norm and a residual block. (N, 1, 8, 8) -> (N, 10)"""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.block = Block(16)
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.down(self.block(self.stem(x))))


NETWORKS = {"mlp": MLP, "cnn": CNN}


class History:
    """Loss and accuracy after each epoch."""

    def __init__(self) -> None:
        self.loss: list[float] = []
        self.training: list[float] = []
        self.test: list[float] = []

    def draw(self, path: Path) -> None:
        """A picture with the loss at the left and both accuracies at the right."""
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        epochs = range(1, len(self.loss) + 1)
        left.plot(epochs, self.loss, color="tab:red")
        left.set(title="Training loss", xlabel="epoch", ylabel="cross-entropy, labels smoothed", ylim=(0, None))
        right.plot(epochs, self.training, label="training")
        right.plot(epochs, self.test, label=f"test, {self.test[-1]:.1%} at the end")
        right.set(title="Accuracy", xlabel="epoch")
        right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        right.legend(loc="lower right")
        for axes in (left, right):
            axes.set_xlim(1, max(len(epochs), 2))
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.grid(alpha=0.3)
        figure.savefig(path, dpi=120)


def digits() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Images (N, 1, 8, 8) between 0 and 1 with their labels: four fifths to learn from, one fifth to be tested with."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        images, labels.astype(np.int64), test_size=0.2, stratify=labels, random_state=0
    )
    return [seen, seen_labels], [unseen, unseen_labels]


def accuracy(network: nn.Module, batches: Iterable[tuple[Tensor, ...]]) -> float:
    """The share of the samples whose largest score is that of their label."""
    network.eval()
    right = total = 0
    with no_grad():
        for images, labels in batches:
            right += int((network(images).argmax(1) == labels).sum().item())
            total += len(labels)
    network.train()
    return right / total


def train(network: nn.Module, epochs: int, progress: Progress) -> History:
    """Learns with AdamW and a learning rate that falls along a cosine."""
    seen, unseen = digits()
    training, test = data.DataLoader(seen, 64, shuffle=True, seed=0), data.DataLoader(unseen, 360)
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = optim.AdamW(network.parameters(), lr=3e-3)
    schedule = optim.CosineAnnealingLR(optimizer, T_max=epochs)
    history = History()
    task = progress.add_task("", total=epochs * len(training))
    for epoch in range(1, epochs + 1):
        losses, right = [], 0
        for images, labels in training:
            scores = network(images)
            loss = loss_function(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            nn.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            losses.append(loss.item())
            right += int((scores.detach().argmax(1) == labels).sum().item())
            progress.update(task, advance=1, description=f"epoch {epoch}/{epochs}  loss {losses[-1]:.3f}")
        schedule.step()
        history.loss.append(float(np.mean(losses)))
        history.training.append(right / training.sample_count)
        history.test.append(accuracy(network, test))
    return history


def same_predictions(network: nn.Module, model: kuiperinfer.Model) -> bool:
    """Whether the engine gives every test image the class that the network gives it."""
    images, _ = digits()[1]
    network.eval()
    with no_grad():
        own = network(Tensor(images)).argmax(1).numpy()
    return bool((model(images).argmax(1) == own).all())


def main(arguments: list[str] | None = None) -> History:
    """Trains, draws, saves, exports, and runs what was exported."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--network", choices=sorted(NETWORKS), default="cnn")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=Path())
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)

    manual_seed(0)
    network = NETWORKS[options.network]()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        history = train(network, options.epochs, progress)
    print(f"{history.test[-1]:.2%} of the test images are read rightly")

    history.draw(options.folder / "digits.png")
    nn.save_weights(network, options.folder / "digits.safetensors")
    path = options.folder / "digits.pnnx.param"
    kuiperinfer.export(network, path, [(1, 1, 8, 8)], [(2, 1, 8, 8)])
    same = same_predictions(network, kuiperinfer.load(path))
    print(f"{path}: the engine's predictions are {'the same' if same else 'NOT the same'}")
    if not same:
        raise SystemExit(1)
    return history


if __name__ == "__main__":
    main()
