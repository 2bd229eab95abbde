"""The Open Inference Protocol as Triton's own client speaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kuiperinfer
from kuiperinfer.dtypes import dtype_from_name
from kuiperinfer.version import __version__
from tests.serve import models
from tests.serve.connection import Connection
from tests.small_models import LINEAR, write_model

http = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
from tritonclient.utils import InferenceServerException  # noqa: E402


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models: one of each element type, one of two versions, one that cannot be read, one of two outputs."""
    folder = tmp_path_factory.mktemp("repository")
    for dtype in models.DATATYPES:
        write_model(folder, models.flip(dtype), name=f"flip_{dtype}")
    write_model(folder / "rows" / "1", models.ROWS)
    write_model(folder / "rows" / "10", models.ROWS.replace("2.0", "3.0"))
    write_model(folder / "pair", models.PAIR)
    write_model(folder / "separate", models.SEPARATE)
    write_model(folder / "linear", LINEAR)
    (folder / "broken").mkdir()
    (folder / "broken" / "model.pnnx.param").write_text("7767517\nnonsense")
    return folder


@pytest.fixture(scope="module")
def port(repository: Path) -> Iterator[int]:
    from kuiperinfer.serve import Options, Service
    from tests.serve.conftest import Running

    running = Running(Service({}, repository, Options(threads=1, workers=1)))
    yield running.port
    running.stop()


@pytest.fixture
def client(port: int) -> Iterator[Any]:
    made = http.InferenceServerClient(f"127.0.0.1:{port}")
    yield made
    made.close()


def model_input(name: str, array: np.ndarray[Any, Any], datatype: str, *, binary: bool = True) -> Any:
    made = http.InferInput(name, list(array.shape), datatype)
    return made.set_data_from_numpy(array, binary_data=binary)


# ------------------------------------------------------------------------------------------- health and metadata


def test_health(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("rows")
    assert client.is_model_ready("rows", "10")
    assert not client.is_model_ready("rows", "2")
    assert not client.is_model_ready("nothing")


def test_server_metadata(client: Any) -> None:
    found = client.get_server_metadata()
    assert found == {
        "name": "kuiperinfer",
        "version": __version__,
        "extensions": ["binary_tensor_data", "model_repository"],
    }


def test_model_metadata(client: Any) -> None:
    found = client.get_model_metadata("pair")
    assert found["name"] == "pair"
    assert found["versions"] == ["1"]
    assert found["platform"] == "kuiperinfer_pnnx"
    # rows are free: the model was seen to give the same answers for batches
    assert found["inputs"] == [{"name": n, "datatype": "FP32", "shape": [-1, 3]} for n in ("left", "right")]
    assert found["outputs"] == [{"name": n, "datatype": "FP32", "shape": [-1, 3]} for n in ("y.0", "y.1")]
    assert client.get_model_metadata("rows")["versions"] == ["1", "10"]
    assert client.get_model_metadata("linear")["inputs"][0]["shape"] == [2, 4]


def test_models_as_kserve_lists_them(port: int) -> None:
    with Connection(port) as connection:
        status, _, content = connection.ask("GET", "/v2/models")
    assert status == 200
    assert content["models"] == sorted(content["models"])
    assert {"rows", "pair", "flip_f32"} <= set(content["models"])
    assert "broken" not in content["models"]


# ------------------------------------------------------------------------------------------- inference

VALUES = np.array([[0, 1, 2, 3]])


@pytest.mark.parametrize("binary_output", [True, False])
@pytest.mark.parametrize("binary_input", [True, False])
@pytest.mark.parametrize("dtype", models.DATATYPES)
def test_every_element_type(client: Any, dtype: str, binary_input: bool, binary_output: bool) -> None:
    if dtype in ("f16", "bf16") and not binary_input:
        pytest.skip("Triton's client sends FP16 and BF16 in binary form only")
    array = VALUES.astype(ml_dtypes.bfloat16 if dtype == "bf16" else dtype_from_name(dtype).storage)
    datatype = models.DATATYPES[dtype]
    asked = [model_input("x", array, datatype, binary=binary_input)]
    outputs = [http.InferRequestedOutput("y", binary_data=binary_output)]
    found = client.infer(f"flip_{dtype}", asked, outputs=outputs)
    answer = found.as_numpy("y")
    assert answer.dtype == array.dtype
    np.testing.assert_array_equal(answer.astype(np.float64), array[:, ::-1].astype(np.float64))
    assert found.get_output("y")["datatype"] == datatype


def test_answers_are_those_of_the_model_bit_for_bit(client: Any, repository: Path) -> None:
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    model = kuiperinfer.load(repository / "linear" / "model.pnnx.param")
    for binary in (True, False):
        outputs = [http.InferRequestedOutput("pnnx_output_0", binary_data=binary)]
        found = client.infer("linear", [model_input("pnnx_input_0", x, "FP32", binary=binary)], outputs=outputs)
        assert found.as_numpy("pnnx_output_0").tobytes() == np.asarray(model(x)).tobytes()


def test_several_inputs_and_outputs_in_any_order(client: Any) -> None:
    left, right = np.array([[1, 2, 3]], np.float32), np.array([[10, 20, 30]], np.float32)
    asked = [model_input("right", right, "FP32"), model_input("left", left, "FP32", binary=False)]
    outputs = [http.InferRequestedOutput("y.1"), http.InferRequestedOutput("y.0", binary_data=False)]
    found = client.infer("pair", asked, outputs=outputs, request_id="nr. 7")
    np.testing.assert_array_equal(found.as_numpy("y.0"), left + right)
    np.testing.assert_array_equal(found.as_numpy("y.1"), left * right)
    response = found.get_response()
    assert response["id"] == "nr. 7"
    assert response["model_name"] == "pair"
    assert response["model_version"] == "1"
    assert [output["name"] for output in response["outputs"]] == ["y.1", "y.0"]
    only = client.infer("pair", asked, outputs=[http.InferRequestedOutput("y.0")]).get_response()
    assert [output["name"] for output in only["outputs"]] == ["y.0"]


def test_versions(client: Any) -> None:
    x = np.array([[1, 2, 3]], np.float32)
    for version, factor in (("1", 2), ("10", 3), ("", 3)):
        found = client.infer("rows", [model_input("x", x, "FP32")], model_version=version)
        np.testing.assert_array_equal(found.as_numpy("y"), factor * x + 1)
        assert found.get_response()["model_version"] == (version or "10")


def test_any_number_of_rows(client: Any) -> None:
    x = np.arange(33, dtype=np.float32).reshape(11, 3)
    found = client.infer("rows", [model_input("x", x, "FP32")])
    np.testing.assert_array_equal(found.as_numpy("y"), 3 * x + 1)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("rows", "other_rows"), [(0, 0), (0, 2), (5, 2), (3, 3), (40, 1)])
