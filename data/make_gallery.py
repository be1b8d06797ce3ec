"""Every picture and the page's top on one contact sheet, to look at after a change.

python data/make_gallery.py [FILE]

Draws each kind of `oracle plot` on the shipped sample and writes `oracle report` of it; where Chromium, its driver and
selenium are there, the page is photographed at 1280 and 400 pixels, light and dark.  The default file is
data/results/gallery.html, of at most a megabyte.
"""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image

from analysis.report.markup import figure, join, tag
from oracle.commands.plot import KINDS
from oracle.records.whole import write_whole

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "data" / "sample"
LIMIT = 1_000_000  # bytes
QUALITIES = (85, 70, 55, 40, 25)  # of WebP, tried in this order until the sheet is small enough
SCREENS = ((1280, 1300), (400, 1700))  # width and height of what is photographed, pixels
SCHEMES = ("light", "dark")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    "--disable-dev-shm-usage",
)
STYLE = """
body { font-family: system-ui, sans-serif; margin: 1rem; background: #eee; color: #222; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; padding: 0.6rem; background: #fff; } img { display: block; max-width: 100%; margin: auto; }
figcaption { margin-top: 0.4rem; font-family: monospace; }
"""


def main(out: Path) -> None:
    """Make the sheet."""
    with tempfile.TemporaryDirectory() as folder:
        pictures = [*plots(Path(folder)), *photographs(page(Path(folder)), Path(folder))]
        html = sheet(pictures)
    write_whole(out, lambda temporary: temporary.write_text(html, encoding="utf-8"))
    print(f"{out}: {len(pictures)} pictures, {len(html):,} bytes")


def plots(folder: Path) -> Iterator[tuple[str, Image.Image]]:
    """Each kind of `oracle plot` on the sample, and what it is called."""
    for kind in KINDS:
        file = folder / f"{kind}.png"
        run("plot", str(SAMPLE), kind, "-o", str(file), "--dpi", "110")
        yield f"oracle plot {kind}", Image.open(file)


def page(folder: Path) -> Path:
    """The report of the sample."""
    file = folder / "report.html"
    run("report", str(SAMPLE), "-o", str(file))
    return file


def run(*words: str) -> None:
    """Run a command of the toolkit; RuntimeError with what it said where it fails."""
    done = subprocess.run([sys.executable, "-m", "oracle", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"oracle {' '.join(words)}: {done.stderr.strip()}")


def photographs(address: Path, folder: Path) -> Iterator[tuple[str, Image.Image]]:
    """The top of the page on each screen in each scheme; none where there is no browser, which is said."""
    browser, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        webdriver = None
    if not (browser and driver and webdriver):
        print("No photographs of the page: Chromium, chromedriver or selenium is missing.", file=sys.stderr)
        return
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        started.get(address.as_uri())
        for width, height in SCREENS:
            for scheme in SCHEMES:
                yield f"oracle report, {width} pixels, {scheme}", _photograph(started, width, height, scheme)
    finally:
        started.quit()


def _photograph(driver, width: int, height: int, scheme: str) -> Image.Image:
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    found = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    return Image.open(io.BytesIO(base64.b64decode(found["data"])))


def sheet(pictures: Sequence[tuple[str, Image.Image]], limit: int = LIMIT) -> str:
    """The pictures with their names as one page, in the best quality that keeps it within ``limit`` bytes.

    Raises RuntimeError where none does.
    """
    for quality in QUALITIES:
        figures = [figure(_webp(image, quality), "image/webp", name, name) for name, image in pictures]
        html = (
            '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>Gallery</title><style>{STYLE}</style>{tag('main', join(figures))}</html>\n"
        )
        if len(html.encode("utf-8")) <= limit:
            return html
    raise RuntimeError(f"{len(pictures)} pictures do not fit into {limit:,} bytes; draw them smaller")


def _webp(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "WEBP", quality=quality)
    return buffer.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "data" / "results" / "gallery.html")
