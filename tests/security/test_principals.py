"""Names of Kerberos, and the rules that shorten them, by the examples of Hadoop's documentation and others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.principals import Principal, ShortNames, parse_principal

REALM = "LAB.TEST"
SHORT = [
    (["DEFAULT"], "alice@LAB.TEST", "alice"),
    (["DEFAULT"], "hive/localhost@LAB.TEST", "hive"),
    (["DEFAULT"], "alice@OTHER.TEST", None),
    ([], "alice@LAB.TEST", None),
    (["RULE:[1:$1@$0](.*@OTHER.TEST)s/@.*//", "DEFAULT"], "alice@OTHER.TEST", "alice"),
    (["RULE:[1:$1@$0](.*@OTHER.TEST)s/@.*//", "DEFAULT"], "hive/host@OTHER.TEST", None),
    (["RULE:[2:$1@$0](hive@LAB.TEST)s/.*/warehouse/", "DEFAULT"], "hive/host@LAB.TEST", "warehouse"),
    (["RULE:[2:$1@$0](hive@LAB.TEST)s/.*/warehouse/", "DEFAULT"], "spark/host@LAB.TEST", "spark"),
    (["RULE:[2:$1;$2](^.*;admin$)s/;admin$//"], "joe/admin@LAB.TEST", "joe"),
    (["RULE:[2:$1;$2](^.*;admin$)s/;admin$//"], "joe/root@LAB.TEST", None),
    (["RULE:[1:$1]/L"], "Alice@OTHER.TEST", "alice"),
    (["RULE:[1:$1@$0](.*@OTHER.TEST)s/@.*///L"], "ALICE@OTHER.TEST", "alice"),
    (["RULE:[1:$1]s/[.]/_/g"], "a.b.c@LAB.TEST", "a_b_c"),
    (["RULE:[1:$1]s/[.]/_/"], "a.b.c@LAB.TEST", "a_b.c"),
    (["RULE:[1:$1]s/(.)\\.(.*)/$2$1/"], "a.smith@LAB.TEST", "smitha"),
    (["RULE:[1:$1](ali)"], "alice@LAB.TEST", None),  # the whole text must match
    (["RULE:[1:$1@$0]", "DEFAULT"], "alice@LAB.TEST", None),  # not a simple name: refused, not tried further
    (["RULE:[1:$1]s/.*//"], "alice@LAB.TEST", None),
]


@pytest.mark.parametrize(("rules", "name", "short"), SHORT)
def test_short_names(rules: list[str], name: str, short: str | None) -> None:
    assert ShortNames(rules, REALM, key="k").of(parse_principal(name)) == short


NO_RULES = ["", "default", "RULE:", "RULE:[1:$1", "RULE:[x:$1]", "RULE:[0:$0]", "RULE:[1:$2]", "RULE:[1:$1](()"]
NO_RULES += ["RULE:[1:$1]s/a/", "RULE:[1:$1]s/(/b/", "RULE:[1:$1]s/a/$1/", "RULE:[1:$1]/U", "DEFAULT DEFAULT"]


@pytest.mark.parametrize("rule", NO_RULES)
def test_what_is_not_a_rule(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"kerberos\.rules: "):
        ShortNames([rule], REALM, key="kerberos.rules")


@pytest.mark.parametrize(
    ("text", "components", "realm"),
    [
        ("alice@LAB.TEST", ("alice",), REALM),
        ("hive/host.test@LAB.TEST", ("hive", "host.test"), REALM),
        (r"a\/b/c\@d@LAB.TEST", ("a/b", "c@d"), REALM),
    ],
)
def test_names(text: str, components: tuple[str, ...], realm: str) -> None:
    assert parse_principal(text) == Principal(components, realm)


@pytest.mark.parametrize(
    "text", ["", "alice", "@LAB.TEST", "alice@", "/a@LAB.TEST", "a/@LAB.TEST", "a@B@C", "a@B/C", "\\"]
)
def test_what_is_not_a_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        parse_principal(text)


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="ab/@\\. \n$", max_size=12))
def test_any_text_is_a_name_or_a_value_error(text: str) -> None:
    names = ShortNames(["RULE:[2:$1.$2]s/a/b/g", "RULE:[1:$1@$0](.*@b)s/@.*//", "DEFAULT"], "a", key="k")
    try:
        short = names.of(parse_principal(text))
    except ValueError:
        short = None
    assert short is None or not set(short) & set("/@ \n")
