"""From the numbers of a network to classes; labels; and the bundled classifier on real photographs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kuiperinfer.errors import InputError
from kuiperinfer.vision import (
    Classification,
    Classifier,
    bundled,
    bundled_classifier,
    preprocess_for,
    read_labels,
    top_classes,
)

LOGITS = np.array([[1.0, 3.0, 2.0, -1.0]], np.float32)


def test_logits_become_probabilities() -> None:
    powers = np.exp(LOGITS[0].astype(np.float64))
    found = top_classes(LOGITS, ["a", "b", "c", "d"], 2)
    assert [c.label for c in found] == ["b", "c"]
    assert [c.index for c in found] == [1, 2]
    assert [c.probability for c in found] == pytest.approx([powers[1] / powers.sum(), powers[2] / powers.sum()])


def test_probabilities_stay() -> None:
    found = top_classes(np.array([[0.1, 0.7, 0.2]], np.float32))
    assert [c.probability for c in found] == pytest.approx([0.7, 0.2, 0.1])
    assert [c.label for c in found] == ["class 1", "class 2", "class 0"]


def test_what_looks_like_probabilities_but_is_not() -> None:
    assert top_classes(np.array([0.5, 0.6], np.float32))[0].probability == pytest.approx(1 / (1 + np.exp(-0.1)))
    assert top_classes(np.array([1.5, -0.5], np.float32))[0].probability == pytest.approx(1 / (1 + np.exp(-2.0)))


def test_logarithms_of_probabilities_give_these() -> None:
    found = top_classes(np.log(np.array([0.1, 0.7, 0.2], np.float32)))
    assert found[0].probability == pytest.approx(0.7)


def test_huge_logits_do_not_overflow() -> None:
    found = top_classes(np.array([1e30, -1e30, 0.0], np.float32))
    assert found[0] == Classification(0, "class 0", 1.0)


def test_equal_ones_stand_in_order() -> None:
    assert [c.index for c in top_classes(np.zeros(6, np.float32), top=3)] == [0, 1, 2]


@pytest.mark.parametrize("shape", [(4,), (1, 4), (1, 4, 1, 1)], ids=str)
def test_forms_of_the_output(shape: tuple[int, ...]) -> None:
    assert len(top_classes(LOGITS.reshape(shape), top=10)) == 4


@pytest.mark.parametrize(
    ("scores", "labels", "complaint"),
    [
        (np.zeros((2, 4), np.float32), (), "is not one number a class"),
        (np.zeros((1, 2, 3, 3), np.float32), (), "is not one number a class"),
        (np.zeros((1, 4), np.int64), (), "is not one number a class"),
        (np.zeros((), np.float32), (), "is not one number a class"),
        (np.zeros((0,), np.float32), (), "is not one number a class"),
        (np.array([1.0, np.nan], np.float32), (), "not finite"),
        (np.array([1.0, np.inf], np.float32), (), "not finite"),
        (LOGITS, ("a", "b"), "the model has 4 classes, but there are 2 labels"),
    ],
)
def test_outputs_that_are_no_classes(scores: Any, labels: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        top_classes(scores, labels)
    with pytest.raises(InputError, match="at least 1"):
        top_classes(LOGITS, top=0)


def test_plain_data() -> None:
    found = Classification(3, "goose", 0.5)
    assert json.loads(json.dumps(found.to_dict())) == {"index": 3, "label": "goose", "probability": 0.5}


def test_a_classifier_takes_the_first_output() -> None:
    classifier = Classifier(lambda x: (LOGITS, x), preprocess_for((1, 3, 8, 8)), ("a", "b", "c", "d"))
    assert classifier(np.zeros((9, 9, 3), np.uint8), top=1)[0].label == "b"


# ------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "tench\ngoldfish\n\n"),
        ("a.txt", "\ufefftench\r\n  goldfish  "),
        ("a.json", '["tench", "goldfish"]'),
        ("a.json", '{"1": "goldfish", "0": "tench"}'),
        ("a.JSON", '{"0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"]}'),
    ],
)
def test_labels(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert read_labels(tmp_path / name) == ("tench", "goldfish")


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.txt", b"", "no labels"),
        ("a.txt", b"\n \n", "no labels"),
        ("a.txt", b"\xff\xfe", "cannot be read as labels"),
        ("a.json", b"[1, 2]", "expected a list of names"),
        ("a.json", b'"tench"', "expected a list of names"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b"[" * 100_000, "not JSON"),
        ("a.json", b'{"0": "a", "2": "b"}', "expected the keys 0 to 1; 1 is missing"),
    ],
)
def test_broken_labels(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        read_labels(tmp_path / name)


def test_missing_labels(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_labels(tmp_path / "a.txt")
    with pytest.raises(InputError, match="cannot be read as labels"):
        read_labels(tmp_path)


# ------------------------------------------------------------------------------------------- the bundled classifier


def test_the_bundled_labels() -> None:
    labels = read_labels(bundled.LABELS)
    assert len(labels) == 1000
    assert (labels[0], labels[285], labels[999]) == ("tench", "Egyptian cat", "toilet tissue")


def test_the_bundled_photograph_shows_an_egyptian_cat() -> None:
    found = bundled_classifier()(bundled.PHOTOGRAPH)
    assert [c.label for c in found[:3]] == ["Egyptian cat", "tiger cat", "tabby"]
    assert found[0].probability == pytest.approx(0.71, abs=0.03)
    assert sum(c.probability for c in found) <= 1.0
