"""Short-time Fourier transforms against PyTorch; spectrograms against their definition in terms of these."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch

from kuiperinfer.errors import DTypeError, InputError, KuiperError, ModelFileError, ShapeError

from .harness import Case, check, check_like_torch, random, run

SIGNALS = {
    "vector": random(40),
    "batch": random(3, 37),
    "f64": random(2, 33, dtype=torch.float64),
    "c64": random(2, 33, dtype=torch.complex64),
    "f16": random(2, 33, dtype=torch.float16),
    "i64": random(2, 33, dtype=torch.int64),
    "short": random(7),
    "cube": random(2, 2, 40),
    "nothing": torch.zeros(2, 0),
}
WINDOW = torch.hann_window(8) + 0.1


def stft(window: Any, **params: Any) -> Any:
    def call(x: Any, w: Any = None) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.stft(x, window=w if window is not None else None, **params)

    return call


def stft_case(signal: torch.Tensor, window: torch.Tensor | None, **params: Any) -> Case:
    if window is None:
        return Case("torch.stft", stft(None, **params), [signal], {**params, "window": None}, names=["input"])
    return Case("torch.stft", stft(window, **params), [signal, window], params, names=["input", "window"])


@pytest.mark.parametrize("label", SIGNALS)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("return_complex", [True, False, None])
def test_stft(label: str, center: bool, return_complex: bool | None) -> None:
    for window, onesided, normalized in itertools.product([None, WINDOW], [None, True, False], [False, True]):
        for n_fft, hop_length in [(8, None), (11, 3), (8, 8), (16, 4)]:
            win_length = None if window is None else 8
            params = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "center": center}
            params |= {"onesided": onesided, "normalized": normalized, "return_complex": return_complex}
            check_like_torch(stft_case(SIGNALS[label], window, **params))


@pytest.mark.parametrize("pad_mode", ["reflect", "constant", "replicate", "circular", "bad"])
@pytest.mark.parametrize("n_fft", [1, 2, 8, 13, 14, 16])
def test_padding(pad_mode: str, n_fft: int) -> None:
    check_like_torch(
        stft_case(SIGNALS["short"], None, n_fft=n_fft, hop_length=1, pad_mode=pad_mode, return_complex=True)
    )


@pytest.mark.parametrize("align_to_window", [None, True, False])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n_fft", [8, 11, 16])
def test_alignment(align_to_window: bool | None, center: bool, n_fft: int) -> None:
    params = {"n_fft": n_fft, "hop_length": 5, "win_length": 8, "center": center, "align_to_window": align_to_window}
    check_like_torch(stft_case(SIGNALS["vector"], WINDOW, **params, return_complex=True))


@pytest.mark.parametrize(
    "window", [WINDOW.double(), WINDOW.to(torch.complex64), (WINDOW * 5).long(), WINDOW[:5], WINDOW[None]]
)
@pytest.mark.parametrize("label", ["vector", "f64", "c64", "f16"])
def test_windows(window: torch.Tensor, label: str) -> None:
    for onesided in (None, True, False):
        params = {"n_fft": 8, "onesided": onesided, "return_complex": True}
        check_like_torch(stft_case(SIGNALS[label], window, **params))


@pytest.mark.parametrize(
    ("n_fft", "hop_length", "win_length"), [(0, 1, 1), (8, 0, 8), (8, 2, 9), (8, 2, 0), (41, 4, 41)]
)
def test_sizes_that_do_not_fit(n_fft: int, hop_length: int, win_length: int) -> None:
    params = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "center": False}
    check_like_torch(stft_case(SIGNALS["vector"], None, **params, return_complex=True))


# ------------------------------------------------------------------------------------------- inverse


def istft_case(spectrum: torch.Tensor, window: torch.Tensor | None, **params: Any) -> Case:
    def call(x: Any, w: Any = None) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.istft(x, window=w, **params)

    if window is None:
        return Case("torch.istft", call, [spectrum], {**params, "window": None}, names=["input"])
    # With a window in double precision PyTorch still transforms in single precision.
    return Case("torch.istft", call, [spectrum, window], params, names=["input", "window"], tolerance=1e-6)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("return_complex", [False, True])
@pytest.mark.parametrize("frequencies", [5, 8])
def test_istft(center: bool, return_complex: bool, frequencies: int) -> None:
    for shape, onesided, normalized in itertools.product([(), (2,)], [None, True, False], [False, True]):
        spectrum = random(*shape, frequencies, 6, dtype=torch.complex64)
        for window, length, hop_length in itertools.product([None, WINDOW], [None, 9, 200, 0], [None, 3, 8, 9]):
            params = {"n_fft": 8, "hop_length": hop_length, "center": center, "normalized": normalized}
            params |= {"onesided": onesided, "length": length, "return_complex": return_complex}
            check_like_torch(istft_case(spectrum, window, **params))


def test_istft_of_other_dtypes_and_shapes() -> None:
    for window in (None, WINDOW, WINDOW.double(), WINDOW.to(torch.complex64), WINDOW[:6]):
        for dtype in (torch.complex64, torch.complex128, torch.float32):
            for shape in ((5, 6), (5,), (0, 5, 6), (5, 0), (1, 1, 5, 6)):
                check_like_torch(istft_case(random(*shape, dtype=dtype), window, n_fft=8))
                check_like_torch(istft_case(random(*shape, dtype=dtype), window, n_fft=8, win_length=6))
    spectrum = random(8, 6, dtype=torch.complex64)
    check(istft_case(spectrum, WINDOW.to(torch.complex64), n_fft=8, onesided=False, return_complex=True))


def test_windows_that_leave_a_sample_out() -> None:
    window = torch.zeros(8)
    window[:2] = 1.0
    check_like_torch(istft_case(random(5, 6, dtype=torch.complex64), window, n_fft=8, hop_length=3))
    with pytest.raises(InputError, match="the windows leave a sample out"):
        run(istft_case(random(5, 6, dtype=torch.complex64), window, n_fft=8, hop_length=3))


def test_the_inverse_undoes_the_transform() -> None:
    signal = random(2, 64)
    params = {"n_fft": 16, "hop_length": 4}
    spectrum = run(stft_case(signal, None, **params, return_complex=True))[0]
    back = run(istft_case(torch.from_numpy(spectrum), None, **params, length=64))[0]
    assert abs(back - signal.numpy()).max() < 1e-6


# ------------------------------------------------------------------------------------------- audio


def spectrogram(x: Any, window: Any, p: dict[str, Any]) -> Any:
    """The definition of torchaudio.functional.spectrogram."""
    flat = torch.nn.functional.pad(x.reshape(-1, x.shape[-1]), (p["pad"], p["pad"]))
    spectrum = torch.stft(
        flat, p["n_fft"], p["hop_length"], p["win_length"], window, p["center"], p["pad_mode"],
        p["normalized"] == "frame_length", p["onesided"], return_complex=True,
    )  # fmt: skip
    spectrum = spectrum.reshape(x.shape[:-1] + spectrum.shape[1:])
    if p["normalized"] in (True, "window"):
        spectrum = spectrum / window.pow(2).sum().sqrt()
    return spectrum if p["power"] is None else spectrum.abs().pow(p["power"])


@pytest.mark.parametrize("normalized", [False, True, "window", "frame_length"])
@pytest.mark.parametrize("power", [None, 1, 2, 0.5])
@pytest.mark.parametrize("shape", [(40,), (3, 40), (2, 1, 3, 40)])
def test_spectrogram(shape: tuple[int, ...], power: float | None, normalized: Any) -> None:
    for pad, onesided, center in itertools.product([0, 5], [True, False], [True, False]):
        params = {"n_fft": 16, "hop_length": 5, "win_length": 8, "pad": pad, "power": power, "normalized": normalized}
        params |= {"center": center, "onesided": onesided, "pad_mode": "reflect"}
        call = lambda x, w, p=params: spectrogram(x, w, p)  # noqa: E731
        case = Case(
            "torchaudio.functional.spectrogram", call, [random(*shape), WINDOW], params, names=["waveform", "window"]
        )
        check(case)


def inverse_spectrogram(x: Any, window: Any, p: dict[str, Any]) -> Any:
    """The definition of torchaudio.functional.inverse_spectrogram."""
    if p["normalized"] in (True, "window"):
        x = x * window.pow(2).sum().sqrt()
    length, pad = p["length"], p["pad"]
    flat = x.reshape(-1, *x.shape[-2:])
    signal = torch.istft(
        flat, p["n_fft"], p["hop_length"], p["win_length"], window, p["center"], p["normalized"] == "frame_length",
        p["onesided"], None if length is None else length + 2 * pad,
    )  # fmt: skip
    if length is not None and pad > 0:
        signal = signal[:, pad:-pad]
    return signal.reshape(x.shape[:-2] + signal.shape[-1:])


@pytest.mark.parametrize("normalized", [False, True, "window", "frame_length"])
@pytest.mark.parametrize("length", [None, 17])
@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 3)])
def test_inverse_spectrogram(shape: tuple[int, ...], length: int | None, normalized: Any) -> None:
    for pad, onesided, center in itertools.product([0, 2], [True, False], [True, False]):
        params = {"n_fft": 8, "hop_length": 3, "win_length": 8, "pad": pad, "length": length, "normalized": normalized}
        params |= {"center": center, "onesided": onesided}
        x = random(*shape, 5 if onesided else 8, 9, dtype=torch.complex64)
        call = lambda x, w, p=params: inverse_spectrogram(x, w, p)  # noqa: E731
        type_name = "torchaudio.functional.inverse_spectrogram"
        check(Case(type_name, call, [x, WINDOW], params, names=["spectrogram", "window"]))


@pytest.mark.parametrize(
    ("type_name", "params", "input", "error", "message"),
    [
        ("torch.stft", {"n_fft": 8}, random(20), ModelFileError, "'return_complex' is missing"),
        ("torch.stft", {"n_fft": 8, "hop_length": 0}, random(20), ModelFileError, "hop_length=0"),
        ("torch.stft", {"n_fft": 50, "center": False, "return_complex": True}, random(20), ShapeError, "more than the 20"),
        ("torch.stft", {"n_fft": 50, "return_complex": True}, random(20), ShapeError, "cannot pad dimension 0"),
        ("torch.stft", {"n_fft": 8, "pad_mode": "bad"}, random(20), ShapeError, "constant, reflect, replicate, circular"),
        ("torch.stft", {"n_fft": 8, "return_complex": True}, random(20, dtype=torch.int64), DTypeError, "found i64"),
        ("torch.istft", {"n_fft": 8}, random(5, 6), DTypeError, "expected complex numbers"),
        ("torch.istft", {"n_fft": 9}, random(6, 6, dtype=torch.complex64), ShapeError, "expected 5 frequencies"),
        ("torchaudio.functional.spectrogram", {"n_fft": 8, "hop_length": 2, "win_length": 8, "normalized": "no"}, random(20),
         ModelFileError, "window or frame_length, found no"),
    ],
)  # fmt: skip
def test_refuses(type_name: str, params: Any, input: Any, error: type[KuiperError], message: str) -> None:
    inputs = [input, WINDOW] if "audio" in type_name else [input]
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.stft, inputs, params))
