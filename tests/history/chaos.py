"""Disturb proxies while a history is made: followers stopped, delayed and killed, workers killed."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.proxy import Proxy
from tests.testbed.processes import signalled


class Chaos:
    """One thread that disturbs the given proxies at random until stopped."""

    STOP_S = 60.0

    def __init__(self, proxies: list[Proxy], *, every_s: float = 3.0, kill: bool = True) -> None:
        self.proxies, self.every_s = proxies, every_s
        self.done: Counter[str] = Counter()
        self.errors: list[str] = []
        self._actions: list[Callable[[Proxy], None]] = [self.pause_follower, self.delay_follower]
        if kill:
            self._actions += [self.kill_follower, self.kill_worker]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(self.STOP_S)
        if self._thread.is_alive():
            self.errors.append("the chaos hangs")

    def _run(self) -> None:
        while not self._stop.wait(random.random() * 2 * self.every_s):
            action, proxy = self.next_action(), random.choice(self.proxies)
            try:
                action(proxy)
            except Exception as error:  # a bug of the test itself must not pass as a quiet history
                self.errors.append(f"{action.__name__}: {type(error).__name__}: {error}")
                raise
            self.done[action.__name__] += 1

    def next_action(self) -> Callable[[Proxy], None]:
        return random.choice(self._actions)

    def _signal(self, proxy: Proxy, role: str, number: signal.Signals) -> list[int]:
        return signalled(proxy.children()[role], number)

    def pause_follower(self, proxy: Proxy) -> None:
        self._pause(proxy, random.uniform(0.3, 4.0))

    def delay_follower(self, proxy: Proxy) -> None:
        for _ in range(10):
            self._pause(proxy, random.uniform(0.01, 0.15))
            time.sleep(random.uniform(0.01, 0.1))

    def _pause(self, proxy: Proxy, seconds: float) -> None:
        for pid in self._signal(proxy, "follower", signal.SIGSTOP):
            time.sleep(seconds)
            signalled([pid], signal.SIGCONT)

    def kill_follower(self, proxy: Proxy) -> None:
        self._signal(proxy, "follower", signal.SIGKILL)

    def kill_worker(self, proxy: Proxy) -> None:
        self._signal(proxy, "worker", signal.SIGKILL)
