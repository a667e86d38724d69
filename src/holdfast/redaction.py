"""Redacts secrets before anything is written: known values, and text that has the shape of a key.

The replacement of a secret has its length, so an offset into a log always means the same byte, and a line of
JSON stays one. A leaf module without any import: every supervisor has it in its memory.
"""

from __future__ import annotations

_WORD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_TOKEN = _WORD + b".+/="
_DIGITS = frozenset(b"0123456789")
_MASK = b"[redacted]"
_HELD_MAX = 512
_VALUE_CHARS_MIN = 8

_SHAPES: tuple[tuple[bytes, int], ...] = (
    (b"sk-", 20), (b"sk_live_", 16), (b"rk_live_", 16),
    (b"ghp_", 30), (b"gho_", 30), (b"ghu_", 30), (b"ghs_", 30), (b"ghr_", 30), (b"github_pat_", 30), (b"glpat-", 18),
    (b"AKIA", 16), (b"ASIA", 16), (b"AIza", 30), (b"ya29.", 30),
    (b"xoxb-", 16), (b"xoxp-", 16), (b"xoxa-", 16), (b"xoxs-", 16), (b"xapp-", 16),
    (b"npm_", 30), (b"pypi-", 40), (b"hf_", 30), (b"dop_v1_", 40), (b"SG.", 40), (b"eyJ", 60),
    (b"AGE-SECRET-KEY-", 40),
)  # fmt: skip
"""How the keys of widely used services begin, and how many characters follow at least."""

_KEY_BEGINS, _KEY_ENDS = b"-----BEGIN ", b"-----END "
_KEY_MARK = b"PRIVATE KEY-----"
_KEY_LINE_MAX = 64

_SECRET_PARTS = frozenset((
    "KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE",
    "CREDENTIAL", "CREDENTIALS", "PASS", "PAT",
))  # fmt: skip
_SECRET_ENDS = ("PASSWORD", "TOKEN", "SECRET", "APIKEY", "_AUTH", "_PWD")
_JSON_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_NO_SECRETS = ("GIT_CONFIG_", "HOLDFAST_")


def names_a_secret(name: str) -> bool:
    """Tell whether a variable holds a secret, judging by the words of its name."""
    upper = name.upper()
    return not name.startswith(_NO_SECRETS) and (
        upper.endswith(_SECRET_ENDS) or not _SECRET_PARTS.isdisjoint(upper.split("_"))
    )


def secret_values(env: dict[str, str]) -> list[bytes]:
    """Return what must never be written from an environment: secrets and passwords in URLs, longest first.

    Each is listed as it is and as JSON writes it, because most agents print JSON. A value of a few characters
    is omitted: it is no real secret, and would redact half of what is printed.
    """
    values = [value for name, value in env.items() if names_a_secret(name)]
    values += [_password_in(word) for value in env.values() if "://" in value for word in value.split()]
    long_enough = [value for value in values if len(value) >= _VALUE_CHARS_MIN]
    written = {*long_enough, *(value.translate(_JSON_ESCAPES) for value in long_enough)}
    return sorted((value.encode("utf-8", "surrogateescape") for value in written), key=len, reverse=True)


def _password_in(address: str) -> str:
    """Return the password of `scheme://user:password@host`; empty if there is none."""
    host = address.partition("://")[2].partition("/")[0]
    return host.rpartition("@")[0].partition(":")[2]


def redact(text: str, values: list[bytes] | None = None) -> str:
    """Return a text without these values and without anything in it that has the shape of a secret."""
    redactor = Redactor(values or [])
    data = text.encode("utf-8", "surrogateescape")
    return (redactor.feed(data) + redactor.finish()).decode("utf-8", "surrogateescape")


class Redactor:
    """Redacts secrets in a stream, wherever its chunks are cut.

    The last word of a chunk is held back until the next chunk shows how it continues; `finish` returns it.
    """

    def __init__(self, values: list[bytes]) -> None:
        self._values = values
        self._held = b""
        self._before = b""
        self._in_key = False

    def feed(self, data: bytes) -> bytes:
        """Take a chunk and return what may be written by now."""
        data = self._held + data
        for value in self._values:
            data = data.replace(value, mask(len(value)))
        cut = len(data) - self._unsure(data)
        self._held = data[cut:]
        return self._clean(data[:cut])

    def finish(self) -> bytes:
        """Return what was held back; the stream is over."""
        rest, self._held = self._held, b""
        return self._clean(rest)

    def _unsure(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of a secret."""
        unsure = min(len(data) - len(data.rstrip(_TOKEN)), _HELD_MAX)
        for value in self._values:
            most = min(len(value) - 1, len(data))
            unsure = max(unsure, next((n for n in range(most, 0, -1) if data.endswith(value[:n])), 0))
        return max(unsure, _unfinished_mark(data, len(data) - unsure))

    def _clean(self, data: bytes) -> bytes:
        if not data:
            return data
        data = self._without_keys(data)
        spans = [span for prefix, least in _SHAPES for span in _tokens(data, prefix, least, self._before)]
        self._before = data[-1:]
        return _masked(data, spans) if spans else data

    def _without_keys(self, data: bytes) -> bytes:
        """Redact the lines between the marks of a private key. They may come in many chunks."""
        if not self._in_key and _KEY_MARK not in data:
            return data
        out, at = b"", 0
        while at < len(data):
            if self._in_key:
                end = data.find(_KEY_ENDS, at)
                stop = len(data) if end < 0 else end
                out += bytes(byte if byte in b"\r\n" else ord("*") for byte in data[at:stop])
                self._in_key = end < 0
            else:
                begin = data.find(_KEY_BEGINS, at)
                mark = data.find(_KEY_MARK, begin) if begin >= 0 else -1
                within = 0 <= begin < mark <= begin + _KEY_LINE_MAX
                stop = mark + len(_KEY_MARK) if within else len(data)
                out += data[at:stop]
                self._in_key = within
            at = stop
        return out


def _unfinished_mark(data: bytes, cut: int) -> int:
    """Return how many bytes to hold back so that the first line of a private key is not torn at `cut`."""
    at = data.rfind(_KEY_BEGINS, max(0, len(data) - _KEY_LINE_MAX), cut + len(_KEY_BEGINS))
    torn = 0 <= at < cut and data.find(_KEY_MARK, at, cut) < 0
    return len(data) - at if torn else 0


def mask(length: int) -> bytes:
    """Return what replaces a secret of that length."""
    return _MASK.ljust(length, b"*") if length >= len(_MASK) else b"*" * length


def _tokens(data: bytes, prefix: bytes, least: int, before: bytes) -> list[tuple[int, int]]:
    """Return where words begin with `prefix` and continue like a key: long enough, letters with digits."""
    found: list[tuple[int, int]] = []
    at = data.find(prefix)
    while at >= 0:
        ahead = data[at - 1 : at] if at else before
        rest = data[at + len(prefix) : at + len(prefix) + 4096]
        tail = rest[: len(rest) - len(rest.lstrip(_TOKEN))].rstrip(b".=/+-")
        end = at + len(prefix) + len(tail)
        if (not ahead or ahead not in _WORD) and len(tail) >= least and not _DIGITS.isdisjoint(tail):
            found.append((at, end))
        at = data.find(prefix, max(end, at + 1))
    return found


def _masked(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    out = bytearray(data)
    for begin, end in spans:
        out[begin:end] = mask(end - begin)
    return bytes(out)
