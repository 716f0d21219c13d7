"""Texts without the secrets that people write into them."""

from __future__ import annotations

import re

#: What stands in place of a secret.
MASK = "***"
#: The password of a URL; `@` ends it, so one that holds an unescaped slash is masked as well.
_URL = re.compile(r"(?P<begin>[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@'\"]*:)(?P<secret>[^@\s'\"]+)(?=@)")
#: What follows a word that means a secret, as in `password=x`, `"token": "x"` or `sasl.password 'x'`.
_NAMED = re.compile(
    r"(?P<begin>(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)[\"']?(?:\s*[=:]\s*[\"']?|\s+[\"']))"
    r"(?P<secret>[^\s\"',;&)]+)",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """The text with passwords in URLs, and what is named a password, secret, token or key, replaced.

    >>> masked("LOAD TABLE t FROM DATABASE 'postgresql://ann:s3cret@db/x' QUERY 'q'")
    "LOAD TABLE t FROM DATABASE 'postgresql://ann:***@db/x' QUERY 'q'"
    >>> masked("postgresql://db/x?user=a&password=p4ss")
    'postgresql://db/x?user=a&password=***'
    >>> masked("SELECT token FROM t")
    'SELECT token FROM t'
    """
    return _NAMED.sub(rf"\g<begin>{MASK}", _URL.sub(rf"\g<begin>{MASK}", text))
