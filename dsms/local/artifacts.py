"""Fetches the broker's jars once from a Maven repository; later they are taken from the cache.

The resolver is Ivy, which comes with PySpark, so only Java must be installed. Jars are fetched into a temporary
directory that is renamed when it is complete; so a cache entry has all jars, or does not exist.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from dsms.local.java_proxy import proxy_options
from dsms.local.versions import Artifact, versions
from operators.core.errors import ConfigError, ExternalError

ERROR_LINES = 8

Report = Callable[[str], None]


def silent(_: str) -> None:
    """Discards a line of progress."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """Fetches artifacts from a Maven repository into a cache; proxies and mirrors are taken from the environment."""

    java: Path
    cache: Path
    environ: Mapping[str, str]

    def broker_jars(self, report: Report = silent) -> Path:
        """The directory of the broker's jars; fetches them unless they are in the cache."""
        kafka = versions().kafka
        target = self.cache / "jars" / f"{kafka.module}-{kafka.revision}"
        if not target.is_dir():
            report(f"downloading {kafka} to {self.cache} (only once, about 45 MB)")
            self._fetch((kafka, versions().kafka_logging), target, report)
        return target

    def _fetch(self, artifacts: Iterable[Artifact], target: Path, report: Report) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as name:
            work = Path(name)
            (work / "jars").mkdir()
            (work / "ivy.xml").write_text(_ivy_module(artifacts), "utf-8")
            self._run_ivy(work, report)
            _publish(work / "jars", target)

    def _run_ivy(self, work: Path, report: Report) -> None:
        command = [str(self.java), f"@{_java_options(work, self.environ)}", "-jar", str(_ivy_jar())]
        command += ["-cache", str(self.cache / "ivy"), "-ivy", str(work / "ivy.xml"), "-confs", "default"]
        command += ["-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"]
        command += _settings(work, self.environ)
        lines: list[str] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
            try:
                assert ivy.stdout is not None
                for line in ivy.stdout:
                    lines.append(line.rstrip())
                    _report_progress(line, report)
            except BaseException:
                ivy.kill()
                raise
        if ivy.returncode != 0 or not any((work / "jars").iterdir()):
            raise ExternalError("could not download the kafka broker from the maven repository", hint=_why(lines))


def cache_dir(environ: Mapping[str, str]) -> Path:
    """The directory of downloaded programs: DSMS_CACHE, otherwise `dsms` in the user's cache directory.

    >>> cache_dir({"DSMS_CACHE": "/big/disk"})
    PosixPath('/big/disk')
    >>> cache_dir({"XDG_CACHE_HOME": "/c"})
    PosixPath('/c/dsms')
    """
    if environ.get("DSMS_CACHE"):
        return Path(environ["DSMS_CACHE"]).expanduser().absolute()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dsms"


def _publish(complete: Path, target: Path) -> None:
    try:
        complete.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    jars = (
        [jar for root in (spec.submodule_search_locations or ()) for jar in Path(root).glob("jars/ivy-*.jar")]
        if spec
        else []
    )
    if not jars:
        raise ConfigError("the installed pyspark contains no ivy jar", hint='reinstall it with "pip install pyspark"')
    return jars[0]


def _java_options(work: Path, environ: Mapping[str, str]) -> Path:
    options = work / "java.options"
    descriptor = os.open(options, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{_quoted(option)}\n" for option in proxy_options(environ))
    return options


def _quoted(option: str) -> str:
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _settings(work: Path, environ: Mapping[str, str]) -> list[str]:
    settings = environ.get("DSMS_IVY_SETTINGS")
    if settings:
        if not Path(settings).is_file():
            raise ConfigError(f'DSMS_IVY_SETTINGS is "{settings}", which is not a file')
        return ["-settings", settings]
    mirror = environ.get("DSMS_MAVEN_MIRROR")
    if not mirror:
        return []
    file = work / "ivysettings.xml"
    file.write_text(_mirror_settings(mirror), "utf-8")
    return ["-settings", str(file)]


def _mirror_settings(mirror: str) -> str:
    return (
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" m2compatible="true" root={quoteattr(mirror.rstrip("/") + "/")}/>'
        "</resolvers></ivysettings>\n"
    )


def _ivy_module(artifacts: Iterable[Artifact]) -> str:
    wanted = "".join(
        f'<dependency org="{a.organisation}" name="{a.module}" rev="{a.revision}" conf="default"/>' for a in artifacts
    )
    info = '<info organisation="dsms" module="broker"/>'
    return f'<ivy-module version="2.0">{info}<dependencies>{wanted}</dependencies></ivy-module>\n'


def _report_progress(line: str, report: Report) -> None:
    if line.startswith("downloading "):
        report(f"downloading {line.split()[1].rsplit('/', 1)[-1]}")


def _why(lines: list[str]) -> str:
    errors = _lines_with(lines, "server access error", "exception")
    errors = errors or _lines_with(lines, "not found", "error", "failed")
    checks = "check the network, HTTPS_PROXY, DSMS_MAVEN_MIRROR (a url) and DSMS_IVY_SETTINGS (a file)"
    return "\n".join([checks, *(errors or lines)[-ERROR_LINES:]])


def _lines_with(lines: list[str], *marks: str) -> list[str]:
    return [line.strip() for line in lines if any(mark in line.lower() for mark in marks)]
