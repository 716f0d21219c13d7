"""Converts the proxy settings of the environment to Java options."""

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from operators.core.errors import ConfigError


def proxy_options(environ: Mapping[str, str]) -> list[str]:
    """Java options for HTTPS_PROXY, HTTP_PROXY and NO_PROXY, upper or lower case.

    User and password are always set in the options for http, because Ivy reads only these.

    >>> proxy_options({"https_proxy": "http://gate:3128", "NO_PROXY": "localhost,.corp"})
    ['-Dhttps.proxyHost=gate', '-Dhttps.proxyPort=3128', '-Dhttp.nonProxyHosts=localhost|*.corp']
    """
    options = [
        option for scheme in ("https", "http") for option in _scheme_options(scheme, _get(environ, f"{scheme}_proxy"))
    ]
    bypass = _get(environ, "no_proxy")
    return [*options, f"-Dhttp.nonProxyHosts={_bypassed(bypass)}"] if options and bypass else options


def _get(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _scheme_options(scheme: str, url: str) -> list[str]:
    if not url:
        return []
    parts = urlsplit(url if "//" in url else f"//{url}")
    if not parts.hostname:
        raise ConfigError(f'{scheme.upper()}_PROXY is "{url}", which has no host', hint="write it as http://host:port")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    options = [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={port}"]
    if parts.username:
        options += [
            f"-Dhttp.proxyUser={unquote(parts.username)}",
            f"-Dhttp.proxyPassword={unquote(parts.password or '')}",
            "-Djdk.http.auth.tunneling.disabledSchemes=",
        ]
    return options


def _bypassed(no_proxy: str) -> str:
    names = [name.strip() for name in no_proxy.split(",") if name.strip()]
    return "|".join(f"*{name}" if name.startswith(".") else name for name in names)
