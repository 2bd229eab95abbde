"""Short-time Fourier transforms, their inverse, and the spectrograms of audio; calculated in double precision.

A signal is cut into overlapping frames of `n_fft` samples, one every `hop_length` (by default a quarter of a frame); each is
multiplied by the window, which has `win_length` samples (by default `n_fft`) in the middle of the frame, and transformed.
"""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import Array, TensorSpec, promote, to_complex, to_real
from ..errors import DTypeError, InputError, ModelFileError, ShapeError
from ..records import dataclass
from .base import Layer, register
from .checks import expect_dimensions
from .padding import expect_mode, pad_array, padded_shape
from .reduction import to_double
from .spectral import transformable


@dataclass(frozen=True, kw_only=True)
class _Framed(Layer):
    """What both directions share: the frames and the window."""

    n_fft: int
    hop_length: int | None = None
    win_length: int | None = None
    center: bool = True
    onesided: bool | None = None

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return self.n_fft // 4 if self.hop_length is None else self.hop_length

    @property
    def window_size(self) -> int:
        """Samples of the window."""
        return self.n_fft if self.win_length is None else self.win_length

    @property
    def margin(self) -> int:
        """Samples added at each end of a signal, so that the first frame has its middle at the first sample."""
        return self.n_fft // 2 if self.center else 0

    def expect_sizes(self, window: TensorSpec | None) -> None:
        """`ModelFileError` or `ShapeError` for sizes of frames and window that do not fit together."""
        if self.n_fft < 1 or self.hop < 1 or not 0 < self.window_size <= self.n_fft:
            raise ModelFileError(
                f"expected n_fft >= win_length >= 1 and hop_length >= 1, found n_fft={self.n_fft} "
                f"win_length={self.window_size} hop_length={self.hop}"
            )
        if window is not None and window.shape != (self.window_size,):
            raise ShapeError(f"window: expected shape ({self.window_size},), found {window.shape}")

    def full_window(self, window: Array | None) -> Array:
        """The window in double precision, with zeros on both sides up to the size of a frame."""
        samples = np.ones(self.window_size) if window is None else to_double(window)
        left = (self.n_fft - self.window_size) // 2
        return np.pad(samples, (left, self.n_fft - self.window_size - left))

    def count_frames(self, samples: int) -> int:
        """How many frames a padded signal has."""
        return 1 + (samples - self.n_fft) // self.hop


# ------------------------------------------------------------------------------------------- forward


@register("torch.stft")
@dataclass(frozen=True, kw_only=True)
class STFT(_Framed):
    """The short-time Fourier transform. torch.stft

    (L,) -> (F, T) or (B, L) -> (B, F, T), with F = n_fft // 2 + 1 frequencies, or n_fft for complex numbers and
    `onesided=False`. With `return_complex=False` a last dimension of 2 has the real and imaginary parts.
    """

    normalized: bool = False
    pad_mode: str = "reflect"
    return_complex: bool | None = None
    align_to_window: bool | None = None

    def __post_init__(self) -> None:
        expect_mode(self.pad_mode)
        if self.center and self.align_to_window is not None:
            raise ModelFileError("align_to_window goes with center=False only")

    @property
    def edges(self) -> tuple[int, int]:
        """Samples that `center` or `align_to_window` add at both ends."""
        if not self.align_to_window:
            return self.margin, self.margin
        left = (self.n_fft - self.window_size) // 2
        return left, self.n_fft - self.window_size - left

    def infer(self, input: TensorSpec, window: TensorSpec | None = None) -> TensorSpec:
        if input.ndim not in (1, 2) or 0 in input.shape:
            raise ShapeError(f"expected one signal (L,) or a batch (B, L), none of them empty, found {input.shape}")
        self.expect_sizes(window)
        if input.dtype.kind not in ("float", "complex"):
            raise DTypeError(f"expected floats or complex numbers, found {input.dtype}")
        dtype = transformable(input.dtype if window is None else promote(input.dtype, window.dtype))
        is_complex = dtype.kind == "complex"
        if is_complex and self.onesided:
            raise DTypeError(f"onesided=True: complex numbers ({dtype}) have two sides")
        if not is_complex and self.return_complex is None:
            raise ModelFileError("parameter 'return_complex' is missing")
        (samples,) = padded_shape(input.shape[-1:], (self.edges,), self._mode)
        if samples < self.n_fft:
            raise ShapeError(f"n_fft={self.n_fft} is more than the {samples} samples of the signal")
        frequencies = self._frequencies(is_complex)
        shape = (*input.shape[:-1], frequencies, self.count_frames(samples))
        if self.return_complex is False:
            return TensorSpec((*shape, 2), to_real(dtype))
        return TensorSpec(shape, to_complex(dtype))

    @property
    def _mode(self) -> str:
        """How the signal is padded: an aligned window sees zeros at both ends."""
        return self.pad_mode if self.center else "constant"

    def _frequencies(self, is_complex: bool) -> int:
        onesided = not is_complex if self.onesided is None else self.onesided
        return self.n_fft // 2 + 1 if onesided else self.n_fft

    def forward(self, input: Array, window: Array | None = None) -> Array:
        signal = pad_array(to_double(input), (*((0, 0),) * (input.ndim - 1), self.edges), self._mode)
        frames = np.lib.stride_tricks.sliding_window_view(signal, self.n_fft, axis=-1)[..., :: self.hop, :]
        weighted = frames * self.full_window(window)
        half = not np.iscomplexobj(weighted) and self._frequencies(False) <= self.n_fft // 2 + 1
        spectrum = (np.fft.rfft if half else np.fft.fft)(weighted, norm="ortho" if self.normalized else None)
        spectrum = np.swapaxes(spectrum, -1, -2)
        return np.stack([spectrum.real, spectrum.imag], axis=-1) if self.return_complex is False else spectrum


