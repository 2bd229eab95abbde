"""The commands as a user meets them: what they print, and their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer.cli import main
from kuiperinfer.cli.array_files import read_archive, write_archive
from kuiperinfer.cli.commands import COMMANDS
from kuiperinfer.vision import bundled
from tests.small_models import CONVOLUTION, LINEAR, TWO_WAYS, UNKNOWN, weights_of, write_model


def write_outputs(folder: Path, x: Any) -> Path:
    weights = weights_of(LINEAR)
    y = np.maximum(x @ weights["fc.weight"].T + weights["fc.bias"], 0)
    write_archive(folder / "expected.npz", {"out0": y.astype(np.float32)})
    return folder / "expected.npz"


X = np.random.default_rng(7).standard_normal((2, 4)).astype(np.float32)

# ------------------------------------------------------------------------------------------- the group


def test_version_and_help(kuiper: Any) -> None:
    assert kuiper("--version") == (0, f"kuiper {kuiperinfer.__version__}\n", "")
    code, out, _ = kuiper("--help")
    assert code == 0
    for name in COMMANDS:
        assert f"  {name} " in out
        code, page, _ = kuiper(name, "-h")
        assert code == 0
        assert page.startswith(f"Usage: kuiper {name} ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["inof"], "there is no command 'inof'; did you mean 'info'?"),
        (["info"], "Missing argument 'MODEL'"),
        (["info", "--jason", "x"], "No such option"),
        (["--wat"], "No such option"),
        (["conformance", ".", "--engine", "warp"], "'warp' is not"),
    ],
    ids=str,
)
def test_mistakes_in_the_arguments(kuiper: Any, arguments: list[str], complaint: str) -> None:
    code, out, err = kuiper(*arguments)
    assert code == 2
    assert out == ""
    assert complaint in err


@pytest.mark.parametrize("command", ["info", "check", "run", "graph", "bench", "profile", "compare", "memory"])
def test_a_model_that_is_none(kuiper: Any, tmp_path: Path, command: str) -> None:
    for name, content in (("missing", None), ("empty", b""), ("text", b"hello\n"), ("binary", b"\xff\x00\x1b[31m" * 9)):
        path = tmp_path / f"{name}.pnnx.param"
        if content is not None:
            path.write_bytes(content)
        code, out, err = kuiper(command, path)
        assert code == 1
        assert out == ""
        assert err.startswith("error: ")
        assert str(path) in err
        assert "\x1b" not in err


def test_our_own_mistakes_are_told_apart(kuiper: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(path: Path) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("kuiperinfer.cli.graph.model_file", broken)
    code, _, err = kuiper("graph", tmp_path)
    assert code == 70
    assert "internal error: ZeroDivisionError: oh" in err
    assert "KUIPER_DEBUG=1" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_full_device_is_an_error_and_no_mistake_of_ours() -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "kuiperinfer", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environment(),
        )
    assert (result.returncode, result.stderr) == (1, "error: the results cannot be written (No space left on device)\n")


def test_closed_streams_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, None)
    assert main(["doctor", "--json"]) == 0


def test_without_click_and_rich_the_extra_is_named(tmp_path: Path) -> None:
    check = (
        "import sys; sys.modules.update(click=None, rich=None)\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name: None if name in ('click', 'rich') else find(name)\n"
        "from kuiperinfer.cli import main; sys.exit(main(['info', 'x']))"
    )
    result = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=False, env=environment()
    )
    assert result.returncode == 1
    assert result.stderr == "kuiper needs click and rich, which is not installed: pip install 'kuiperinfer[cli]'\n"


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **changes}


def test_the_module_is_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "kuiperinfer", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert result.stdout == f"kuiper {kuiperinfer.__version__}\n"


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    path = write_model(tmp_path, LINEAR)
    command = f"{sys.executable} -m kuiperinfer graph --json {path} | head -c 1"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, env=environment())
    assert result.stdout == "{"
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["classify"], b"#####"),
        (["info", str(bundled.MODEL)], b"1 x 3 x 224 x 224"),
        (["graph", str(bundled.MODEL)], b"%0: (1,3"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_where_only_ascii_can_be_shown(arguments: list[str], shown: bytes) -> None:
    command = [sys.executable, "-m", "kuiperinfer", *arguments]
    result = subprocess.run(command, capture_output=True, check=True, env=environment(PYTHONIOENCODING="ascii"))
    assert shown in result.stdout
    assert result.stdout.isascii()


def test_pictures_need_pillow(kuiper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuiperinfer.cli.extras.missing_modules", lambda extra: ["PIL"] if extra == "image" else [])
    code, _, err = kuiper("classify")
    assert code == 1
    assert err == "error: kuiper classify needs PIL: pip install 'kuiperinfer[image]'\n"


# ------------------------------------------------------------------------------------------- info


def test_info(kuiper: Any, tmp_path: Path) -> None:
    code, out, _ = kuiper("info", write_model(tmp_path, LINEAR))
    assert code == 0
    for part in ("pnnx_input_0", "2 × 4", "pnnx_output_0", "2 × 3", "nn.Linear", "F.relu", "15", "60 B", "24"):
        assert part in out
    assert "\x1b" not in out


def test_info_for_scripts(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, LINEAR)
    code, out, _ = kuiper("info", path, "--json")
    assert code == 0
    assert json.loads(out) == {
        "model": str(path),
        "inputs": [{"name": "pnnx_input_0", "shape": [2, 4], "dtype": "f32"}],
        "outputs": [{"name": "pnnx_output_0", "shape": [2, 3], "dtype": "f32"}],
        "operators": {"F.relu": 1, "nn.Linear": 1, "pnnx.Input": 1, "pnnx.Output": 1},
        "parameters": 15,
        "weight_bytes": 60,
        "input_shapes": {"pnnx_input_0": [2, 4]},
        "multiply_adds": 24,
        "peak_activation_bytes": 56,
        "peak_activation_operator": "fc",
        "problem": None,
    }


def test_info_of_a_model_with_open_dimensions(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, CONVOLUTION)
    code, out, _ = kuiper("info", path)
    assert code == 0
    assert "1 × 3 × ? × ?" in out
    assert "unknown: the shape of input pnnx_input_0: (1,3,?,?)f32 is not complete" in out
    code, out, _ = kuiper("info", path, "--json", "--shape", "1,3,32,16")
    assert code == 0
    assert json.loads(out)["multiply_adds"] == 16 * 8 * 8 * 27
    code, out, err = kuiper("info", path, "--shape", "1,4,32,16")
    assert code == 1
    assert "operator 'conv'" in err


def test_info_of_a_model_that_is_not_supported(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, UNKNOWN)
    code, out, _ = kuiper("info", path)
    assert code == 0
    assert "unknown: nn.Relu, my.Thing not supported, see kuiper check" in out
    data = json.loads(kuiper("info", path, "--json")[1])
    assert data["operators"] == {"nn.Relu": 2, "my.Thing": 1, "pnnx.Input": 1, "pnnx.Output": 1}
    assert data["inputs"] == [{"name": "pnnx_input_0", "shape": [3], "dtype": "f32"}]
    assert data["outputs"] == [{"name": "pnnx_output_0", "shape": [3], "dtype": "f32"}]
    assert data["multiply_adds"] is None


# ------------------------------------------------------------------------------------------- check


def test_check_of_a_model_that_runs(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, LINEAR)
    code, out, _ = kuiper("check", path)
    assert code == 0
    assert "supported" in out
    assert "2 × 3" in out
    code, out, _ = kuiper("check", path, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["supported"] is True
    assert data["differences"] == []
    assert data["outputs"] == [{"name": "pnnx_output_0", "shape": [2, 3], "dtype": "f32"}]


def test_check_names_all_unsupported_operators(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, UNKNOWN)
    code, out, _ = kuiper("check", path)
    assert code == 2
    assert "2 operator types unknown" in out
    assert "nn.ReLU" in out
    assert "my.Thing" in out
    code, out, _ = kuiper("check", path, "--json")
    assert code == 2
    data = json.loads(out)
    assert data["supported"] is False
    assert [(row["type"], row["count"], row["operators"]) for row in data["unsupported"]] == [
        ("nn.Relu", 2, ["a", "b"]),
        ("my.Thing", 1, ["c"]),
    ]
    assert "nn.ReLU" in data["unsupported"][0]["nearest"]


def test_check_tells_where_shapes_differ_from_the_file(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, LINEAR.replace("(2,3)f32", "(2,5)f32"))
    code, out, _ = kuiper("check", path)
    assert code == 0
    assert "shape differs: operand '1' of operator 'fc' (nn.Linear): the file says (2,5), found (2,3)f32" in out


def test_the_other_commands_name_unsupported_operators_too(kuiper: Any, tmp_path: Path) -> None:
    code, _, err = kuiper("run", write_model(tmp_path, UNKNOWN))
    assert code == 1
    assert "my.Thing" in err
    assert "nn.Relu" in err


# ------------------------------------------------------------------------------------------- run


def test_run_on_an_archive(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, LINEAR)
    expected = write_outputs(tmp_path, X)
    for name in ("in0", "pnnx_input_0"):
        write_archive(tmp_path / "inputs.npz", {name: X})
        code, out, _ = kuiper("run", path, tmp_path / "inputs.npz", "-o", tmp_path / "y.npz", "--assert", expected)
        assert code == 0
        assert "as expected" in out
        found = read_archive(tmp_path / "y.npz")
        assert list(found) == ["out0"]
        np.testing.assert_allclose(found["out0"], read_archive(expected)["out0"], rtol=1e-5)


def test_run_on_single_arrays_in_order_and_by_name(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, TWO_WAYS)
    a, b = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    write_archive(tmp_path / "both.npz", {"in1": b, "in0": a})
    for given in (
        [tmp_path / "a.npy", tmp_path / "b.npy"],
        [f"right={tmp_path}/b.npy", tmp_path / "a.npy"],
        [tmp_path / "both.npz"],
    ):
        code, out, _ = kuiper("run", path, *given, "--json", "-o", tmp_path / "y.npz")
        assert code == 0
        outputs = json.loads(out)["outputs"]
        assert [(o["shape"], o["dtype"], o["min"], o["max"], o["mean"]) for o in outputs] == [
            ([3], "f32", 5.0, 9.0, 7.0),
            ([3], "f32", 4.0, 18.0, pytest.approx(32 / 3)),
        ]
        found = read_archive(tmp_path / "y.npz")
        np.testing.assert_array_equal(found["out0"], a + b)
        np.testing.assert_array_equal(found["out1"], a * b)


def test_run_on_random_inputs(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, CONVOLUTION)
    first = kuiper("run", path, "--shape", "1,3,9,9", "--json")
    second = kuiper("run", path, "--shape", "1,3,9,9", "--json")
    other = kuiper("run", path, "--shape", "1,3,9,9", "--json", "--seed", "1")
    means = [json.loads(out)["outputs"][0]["mean"] for code, out, _ in (first, second, other) if code == 0]
    assert len(means) == 3
    assert means[0] == means[1] != means[2]
    assert json.loads(other[1])["random_seed"] == 1
    code, _, err = kuiper("run", path)
    assert code == 2
    assert "give it with --shape" in err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--shape", "banana"], "--shape: 'banana': expected whole numbers"),
        (["--shape", "1,3"], "--shape: input 'pnnx_input_0' has 4 dimensions"),
        (["--shape", "1,3,9,9", "--shape", "1"], "--shape: 1: the model has only 1 input"),
        (["--shape", "x=1,3,9,9"], "--shape: x=1,3,9,9: there is no input 'x', only pnnx_input_0"),
        (["--shape", "pnnx_input_0=1,3,9,9"] * 2, "--shape: pnnx_input_0=1,3,9,9: input 'pnnx_input_0' has a shape"),
        (["a.npy", "--shape", "1,3,9,9"], "--shape: it is for random inputs"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--tol", "nan", "--assert", "x.npz"], "expected a number, found 'nan'"),
        (["--tol", "1"], "it goes with --assert"),
        (["a.npy", "b.npy"], "INPUT: b.npy: the model has only 1 input"),
    ],
    ids=str,
)
def test_run_with_mistakes_in_the_arguments(
    kuiper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], complaint: str
) -> None:
    path = write_model(tmp_path, CONVOLUTION)
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.zeros((1, 3, 9, 9), np.float32))
    code, out, err = kuiper("run", path, *options)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: kuiper run ")
    assert complaint in err


def test_run_that_gives_something_else(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, LINEAR)
    write_archive(tmp_path / "in.npz", {"in0": X})
    expected = write_outputs(tmp_path, X * 1.001)
    code, out, _ = kuiper("run", path, tmp_path / "in.npz", "--assert", expected)
    assert code == 1
    assert "exceeds 1e-05" in out
    code, out, _ = kuiper("run", path, tmp_path / "in.npz", "--assert", expected, "--json")
    assert code == 1
    assert json.loads(out)["outputs"][0]["ok"] is False
    assert kuiper("run", path, tmp_path / "in.npz", "--assert", expected, "--tol", "0.1")[0] == 0


@pytest.mark.parametrize(
    ("given", "exit_code", "complaint"),
    [
        (["missing.npz"], 1, "no such file"),
        (["in.npz", "in.npz"], 1, "given twice"),
        (["a.npy"], 1, "no array for input right"),
        (["a.npy", "a.npy", "a.npy"], 2, "the model has only 2 inputs"),
        (["left=missing.npy"], 1, "no such file"),
        (["lift=a.npy"], 2, "there is no input 'lift', only left, right; did you mean 'left'?"),
        (["bad.npz"], 1, "there is no input 'lift', only left, right; did you mean 'left'?"),
        (["matrix.npy", "a.npy"], 1, "input 'left'"),
    ],
    ids=str,
)
def test_run_on_inputs_that_do_not_fit(
    kuiper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], exit_code: int, complaint: str
) -> None:
    path = write_model(tmp_path, TWO_WAYS)
    monkeypatch.chdir(tmp_path)
    a = np.zeros(3, np.float32)
    np.save("a.npy", a)
    np.save("matrix.npy", np.zeros((3, 3), np.float32))
    write_archive(Path("in.npz"), {"in0": a, "in1": a})
    write_archive(Path("bad.npz"), {"lift": a, "right": a})
    code, out, err = kuiper("run", path, *given)
    assert code == exit_code
    assert out == ""
    assert complaint in err


def test_run_on_bit_patterns(kuiper: Any, tmp_path: Path) -> None:
    """bf16 goes in and comes out as uint16, since NumPy files know no bf16."""
    text = LINEAR.splitlines()
    lines = [
        text[0],
        "3 2",
        text[2],
        "F.relu relu 1 1 0 2 #0=(2,4)f32 #2=(2,4)f32",
        "pnnx.Output out 1 0 2 #2=(2,4)f32",
        "",
    ]
    path = write_model(tmp_path, "\n".join(lines).replace("f32", "bf16"))
    bits = np.array([[0x3F80, 0xBF80, 0x0000, 0x7F80]] * 2, np.uint16)
    write_archive(tmp_path / "in.npz", {"in0": bits})
    write_archive(tmp_path / "expected.npz", {"out0": np.where(bits == 0xBF80, 0, bits).astype(np.uint16)})
    code, out, _ = kuiper(
        "run", path, tmp_path / "in.npz", "-o", tmp_path / "y.npz", "--assert", tmp_path / "expected.npz", "--json"
    )
    assert code == 0
    (fact,) = json.loads(out)["outputs"]
    assert (fact["dtype"], fact["max"], fact["mean"], fact["ok"]) == ("bf16", "Infinity", "Infinity", True)
    assert read_archive(tmp_path / "y.npz")["out0"].tolist() == [[0x3F80, 0, 0, 0x7F80]] * 2


# ------------------------------------------------------------------------------------------- graph


def test_graph_as_text_is_the_printed_form(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, LINEAR)
    code, out, _ = kuiper("graph", path)
    assert code == 0
    assert out == f"{kuiperinfer.load(path).graph}\n"


def test_graph_of_unknown_operators(kuiper: Any, tmp_path: Path) -> None:
    code, out, _ = kuiper("graph", write_model(tmp_path, UNKNOWN))
    assert code == 0
    assert "my.Thing c(%2)" in out


def test_graph_for_scripts(kuiper: Any, tmp_path: Path) -> None:
    code, out, _ = kuiper("graph", write_model(tmp_path, LINEAR), "--json")
    data = json.loads(out)
    assert code == 0
    assert data["operators"][1]["params"] == {"bias": "True", "in_features": "4", "out_features": "3"}
    assert data["operators"][1]["weights"]["weight"] == {"shape": [3, 4], "dtype": "f32"}
    assert data["operands"][2] == {"name": "2", "shape": [2, 3], "dtype": "f32"}


def test_the_name_of_the_file_chooses_the_format(kuiper: Any, tmp_path: Path) -> None:
    path = write_model(tmp_path, LINEAR)
    for name, start in (("a.svg", "<svg "), ("a.dot", "digraph model {"), ("a.txt", "%0: (2,4)f32 = pnnx.Input")):
        assert kuiper("graph", path, "-o", tmp_path / name) == (0, "", "")
        assert (tmp_path / name).read_text("utf-8").startswith(start)
    code, _, err = kuiper("graph", path, "-o", tmp_path / "a.png")
    assert code == 2
    assert "dot -Tpng" in err
    code, _, err = kuiper("graph", path, "-o", tmp_path / "missing" / "a.svg")
    assert code == 1
    assert "cannot be written" in err


# ------------------------------------------------------------------------------------------- conformance


def write_case(folder: Path, factor: float = 1.0) -> None:
    write_model(folder, LINEAR)
    write_archive(folder / "inputs.npz", {"in0": X})
    write_outputs(folder, X * np.float32(factor)).rename(folder / "outputs.npz")


def test_conformance(kuiper: Any, tmp_path: Path) -> None:
    write_case(tmp_path / "a_right")
    code, out, _ = kuiper("conformance", tmp_path)
    assert code == 0
    assert out.splitlines()[-1] == "1 passed, 0 failed"
    write_case(tmp_path / "b_wrong", 1.01)
    write_model(tmp_path / "c_unknown", UNKNOWN)
    write_archive(tmp_path / "c_unknown" / "inputs.npz", {"in0": X})
    code, out, _ = kuiper("conformance", tmp_path, "--engine", "reference", "--json", tmp_path / "r.json")
    assert code == 1
    lines = out.splitlines()
    assert lines[-1] == "1 passed, 2 failed"
    assert any("a_right" in line and "1e-05" in line for line in lines)
    assert any("out0: error 9." in line and "exceeds 1e-05" in line for line in lines)
    assert any("my.Thing" in line for line in lines)
    data = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert (data["engine"], data["passed"], data["failed"]) == ("reference", 1, 2)
    assert [case["ok"] for case in data["cases"]] == [True, False, False]
    assert data["cases"][1]["outputs"][0]["error"] == pytest.approx(0.01, rel=0.1)


def test_conformance_by_each_engine(kuiper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of the option runs, whatever the setting is; the setting is as before afterwards."""
    used = []
    monkeypatch.setattr("kuiperinfer.runtime.load", lambda path: lambda x: used.append(kuiperinfer.settings.engine))
    write_case(tmp_path)
    before = kuiperinfer.settings.engine
    for engine in ("reference", "compiled"):
        kuiper("conformance", tmp_path, "--engine", engine)
    assert used == ["reference", "compiled"]
    assert kuiperinfer.settings.engine == before


