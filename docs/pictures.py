"""`python docs/pictures.py`: takes the pictures of the status page in docs/pictures, of real proxies, light and dark.

Job: start a proxy with an embedded metastore, bring it into each state of STATES, and let a headless Chromium take the
pictures. Must not know: what the page shows. Run it when the page has changed, and look at the pictures.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # docs/ and tests/ are not installed

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient

DIRECTORY: Final = Path(__file__).parent / "pictures"
BROWSER: Final = "chromium-headless-shell"
SIZE: Final = "1120,690"
SCHEMES: Final = {"light": "1", "dark": "0"}
LOOK_S: Final = 7.0  # until the page's plots have a point
TABLES: Final = ("orders", "visits", "returns", "stock")


def serving(proxy: Proxy) -> None:
    """Clients have read tables for a while."""
    with MetastoreClient(*proxy.address) as client:
        objects.create_database(client, "sales")
        for name in TABLES:
            objects.create_table(client, objects.table("sales", name))
        for number in range(1500):
            client.get_table("sales", TABLES[number % len(TABLES)])
            time.sleep(0.01)


STATES: Final[Mapping[str, Callable[[Proxy], None]]] = {"serving": serving}


def take(proxy: Proxy, name: str) -> None:
    """The pictures of the page as it is now."""
    for scheme, setting in SCHEMES.items():
        file = DIRECTORY / f"{name}-{scheme}.png"
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE}"]
        command += ["--virtual-time-budget=4000", f"--blink-settings=preferredColorScheme={setting}"]
        url = f"http://127.0.0.1:{proxy.http_port}/"
        subprocess.run([*command, f"--screenshot={file}", url], check=True, capture_output=True, timeout=120)
        print(file.name, file.stat().st_size, "bytes")


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        proxy = Proxy(Path(directory), "", settings={"EMBEDDED": "true"}).start(prewarmed=True)
        try:
            for name, reach in STATES.items():
                reach(proxy)
                time.sleep(LOOK_S)
                take(proxy, name)
        finally:
            proxy.close()


if __name__ == "__main__":
    main()
