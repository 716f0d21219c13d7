"""Masks the secrets that people write into statements, URLs and other texts."""

from __future__ import annotations

import re

#: The replacement of a secret.
MASK = "***"
#: Characters that end a URL.
_ENDS = (" ", "\t", "\r", "\n", "'", '"')
#: A value after a word that names a secret, as in `password=x`, `"token": "x"` or `sasl.password 'x'`.
_NAMED = re.compile(
    r"(?P<begin>(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)[\"']?(?:\s*[=:]\s*[\"']?|\s+[\"']))"
    r"(?P<secret>[^\s\"',;&)]+)",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """Replaces passwords in URLs, and values after a word such as password, secret, token or api_key.

    >>> masked("LOAD TABLE t FROM DATABASE 'postgresql://ann:s3cret@db/x' QUERY 'q'")
    "LOAD TABLE t FROM DATABASE 'postgresql://ann:***@db/x' QUERY 'q'"
    >>> masked("postgresql://db/x?user=a&password=p4ss")
    'postgresql://db/x?user=a&password=***'
    >>> masked("SELECT token FROM t")
    'SELECT token FROM t'
    """
    return _NAMED.sub(rf"\g<begin>{MASK}", masked_urls(text))


def masked_urls(text: str) -> str:
    """Replaces the passwords in URLs.

    >>> masked_urls("http://ann:s3cret@host?token=x")
    'http://ann:***@host?token=x'
    """
    *before, last = text.split("@")
    return "@".join([*map(_without_password, before), last])


def _without_password(text: str) -> str:
    """Replaces the password in the piece of a text before an @, which may end with `scheme://user:password`. It takes
    linear time for any text; a regular expression would not.

    >>> _without_password("at https://ann:a/b:c")
    'at https://ann:***'
    """
    begin = max(text.rfind(end) for end in _ENDS) + 1
    scheme = text.find("://", begin)
    colon = text.find(":", scheme + 3) if scheme > begin else -1
    return text if colon < 0 else f"{text[: colon + 1]}{MASK}"
