"""Who may use the server: tokens, one-time login codes, cookies, and the limit of failed attempts.

Tokens are random, so that a plain hash of one is safe to keep. They are compared without a hint about how much of one is right.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import stat
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from fairlead.config.json_files import update_bytes
from fairlead.errors import ConfigError
from fairlead.platform.open_files import make_private_folders
from fairlead.serve.connections import group_of

#: Seconds that a login code and a cookie are valid.
CODE_SECONDS = 600
COOKIE_SECONDS = 12 * 3600
#: How many codes and cookies exist at a time. The oldest one goes.
MOST_CODES, MOST_COOKIES = 100, 10_000
#: How many attempts may fail within `FAILURE_SECONDS`, from one address and from all.
FAILURES_OF_ONE, FAILURES_OF_ALL, FAILURE_SECONDS = 10, 200, 60.0
#: Seconds by which answers to further wrong secrets are held up, and how many at a time.
HELD_UP_SECONDS, MOST_HELD_UP = 1.0, 50
#: How many addresses are remembered.
MOST_ADDRESSES = 10_000
#: The fewest characters of a token.
SHORTEST_TOKEN = 32
#: The user of a server without a file of users.
OWNER = "owner"

_USER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")

Clock = Callable[[], float]


def digest(secret: str) -> bytes:
    """Return the hash of a token, code or cookie."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


# Files


def load_token(path: Path) -> str:
    """Return the token in a file, which is created if it does not exist. Only its owner may read it.

    Raises ConfigError if the file cannot be used, or if others may read or change it.
    """
    try:
        make_private_folders(path.parent)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return _read_token(path)
        token = secrets.token_urlsafe(32)
        with os.fdopen(handle, "w") as file:
            os.fchmod(handle, 0o600)
            file.write(f"{token}\n")
            file.flush()
            os.fsync(handle)
        return token
    except OSError as error:
        raise ConfigError(f"Cannot use the token file {path}: {error.strerror or error}.") from error


def _read_token(path: Path) -> str:
    token = _read_own_file(path, others_may_read=False).strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{path} does not hold a token of at least {SHORTEST_TOKEN} characters. Delete it to get a new one.")
    return token


def _read_own_file(path: Path, *, others_may_read: bool) -> str:
    """Read a file that only this user can change. Raises ConfigError and OSError."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise ConfigError(f"{path} is not a regular file.")
        if hasattr(os, "getuid") and info.st_uid not in (os.getuid(), 0):
            raise ConfigError(f"{path} belongs to another user.")
        forbidden = stat.S_IWGRP | stat.S_IWOTH | (0 if others_may_read else stat.S_IRGRP | stat.S_IROTH)
        if info.st_mode & forbidden:
            raise ConfigError(f"Others may {'change' if others_may_read else 'read or change'} {path}. Run `chmod 600 {path}`.")
        return file.read(1 << 20).decode("utf-8", "replace")


class _User(Struct, forbid_unknown_fields=True):
    token: str


class _UsersFile(Struct, forbid_unknown_fields=True):
    users: dict[str, _User] = {}


def _is_user_name(name: str) -> bool:
    return name != OWNER and _USER_NAME.fullmatch(name) is not None


def load_users(path: Path) -> dict[str, bytes]:
    """Return the hash of each user's token. Raises ConfigError if the file cannot be used or has no users."""
    try:
        read = msgspec.json.decode(_read_own_file(path, others_may_read=True), type=_UsersFile)
    except OSError as error:
        raise ConfigError(f"Cannot read the file of users {path}: {error.strerror or error}.") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a file of users: {error}.") from None
    found: dict[str, bytes] = {}
    for name, user in read.users.items():
        hashed = _DIGEST.fullmatch(user.token)
        if not _is_user_name(name) or hashed is None:
            raise ConfigError(f'{path}: user {name!r}: expected {{"token": "sha256:HEX"}} and a name of a-z, 0-9, - and _.')
        found[name] = bytes.fromhex(hashed[1])
    if not found:
        raise ConfigError(f"{path} has no users. Add one with `fairlead serve --users {path} --add-user NAME`.")
    if len(set(found.values())) < len(found):
        raise ConfigError(f"{path}: two users have the same token.")
    return found


def add_user(path: Path, name: str) -> str:
    """Add a user to a file, or replace their token. Returns the token, which is not kept. Raises ConfigError."""
    if not _is_user_name(name):
        raise ConfigError(f"{name!r} cannot be the name of a user: use a-z, 0-9, - and _, and at most 32 characters.")
    token = secrets.token_urlsafe(32)

    def change(data: bytes) -> bytes:
        try:
            read = msgspec.json.decode(data or b"{}", type=_UsersFile)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} is not a file of users: {error}.") from None
        read.users[name] = _User(f"sha256:{digest(token).hex()}")
        return msgspec.json.format(msgspec.json.encode(read), indent=2) + b"\n"

    update_bytes(path, change)
    return token


