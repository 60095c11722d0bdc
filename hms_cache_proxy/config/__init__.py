"""The settings (`sections`, `ttl`), where their values come from (`load`), files of the data directory (`paths`)."""

from hms_cache_proxy.config.address import Address
from hms_cache_proxy.config.load import ADMIN_URL_VARIABLE, CONFIG_FILE_VARIABLE, HTTP_URL_VARIABLE, load
from hms_cache_proxy.config.sections import Config, Setting, env_name, from_json, settings, to_json
from hms_cache_proxy.config.urls import mask_url

__all__ = [
    "ADMIN_URL_VARIABLE",
    "CONFIG_FILE_VARIABLE",
    "HTTP_URL_VARIABLE",
    "Address",
    "Config",
    "Setting",
    "env_name",
    "from_json",
    "load",
    "mask_url",
    "settings",
    "to_json",
]
