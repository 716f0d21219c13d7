"""Texts without the secrets that people write into them."""

from __future__ import annotations

import re

#: What stands in place of a secret.
MASK = "***"
#: What a URL has no more of.
_ENDS = (" ", "\t", "\r", "\n", "'", '"')
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
    return _NAMED.sub(rf"\g<begin>{MASK}", masked_urls(text))


def masked_urls(text: str) -> str:
    """The text with passwords in URLs replaced.

    >>> masked_urls("http://ann:s3cret@host?token=x")
    'http://ann:***@host?token=x'
    """
    *before, last = text.split("@")
    return "@".join([*map(_without_password, before), last])


def _without_password(text: str) -> str:
    """A text that ends before an @, with the password of a URL that it ends with replaced: `scheme://user:password`.

    It takes time in proportion to the text, whatever the text is; as one pattern it would not.

    >>> _without_password("at https://ann:a/b:c")
    'at https://ann:***'
    """
    begin = max(text.rfind(end) for end in _ENDS) + 1
    scheme = text.find("://", begin)
    colon = text.find(":", scheme + 3) if scheme > begin else -1
    return text if colon < 0 else f"{text[: colon + 1]}{MASK}"