def test_inputs_of_independent_numbers_of_rows(
    client: Any, repository: Path, rows: int, other_rows: int, binary: bool
) -> None:
    generator = np.random.default_rng(3)
    x, y = (generator.standard_normal(shape).astype(np.float32) for shape in ((rows, 3), (other_rows, 2)))
    asked = [model_input("left", x, "FP32", binary=binary), model_input("right", y, "FP32", binary=binary)]
    outputs = [http.InferRequestedOutput(name, binary_data=binary) for name in ("y.0", "y.1")]
    found = client.infer("separate", asked, outputs=outputs)
    expected = kuiperinfer.load(repository / "separate" / "model.pnnx.param")(x, y)
    for output, array in zip(outputs, expected, strict=True):
        answer = found.as_numpy(output.name())
        assert (answer.shape, answer.tobytes()) == (array.shape, np.asarray(array).tobytes())


def test_much_json(client: Any) -> None:
    x = np.random.default_rng(2).standard_normal((5000, 3)).astype(np.float32)
    outputs = [http.InferRequestedOutput("y", binary_data=False)]
    found = client.infer("rows", [model_input("x", x, "FP32", binary=False)], outputs=outputs)
    assert found.as_numpy("y").tobytes() == (3 * x + 1).tobytes()


def test_many_requests_at_once(port: int) -> None:
    with http.InferenceServerClient(f"127.0.0.1:{port}", concurrency=16) as client:
        xs = [np.full((1 + number % 3, 3), number, np.float32) for number in range(100)]
        waiting = [
            client.async_infer("rows", [model_input("x", x, "FP32")], request_id=f"{i}") for i, x in enumerate(xs)
        ]
        for number, (x, asked) in enumerate(zip(xs, waiting, strict=True)):
            found = asked.get_result()
            assert found.get_response()["id"] == (str(number) if number else "0")
            np.testing.assert_array_equal(found.as_numpy("y"), 3 * x + 1)


# ------------------------------------------------------------------------------------------- the repository


