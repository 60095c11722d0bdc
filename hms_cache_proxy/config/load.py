"""Loads the settings; a wrong one raises an error with a text of one line.

Settings come from the TOML file, then from the environment (HMS_CACHE_PROXY_ and the key in upper case, dots as
underscores), then from the command line; the last one wins. Every ConfigError names the key and where its value came
from; for an unknown key it also names the most similar known one. The command line prints it and exits with code 2.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hms_cache_proxy.config.sections import ENV_PREFIX, Config, disagreements, settings
from hms_cache_proxy.config.urls import driver_problem, metastore_url_problem, store_url_problem
from hms_cache_proxy.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

CONFIG_FILE_VARIABLE = ENV_PREFIX + "CONFIG"
HTTP_URL_VARIABLE = ENV_PREFIX + "URL"  # where `status` looks for the proxy
ADMIN_URL_VARIABLE = ENV_PREFIX + "ADMIN_URL"  # where `flush` does
_OF_THE_CLIENT = (CONFIG_FILE_VARIABLE, HTTP_URL_VARIABLE, ADMIN_URL_VARIABLE)
_NOT_OURS = re.compile(
    ENV_PREFIX + r"(\w+_)?"
    r"(SERVICE_HOST=.*|SERVICE_PORT(_\w+)?=\d+|PORT=(tcp|udp|sctp)://.*|PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?=.*)"
)
"""NAME=VALUE as Kubernetes sets them in every pod of a namespace that has a Service named hms-cache-proxy, or
hms-cache-proxy-metrics."""


def load(
    file: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    cli: Mapping[str, object] | None = None,
) -> Config:
    """The settings of `file` (TOML), `env` and `cli` (dotted key -> value; None = not given).

    Raises ConfigError; its message is one line, which names the key and where its value came from.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if file is not None:
        values = _read_toml(Path(file))
        origins = dict.fromkeys(_dotted(values), str(file))
    for key, origin, value in [*_from_env(env or {}), *_from_cli(cli or {})]:
        *sections, name = key.split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{origins.get(section, 'configuration')}: {section}: this is a section, not a key")
        place[name] = value
        origins[key] = origin
    return _with_secrets(_validate(values, origins), origins)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from error


def _dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")


def _from_env(env: Mapping[str, str]) -> Iterator[tuple[str, str, object]]:
    known = {setting.env: setting.key for setting in settings()}
    for name, value in sorted(env.items()):
        if not name.startswith(ENV_PREFIX) or name in _OF_THE_CLIENT or value == "":
            continue
        if name in known:
            yield known[name], name, value
        elif not _NOT_OURS.fullmatch(f"{name}={value}"):
            raise ConfigError(f"{name}: unknown environment variable{_nearest(name, list(known))}")


def _from_cli(cli: Mapping[str, object]) -> Iterator[tuple[str, str, object]]:
    for key, value in cli.items():
        if value is not None:
            yield key, "--" + key.replace(".", "-").replace("_", "-"), value


def _nearest(name: str, known: list[str]) -> str:
    last = {key.rsplit(".", 1)[-1]: key for key in known}
    close = difflib.get_close_matches(name, known, 1, 0.6)
    close = close or [last[k] for k in difflib.get_close_matches(name.rsplit(".", 1)[-1], list(last), 1, 0.6)]
    return f"; did you mean {close[0]}?" if close else ""


@cache
def _adapter() -> TypeAdapter[Config]:
    from pydantic import TypeAdapter  # child processes, which get validated settings, do not need pydantic

    return TypeAdapter(Config)


def _validate(values: dict[str, Any], origins: Mapping[str, str]) -> Config:
    from pydantic import ValidationError

    _check_numbers(values, origins)
    try:
        config = _adapter().validate_python(values)
    except ValidationError as errors:
        first = errors.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"] if not isinstance(part, int) and part != "[key]")
        origin = _origin(key, origins)
        if first["type"] == "unexpected_keyword_argument":
            problem = "unknown key" + _nearest(key, [setting.key for setting in settings()])
        elif first["type"] == "dataclass_type":
            problem = f"this is a section: write [{key}] and its keys"
        else:
            problem = first["msg"].removeprefix("Value error, ")
            problem = problem[:1].lower() + problem[1:]
        raise ConfigError(f"{origin}: {key}: {problem}") from None
    for key, problem in disagreements(config):
        raise ConfigError(f"{origins.get(key, 'configuration')}: {key}: {problem}")
    return config


def _check_numbers(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Refuse values that pydantic accepts as numbers but that cannot be meant as numbers: true, infinity."""
    for key, default in ((row.key, row.default) for row in settings()):
        value: Any = values
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(default, bool) or not isinstance(default, int | float):
            continue
        if isinstance(value, bool):
            problem = f"must be a number, not {str(value).lower()}"
        elif str(value).strip().lower().lstrip("+-") in ("inf", "infinity", "nan"):
            problem = "must be a finite number"
        else:
            continue
        raise ConfigError(f"{_origin(key, origins)}: {key}: {problem}")


def _origin(key: str, origins: Mapping[str, str]) -> str:
    """Where the value of a key, or of the section around it, came from."""
    while key not in origins and "." in key:
        key = key.rpartition(".")[0]
    return origins.get(key, "configuration")


def _with_secrets(config: Config, origins: Mapping[str, str]) -> Config:
    url = _secret("store_url", config.store_url, config.store_url_file, origins)
    if url and (problem := store_url_problem(url) or driver_problem(url)):
        key = "store_url_file" if config.store_url_file else "store_url"
        raise ConfigError(f"{origins.get(key, 'configuration')}: {key}: {problem}")
    token = _secret("admin.token", config.admin.token, config.admin.token_file, origins)
    if not (token.isascii() and token.isprintable()):
        key = "admin.token_file" if config.admin.token_file else "admin.token"
        problem = "the token must be one line of ASCII characters: it is sent in a header of HTTP"
        raise ConfigError(f"{origins.get(key, 'configuration')}: {key}: {problem}")
    backing = _secret("metastore.url", config.metastore.url, config.metastore.url_file, origins)
    if backing and (problem := metastore_url_problem(backing)):
        key = "metastore.url_file" if config.metastore.url_file else "metastore.url"
        raise ConfigError(f"{origins.get(key, 'configuration')}: {key}: {problem}")
    peer_secret = _secret("peer_secret", config.peer_secret, config.peer_secret_file, origins)
    return replace(
        config,
        store_url=url,
        peer_secret=peer_secret,
        admin=replace(config.admin, token=token),
        metastore=replace(config.metastore, url=backing),
    )


def _secret(key: str, value: str, file: str, origins: Mapping[str, str]) -> str:
    """The secret, read from `file` if one is given."""
    if not file:
        return value
    origin = origins.get(f"{key}_file", "configuration")
    if value:
        raise ConfigError(f"{origin}: {key}_file: {key} is set too; set only one of them")
    try:
        content = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{origin}: {key}_file: cannot read {file}: {error}") from error
    if not content:
        raise ConfigError(f"{origin}: {key}_file: {file} is empty")
    return content
