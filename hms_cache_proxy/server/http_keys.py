"""Follows the keys that sign tokens (`http_transport.jwks`): a file that changes, or a URL that is read again.

Job: give new keys to the worker's WebTokens. A key set that cannot be read or used changes nothing; this is logged and
counted. A URL is read at the start, every `jwks_refresh_s`, and soon after a token has named an unknown key. Must not
know: tokens. Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import aiohttp
import structlog

from hms_cache_proxy.config.http_transport import HttpTransportSection, is_url
from hms_cache_proxy.errors import ConfigError, WireError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.web_tokens import SigningKey, TokenRefused, WebTokens, parse_keys, read_keys

FETCH_S: Final = 10.0
AGAIN_S: Final = 5.0  # the least time between two reads of the URL
SET_BYTES: Final = 1 << 20

log = structlog.get_logger()


class HttpKeys:
    """`file` is what Reloading follows; None if the keys are at a URL."""

    def __init__(self, settings: HttpTransportSection, metrics: WorkerMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._wanted = asyncio.Event()
        self.tokens = WebTokens(settings)
        self.file: Renewable[Sequence[SigningKey]] | None = None
        if not is_url(settings.jwks):
            self.file = Renewable(self._from_file, [settings.jwks])

    def refused(self, error: WireError) -> None:
        """A token was refused: for an unknown key, newer keys are fetched."""
        if isinstance(error, TokenRefused) and error.unknown_key:
            self._wanted.set()

    async def run(self) -> None:
        """Read the URL again and again, forever."""
        while self.file is None:
            self._wanted.clear()
            await self._fetch()
            await asyncio.sleep(AGAIN_S)
            try:
                async with asyncio.timeout(max(0.0, self._settings.jwks_refresh_s - AGAIN_S)):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    def _from_file(self) -> Sequence[SigningKey]:
        keys = read_keys(self._settings.jwks)
        self.tokens.use(keys)
        return keys

    async def _fetch(self) -> None:
        url = self._settings.jwks
        try:
            async with asyncio.timeout(FETCH_S):
                text = await _read(url)
            keys = parse_keys(text, url)
        except (aiohttp.ClientError, OSError, ConfigError) as error:  # TimeoutError is an OSError
            self._metrics.reloaded("jwks", well=False)
            problem = str(error) or type(error).__name__
            log.error("cannot read the keys of tokens: the old ones stay in use", url=url, error=problem)
            return
        if keys_text(keys) != keys_text(self.tokens.keys):
            self.tokens.use(keys)
            log.info("keys of tokens", url=url, keys=len(keys))
        self._metrics.reloaded("jwks", well=True)


async def _read(url: str) -> bytes:
    text = b""
    async with aiohttp.ClientSession() as session, session.get(url, allow_redirects=False) as answer:
        async for piece in answer.content.iter_any():
            text += piece
            if len(text) > SET_BYTES:
                break
        if answer.status != HTTPStatus.OK or len(text) > SET_BYTES:
            why = f"http_transport.jwks: {url}: status {answer.status}, {len(text)} bytes"
            raise ConfigError(why)
    return text


def keys_text(keys: Sequence[SigningKey]) -> list[tuple[str | None, bytes]]:
    """Something that is equal for equal keys."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return [(key.kid, key.key.public_bytes(*form)) for key in keys]