def test_index_load_and_unload(client: Any) -> None:
    index = {(row["name"], row["version"]): row for row in client.get_model_repository_index()}
    assert index["rows", "1"]["state"] == index["rows", "10"]["state"] == "READY"
    assert index["broken", "1"]["state"] == "UNAVAILABLE"
    assert "model.pnnx.param:2" in index["broken", "1"]["reason"]

    client.unload_model("pair")
    assert not client.is_model_ready("pair")
    index = {row["name"]: row for row in client.get_model_repository_index()}
    assert (index["pair"]["state"], index["pair"]["reason"]) == ("UNAVAILABLE", "unloaded")
    with pytest.raises(InferenceServerException, match="version 1 of model 'pair' is not loaded: unloaded"):
        client.infer("pair", [])
    client.load_model("pair")
    assert client.is_model_ready("pair")
    assert client.is_server_ready()


def test_a_model_that_comes_later(client: Any, repository: Path) -> None:
    with pytest.raises(InferenceServerException, match="there is no model 'later' to load"):
        client.load_model("later")
    write_model(repository, models.ROWS, name="later")
    client.load_model("later")
    x = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(client.infer("later", [model_input("x", x, "FP32")]).as_numpy("y"), 2 * x + 1)
    write_model(repository, models.ROWS.replace("2.0", "5.0"), name="later")
    client.load_model("later")  # anew
    np.testing.assert_array_equal(client.infer("later", [model_input("x", x, "FP32")]).as_numpy("y"), 5 * x + 1)


@pytest.mark.parametrize("name", ["../rows", "..", "%2e%2e%2frows", "/etc/passwd", "rows/1"])
def test_names_are_no_paths(client: Any, name: str) -> None:
    with pytest.raises(InferenceServerException) as caught:
        client.load_model(name)
    assert caught.value.status() in ("400", "404")


def test_what_a_client_brings_along_is_not_loaded(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="parameter 'config' is not supported"):
        client.load_model("rows", config="{}")


def test_a_model_that_cannot_be_loaded(client: Any, repository: Path) -> None:
    with pytest.raises(InferenceServerException, match="model 'broken' cannot be loaded") as caught:
        client.load_model("broken")
    assert caught.value.status() == "400"
    assert str(repository) not in caught.value.message()


# ------------------------------------------------------------------------------------------- errors


def test_errors(client: Any) -> None:
    x = np.zeros((1, 3), np.float32)

    def infer(name: str, array: np.ndarray[Any, Any], datatype: str, model: str = "rows", **more: Any) -> None:
        client.infer(model, [model_input(name, array, datatype)], **more)

    cases: list[tuple[Callable[[], None], str, str]] = [
        (lambda: infer("x", x, "FP32", "row"), "404", "no model 'row' here.*did you mean 'rows'"),
        (lambda: infer("x", x, "FP32", model_version="3"), "404", "model 'rows' has no version '3', only 1, 10"),
        (lambda: infer("xx", x, "FP32"), "400", "no input 'xx'; the inputs are x; did you mean 'x'"),
        (lambda: infer("left", x, "FP32", "pair"), "400", "input 'right' is missing; the inputs are left, right"),
        (lambda: infer("x", np.zeros((1, 4), np.float32), "FP32"), "400", r"expected shape \[-1, 3\].*found \[1, 4\]"),
        (lambda: infer("x", np.zeros((3,), np.float32), "FP32"), "400", r"expected shape \[-1, 3\].*found \[3\]"),
        (lambda: infer("x", x.astype(np.float64), "FP64"), "400", "expected datatype FP32, found FP64"),
        (lambda: infer("x", np.array([["a", "b", "c"]], object), "BYTES"), "400", "datatype BYTES is not supported"),
        (lambda: infer("x", x, "FP32", outputs=[http.InferRequestedOutput("z")]), "400", "the outputs are y"),
        (
            lambda: infer("x", x, "FP32", outputs=[http.InferRequestedOutput("y", class_count=2)]),
            "400",
            "classification extension is not supported",
        ),
        (lambda: infer("x", x, "FP32", sequence_id=1), "400", "sequences are not supported"),
        (lambda: infer("x", x, "FP32", request_compression_algorithm="gzip"), "415", "'gzip' is not supported"),
    ]
    for action, status, message in cases:
        with pytest.raises(InferenceServerException, match=message) as caught:
            action()
        assert caught.value.status() == status


def test_what_json_cannot_carry(client: Any) -> None:
    x = np.array([[np.inf, 1, 2]], np.float32)
    asked = [model_input("x", x, "FP32")]
    with pytest.raises(InferenceServerException, match=r"output 'y' has NaN or infinity in it.*binary_data"):
        client.infer("rows", asked, outputs=[http.InferRequestedOutput("y", binary_data=False)])
    np.testing.assert_array_equal(client.infer("rows", asked).as_numpy("y"), 3 * x + 1)
