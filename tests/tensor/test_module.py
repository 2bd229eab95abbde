"""Modules: parts by name, state, modes, text."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from kuiperinfer import InputError, nn
from kuiperinfer.tensor import Tensor, zeros


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(zeros(1))
        self.body = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.BatchNorm1d(3))
        self.heads = nn.ModuleList([nn.Linear(3, 1, bias=False), nn.Linear(3, 1)])
        self.register_buffer("steps", zeros(2))
        self.register_buffer("scratch", zeros(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.heads[0](self.body(x)) * self.scale


class TorchNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.zeros(1))
        self.body = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.BatchNorm1d(3))
        self.heads = torch.nn.ModuleList([torch.nn.Linear(3, 1, bias=False), torch.nn.Linear(3, 1)])
        self.register_buffer("steps", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)


def test_names_and_their_order_are_those_of_pytorch() -> None:
    ours, theirs = Net(), TorchNet()
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert [name for name, _ in ours.named_buffers()] == [name for name, _ in theirs.named_buffers()]
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]
    assert [name for name, _ in ours.named_children()] == [name for name, _ in theirs.named_children()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters("net", recurse=False)] == ["net.scale"]


def test_text() -> None:
    assert repr(Net()).splitlines()[:6] == [
        "Net(",
        "  (body): Sequential(",
        "    (0): Linear(in_features=2, out_features=3, bias=True)",
        "    (1): ReLU()",
        "    (2): BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
        "  )",
    ]
    assert repr(Net()) == repr(TorchNet()).replace("TorchNet", "Net")
    assert repr(nn.Sequential()) == repr(torch.nn.Sequential())


def test_assignment_registers_replaces_and_removes() -> None:
    net = Net()
    net.scale = nn.Parameter(zeros(3))
    assert dict(net.named_parameters())["scale"].shape == (3,)
    net.steps = zeros(5)
    assert dict(net.named_buffers())["steps"].shape == (5,)
    net.body = nn.Identity()
    assert not [name for name, _ in net.named_parameters() if name.startswith("body")]
    net.scale = None
    assert "scale" not in dict(net.named_parameters())
    net.extra = 3
    net.extra = nn.Linear(1, 1)
    assert "extra.weight" in dict(net.named_parameters())
    del net.extra
    assert not hasattr(net, "extra")
    net.note = "anything"
    assert net.note == "anything"
    assert "heads" in dir(net)


@pytest.mark.parametrize(("name", "value"), [("scale", 1.0), ("scale", zeros(1)), ("steps", 3), ("body", zeros(1))])
def test_a_part_cannot_become_something_else(name: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"Net\.{name} is a (parameter|buffer|module); it cannot become a"):
        setattr(Net(), name, value)


def test_attributes_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="'Net' has no attribute 'haeds'; did you mean 'heads'"):
        Net().haeds  # noqa: B018
    with pytest.raises(InputError, match=r"cannot name a module"):
        Net().add_module("a.b", nn.ReLU())


def test_forgotten_constructor_and_forward() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(1, 1)

    with pytest.raises(InputError, match=r"Forgetful: call super\(\)\.__init__\(\) before assigning 'layer'"):
        Forgetful()
    with pytest.raises(InputError, match=r"ModuleList has no forward\(\)"):
        nn.ModuleList()(1)


def test_modes_reach_all_modules() -> None:
    net = Net()
    assert all(module.training for module in net.modules())
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert net.body[2].training
    net.body.requires_grad_(False)
    assert [name for name, p in net.named_parameters() if p.requires_grad] == [
        "scale",
        "heads.0.weight",
        "heads.1.weight",
        "heads.1.bias",
    ]


def test_zero_grad() -> None:
    net = Net()
    net(Tensor(np.ones((4, 2), np.float32))).sum().backward()
    assert net.scale.grad is not None
    net.zero_grad()
    assert all(parameter.grad is None for parameter in net.parameters())


def test_apply_visits_the_inner_modules_first() -> None:
    names: list[str] = []
    net = nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.ReLU()), nn.Identity())
    assert net.apply(lambda module: names.append(type(module).__name__)) is net
    assert names == ["Linear", "ReLU", "Sequential", "Identity", "Sequential"]


def test_submodules_by_name() -> None:
    net = Net()
    assert net.get_submodule("body.0") is net.body[0]
    assert net.get_submodule("") is net
    with pytest.raises(InputError, match=r"'boddy\.0': Net has no module 'boddy'; did you mean 'body'"):
        net.get_submodule("boddy.0")


def test_shared_parts_are_walked_once_and_saved_under_both_names() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = self.a
            self.c = nn.Linear(2, 2)
            self.c.weight = self.a.weight

    net = Shared()
    assert [name for name, _ in net.named_parameters()] == ["a.weight", "a.bias", "c.bias"]
    assert list(net.state_dict()) == ["a.weight", "a.bias", "b.weight", "b.bias", "c.weight", "c.bias"]


# ------------------------------------------------------------------------------------------- state


def test_state_shares_memory_and_carries_no_history() -> None:
    net = Net()
    state = net.state_dict()
    assert not any(tensor.requires_grad for tensor in state.values())
    state["scale"].fill_(7.0)
    assert net.scale.item() == 7


def test_state_goes_from_pytorch_to_ours_and_back() -> None:
    ours, theirs = Net(), TorchNet()
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    for key, value in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[key].numpy(), value.numpy())
    theirs.load_state_dict({key: torch.from_numpy(value.numpy()) for key, value in Net().state_dict().items()})


def test_all_that_is_wrong_with_a_state_is_said_at_once_and_nothing_is_loaded() -> None:
    net = Net()
    state = {key: value.numpy() + 1 for key, value in net.state_dict().items()}
    state["body.0.weight"] = np.zeros((3, 5))
    state["heads.1.wieght"] = state.pop("heads.1.weight")
    del state["steps"]
    with pytest.raises(InputError) as caught:
        net.load_state_dict(state)
    message = str(caught.value)
    assert message.startswith("this state does not fit Net: ")
    assert "'body.0.weight': expected shape (3, 2), found (3, 5)" in message
    assert "missing 'heads.1.weight'" in message
    assert "missing 'steps'" in message
    assert "unexpected 'heads.1.wieght'; did you mean 'heads.1.weight'" in message
    assert net.scale.item() == 0
    with pytest.raises(InputError, match="expected shape"):
        net.load_state_dict(state, strict=False)
    del state["body.0.weight"]
    keys = net.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["steps", "body.0.weight", "heads.1.weight"]
    assert keys.unexpected_keys == ["heads.1.wieght"]
    assert net.scale.item() == 1


def test_loading_keeps_the_dtype_and_the_identity_of_parameters() -> None:
    layer = nn.Linear(2, 2)
    weight, address = layer.weight, layer.weight.data_ptr()
    layer.load_state_dict({"weight": np.full((2, 2), 0.5), "bias": np.array([1, 2])})
    assert layer.weight is weight
    assert weight.data_ptr() == address
    assert weight.dtype.name == "f32"
    assert layer.bias.tolist() == [1, 2]


def test_another_dtype() -> None:
    net = Net()
    weight = net.body[0].weight
    assert net.to("f64") is net
    assert net.body[0].weight is weight
    assert {value.dtype.name for key, value in net.state_dict().items() if "num" not in key} == {"f64"}
    assert net.body[2].num_batches_tracked.dtype.name == "i64"
    assert net(Tensor(np.ones((3, 2)))).dtype.name == "f64"
    with pytest.raises(InputError, match="a floating point dtype"):
        net.to("i32")


@pytest.mark.parametrize("way", ["copy", "pickle"])
def test_copies_are_independent(way: str) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    other = copy.deepcopy(net) if way == "copy" else pickle.loads(pickle.dumps(net))
    assert repr(other) == repr(net)
    assert isinstance(other[0].weight, nn.Parameter)
    assert other[0].weight.requires_grad
    before = net[0].weight.tolist()
    np.testing.assert_array_equal(other[0].weight.tolist(), before)
    other[0].weight.detach().fill_(9.0)
    assert net[0].weight.tolist() == before


# ------------------------------------------------------------------------------------------- containers


def test_sequences() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(net) == 3
    assert [type(module).__name__ for module in net] == ["Linear", "ReLU", "Linear"]
    assert net[-1] is net[2]
    assert isinstance(net[:2], nn.Sequential)
    assert len(net[:2]) == 2
    x = Tensor(np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(net[1:](net[0](x)).tolist(), net(x).tolist())
    net[1] = nn.Tanh()
    assert type(net[1]) is nn.Tanh
    net.append(nn.Sigmoid())
    assert [name for name, _ in net.named_children()] == ["0", "1", "2", "3"]
    with pytest.raises(InputError, match="no module 4; it has 4"):
        net[4]
    named = nn.Sequential({"first": nn.Linear(2, 3), "second": nn.ReLU()})
    assert [name for name, _ in named.named_children()] == ["first", "second"]
    assert named[1] is named.second
    with pytest.raises(InputError, match="expected modules, found int"):
        nn.Sequential(nn.ReLU(), 3)
    with pytest.raises(InputError, match="ModuleList: expected modules, found str"):
        nn.ModuleList(["relu"])
