"""Delegation tokens: a store for other servers. This metastore issues none.

Job: carry out the calls, with their rows: DELEGATION_TOKENS, MASTER_KEYS. A metastore without Kerberos issues no
tokens: it answers get_, renew_ and cancel_delegation_token with a MetaException from a NullPointerException, and so
does this one. Source: HMSHandler and ObjectStore of 4.0. Owner: the thread of a call.
"""

from __future__ import annotations

from typing import NoReturn

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call, neither, reads, writes
from hms_cache_proxy.embedded.failures import meta, no_such_object
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.wire.spec import Struct


def refused(_call: Call, _args: Struct) -> NoReturn:
    """Refuse as a metastore without Kerberos does."""
    raise meta("java.lang.NullPointerException: this metastore is not secured, it gives out no delegation tokens")


def add_token(call: Call, args: Struct) -> bool:
    """Add a token; False, and no change, if there is one of this name."""
    if _token(call, args.token_identifier) is not None:
        return False
    row = {"TOKEN_IDENT": args.token_identifier, "TOKEN": args.delegation_token}
    call.execute(insert(T.DELEGATION_TOKENS), row)
    return True


def _token(call: Call, name: str) -> str | None:
    columns = T.DELEGATION_TOKENS.c
    row = call.execute(select(columns.TOKEN).where(columns.TOKEN_IDENT == name)).first()
    return None if row is None else row[0] or ""


def remove_token(call: Call, args: Struct) -> bool:
    """Remove a token; False if there is none."""
    columns = T.DELEGATION_TOKENS.c
    return bool(call.execute(delete(T.DELEGATION_TOKENS).where(columns.TOKEN_IDENT == args.token_identifier)).rowcount)


def get_token(call: Call, args: Struct) -> str:
    """A token; empty if there is none."""
    return _token(call, args.token_identifier) or ""


def get_all_token_identifiers(call: Call, _args: Struct) -> list[str]:
    """The names of all tokens."""
    columns = T.DELEGATION_TOKENS.c
    return [row[0] for row in call.execute(select(columns.TOKEN_IDENT).order_by(columns.TOKEN_IDENT))]


def add_master_key(call: Call, args: Struct) -> int:
    """Add a key; returns its number."""
    inserted = insert(T.MASTER_KEYS).values(MASTER_KEY=args.key).returning(T.MASTER_KEYS.c.KEY_ID)
    return int(call.execute(inserted).scalar_one())


def update_master_key(call: Call, args: Struct) -> None:
    """Replace the key of a number."""
    mine = T.MASTER_KEYS.c.KEY_ID == args.seq_number
    if not call.execute(update(T.MASTER_KEYS).where(mine).values(MASTER_KEY=args.key)).rowcount:
        raise no_such_object(f"No key found with keyId: {args.seq_number}")


def remove_master_key(call: Call, args: Struct) -> bool:
    """Remove a key; False if there is none."""
    return bool(call.execute(delete(T.MASTER_KEYS).where(T.MASTER_KEYS.c.KEY_ID == args.key_seq)).rowcount)


def get_master_keys(call: Call, _args: Struct) -> list[str]:
    """All keys."""
    columns = T.MASTER_KEYS.c
    return [row[0] for row in call.execute(select(columns.MASTER_KEY).order_by(columns.KEY_ID))]


METHODS = {
    **neither(get_delegation_token=refused, renew_delegation_token=refused, cancel_delegation_token=refused),
    **reads(get_token=get_token, get_all_token_identifiers=get_all_token_identifiers, get_master_keys=get_master_keys),
    **writes(
        add_token=add_token,
        remove_token=remove_token,
        add_master_key=add_master_key,
        update_master_key=update_master_key,
        remove_master_key=remove_master_key,
    ),
}
