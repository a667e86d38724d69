"""Redacts secrets before anything is written: known values, and text that has the shape of a secret.

The shapes are those of `secret_shapes.py` and some of our own. They are looked for in the decoded text, so that no
escape hides one. The replacement of a secret has its length, so an offset into a log always means the same byte, and
a line of JSON stays one. A light leaf module: every supervisor has it in its memory.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.escapes import ESCAPE_BYTES_MAX, DecodedText
from holdfast.secret_shapes import ALNUM, SHAPES, TOKEN, WORD

Span = tuple[int, int]
Shape = tuple[bytes, int, bytes, bool]
"""A beginning, how many characters of which alphabet follow at least, and whether it may stand within a word."""

_OWN_SHAPES: tuple[Shape, ...] = (
    (b"sk-", 20, TOKEN, False), (b"gsk_", 20, TOKEN, False), (b"xai-", 20, TOKEN, False), (b"nvapi-", 20, TOKEN, False),
    (b"GOCSPX-", 20, WORD, False), (b"ya29.", 30, TOKEN, False), (b"AIza", 30, WORD, False), (b"AQ.Ab", 30, WORD, False),
    (b"ghp_", 30, ALNUM, True), (b"gho_", 30, ALNUM, True), (b"ghs_", 30, ALNUM, True), (b"npm_", 30, ALNUM, False),
    (b"pypi-", 40, TOKEN, False), (b"hf_", 30, ALNUM, False), (b"dckr_pat_", 20, WORD, False), (b"sbp_", 40, ALNUM, False),
    (b"hvs.", 20, WORD, False), (b"hvb.", 20, WORD, False), (b".atlasv1.", 40, TOKEN, True), (b"Q~", 31, TOKEN, True),
    (b"SG.", 40, TOKEN, False), (b"xoxb-", 16, WORD, True), (b"xoxp-", 16, WORD, True), (b"xoxs-", 16, WORD, True),
    (b"xoxo-", 16, WORD, True), (b"xoxe-", 16, WORD, True), (b"xapp-", 16, WORD, True), (b"eyJ", 60, TOKEN, False),
    (b"ZXlK", 80, TOKEN, False), (b"AccountKey=", 40, TOKEN, True), (b"SharedAccessKey=", 32, TOKEN, True),
    (b"hooks.slack.com/services/", 20, TOKEN, True), (b"discord.com/api/webhooks/", 30, TOKEN, True),
    (b".webhook.office.com/webhookb2/", 30, TOKEN + b"@", True), (b"bedrock-api-key-", 24, TOKEN, True),
)  # fmt: skip
"""Shapes that gitleaks lacks, or for which it asks for more characters than a cut key has."""

_ALL_SHAPES = (*SHAPES, *_OWN_SHAPES)
_BY_LAST_CHAR = {
    last: tuple(shape for shape in _ALL_SHAPES if shape[0][-1:] == last)
    for last in sorted({shape[0][-1:] for shape in _ALL_SHAPES})
}
_SHORTEST = min(len(prefix) + least for prefix, least, _, _ in _ALL_SHAPES)
_IN_TOKENS = frozenset(TOKEN + b"~@")
_SPACED = bytes(code if code in _IN_TOKENS else ord(" ") for code in range(256))
"""Turns everything that is in no token into a space."""

_LONG_PREFIX = 5
"""Only a beginning of so many characters may follow a dash: `task-` ends like the beginning of a key."""
_DIGITS = frozenset(b"0123456789")
_MIXED_CHARS_MIN = 30
_MASK = b"[redacted]"
_HELD_MAX = 1024
"""More than any shape needs to be known, with each of its characters escaped."""
_CONTEXT_MAX = 256
_VALUE_CHARS_MIN = 8

_KEY_BEGINS, _KEY_MARK = b"-----BEGIN ", b"PRIVATE KEY"
_KEY_ENDS = (b"-----END", b'"', b"'", b"`")
_KEY_LINE_MAX = 80
_KEY_BODY_MAX = 32_768
_HOST_ENDS = bytes(ord(" ") if code <= 32 or code in b"\"'`<>/?#,;()[]{}\\" else code for code in range(256))
_SECRET_NAMES = (
    b"secret",
    b"token",
    b"passw",
    b"api_key",
    b"apikey",
    b"api-key",
    b"access_key",
    b"accesskey",
)
_SIGNS, _VALUE = frozenset(b":="), WORD + b"+/="
_GOES_ON = (b".", b"(", b"[", b"$", b"{")
"""What follows a name in a program, and no value."""
_ASSIGNED_CHARS_MIN, _HEX_CHARS_MIN = 20, 32
_SCHEMES = (b"bearer", b"basic", b"token", b"apikey", b"digest", b"negotiate")

_SECRET_PARTS = frozenset((
    "KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE",
    "CREDENTIAL", "CREDENTIALS", "PASS", "PAT",
))  # fmt: skip
_SECRET_ENDS = ("PASSWORD", "TOKEN", "SECRET", "APIKEY", "_AUTH", "_PWD")
_JSON_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_NO_SECRETS = ("GIT_CONFIG_", "HOLDFAST_")
_OWN_SECRETS = ("HOLDFAST_STORE_PASSWORD", "HOLDFAST_CFN_PASSWORD")


def names_a_secret(name: str) -> bool:
    """Tell whether a variable holds a secret, judging by the words of its name."""
    upper = name.upper()
    return name in _OWN_SECRETS or (
        not name.startswith(_NO_SECRETS)
        and (upper.endswith(_SECRET_ENDS) or not _SECRET_PARTS.isdisjoint(upper.split("_")))
    )


def holds_a_secret(name: str, value: str) -> bool:
    """Tell whether a variable holds a secret, judging by its name and by what is in it: many hold addresses or settings."""
    # Bundler keeps the login of a host in BUNDLE_<HOST>, with `__` for each dot; Nix keeps tokens among its settings.
    login = name.startswith("BUNDLE_") and "__" in name
    return names_a_secret(name) or login or "access-tokens" in value or redact(value) != value


def secret_values(env: dict[str, str]) -> list[bytes]:
    """Return what must never be written from an environment: secrets and passwords in URLs, longest first.

    Each is listed as it is, as JSON writes it, and as JSON writes that again: most agents print JSON, with outputs of tools
    in it. A value of a few characters is omitted: it is no real secret, and would redact half of what is printed.
    """
    values = [value for name, value in env.items() if names_a_secret(name)]
    values += [_password_in(word) for value in env.values() if "://" in value for word in value.split()]
    long_enough = [value for value in values if len(value) >= _VALUE_CHARS_MIN]
    once = [value.translate(_JSON_ESCAPES) for value in long_enough]
    written = {*long_enough, *once, *(value.translate(_JSON_ESCAPES) for value in once)}
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

    The last words of a chunk are held back until the next chunk shows how they continue; `finish` returns them.
    """

    def __init__(self, values: list[bytes]) -> None:
        self._values = values
        self._held = b""
        self._context = b""
        self._token_goes_on = b""
        self._key_left = 0

    def feed(self, data: bytes) -> bytes:
        """Take a chunk and return what may be written by now."""
        data = self._held + data
        for value in self._values:
            data = data.replace(value, mask(len(value)))
        cut = len(data) - self._unsure(data)
        self._held = data[cut:]
        return self._clean(data, cut)

    def finish(self) -> bytes:
        """Return what was held back; the stream is over."""
        rest, self._held = self._held, b""
        return self._clean(rest, len(rest))

    def _unsure(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of a secret."""
        unsure = _last_words(data)
        for value in self._values:
            most = min(len(value) - 1, len(data))
            unsure = max(unsure, next((n for n in range(most, 0, -1) if data.endswith(value[:n])), 0))
        return max(unsure, _unfinished_mark(data, len(data) - unsure))

    def _clean(self, data: bytes, cut: int) -> bytes:
        """Return the data up to `cut`; what follows helps to judge it."""
        if not cut:
            return b""
        decoded = DecodedText(data)
        end = decoded.length_of(cut)
        keys = [
            (decoded.place(begin - 1, begin)[1] if begin else 0, decoded.place(begin, stop)[1])
            for begin, stop in self._key_bodies(decoded.text[:end])
        ]
        places = [decoded.place(*span) for span in self._secrets(decoded, end)]
        if b"%" in data:
            places += _passwords_in_addresses(data)  # decoded, an escaped `/` would end the host
        self._context = (self._context + decoded.text[:end])[-_CONTEXT_MAX:]
        return _masked(data, _merged(places), keys)[:cut]

    def _secrets(self, decoded: DecodedText, end: int) -> list[Span]:
        """Return the secrets of the text. One that goes on behind `end` is remembered."""
        before = len(self._context)
        text = self._context + decoded.text
        spans = [(span, TOKEN) for span in _secrets_by_context(text)]
        spans += [(span, TOKEN) for value in self._values for span in _occurrences(text, value)]
        for shape in _shapes_in(text):
            spans += [(span, shape[2]) for span in _tokens(text, shape, decoded.is_after_escape, before)]
        if self._token_goes_on:
            length = _run(decoded.text, 0, self._token_goes_on)
            spans.append(((before, before + length), self._token_goes_on))
        ongoing = [alphabet for span, alphabet in spans if span[0] < before + end <= span[1]]
        self._token_goes_on = ongoing[0] if ongoing else b""
        return [(max(begin - before, 0), stop - before) for (begin, stop), _ in spans if stop > before]

    def _key_bodies(self, text: bytes) -> list[Span]:
        """Return what stands between the marks of private keys. A body may come in many chunks."""
        spans: list[Span] = []
        at = 0
        while True:
            if not self._key_left:
                at = _after_key_mark(text, at)
                if at < 0:
                    return spans
                self._key_left = _KEY_BODY_MAX
            stop = _key_end(text, at, self._key_left)
            if text[at:stop].strip():
                spans.append((at, at + len(text[at:stop].rstrip(b" "))))
            self._key_left = self._key_left - (stop - at) if stop == len(text) else 0
            if stop == len(text):
                return spans
            at = stop


def mask(length: int) -> bytes:
    """Return what replaces a secret of that length."""
    return _MASK.ljust(length, b"*") if length >= len(_MASK) else b"*" * length


def _last_words(data: bytes) -> int:
    """Return how long the last two words of an unfinished line are, bounded, and with no escape cut in two."""
    tail = data[-_HELD_MAX:]
    line = tail[tail.rfind(b"\n") + 1 :]
    words = line.rsplit(None, 2)
    held = len(line) - (len(words[0]) if len(words) > 2 else 0)
    if held < _HELD_MAX:
        return held
    before = data[-_HELD_MAX - ESCAPE_BYTES_MAX : -_HELD_MAX]
    marks = max(before.rfind(mark) for mark in (b"\\", b"\x1b", b"%"))
    return held + (len(before) - marks if marks >= 0 else 0)


def _unfinished_mark(data: bytes, cut: int) -> int:
    """Return how many bytes to hold back so that the first line of a private key is not torn at `cut`."""
    at = data.rfind(_KEY_BEGINS, max(0, cut - _KEY_LINE_MAX), cut + len(_KEY_BEGINS))
    torn = 0 <= at < cut and _after_key_mark(data[at:cut], 0) < 0
    return len(data) - at if torn else 0


def _after_key_mark(text: bytes, at: int) -> int:
    """Return where the body of the next private key begins; -1 if there is none."""
    while (begin := text.find(_KEY_BEGINS, at)) >= 0:
        at = begin + len(_KEY_BEGINS)
        line = text[at : at + _KEY_LINE_MAX]
        mark, end = line.find(_KEY_MARK), line.find(b"-----")
        if 0 <= mark < end:
            return at + end + len(b"-----")
    return -1


def _key_end(text: bytes, at: int, most: int) -> int:
    """Return where a key's body ends: at its end mark, at a quote, or when it is longer than any key."""
    ends = [end for mark in _KEY_ENDS if (end := text.find(mark, at, at + most)) >= 0]
    return min([*ends, at + most, len(text)])


def _shapes_in(text: bytes) -> list[Shape]:
    """Return the shapes whose beginning is in the text. Most text has no word that is long enough."""
    words = b" ".join([word for word in text.translate(_SPACED).split() if len(word) >= _SHORTEST])
    if not words:
        return []
    groups = (shapes for last, shapes in _BY_LAST_CHAR.items() if last in words)
    return [shape for shapes in groups for shape in shapes if shape[0] in words]


def _tokens(text: bytes, shape: Shape, is_after_escape: Callable[[int], bool], before: int) -> list[Span]:
    """Return where words begin with a shape's prefix and continue like a key: long enough, and no plain words.

    The first `before` characters were judged earlier, without their escapes.
    """
    prefix, least, alphabet, within_word = shape
    joins = WORD if len(prefix) < _LONG_PREFIX else WORD[:-1]
    found: list[Span] = []
    at = text.find(prefix)
    while at >= 0:
        begin = at + len(prefix)
        end = begin + _run(text, begin, alphabet)
        starts = within_word or not at or text[at - 1] not in joins or is_after_escape(at - before)
        if starts and end - begin >= least and _is_random(text[begin:end]):
            found.append((at, end))
        at = text.find(prefix, max(end, at + 1))
    return found


def _run(text: bytes, at: int, alphabet: bytes) -> int:
    """Return how many characters of the alphabet stand at a place; a full stop at the end is not one of them."""
    length, step = 0, 256
    while True:
        part = text[at + length : at + length + step]
        same = len(part) - len(part.lstrip(alphabet))
        length += same
        if same < len(part) or not part:
            break
        step *= 4
    return length if at + length == len(text) else len(text[at : at + length].rstrip(b".=/+-"))


def _is_random(rest: bytes) -> bool:
    """Tell a key from words: it has digits, or it is long and mixes capitals with small letters."""
    mixed = len(rest) >= _MIXED_CHARS_MIN and not rest.islower() and not rest.isupper() and rest.isalpha()
    return mixed or not _DIGITS.isdisjoint(rest)


def _occurrences(text: bytes, value: bytes) -> list[Span]:
    found: list[Span] = []
    at = text.find(value)
    while at >= 0:
        found.append((at, at + len(value)))
        at = text.find(value, at + len(value))
    return found


def _secrets_by_context(text: bytes) -> list[Span]:
    """Return the secrets that are known by what stands around them."""
    return [
        *_passwords_in_addresses(text),
        *_credentials_in_headers(text),
        *_netrc_passwords(text),
        *_assigned_secrets(text),
    ]


def _passwords_in_addresses(text: bytes) -> list[Span]:
    """Return the passwords of `scheme://user:password@host`. Without a colon, a long user is a token."""
    found: list[Span] = []
    for at, begin in _occurrences(text, b"://"):
        if text[at - 1 : at].isalpha():
            host = text[begin : begin + 512].translate(_HOST_ENDS).partition(b" ")[0]
            user, has_user, _ = host.rpartition(b"@")
            name, has_password, password = user.partition(b":")
            if has_user and has_password and password:
                found.append((begin + len(name) + 1, begin + len(user)))
            elif has_user and len(user) >= 20 and _is_random(user):
                found.append((begin, begin + len(user)))
    return found


def _credentials_in_headers(text: bytes) -> list[Span]:
    """Return what follows `Bearer`, and what follows `Authorization:` with or without a scheme."""
    found: list[Span] = []
    for _, at in _occurrences(text, b"earer "):
        length = _run(text, at, TOKEN)
        if length >= 16 and _is_random(text[at : at + length]):
            found.append((at, at + length))
    for _, at in _occurrences(text, b"uthorization"):
        begin = at + _run_of_any(text, at, b"\"': =")
        scheme = text[begin : begin + 16].partition(b" ")[0]
        if begin > at and scheme.lower() in _SCHEMES:
            begin += len(scheme) + 1
        length = _run(text, begin, TOKEN)
        if begin > at and length >= 8 and _is_random(text[begin : begin + length]):
            found.append((begin, begin + length))
    return found


def _run_of_any(text: bytes, at: int, chars: bytes) -> int:
    part = text[at : at + 16]
    return len(part) - len(part.lstrip(chars))


def _assigned_secrets(text: bytes) -> list[Span]:
    """Return the values of names such as `aws_secret_access_key`, if they are long and random. Calls and paths are none."""
    found: list[Span] = []
    lower = text.lower()
    for name in _SECRET_NAMES:
        for _, end in _occurrences(lower, name):
            sign = end + _run_of_any(text, end, WORD)  # the rest of the name
            begin = sign + _run_of_any(text, sign, b" \t:=>\"'\\")
            length = _run(text, begin, _VALUE)
            value, behind = text[begin : begin + length], text[begin + length : begin + length + 1]
            is_assigned = not _SIGNS.isdisjoint(text[sign:begin]) and behind not in _GOES_ON
            if is_assigned and length >= _ASSIGNED_CHARS_MIN and _is_mixed(value):
                found.append((begin, begin + length))
    return found


def _is_mixed(value: bytes) -> bool:
    """Tell a random value from a name: small letters, capitals and digits, or the digits of a long hexadecimal number."""
    if not value.strip(b"0123456789abcdefABCDEF"):
        return len(value) >= _HEX_CHARS_MIN and not value.isdigit() and not value.isalpha()
    return not (value.islower() or value.isupper() or _DIGITS.isdisjoint(value)) and value[:1] not in b"/="


def _netrc_passwords(text: bytes) -> list[Span]:
    """Return the passwords of a netrc file: the word after `password`, where a `login` or `machine` stands before."""
    found: list[Span] = []
    for at, begin in _occurrences(text, b"password"):
        spaces = _run_of_any(text, begin, b" \t\n")
        ahead = text[max(0, at - _CONTEXT_MAX) : at].split()
        if spaces and (b"login" in ahead[-2:-1] or b"machine" in ahead[-4:-1]):
            word = text[begin + spaces : begin + spaces + 256].translate(_HOST_ENDS).partition(b" ")[0]
            found.append((begin + spaces, begin + spaces + len(word)))
    return found


def _merged(spans: list[Span]) -> list[Span]:
    """Return spans that do not overlap: two shapes may see one secret."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _masked(data: bytes, secrets: list[Span], keys: list[Span]) -> bytes:
    """Return the data with each secret masked, and each key's body line by line."""
    if not secrets and not keys:
        return data
    out = bytearray(data)
    for begin, end in secrets:
        out[begin:end] = mask(end - begin)
    for begin, end in keys:
        out[begin:end] = bytes(byte if byte in b"\r\n" else ord("*") for byte in data[begin:end])
    return bytes(out)
