"""The page in a browser: headless Chromium, driven by Selenium, at the widths of a desk and of a phone.

Set KUIPER_SCREENSHOTS to a folder to look at what the browser shows.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kuiperinfer.serve import Limits, Options, Service
from kuiperinfer.vision import bundled
from kuiperinfer.vision.bundled import PICTURES
from tests.serve import models
from tests.serve.conftest import Running
from tests.small_models import write_model

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Debian's chromium and chromium-driver")

DESK, PHONE = (1200, 1400), (390, 844)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--force-device-scale-factor=1",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield made
    made.quit()


@pytest.fixture(scope="module")
def start_bundled() -> Iterator[Callable[[str], Running]]:
    """A server of the bundled model for a job."""
    started: dict[str, Running] = {}

    def start(job: str) -> Running:
        if job not in started:
            options = Options(threads=1, workers=1, max_batch=1)
            started[job] = Running(Service({bundled.MODELS[job]: bundled.MODEL_FILES[job]}, options=options))
        return started[job]

    yield start
    for running in started.values():
        running.stop()


@pytest.fixture
def classifier(start_bundled: Callable[[str], Running]) -> Running:
    return start_bundled("classify")


def open_page(browser: Any, running: Running, size: tuple[int, int] = DESK) -> None:
    # the viewport itself, since windows have a least width
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(f"http://127.0.0.1:{running.port}/")
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".model") or token_form(browser).is_displayed())


def wait(browser: Any, condition: Callable[[], Any]) -> Any:
    return WebDriverWait(browser, 30, 0.05).until(lambda _: condition())


def token_form(browser: Any) -> Any:
    return browser.find_element(By.ID, "token-form")


def classes(browser: Any) -> list[str]:
    return [row.text for row in browser.find_elements(By.CSS_SELECTOR, ".results b")]


def message(browser: Any) -> str:
    return str(browser.find_element(By.CSS_SELECTOR, ".message").text)


def check(browser: Any, name: str) -> None:
    """Nothing is wider than the window, and the browser complained of nothing; takes a picture where that is wanted."""
    widths = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert widths[0] <= widths[1], name
    complaints = [
        entry
        for entry in browser.get_log("browser")
        if "the server responded with a status of 4" not in entry["message"]
    ]
    assert complaints == [], name
    if folder := os.environ.get("KUIPER_SCREENSHOTS"):
        browser.save_screenshot(str(Path(folder) / f"{name}.png"))


@pytest.mark.parametrize(("name", "size"), [("desk", DESK), ("phone", PHONE)])
def test_the_example(browser: Any, classifier: Running, name: str, size: tuple[int, int]) -> None:
    open_page(browser, classifier, size)
    assert browser.title == "KuiperInfer"
    assert "mobilenet_v2 version 1" in browser.find_element(By.CSS_SELECTOR, "h2").text
    assert "1 × 3 × 224 × 224" in browser.find_element(By.CSS_SELECTOR, ".tensors").text
    browser.find_element(By.CSS_SELECTOR, ".example").click()
    wait(browser, lambda: classes(browser))
    assert classes(browser)[0] == "Egyptian cat"
    assert len(classes(browser)) == 5
    image = browser.find_element(By.CSS_SELECTOR, ".stage img")
    assert image.is_displayed()
    assert image.get_property("naturalWidth") == 451
    assert "451 × 300 pixels" in browser.find_element(By.CSS_SELECTOR, "figcaption").text
    bars = [bar.size["width"] for bar in browser.find_elements(By.CSS_SELECTOR, ".bar i")]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] > 10
    wait(browser, lambda: browser.find_element(By.CSS_SELECTOR, '[data-figure="median"]').text.endswith("s"))
    check(browser, f"example_{name}")


@pytest.mark.parametrize(("job", "label"), [("detect", "face"), ("segment", "pupil")])
@pytest.mark.parametrize(("name", "size"), [("desk", DESK), ("phone", PHONE)])
def test_boxes_and_masks(
    browser: Any, start_bundled: Callable[[str], Running], job: str, label: str, name: str, size: tuple[int, int]
) -> None:
    open_page(browser, start_bundled(job), size)
    browser.find_element(By.CSS_SELECTOR, ".example").click()
    wait(browser, lambda: classes(browser))
    assert classes(browser) == [label]
    coloured = """
        const canvas = document.querySelector("canvas"), pixels = canvas.getContext("2d")
            .getImageData(0, 0, canvas.width, canvas.height).data;
        return [canvas.width, canvas.height, pixels.filter((value, at) => at % 4 == 3 && value > 0).length];"""
    width, height, count = browser.execute_script(coloured)
    assert 0.001 < count / (width * height) < 0.5
    check(browser, f"{job}_{name}")


def test_a_chosen_file_and_a_broken_one(browser: Any, classifier: Running, tmp_path: Path) -> None:
    broken, cut, empty = (tmp_path / name for name in ("broken.jpg", "cut.png", "empty.png"))
    broken.write_bytes(b"this is no picture")
    empty.write_bytes(b"")
    cut.write_bytes(bundled.PHOTOGRAPH.read_bytes()[:2000])
    open_page(browser, classifier, PHONE)
    chooser = browser.find_element(By.CSS_SELECTOR, "input[type=file]")
    chooser.send_keys(str(broken))
    wait(browser, lambda: message(browser))
    assert "no picture of a known format" in message(browser)
    check(browser, "broken_phone")
    chooser.send_keys(str(bundled.PHOTOGRAPH))
    wait(browser, lambda: classes(browser))
    assert classes(browser)[0] == "Egyptian cat"
    assert message(browser) == ""
    chooser.send_keys(str(cut))
    wait(browser, lambda: message(browser))
    assert "the picture cannot be read" in message(browser)
    assert classes(browser) == []
    assert not browser.find_element(By.CSS_SELECTOR, "figure").is_displayed()
    chooser.send_keys(str(empty))
    wait(browser, lambda: "the file is empty; expected a picture" in message(browser))


@pytest.mark.parametrize(
    ("width", "height", "shown", "size"),
    [
        (32, 32, (256, 256), DESK),
        (32, 32, (256, 256), PHONE),
        (10, 60, (40, 240), PHONE),
        (100, 100, (200, 200), PHONE),
        (200, 100, (200, 100), DESK),
        (60, 832, (30, 416), PHONE),
    ],
)
def test_small_pictures_are_enlarged(
    browser: Any,
    start_bundled: Callable[[str], Running],
    tmp_path: Path,
    width: int,
    height: int,
    shown: tuple[int, int],
    size: tuple[int, int],
) -> None:
    from PIL import Image

    with Image.open(PICTURES["detect"]) as photograph:
        photograph.convert("RGB").resize((width, height)).save(tmp_path / "small.png")
    open_page(browser, start_bundled("detect"), size)
    browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(tmp_path / "small.png"))
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".results li"))
    image, canvas = (browser.find_element(By.CSS_SELECTOR, f".stage {what}") for what in ("img", "canvas"))
    for part in ("x", "y", "width", "height"):
        assert image.rect[part] == pytest.approx(canvas.rect[part], abs=0.6)  # what is drawn lies where it belongs
    assert (image.rect["width"], image.rect["height"]) == pytest.approx(shown, abs=0.6)
    assert image.value_of_css_property("image-rendering") == ("pixelated" if shown > (width, height) else "auto")
    check(browser, f"small_{width}x{height}_{size[0]}")


def test_the_keyboard_is_enough(browser: Any, classifier: Running) -> None:
    open_page(browser, classifier)
    body = browser.find_element(By.TAG_NAME, "body")
    for _ in range(10):
        body.send_keys(Keys.TAB)
        if browser.switch_to.active_element.text == "Use the example":
            break
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait(browser, lambda: classes(browser))
    assert classes(browser)[0] == "Egyptian cat"


def test_a_token(browser: Any, start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS}, token="open sesame")
    open_page(browser, running)
    assert "Authorization" in browser.find_element(By.ID, "state").text
    browser.find_element(By.ID, "token").send_keys("open sesame", Keys.ENTER)
    wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".model"))
    assert not token_form(browser).is_displayed()
    assert "rows version 1" in browser.find_element(By.CSS_SELECTOR, "h2").text
    assert not browser.find_element(By.CSS_SELECTOR, ".try").is_displayed()  # it takes no pictures
    browser.find_element(By.LINK_TEXT, "Metrics").click()
    wait(browser, lambda: "kuiper_loaded_models 1.0" in browser.find_element(By.ID, "shown").text)
    check(browser, "token_desk")


def test_links_before_the_token(browser: Any, start: Callable[..., Running]) -> None:
    open_page(browser, start({"rows": models.ROWS}, token="open sesame"))
    browser.find_element(By.LINK_TEXT, "Models").click()
    wait(browser, lambda: "expected the header" in browser.find_element(By.ID, "shown").text)
    assert token_form(browser).is_displayed()


def test_models_come_and_go(browser: Any, start: Callable[..., Running], tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    write_model(folder, models.ROWS, name="rows")
    running = start({}, folder)
    open_page(browser, running)
    write_model(folder, models.PAIR, name="pair")
    assert running.ask("POST", "/v2/repository/models/pair/load")[0] == 200
    wait(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, ".model")) == 2)
    assert running.ask("POST", "/v2/repository/models/rows/unload")[0] == 200
    wait(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, ".model")) == 1)
    assert "pair" in browser.find_element(By.CSS_SELECTOR, "h2").text


# ------------------------------------------------------------------------------------------- without a browser


def test_what_pictures_may_be(start: Callable[..., Running]) -> None:
    running = start({"rows": models.ROWS}, limits=Limits(pixels=1000))
    status, _, content = running.ask("POST", "/pictures/rows", bundled.PHOTOGRAPH.read_bytes())
    assert (status, "is none for pictures" in content["error"]) == (404, True)


def test_a_picture_of_too_many_pixels(tmp_path: Path) -> None:
    from PIL import Image

    options = Options(threads=1, workers=1, max_batch=1, limits=Limits(pixels=100_000))
    running = Running(Service({bundled.MODEL_NAME: bundled.MODEL}, options=options))
    try:
        bomb = tmp_path / "bomb.png"
        Image.new("1", (20_000, 20_000)).save(bomb)  # some ten kilobytes
        for path in (bomb, bundled.PHOTOGRAPH):
            status, _, content = running.ask("POST", f"/pictures/{bundled.MODEL_NAME}", path.read_bytes())
            assert status == 413
            assert content["error"] == "the picture has more than 100,000 pixels, the most that this server takes"
        assert running.ask("POST", f"/pictures/{bundled.MODEL_NAME}")[0] == 400
    finally:
        running.stop()
