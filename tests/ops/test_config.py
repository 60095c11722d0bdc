"""Settings: sources and their order, and one clear line for each thing that can be wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hms_cache_proxy.config import Address, Config, from_json, load, mask_url, settings, to_json
from hms_cache_proxy.config.selection import Selection
from hms_cache_proxy.config.urls import account_of, database_of
from hms_cache_proxy.errors import ConfigError

SHIPPED = Path(__file__).parents[2] / "conf" / "hms-cache-proxy.toml"

# (TOML text, environment, command line, key, words of the message)
WRONG = [
    ("lissten = 'a:1'", {}, {}, "lissten", "unknown key; did you mean listen?"),
    ("[follower]\npoll_interval = 3", {}, {}, "follower.poll_interval", "did you mean follower.poll_interval_min_ms?"),
    ("[folower]\nprewarm_chunk = 3", {}, {}, "folower", "unknown key"),
    ("[cache]\nmax_byte = 3", {}, {}, "cache.max_byte", "did you mean cache.max_bytes?"),
    ("max_bytes = 3", {}, {}, "max_bytes", "did you mean"),
    ("workers = 'many'", {}, {}, "workers", "valid integer"),
    ("workers = true", {}, {}, "workers", "proxy.toml: workers: must be a number, not true"),
    ("drain_timeout_s = inf", {}, {}, "drain_timeout_s", "finite number"),
    ("", {"HMS_CACHE_PROXY_DRAIN_TIMEOUT_S": "Infinity"}, {}, "drain_timeout_s", "finite number"),
    ("[ttl.kinds]\ntabel = '1s'", {}, {}, "ttl.kinds.tabel", "proxy.toml: ttl.kinds.tabel: input should be"),
    ("workers = -1", {}, {}, "workers", "greater than or equal to 0"),
    ("listen = '9083'", {}, {}, "listen", "'9083' is not HOST:PORT"),
    ("listen = 'h:99999'", {}, {}, "listen", "is not HOST:PORT"),
    ("listen = '::1:9083'", {}, {}, "listen", "is not HOST:PORT"),
    ("upstream = 'http://h:1'", {}, {}, "upstream", "only thrift://HOST:PORT"),
    ("upstream = ['thrift://h']", {}, {}, "upstream", "is not HOST:PORT"),
    ("upstream = ['metastore..example:9083']", {}, {}, "upstream", "no host can have this name"),
    ("upstream = 3", {}, {}, "upstream", "expected a list of thrift://HOST:PORT"),
    ("consistency = 'perhaps'", {}, {}, "consistency", "'eventual', 'session', 'bounded' or 'strict'"),
    ("consistency = 'bounded'", {}, {}, "max_staleness_ms", "is required with consistency = bounded"),
    ("max_staleness_ms = 5", {}, {}, "max_staleness_ms", "has no meaning without it"),
    ("consistency = 'bounded'\nmax_staleness_ms = 20000", {}, {}, "max_staleness_ms", "larger than max_unconfirmed_ms"),
    ("[follower]\npoll_interval_min_ms = 2000", {}, {}, "follower.poll_interval_min_ms", "must not be larger"),
    ("[admin]\nlisten = '0.0.0.0:9085'", {}, {}, "admin.token", "is not a loopback address"),
    ("[admin]\ntoken = 'secret t\u00fc'", {}, {}, "admin.token", "must be one line of ASCII characters"),
    ("", {"HMS_CACHE_PROXY_ADMIN_TOKEN": "secret\nx"}, {}, "admin.token", "must be one line of ASCII characters"),
    ("peers = ['a:1', 'dns+:2']", {}, {}, "peers", "'dns+:2' is neither HOST:PORT nor dns+NAME:PORT"),
    ("peers = ['a:99999']", {}, {}, "peers", "is neither HOST:PORT"),
    ("peers = ['a']\npeer_secret = 's'\npeer_listen = ':0'", {}, {}, "peer_listen", "needs a port"),
    ("peers = ['a']\npeer_secret = 's'\nstore = 'none'", {}, {}, "peers", "needs a store"),
    ("peers = ['a']\npeer_secret = 's'\npeer_listen = ':9083'", {}, {}, "http", "need four different ports"),
    ("[admin]\nlisten = '127.0.0.1:9084'", {}, {}, "http", "three different ports"),
    ("[cache]\nmax_bytes = '8 parsec'", {}, {}, "cache.max_bytes", "is not a size such as"),
    ("include = ['re:(']", {}, {}, "include", "unterminated subpattern"),
    ("include = ['a.b.c']", {}, {}, "include", "is not a glob"),
    ("cache = 3", {}, {}, "cache", "this is a section: write [cache]"),
    ("cache = 3", {"HMS_CACHE_PROXY_CACHE_MAX_BYTES": "1GiB"}, {}, "cache", "this is a section"),
    ("listen = ", {}, {}, None, "not a TOML file"),
    ("", {"HMS_CACHE_PROXY_WORKER": "3"}, {}, "HMS_CACHE_PROXY_WORKER", "did you mean HMS_CACHE_PROXY_WORKERS?"),
    ("", {"HMS_CACHE_PROXY_WORKERS": "x"}, {}, "workers", "HMS_CACHE_PROXY_WORKERS: workers: "),
    ("", {}, {"listen": "nowhere"}, "listen", "--listen: listen: "),
    ("store_url_file = '/nonexistent'", {}, {}, "store_url_file", "cannot read /nonexistent"),
    ("store_url = 'user:secret@host/db'", {}, {}, "store_url", "is not a database URL such as postgresql+psycopg2://"),
    ("store_url = 'oracle://u:secret@h/d'", {}, {}, "store_url", "has the scheme 'oracle'; supported are"),
    ("store_url = 'sqlite:///:memory:'", {}, {}, "store_url", "must give the path of an SQLite file"),
    ("store_url = 'sqlite:////d/f?mode=rw'", {}, {}, "store_url", "without options"),
    ("store_url = 'postgresql://u:secret@h:54x2/d'", {}, {}, "store_url", "has a port that is not a number"),
    ("store_url = 'mysql://secret:word/d'", {}, {}, "store_url", "has a port that is not a number"),
    ("[metastore]\nurl = 'mysql://u:secret@h/d'", {}, {}, "metastore.url", "must be the URL of an SQLite file"),
    ("[metastore]\nurl = 'postgresql://h:x/d'", {}, {}, "metastore.url", "has a port that is not a number"),
    ("ready_when = 'prewarmed'\nstore = 'none'", {}, {}, "ready_when", "cannot be prewarmed with store = none"),
    ("record_for = '8h'", {}, {}, "record_for", "has no meaning without record"),
    ("bootstrap = 's3://b'\nstore = 'thrift'\nstore_url_file = 'x'", {}, {}, "bootstrap", "needs a store_url"),
    ("bootstrap = 's3://b'\nstore = 'none'\nembedded = true", {}, {}, "bootstrap", "needs a store_url"),
    ("store_url = 'a'\nstore_url_file = 'b'", {}, {}, "store_url_file", "one of them"),
]


@pytest.mark.parametrize(("text", "env", "cli", "key", "words"), WRONG)
def test_wrong_settings_get_one_line_that_names_the_key(
    tmp_path: Path, text: str, env: dict[str, str], cli: dict[str, object], key: str | None, words: str
) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, env, cli)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message and "secret" not in message
    assert key is None or key in message
    if text and not env and not cli:
        assert message.startswith(str(file)) or key in ("max_staleness_ms", "admin.token", "http")


def test_command_line_wins_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text("workers = 1\nlisten = 'file:1'\n[cache]\nmax_bytes = '1GiB'\n[log]\nlevel = 'debug'\n")
    env = {"HMS_CACHE_PROXY_WORKERS": "2", "HMS_CACHE_PROXY_CACHE_MAX_BYTES": "2GiB", "PATH": "/bin"}
    config = load(file, env, {"workers": "3", "listen": None})
    assert config.workers == 3
    assert config.cache.max_bytes == 2 << 30
    assert config.listen == Address("file", 1)
    assert config.log.level == "debug"


def test_lists_and_addresses_from_the_environment() -> None:
    env = {
        "HMS_CACHE_PROXY_UPSTREAM": "thrift://a:9083, thrift://[::1]:9084/,c:1",
        "HMS_CACHE_PROXY_EXCLUDE": "tmp, *.staging_*",
        "HMS_CACHE_PROXY_LISTEN": ":9083",
        "HMS_CACHE_PROXY_STORE_URL": "",
    }
    config = load(None, env, {})
    assert [address.uri for address in config.upstream] == ["thrift://a:9083", "thrift://[::1]:9084", "thrift://c:1"]
    assert config.exclude == ("tmp", "*.staging_*")
    assert config.listen == Address("0.0.0.0", 9083)
    assert config.store_url == ""


@pytest.mark.parametrize("service", ["", "METRICS_", "2_", "A_B_"])  # of hms-cache-proxy, hms-cache-proxy-metrics, ...
def test_what_kubernetes_adds_to_the_environment_is_ignored(service: str) -> None:
    name = f"HMS_CACHE_PROXY_{service}"
    env = {
        f"{name}SERVICE_HOST": "10.0.0.1",
        f"{name}SERVICE_PORT": "9083",
        f"{name}SERVICE_PORT_THRIFT": "9083",
        f"{name}PORT": "tcp://10.0.0.1:9083",
        f"{name}PORT_9083_TCP": "tcp://10.0.0.1:9083",
        f"{name}PORT_9083_TCP_PROTO": "tcp",
        f"{name}PORT_9083_TCP_PORT": "9083",
        f"{name}PORT_9083_TCP_ADDR": "10.0.0.1",
        "HMS_CACHE_PROXY_CONFIG": "/x",
    }
    assert load(None, env, {}) == Config()


@pytest.mark.parametrize("name", ["PORT", "LISTEN_PORT", "PORT_9083", "KERBEROS_SERVICE_NAME"])
def test_what_only_looks_like_it_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"HMS_CACHE_PROXY_{name}: unknown environment variable"):
        load(None, {f"HMS_CACHE_PROXY_{name}": "9083"}, {})


def test_secrets_come_from_files_and_are_never_shown(tmp_path: Path) -> None:
    url, token = tmp_path / "url", tmp_path / "token"
    url.write_text("postgresql+psycopg2://reader:geheim@db/hive?sslpassword=verborgen\n")
    token.write_text("hush\n")
    config = load(None, {}, {"store_url_file": str(url), "admin.token_file": str(token)})
    assert config.store_url == "postgresql+psycopg2://reader:geheim@db/hive?sslpassword=verborgen"
    assert config.admin.token == "hush"
    for text in (repr(config), str(config), str(config.shown())):
        assert not any(secret in text for secret in ("geheim", "verborgen", "hush"))
    assert config.shown()["store_url"] == "postgresql+psycopg2://reader:***@db/hive?sslpassword=***"


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p@ss:w@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("thrift://h:9083", "thrift://h:9083"),
        ("(connecting to mysql://u:p@h failed) see a@b", "(connecting to mysql://u:***@h failed) see a@b"),
        ("mysql://h/d?user=u&password=p", "mysql://h/d?user=u&password=***"),
    ],
)
def test_passwords_are_masked(url: str, masked: str) -> None:
    assert mask_url(url) == masked


def test_passwords_in_other_urls_are_not_shown_either() -> None:
    given = {"security.transports": "http", "http_transport.jwks": "https://proxy:geheim@issuer.example/keys"}
    assert load(None, {}, given).shown()["http_transport"]["jwks"] == "https://proxy:***@issuer.example/keys"


@pytest.mark.parametrize("password", ["a b", "p[w", "p]w:5", "a\tb"])
def test_a_password_may_have_any_letter(password: str) -> None:
    url = f"postgresql://the%20reader:{password}@h:5/d?password=x y"
    config = load(None, {}, {"store_url": url, "metastore.url": url})
    shown = config.shown()
    assert shown["store_url"] == shown["metastore"]["url"] == "postgresql://the%20reader:***@h:5/d?password=***"
    assert (account_of(url), database_of(url)) == ("the reader", "d")


def test_an_option_of_a_url_may_have_an_at_sign() -> None:
    url = "postgresql://reader:geheim@h:5/hms?application_name=proxy@etl"
    assert (account_of(url), database_of(url)) == ("reader", "hms")


def test_the_child_gets_the_same_settings() -> None:
    config = load(
        None,
        {},
        {
            "upstream": "thrift://[::1]:1",
            "store_url": "mysql://u:p@h",
            "admin.token": "t",
            "http": ":0",
            "ttl.ttl": "never",
            "ttl.kinds": {"roles": {"ttl": "1m"}},
            "ttl.tables": [{"pattern": "a.b", "ttl": "2s"}],
        },
    )
    assert config.ttl.policy("table", [(b"a", b"b")]).ttl_s == 2
    assert from_json(to_json(config)) == config


def test_the_shipped_file_has_every_key_and_shows_the_defaults() -> None:
    text = SHIPPED.read_text()
    config = load(SHIPPED, {}, {})
    assert config == Config(upstream=config.upstream)
    section, shown = "", {}
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]") + "."
        elif line.lstrip("#")[:1].isalpha() and " = " in line and not line.startswith("# "):
            name, _, value = line.lstrip("#").partition(" = ")
            shown[section + name] = tomllib.loads(f"x = {value}")["x"]
    defaults = {setting.key for setting in settings()}
    assert set(shown) == defaults
    examples = {"upstream", "max_staleness_ms"}  # no defaults
    values = {key: value for key, value in shown.items() if key not in examples}
    assert load(None, {}, dict(values)) == Config()


@pytest.mark.parametrize(
    ("include", "exclude", "name", "admitted"),
    [
        ([], [], "a.b", True),
        (["sales.*"], [], "sales.x", True),
        (["sales.*"], [], "sales2.x", False),
        (["sales"], [], "sales.x", True),
        (["Sales.X*"], [], "sales.xyz", True),
        (["re:s[ab]\\.t.*"], [], "sb.t1", True),
        (["re:s"], [], "sb.t1", False),
        ([], ["*.tmp_*"], "a.tmp_1", False),
        (["a"], ["a.b"], "a.b", False),
        (["a"], ["a.b"], "a.c", True),
        (["*.*"], [], "a.b.c", True),
    ],
)
def test_selection(include: list[str], exclude: list[str], name: str, admitted: bool) -> None:
    database, _, table = name.encode().partition(b".")
    assert Selection(include, exclude).admits(database, table) is admitted


def test_peers() -> None:
    config = load(None, {"HMS_CACHE_PROXY_PEERS": "a, [::1]:7,dns+b:8"}, {"peer_secret": "hush"})
    assert config.peers == ("a:9086", "[::1]:7", "dns+b:8")
    assert "hush" not in repr(config) + str(config.shown())
    assert from_json(to_json(config)) == config
    assert load(None, {}, {"peers": "127.0.0.1:1,localhost:2", "peer_listen": "127.0.0.1:1"}).peer_secret == ""
    for peers, listen in (("a", "127.0.0.1:1"), ("127.0.0.1:1", "0.0.0.0:1")):
        with pytest.raises(ConfigError, match="peer_secret: is required with peers, unless"):
            load(None, {}, {"peers": peers, "peer_listen": listen})