def test_conformance_on_some_cases(kuiper: Any, tmp_path: Path) -> None:
    write_case(tmp_path / "a_right")
    write_case(tmp_path / "b_wrong", 1.01)
    assert kuiper("conformance", tmp_path, "--only", "a_*")[0] == 0
    code, out, _ = kuiper("conformance", tmp_path, "--only", "a_*", "--only", "b_*", "--json", "-")
    assert code == 1
    assert json.loads(out)["failed"] == 1
    code, _, err = kuiper("conformance", tmp_path, "--only", "q")
    assert code == 2
    assert "none of the 2 cases matches q" in err
    assert kuiper("conformance", tmp_path / "a_right")[0] == 0


# ------------------------------------------------------------------------------------------- doctor


def test_doctor(kuiper: Any) -> None:
    code, out, _ = kuiper("doctor")
    assert code == 0
    for part in ("versions", "numpy", "llvmlite", "machine", "cores", "extras", "self-test passed"):
        assert part in out


def test_doctor_for_scripts(kuiper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUIPER_DEBUG", "0")
    code, out, _ = kuiper("doctor", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["versions"]["numpy"] == np.__version__
    assert data["settings"]["KUIPER_DEBUG"] == "0"
    assert data["extras"]["cli"] == []
    assert data["self_test"]["ok"] is True
    assert data["machine"]["usable_cores"] >= 1


def test_doctor_finds_a_broken_installation(kuiper: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kuiperinfer.vision.bundled.MODEL", tmp_path / "gone.pnnx.param")
    code, out, _ = kuiper("doctor")
    assert code == 1
    assert "self-test failed  ModelFileError" in out
