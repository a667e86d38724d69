"""Secrets never reach a disk: known values and known shapes are redacted, wherever a stream is cut."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, strategies as st

from holdfast.redaction import Redactor, mask, names_a_secret, redact, secret_values
from tests.support.canaries import CANARIES, ENCODINGS, Canary

KEYS = [
    "sk-ant-api03-Zx8Qw3Er5Ty7Ui9Op1As3Df5",
    "sk-proj-4fGh6Jk8Lz0Xc2Vb4Nm6Qw8Er0Ty",
    "ghp_1234567890abcdefghijABCDEFGHIJ123456",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz012345",
    "AKIA1234567890ABCDEF",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "xoxb-123456789012-abcdefABCDEF123",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
]
"""Made up, in the shapes that real ones have."""


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_a_known_shape_is_blotted_out(key: str) -> None:
    """Whoever prints a key, and however it is quoted, it is not written."""
    line = f'export KEY="{key}" and more'
    cleaned = redact(line)
    assert key[8:] not in cleaned
    assert len(cleaned) == len(line)
    assert cleaned.startswith('export KEY="[redacted]')
    assert cleaned.endswith('" and more')


def test_a_key_is_known_after_a_dash_if_its_beginning_is_long() -> None:
    """File names and branches join words with dashes."""
    assert "Zx8Qw3" not in redact("work-sk-ant-api03-Zx8Qw3Er5Ty7Ui9Op1As3Df5.txt")


@pytest.mark.parametrize("text", ["task-001-make-the-user-model-and-more", "disk-usage-1234567890-abcdefghij",
                                  "a sk- alone", "risk-assessment-2024-version-10-final"])  # fmt: skip
def test_ordinary_words_stay_as_they_are(text: str) -> None:
    """A redaction where no secret was would hide what a person needs to read."""
    assert redact(text) == text


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_no_encoding_hides_a_secret(canary: Canary, encoding: str) -> None:
    """Most agents print JSON, many print colours: what is escaped is read before it is judged."""
    written = ENCODINGS[encoding](canary.text)
    assert canary.core in written
    cleaned = redact(f"before {written}\nafter")
    assert canary.core not in cleaned
    assert len(cleaned) == len(f"before {written}\nafter")
    assert (cleaned[:7], cleaned[-6:]) == ("before ", "\nafter")


@pytest.mark.parametrize("encoding", ["json", "json in json", "coloured json"])
@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_a_line_of_json_is_still_one_without_its_secret(canary: Canary, encoding: str) -> None:
    """Streams of agents are read from the log."""
    assert isinstance(json.loads(redact(ENCODINGS[encoding](canary.text))), dict)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("step", [1, 7, 100, 700])
def test_no_cut_of_the_stream_hides_an_encoded_secret(step: int, encoding: str) -> None:
    """A long token arrives in several writes, and so may the escape before it."""
    for canary in CANARIES:
        data = ENCODINGS[encoding](canary.text).encode()
        redactor = Redactor([])
        out = b"".join(redactor.feed(data[at : at + step]) for at in range(0, len(data), step))
        out += redactor.finish()
        assert len(out) == len(data)
        assert canary.core.encode() not in out, canary.name


def test_a_mention_of_a_private_key_hides_only_the_next_lines() -> None:
    """Programs name the mark of a key, too. What follows a quote, or is longer than any key, is no key."""
    code = 'if text.startswith("-----BEGIN RSA PRIVATE KEY-----"):\n    return load(text)\n'
    assert redact(code) == code
    flood = "-----BEGIN RSA PRIVATE KEY-----\n" + "an ordinary line\n" * 4000
    assert redact(flood).endswith("an ordinary line\n")


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/a@b and https://user@example.com/x",
        "see http://localhost:8080/path?x=1#y:z@w",
        '{"input_tokens": 123456789, "session_id": "0a1b2c3d-1111-2222-3333-444455556666"}',
        "commit 4b1d0c0ffee1234567890abcdef9876543210fee and sha256:4b1dc0ffee1234567890abcdef9876543210feedbead5566aa77",
        "Bearer authentication is used; the password is asked for",
        "src/holdfast/runner/attempts/reports.py:120: in test_patterns_of_errors_2",
        "token = self.tokensByNameAndPlace2.get(key); password = readThePasswordOfUser2(key)",
        "TOKEN_FILE=/usr/local/share/Tokens/of-user-2; secret: ${{ secrets.DeployTokenOfSite2 }}",
        "API_KEY: str = settings_of_the_service_2, access_keys = accessKeysOfTheUser",
    ],
)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    """Ports, ids, digests and long paths are what people look for in a log."""
    assert redact(text) == text


@given(
    st.sampled_from(KEYS),
    st.lists(st.integers(0, 400), max_size=12),
    st.binary(max_size=60),
    st.binary(max_size=60),
)
def test_no_cut_of_the_stream_lets_a_key_through(
    key: str, cuts: list[int], before: bytes, after: bytes
) -> None:
    """Output arrives in chunks of any size; a key that is split between two is still one."""
    data = before + b" " + key.encode() + b" " + after
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    redactor = Redactor([])
    out = b"".join(redactor.feed(data[a:b]) for a, b in pairwise(places)) + redactor.finish()
    assert len(out) == len(data)
    assert key.encode() not in out


@given(st.lists(st.integers(0, 80), max_size=8))
def test_no_cut_of_the_stream_lets_a_known_value_through(cuts: list[int]) -> None:
    """The value of a secret variable needs no shape to be recognised."""
    data, value = b"before correct horse battery staple after", b"correct horse battery staple"
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    redactor = Redactor([value])
    out = b"".join(redactor.feed(data[a:b]) for a, b in pairwise(places)) + redactor.finish()
    assert out == b"before " + mask(len(value)) + b" after"


@given(st.integers(1, 50))
def test_a_private_key_is_blotted_out_line_by_line(step: int) -> None:
    """What stands between the marks of a private key is never written; the marks say that there was one."""
    body = b"MIIEpAIBAAKCAQEA7bq1\nqwertyuiop+/=\n"
    data = b"x\n-----BEGIN RSA PRIVATE KEY-----\n" + body + b"-----END RSA PRIVATE KEY-----\ny\n"
    redactor = Redactor([])
    out = (
        b"".join(redactor.feed(data[at : at + step]) for at in range(0, len(data), step)) + redactor.finish()
    )
    assert b"MIIE" not in out
    assert b"qwerty" not in out
    assert (out[:2], out[-2:], len(out)) == (b"x\n", b"y\n", len(data))


def test_variables_are_known_as_secret_by_their_names() -> None:
    """Names are made of words: a keyboard is no key."""
    assert names_a_secret("OPENAI_API_KEY")
    assert names_a_secret("github_token")
    assert not names_a_secret("KEYBOARD")
    assert not names_a_secret("GIT_CONFIG_KEY_0")
    assert secret_values({"DB_PASSWORD": "hunter2hunter2", "PATH": "/usr/bin:/bin", "PIN_KEY": "1234"}) == [
        b"hunter2hunter2"
    ]


@given(st.binary(max_size=300), st.integers(1, 40))
def test_a_redactor_never_changes_the_length_of_anything(data: bytes, step: int) -> None:
    """Offsets into a log stay what they are."""
    redactor = Redactor([b"some secret"])
    out = (
        b"".join(redactor.feed(data[at : at + step]) for at in range(0, len(data), step)) + redactor.finish()
    )
    assert len(out) == len(data)


def test_a_secret_is_blotted_out_of_json_too() -> None:
    """Most agents print JSON, in which quotes, backslashes and line ends are written otherwise."""
    values = secret_values({"VAULT_PASSWORD": 'one "two"\\three\nfour'})
    printed = json.dumps({"output": 'it is one "two"\\three\nfour.'})
    assert "three" not in redact(printed, values)
    assert msgspec.json.decode(redact(printed, values))["output"].startswith("it is [redacted]")
    assert "three" not in redact(json.dumps({"line": printed}), values)


def test_the_password_in_an_address_is_a_secret() -> None:
    """Proxies and package indexes are ordinary variables, what opens them is not."""
    index = "https://me:s3cretword@one.example/simple https://two.example"
    values = secret_values({"PIP_EXTRA_INDEX_URL": index, "HTTP_PROXY": "http://proxy:3128"})
    assert values == [b"s3cretword"]


@pytest.mark.parametrize(
    "name", ["PGPASSWORD", "DB_PASS", "GITHUB_PAT", "COMPOSER_AUTH", "npm_config__auth", "MYSQL_PWD",
             "NPM_CONFIG_//registry.npmjs.org/:_authToken"])  # fmt: skip
def test_variables_that_hold_secrets_under_other_names_are_known(name: str) -> None:
    """Tools have their own habits of naming them."""
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name", ["PWD", "OLDPWD", "PATH", "TOKENIZERS_PARALLELISM", "XAUTHORITY", "KEYBOARD"]
)
def test_ordinary_variables_are_no_secrets(name: str) -> None:
    """A path that is redacted in every log helps nobody."""
    assert not names_a_secret(name)
