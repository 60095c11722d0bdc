"""`python docs/pictures.py [STATE ...]`: takes the pictures of the status page in docs/pictures, of real proxies.

Job: bring proxies in front of embedded metastores into each state of STATES, and let a headless Chromium take the
pictures, light or dark, or as wide as a phone. Must not know: what the page shows. Run it when the page has changed,
and look at the pictures. It needs `chromium-headless-shell`, and Pillow, which comes with matplotlib (extra `bench`).
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from PIL import Image
from thrift.Thrift import TApplicationException

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # docs/ and tests/ are not installed

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.processes import free_port

DIRECTORY: Final = Path(__file__).parent / "pictures"
BROWSER: Final = "chromium-headless-shell"
COLOURS: Final = 64
"""Of a picture: text and plots look the same, and the file has a third of the bytes."""
TABLES: Final = ("orders", "visits", "returns", "stock")
OLD_TABLES: Final = 60
REACHED_S: Final = 600.0
"""For a state to be reached, on a busy machine."""


class Look(NamedTuple):
    """How a browser shows the page."""

    width: int
    scheme: int  # Chromium's number of a colour scheme


LOOKS: Final = {"light": Look(1120, 1), "dark": Look(1120, 0), "phone": Look(390, 1)}
KEPT: Final[Mapping[str, Mapping[str, int]]] = {
    "fresh": {"light": 720},
    "warming": {"light": 720},
    "serving": {"light": 720, "dark": 720},
    "degraded": {"light": 720},
    "relaying": {"light": 720},
    "fleet": {"light": 930, "phone": 900},
}
"""Which pictures of a state are kept, and how high they are."""


class Scene:
    """The servers of one state."""

    def __init__(self, bed: Bed, name: str) -> None:
        self._bed, self._name = bed, name
        self._open = ExitStack()
        self._proxies = 0
        self._over = threading.Event()

    def metastore(self, old_tables: int = 0) -> Metastore:
        """An embedded one, with TABLES, and so many others."""
        metastore = self._bed.private_metastore("embedded")
        with MetastoreClient(metastore.host, metastore.port) as client:
            objects.create_database(client, "sales")
            for name in [*TABLES, *(f"old_{number:02}" for number in range(old_tables))]:
                objects.create_table(client, objects.table("sales", name))
        return metastore

    def proxy(self, upstream: str, settings: Mapping[str, str]) -> Proxy:
        """A started one."""
        self._proxies += 1
        directory = self._bed.directory / f"{self._name}-{self._proxies}"
        proxy = Proxy(directory, upstream, settings=settings)
        self._open.callback(proxy.close)
        return proxy.start()

    def before(self, metastore: Metastore) -> FaultProxy:
        """A way to a metastore that can be slow."""
        return self._open.enter_context(FaultProxy(metastore.host, metastore.port))

    def read(self, proxy: Proxy, seconds: float) -> None:
        """A client reads its tables, for so long before this returns, and after it."""
        thread = threading.Thread(target=self._keep_reading, args=(proxy,))
        self._open.callback(thread.join)
        thread.start()
        time.sleep(seconds)

    def _keep_reading(self, proxy: Proxy) -> None:
        with MetastoreClient(*proxy.address) as client:
            number = 0
            while not self._over.wait(0.02):
                client.get_table("sales", TABLES[number % len(TABLES)])
                number += 1
                if number % 50 == 0:
                    with suppress(TApplicationException):  # the metastore has ended
                        client.get_config_value("hive.metastore.warehouse.dir", "")

    def close(self) -> None:
        """End what was started here."""
        self._over.set()
        self._open.close()


def database(metastore: Metastore) -> dict[str, str]:
    """The setting of a proxy that follows it."""
    assert metastore.database is not None
    return {"STORE_URL": metastore.database.reader_url}


def fresh(scene: Scene) -> Proxy:
    """Nobody has asked it anything."""
    proxy = scene.proxy("", {"EMBEDDED": "true"})
    proxy.wait_prewarmed(REACHED_S)
    time.sleep(10)
    return proxy


def warming(scene: Scene) -> Proxy:
    """It loads tables from a metastore far away."""
    metastore = scene.metastore(OLD_TABLES)
    way = scene.before(metastore)
    way.delay(0.05)
    proxy = scene.proxy(f"thrift://{way.host}:{way.port}", {"STORE": "thrift"})
    proxy.wait(lambda: proxy.status()["prewarm"]["tables_done"] > 0, "warming", REACHED_S)
    way.delay(5)  # so that it is still warming when the pictures are taken
    return proxy


def serving(scene: Scene) -> Proxy:
    """A client reads tables."""
    metastore = scene.metastore()
    proxy = scene.proxy(metastore.uri, database(metastore))
    proxy.wait_prewarmed(REACHED_S)
    with MetastoreClient(*proxy.address) as client:
        objects.create_table(client, objects.table("sales", "new"))
        client.get_table("sales", "new")
    scene.read(proxy, 60)
    return proxy


def degraded(scene: Scene) -> Proxy:
    """The metastore has ended, its database has not."""
    metastore = scene.metastore()
    proxy = scene.proxy(metastore.uri, database(metastore))
    proxy.wait_prewarmed(REACHED_S)
    scene.read(proxy, 30)
    metastore.stop()
    with MetastoreClient(*proxy.address) as client, suppress(TApplicationException):
        objects.create_database(client, "new")
    proxy.wait(lambda: proxy.status()["upstream"]["reachable"] is False, "without a metastore", REACHED_S)
    time.sleep(15)
    return proxy


def relaying(scene: Scene) -> Proxy:
    """It has no store."""
    proxy = scene.proxy(scene.metastore().uri, {"STORE": "none"})
    scene.read(proxy, 40)
    return proxy


def fleet(scene: Scene) -> Proxy:
    """Three proxies are peers."""
    metastore = scene.metastore()
    ports = [free_port() for _ in range(3)]
    common = {"PEERS": ",".join(f"127.0.0.1:{port}" for port in ports), "PEER_SECRET": "s", **database(metastore)}
    proxies = [scene.proxy(metastore.uri, {**common, "PEER_LISTEN": f"127.0.0.1:{port}"}) for port in ports]
    for proxy in proxies:
        scene.read(proxy, 10)
    with MetastoreClient(*proxies[0].address) as client:
        objects.create_database(client, "new")
    for proxy in proxies:
        proxy.wait(lambda proxy=proxy: all(one["lease_ms"] for one in proxy.status()["peers"]), "leased", REACHED_S)
    time.sleep(10)
    return proxies[0]


STATES: Final[Mapping[str, Callable[[Scene], Proxy]]] = {
    state.__name__: state for state in (fresh, warming, serving, degraded, relaying, fleet)
}


def shrink(file: Path) -> None:
    """Keep the colours that a picture has most of, exactly."""
    with Image.open(file) as taken:
        full = taken.convert("RGB")
    colours: Any = full.getcolors(full.width * full.height)
    most = sorted(colours, reverse=True)[:COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in most for part in colour])
    full.quantize(palette=palette, dither=Image.Dither.NONE).save(file, optimize=True)


def take(proxy: Proxy, state: str, kept: Mapping[str, int]) -> None:
    """The pictures of the page as it is now."""
    for name, height in kept.items():
        file, look = DIRECTORY / f"{state}-{name}.png", LOOKS[name]
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--window-size={look.width},{height}", "--virtual-time-budget=4000"]
        command += [f"--blink-settings=preferredColorScheme={look.scheme}", f"--screenshot={file}"]
        url = f"http://127.0.0.1:{proxy.http_port}/"
        subprocess.run([*command, url], check=True, capture_output=True, timeout=REACHED_S)
        shrink(file)
        print(file.name, file.stat().st_size, "bytes", flush=True)


def main(wanted: Sequence[str]) -> None:
    """Take the pictures of these states, or of all."""
    DIRECTORY.mkdir(exist_ok=True)
    bed = Bed()
    try:
        for state in wanted or STATES:
            scene = Scene(bed, state)
            try:
                take(STATES[state](scene), state, KEPT[state])
            finally:
                scene.close()
    finally:
        bed.close()


if __name__ == "__main__":
    main(sys.argv[1:])
