"""The first screen of a report as a picture: python -m tests.report.first_screen REPORT PICTURE.

1280 x 800 pixels, light: the form of docs/first-screens.
"""

import base64
import sys
from pathlib import Path

from tests.browser import chromium


def picture(page: Path, width: int = 1280, height: int = 800) -> bytes:
    with chromium() as browser:
        browser.open(page.resolve(), width, height)
        return base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"])


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(picture(Path(sys.argv[1])))
