"""Arguments of wrong types: an error of this package, whose message says what was expected."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import kuiperinfer
from kuiperinfer import tensor as kt
from kuiperinfer.errors import KuiperError
from kuiperinfer.tensor import Tensor, data, nn, optim
from kuiperinfer.tensor import functional as F
from kuiperinfer.tensor import init as initialisers

WORD: Any = "a"
FRACTION: Any = 1.5
NUMBER: Any = 5


def _image() -> Tensor:
    return kt.ones(2, 3, 4, 4)


def _conv(**how: Any) -> Any:
    return F.conv2d(_image(), kt.ones(2, 3, 2, 2), **how)


def _learnt() -> nn.Linear:
    net = nn.Linear(2, 2)
    net(kt.ones(1, 2)).sum().backward()
    return net


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.sum("a"), "expected the number of a dimension or several, found dim='a'"),
        (lambda x: x.mean(1.5), "expected the number of a dimension or several, found dim=1.5"),
        (lambda x: x.var((0, 1.5)), "found dim="),
        (lambda x: x.amax("a"), "found dim='a'"),
        (lambda x: x.max("a"), "parameter 'dim': expected .*an integer.*, found 'a'"),
        (lambda x: x.argmax(1.5), "parameter 'dim'"),
        (lambda x: x.prod("a"), "parameter 'dim'"),
        (lambda x: x.norm("a"), "norm: expected a number, found p='a'"),
        (lambda x: F.softmax(x, WORD), "F.softmax: parameter 'dim'"),
        (lambda x: x.select(0, 1.5), "select: an index is an integer, found 1.5"),
        (lambda x: x.unfold(0, 1.5, 1), "unfold: a size is an integer, found 1.5"),
        (lambda x: x.diagonal("a"), "diagonal: an offset is an integer, found 'a'"),
        (lambda x: x.split("a"), "split: expected a size or a list of sizes, found 'a'"),
        (lambda x: x.chunk("a"), "chunk: expected at least 1 chunk, found 'a'"),
        (lambda x: x.expand_as("a"), "expand_as: expected a tensor, found 'a'"),
        (lambda x: F.hardtanh(x, WORD), "'a' cannot be an argument"),
        (lambda x: x.add("a"), "'add' takes tensors and numbers, found 'a'"),
        (lambda x: x.add_("a"), "'add_' takes tensors and numbers, found 'a'"),
        (lambda x: x.lerp("a", 1), "takes tensors and numbers, found 'a'"),
        (lambda x: kt.where(WORD, x, x), "where: expected a condition of bool, found str"),
        (lambda x: x.masked_fill("a", 1), "expected a condition of bool, found str"),
        (lambda x: kt.cat(NUMBER), "cat: expected a list of tensors, found 5"),
        (lambda x: kt.cat([x], WORD), "torch.cat: parameter 'dim'"),
        (lambda x: kt.stack([x], FRACTION), "torch.stack: parameter 'dim'"),
        (lambda x: x.gather("a", kt.tensor([[0]])), "parameter 'dim'"),
        (lambda x: _conv(stride=WORD), "F.conv2d: parameter 'stride': .*an integer, found"),
        (lambda x: _conv(stride=1.5), "F.conv2d: parameter 'stride'"),
        (lambda x: _conv(dilation=None), "F.conv2d: parameter 'dilation'"),
        (lambda x: _conv(groups=WORD), "F.conv2d: parameter 'groups'"),
        (lambda x: F.max_pool2d(_image(), WORD), "F.max_pool2d: parameter 'kernel_size'"),
        (lambda x: F.avg_pool2d(_image(), FRACTION), "F.avg_pool2d: parameter 'kernel_size'"),
        (lambda x: F.adaptive_avg_pool2d(_image(), FRACTION), "F.adaptive_avg_pool2d: parameter 'output_size'"),
        (lambda x: F.pad(x, NUMBER), "F.pad: pad"),
        (lambda x: F.unfold(_image(), WORD), "F.unfold: parameter 'kernel_size'"),
        (lambda x: F.batch_norm(_image(), None, None, training=True, eps=WORD), "parameter 'eps'"),
        (lambda x: F.one_hot(kt.tensor([1]), WORD), "parameter 'num_classes'"),
        (lambda x: F.dropout(x, WORD), "dropout: p='a'; expected a probability"),
        (lambda x: F.cross_entropy(x, WORD), "cross_entropy: target: expected a tensor, found 'a'"),
        (lambda x: F.cross_entropy(x, kt.tensor([0, 1, 2]), label_smoothing=WORD), "label_smoothing='a'"),
        (lambda x: F.cross_entropy(x, kt.tensor([0, 1, 2]), reduction=NUMBER), "reduction '5' is unknown"),
        (lambda x: kt.randint("a", (2,)), "randint: expected integers, found low=0 and high='a'"),
        (lambda x: kt.randperm(WORD), "randperm: expected a count of at least 0, found 'a'"),
        (lambda x: kt.normal(WORD, 1, (2,)), "normal: expected a mean"),
        (lambda x: initialisers.uniform_(x, WORD), "uniform_: expected a <= b, found a='a'"),
        (lambda x: initialisers.normal_(x, 0, WORD), "normal_: expected a mean, and a standard deviation"),
        (lambda x: nn.Dropout(WORD), "Dropout: p='a'"),
        (lambda x: nn.Conv2d(3, 4, 0), "Conv2d: kernel_size=0; expected one integer or two, of at least 1"),
        (lambda x: nn.Conv2d(3, 4, WORD), "Conv2d: kernel_size='a'"),
        (lambda x: nn.Conv2d(3, 4, (1, 2, 3)), r"Conv2d: kernel_size=\(1, 2, 3\)"),  # type: ignore[arg-type]
        (lambda x: nn.Conv2d(3, 4, 1, 0), "Conv2d: stride=0"),
        (lambda x: nn.Conv2d(3, 4, 1, padding=-1), "Conv2d: padding=-1; expected one integer or two, of at least 0"),
        (lambda x: nn.Conv2d(3, 4, 1, dilation=0), "Conv2d: dilation=0"),
        (lambda x: nn.Conv2d(3, 4, 1, groups=WORD), "Conv2d: expected numbers of channels and groups as integers"),
        (lambda x: nn.Conv2d(3, 4, 1, padding_mode=NUMBER), "Conv2d: padding_mode '5'"),
        (lambda x: nn.clip_grad_norm_(_learnt().parameters(), WORD), "max_norm 'a'; expected a number"),
        (lambda x: nn.clip_grad_norm_(_learnt().parameters(), 1, WORD), "norm_type 'a'; expected a positive number"),
        (lambda x: nn.clip_grad_norm_(NUMBER, 1), "expected the parameters of a module .* found 5"),
        (lambda x: nn.clip_grad_value_(_learnt().parameters(), WORD), "clip_value 'a'; expected a number"),
        (lambda x: nn.Linear(2, 2).load_state_dict(NUMBER), "load_state_dict: expected a dict"),
        (lambda x: data.DataLoader(NUMBER), "DataLoader: expected samples or a list of arrays or tensors, found 5"),
        (lambda x: data.DataLoader([x], WORD), "batch_size 'a'; expected at least 1"),
        (lambda x: data.DataLoader([x], seed=WORD), "a seed is an integer"),
        (lambda x: optim.Adam(_learnt().parameters(), betas=NUMBER), "Adam: betas=5; expected two numbers"),
        (lambda x: optim.StepLR(NUMBER, 1), "StepLR: expected an optimiser, found int"),
        (lambda x: optim.StepLR(optim.SGD(_learnt().parameters(), 0.1), WORD), "step_size='a'"),
    ],
)
def test_arguments_of_other_types_are_refused(call: Any, message: str) -> None:
    with pytest.raises(KuiperError, match=message):
        call(kt.ones(3, 4))


def test_files_that_are_no_paths() -> None:
    pytest.importorskip("safetensors")
    net = nn.Linear(2, 2)
    for call in (lambda: nn.save_weights(net, NUMBER), lambda: nn.load_weights(net, FRACTION)):
        with pytest.raises(KuiperError, match="expected the path of a file, found"):
            call()
    with pytest.raises(KuiperError, match="expected a module, found 5"):
        nn.save_weights(NUMBER, "net.safetensors")


class _Broken(nn.Module):
    def forward(self, input: Tensor) -> Tensor:
        raise KeyError("missing")


def test_what_goes_wrong_within_an_exported_module_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "net.pnnx.param"
    with pytest.raises(KuiperError, match=r"^_Broken: forward\(\) raises KeyError: 'missing'") as caught:
        kuiperinfer.export(_Broken(), path, (1, 3))
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(KuiperError, match=r"^'1' \(_Broken\): forward\(\) raises KeyError"):
        kuiperinfer.export(nn.Sequential(nn.ReLU(), _Broken()), path, (1, 3))
    with pytest.raises(KuiperError, match=r"^BatchNorm2d: F.batch_norm: running_mean"):
        kuiperinfer.export(nn.BatchNorm2d(3), path, (1, 2, 2, 2))
    with pytest.raises(KuiperError, match=r"^'0' \(Linear\): "):
        kuiperinfer.export(nn.Sequential(nn.Linear(3, 2)), path, (1, 4))
    with pytest.raises(KuiperError, match=r"export: expected shapes, such as .*, found 5"):
        kuiperinfer.export(nn.ReLU(), path, NUMBER)
    assert not path.exists()