# Attempts


class FailureLimit:
    """Counts attempts with a wrong secret, by address.

    It never keeps a right one out: an attacker may have the address of the user, for example behind a proxy.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        #: When the last attempts of each address failed. The address whose last one is longest ago comes first.
        self._of_one: OrderedDict[str, deque[float]] = OrderedDict()
        self._of_all: deque[float] = deque()
        #: How many answers to wrong secrets are being held up.
        self._held_up = 0
        #: How many attempts have failed since the start.
        self.total = 0

    def __len__(self) -> int:
        """How many addresses have failed lately."""
        return len(self._of_one)

    def count_failure(self, address: str) -> None:
        """Count a failed attempt."""
        self.total += 1
        now, group = self._clock(), group_of(address)
        self._of_all.append(now)
        times = self._of_one.setdefault(group, deque(maxlen=FAILURES_OF_ONE))
        times.append(now)
        self._of_one.move_to_end(group)
        while len(self._of_one) > MOST_ADDRESSES or next(iter(self._of_one.values()))[-1] <= now - FAILURE_SECONDS:
            self._of_one.popitem(last=False)
        while len(self._of_all) > FAILURES_OF_ALL:
            self._of_all.popleft()

    def wait(self, address: str) -> int:
        """Return in how many seconds a wrong secret from an address is counted again; 0 if it is counted now."""
        now, group = self._clock(), group_of(address)
        longest = 0.0
        for times, most in ((self._of_one.get(group), FAILURES_OF_ONE), (self._of_all, FAILURES_OF_ALL)):
            if times is not None and len(times) >= most:
                longest = max(longest, times[0] + FAILURE_SECONDS - now)
        return 0 if longest <= 0 else int(longest) + 1

    async def hold_up(self) -> None:
        """Wait before an answer to a wrong secret, unless many wait already: those would take memory."""
        if self._held_up < MOST_HELD_UP:
            self._held_up += 1
            try:
                await asyncio.sleep(HELD_UP_SECONDS)
            finally:
                self._held_up -= 1


# Secrets


class _Issued(Struct, frozen=True):
    user: str
    until: float


class Access:
    """The secrets of the server. It keeps hashes only. `tokens` has the hash of each user's token."""

    def __init__(self, tokens: Mapping[str, bytes], clock: Clock = time.monotonic) -> None:
        if not tokens:
            raise ConfigError("A server without tokens would let everyone in.")
        self._tokens = dict(tokens)
        self._clock = clock
        self._codes: OrderedDict[bytes, _Issued] = OrderedDict()
        self._cookies: OrderedDict[bytes, _Issued] = OrderedDict()
        self.failures = FailureLimit(clock)

    def user_of_token(self, token: str) -> str | None:
        """Return the user with this token, or None. All tokens are compared, whichever fits."""
        given, found = digest(token), None
        for user, hashed in self._tokens.items():
            if hmac.compare_digest(given, hashed):
                found = user
        return found

    def new_code(self, user: str) -> str:
        """Return a code with which a browser can log in once, within `CODE_SECONDS`."""
        return self._issue(self._codes, user, CODE_SECONDS, MOST_CODES, 16)

    def log_in(self, secret: str) -> str | None:
        """Exchange a code or a token for the value of a cookie. A code is used up. Returns None if it is neither."""
        user = self._redeem(self._codes, secret, once=True) or self.user_of_token(secret)
        return None if user is None else self._issue(self._cookies, user, COOKIE_SECONDS, MOST_COOKIES, 32)

    def user_of_cookie(self, value: str) -> str | None:
        return self._redeem(self._cookies, value, once=False)

    def log_out(self, value: str) -> None:
        self._cookies.pop(digest(value), None)

    def _issue(self, issued: OrderedDict[bytes, _Issued], user: str, seconds: float, most: int, size: int) -> str:
        secret = secrets.token_urlsafe(size)
        issued[digest(secret)] = _Issued(user, self._clock() + seconds)
        while len(issued) > most:
            issued.popitem(last=False)
        return secret

    def _redeem(self, issued: OrderedDict[bytes, _Issued], secret: str, *, once: bool) -> str | None:
        """Return the user of a secret that is still valid. The time to find a hash says nothing about the secret."""
        key = digest(secret)
        found = issued.get(key)
        if found is None:
            return None
        is_valid = self._clock() < found.until
        if once or not is_valid:
            del issued[key]
        return found.user if is_valid else None