# ------------------------------------------------------------------------------------------- inverse


@register("torch.istft")
@dataclass(frozen=True, kw_only=True)
class ISTFT(_Framed):
    """The inverse of the short-time Fourier transform. torch.istft

    (F, T) -> (L,) or (B, F, T) -> (B, L) real, with `return_complex` complex: overlapping frames are added up and divided by
    the sum of the squared windows, which must not be 0 anywhere. `length` cuts or fills up the signal.
    """

    normalized: bool = False
    length: int | None = None
    return_complex: bool = False

    def infer(self, input: TensorSpec, window: TensorSpec | None = None) -> TensorSpec:
        if input.ndim not in (2, 3) or 0 in input.shape:
            raise ShapeError(
                f"expected a spectrum (F, T) or a batch (B, F, T), none of them empty, found {input.shape}"
            )
        if input.dtype.kind != "complex":
            raise DTypeError(f"expected complex numbers, found {input.dtype}")
        self.expect_sizes(window)
        if self.hop > self.window_size:
            raise ModelFileError(
                f"hop_length={self.hop} is more than win_length={self.window_size}: samples are missing"
            )
        onesided, frequencies = self._onesided(input.shape), input.shape[-2]
        expected = self.n_fft // 2 + 1 if onesided else self.n_fft
        if frequencies != expected:
            raise ShapeError(f"expected {expected} frequencies for n_fft={self.n_fft}, found shape {input.shape}")
        complex_window = window is not None and window.dtype.kind == "complex"
        if self.return_complex and onesided:
            raise DTypeError("onesided=True: complex numbers have two sides")
        if complex_window and not self.return_complex:
            raise DTypeError(f"a complex window ({window}) needs return_complex=True")
        dtype = transformable(input.dtype)
        if window is not None:
            dtype = promote(dtype, window.dtype)
        start, end = self._bounds(input.shape[-1])
        if end <= start:
            raise ShapeError(f"the signal would have {end - start} samples")
        return TensorSpec((*input.shape[:-2], end - start), dtype if self.return_complex else to_real(dtype))

    def _onesided(self, shape: tuple[int, ...]) -> bool:
        return shape[-2] != self.n_fft if self.onesided is None else self.onesided

    def _samples(self, frames: int) -> int:
        return self.n_fft + self.hop * (frames - 1)

    def _bounds(self, frames: int) -> tuple[int, int]:
        """Where the signal begins and ends among the samples of the frames; it may end behind them."""
        if self.length is not None:
            return self.margin, self.margin + self.length
        return self.margin, self._samples(frames) - self.margin

    def forward(self, input: Array, window: Array | None = None) -> Array:
        weights = self.full_window(window)
        spectrum = np.swapaxes(to_double(input), -1, -2)
        if self.return_complex:
            frames: Array = np.fft.ifft(spectrum)
        else:
            frames = np.fft.irfft(spectrum[..., : self.n_fft // 2 + 1], self.n_fft)
        if self.normalized:
            frames = frames * math.sqrt(self.n_fft)
        start, end = self._bounds(input.shape[-1])
        signal = self._overlap_add(frames * weights)[..., start:end]
        envelope = self._overlap_add(np.broadcast_to(weights * weights, frames.shape[-2:]))[start:end]
        if np.min(np.abs(envelope), initial=np.inf) < 1e-11:
            raise InputError("the windows leave a sample out: the sum of their squares is 0 there")
        missing = end - start - signal.shape[-1]
        return np.pad(signal / envelope, [(0, 0)] * (signal.ndim - 1) + [(0, missing)])

    def _overlap_add(self, frames: Array) -> Array:
        """(..., T, N) -> (..., L): the frames added up, each at its place."""
        count = frames.shape[-2]
        signal = np.zeros((*frames.shape[:-2], self._samples(count)), frames.dtype)
        for index in range(count):
            signal[..., index * self.hop : index * self.hop + self.n_fft] += frames[..., index, :]
        return signal


# ------------------------------------------------------------------------------------------- audio


def _window_norm(normalized: bool | str) -> bool:
    """Whether a spectrogram is divided by the window's norm; `frame_length` divides by sqrt(n_fft) instead."""
    if normalized not in (True, False, "window", "frame_length"):
        raise ModelFileError(f"normalized: expected True, False, window or frame_length, found {normalized}")
    return normalized in (True, "window")


@register("torchaudio.functional.spectrogram")
@dataclass(frozen=True, kw_only=True)
class Spectrogram(Layer):
    """(..., L) -> (..., F, T): the magnitude of the spectrum to the given power, or the spectrum itself for None.

    torchaudio.functional.spectrogram
    """

    ignored = frozenset({"return_complex"})

    n_fft: int
    hop_length: int
    win_length: int
    pad: int = 0
    power: float | None = 2.0
    normalized: bool | str = False
    center: bool = True
    pad_mode: str = "reflect"
    onesided: bool = True

    def __post_init__(self) -> None:
        _window_norm(self.normalized)
        if self.pad < 0:
            raise ModelFileError(f"pad: expected a number of samples, found {self.pad}")

    def _transform(self) -> STFT:
        return STFT(
            n_fft=self.n_fft,
            hop_length=self.hop_length,
            win_length=self.win_length,
            center=self.center,
            pad_mode=self.pad_mode,
            normalized=self.normalized == "frame_length",
            onesided=self.onesided,
            return_complex=True,
        )

    def infer(self, waveform: TensorSpec, window: TensorSpec) -> TensorSpec:
        expect_dimensions(waveform.shape, 1, "waveform")
        *batch, samples = waveform.shape
        flat = waveform.like((math.prod(batch), samples + 2 * self.pad))
        spectrum = self._transform().infer(flat, window)
        dtype = spectrum.dtype if self.power is None else to_real(spectrum.dtype)
        return TensorSpec((*batch, *spectrum.shape[1:]), dtype)

    def forward(self, waveform: Array, window: Array) -> Array:
        *batch, samples = waveform.shape
        padded = np.pad(waveform.reshape(-1, samples), [(0, 0), (self.pad, self.pad)])
        spectrum = self._transform().forward(padded, window)
        if _window_norm(self.normalized):
            spectrum = spectrum / np.sqrt(np.sum(to_double(window) ** 2))
        if self.power is not None:
            spectrum = np.abs(spectrum) ** self.power
        return spectrum.reshape(*batch, *spectrum.shape[1:])


@register("torchaudio.functional.inverse_spectrogram")
@dataclass(frozen=True, kw_only=True)
class InverseSpectrogram(Layer):
    """(..., F, T) complex -> (..., L): the signal of a complex spectrogram. torchaudio.functional.inverse_spectrogram"""

    ignored = frozenset({"pad_mode"})  # PyTorch's signature has it, but nothing is padded here

    n_fft: int
    hop_length: int
    win_length: int
    length: int | None = None
    pad: int = 0
    normalized: bool | str = False
    center: bool = True
    onesided: bool = True

    def __post_init__(self) -> None:
        _window_norm(self.normalized)
        if self.pad < 0:
            raise ModelFileError(f"pad: expected a number of samples, found {self.pad}")

    def _transform(self) -> ISTFT:
        return ISTFT(
            n_fft=self.n_fft,
            hop_length=self.hop_length,
            win_length=self.win_length,
            center=self.center,
            normalized=self.normalized == "frame_length",
            onesided=self.onesided,
            length=None if self.length is None else self.length + 2 * self.pad,
        )

    def infer(self, spectrogram: TensorSpec, window: TensorSpec) -> TensorSpec:
        expect_dimensions(spectrogram.shape, 2, "spectrogram")
        *batch, frequencies, frames = spectrogram.shape
        flat = spectrogram.like((math.prod(batch), frequencies, frames))
        waveform = self._transform().infer(flat, window)
        samples = waveform.shape[-1] if self.length is None else self.length
        return TensorSpec((*batch, samples), waveform.dtype)

    def forward(self, spectrogram: Array, window: Array) -> Array:
        *batch, frequencies, frames = spectrogram.shape
        spectrum = to_double(spectrogram.reshape(-1, frequencies, frames))
        if _window_norm(self.normalized):
            spectrum = spectrum * np.sqrt(np.sum(to_double(window) ** 2))
        waveform = self._transform().forward(spectrum, window)
        if self.length is not None and self.pad:
            waveform = waveform[:, self.pad : -self.pad]
        return waveform.reshape(*batch, waveform.shape[-1])
