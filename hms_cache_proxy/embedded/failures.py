"""The exceptions that the interface declares, by name.

Job: `raise no_such_object("...")` in a handler; the service finds the field of the method's result that has this type.
Must not know: calls, the database.
"""

from __future__ import annotations


class Failure(Exception):
    """A declared exception of the interface; `kind` is its name in the IDL, `message` its text."""

    def __init__(self, kind: str, message: str | None) -> None:
        super().__init__(f"{kind}(message:{message})")
        self.kind = kind
        self.message = message


def internal(message: str) -> Failure:
    """For a Java exception that Hive does not declare: the answer is an internal error."""
    return Failure("RuntimeException", message)


def no_such_object(message: str) -> Failure:
    """NoSuchObjectException."""
    return Failure("NoSuchObjectException", message)


def invalid_object(message: str) -> Failure:
    """InvalidObjectException."""
    return Failure("InvalidObjectException", message)


def already_exists(message: str) -> Failure:
    """AlreadyExistsException."""
    return Failure("AlreadyExistsException", message)


def invalid_operation(message: str) -> Failure:
    """InvalidOperationException."""
    return Failure("InvalidOperationException", message)


def invalid_input(message: str) -> Failure:
    """InvalidInputException."""
    return Failure("InvalidInputException", message)


def meta(message: str) -> Failure:
    """MetaException."""
    return Failure("MetaException", message)


def unknown_db(message: str) -> Failure:
    """UnknownDBException."""
    return Failure("UnknownDBException", message)


def unknown_table(message: str) -> Failure:
    """UnknownTableException."""
    return Failure("UnknownTableException", message)
