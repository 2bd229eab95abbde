"""Data to learn from: readers for MNIST and CIFAR-10, and batches of anything."""

from .batches import DataLoader as DataLoader
from .samples import Samples as Samples
from .samples import read_cifar10 as read_cifar10
from .samples import read_idx as read_idx
from .samples import read_mnist as read_mnist

__all__ = ["DataLoader", "Samples", "read_cifar10", "read_idx", "read_mnist"]
