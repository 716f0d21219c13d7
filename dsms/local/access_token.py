"""Creates and reads the token of `dsms up`. Without a token, no program and no web page can use the coordinator."""

from __future__ import annotations

import os
from pathlib import Path

from connectors.credentials.secrets import secret_file
from dsms.local.state import LocalState, running_state
from dsms.model.tokens import entry, new_token, tokens_of

#: Files in the data directory: the token, which only its owner may read, and the tokens that the coordinator accepts.
TOKEN_FILE, TOKENS_FILE = "token", "tokens.toml"
#: The name of the token in the audit log.
OWNER = "dsms-up"


def made_tokens(data_dir: Path) -> Path:
    """Returns the file of the tokens that the coordinator of a data directory accepts.

    If the file `token` does not exist, creates an administrator's token and writes it there. Later calls change
    nothing, so a token that was given to somebody stays valid. Tokens that were added to the returned file (`dsms token
    … >> tokens.toml`) stay accepted.

    >>> from tempfile import mkdtemp
    >>> directory = Path(mkdtemp())
    >>> made_tokens(directory) == made_tokens(directory), sorted(file.name for file in directory.iterdir())
    (True, ['token', 'tokens.toml'])
    """
    tokens = data_dir / TOKENS_FILE
    if not (data_dir / TOKEN_FILE).exists():
        others = [known for known in tokens_of(tokens) if known.name != OWNER] if tokens.exists() else []
        text, ours = new_token(OWNER, "administrator")
        _write(tokens, "\n\n".join(entry(known) for known in (*others, ours)) + "\n")
        _write(data_dir / TOKEN_FILE, text + "\n")
    return tokens


def local_token(url: str, data_dir: Path) -> str | None:
    """The token that `dsms up` created for the coordinator at a URL. None unless this coordinator runs in the data
    directory with such a token.
    """
    state = running_state(data_dir)
    if state is None or state.token is None or state.coordinator != _of_this_machine(url):
        return None
    return secret_file(state.token)


def _of_this_machine(url: str) -> str:
    return url.rstrip("/").replace("http://localhost:", "http://127.0.0.1:")


def console_url(state: LocalState) -> str | None:
    """The URL of the console; None without a coordinator. It contains the token, so opening it signs the user in.
    Browsers do not send the part with the token, after `#`.
    """
    if state.coordinator is None:
        return None
    token = secret_file(state.token) if state.token and state.token.exists() else None
    return f"{state.coordinator}/console/" + (f"#token={token}" if token else "")


def _write(file: Path, text: str) -> None:
    """Replaces a file that only its owner may read."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text)
    fresh.replace(file)
