"""Made-up secrets in the shapes of real ones, and the ways in which a program may write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

CORE = "Zx8Qw3Er5Ty7Ui9Op1As3Df5Gh7Jk9Lq2Wm4Nb6Vc8"
"""The part of a made-up secret that must appear nowhere. Nothing else contains it."""
HEX = "c0ffee1234567890abcdef9876543210feedbead5566aa77"
LONG = CORE * 4


class Canary(NamedTuple):
    """A made-up secret, and the part of it that must appear nowhere."""

    name: str
    text: str
    core: str


def _canary(name: str, before: str, core: str = CORE, after: str = "") -> Canary:
    return Canary(name, f"{before}{core}{after}", core)


CANARIES = (
    _canary("anthropic", "sk-ant-api03-", after="AA"),
    _canary("openai", "sk-proj-", after="T3BlbkFJ0"),
    _canary("stripe live", "sk_live_"),
    _canary("stripe test", "sk_test_"),
    _canary("stripe restricted", "rk_live_"),
    _canary("groq", "gsk_"),
    _canary("xai", "xai-"),
    _canary("google client secret", "GOCSPX-", CORE[:28]),
    _canary("google api key", "AIza", CORE[:35]),
    _canary("google access token", "ya29.a0"),
    _canary("vault", "hvs."),
    _canary("github", "ghp_", CORE[:36]),
    _canary("github app", "ghs_", CORE[:36]),
    _canary("github fine grained", "github_pat_11ABCDEFG0_"),
    _canary("gitlab", "glpat-", CORE[:20]),
    _canary("gitlab runner", "glrt-", CORE[:20]),
    _canary("aws", "AKIA", "Q7ZX3PLMN5KT2WVB"),
    _canary("aws secret", f"aws_secret_access_key = {CORE[:19]}/", CORE[20:40]),
    _canary("aws secret in json", '"SecretAccessKey": "', CORE[:40], '"'),
    _canary("api key of no shape", "ACME_API_KEY=", HEX[:32]),
    _canary("slack bot", "xoxb-123456789012-", CORE[:24]),
    _canary("slack app", "xapp-1-A0-12-", CORE[:24]),
    _canary("slack webhook", "https://hooks.slack.com/services/T0123/B0123/", CORE[:24]),
    _canary("discord webhook", "https://discord.com/api/webhooks/123456789/"),
    _canary("teams webhook", "https://acme.webhook.office.com/webhookb2/", HEX),
    _canary("npm", "npm_", CORE[:36]),
    _canary("pypi", "pypi-AgEIcHlwaS5vcmc", LONG[:60]),
    _canary("hugging face", "hf_", CORE[:34]),
    _canary("digital ocean", "dop_v1_", HEX),
    _canary("databricks", "dapi", HEX[:32]),
    _canary("sendgrid", "SG.", LONG[:66]),
    _canary("shopify", "shpat_", HEX[:32]),
    _canary("linear", "lin_api_", CORE[:40]),
    _canary("grafana", "glsa_", CORE[:32], "_deadbeef"),
    _canary("age", "AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE"),
    _canary("json web token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0."),
    _canary("long json web token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + LONG * 12 + "."),
    _canary("azure storage", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=", LONG[:86], "=="),
    _canary("password in an address", "postgres://someone:", after="@db.example:5432/x"),
    _canary("bearer", "Authorization: Bearer "),
    _canary("basic", "authorization: Basic "),
    _canary("netrc", "machine h.example login me password "),
    _canary(
        "private key",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n",
        after="\n" + LONG + "\n-----END OPENSSH PRIVATE KEY-----\n",
    ),
    _canary(
        "pgp key",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n",
        after="\n=AbCd\n-----END PGP PRIVATE KEY BLOCK-----\n",
    ),
)

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "quoted": lambda text: f"export KEY='{text}'; true",
    "json": lambda text: json.dumps({"output": f"one\n{text}\ntwo", "done": True}),
    "json in json": lambda text: json.dumps({"line": json.dumps({"output": f"one\n{text}\ttwo"})}),
    "coloured": lambda text: f"\x1b[1mkey\x1b[0;31m{text}\x1b[0m done",
    "coloured json": lambda text: json.dumps({"output": f"\x1b[32m{text}\x1b[0m"}),
    "percent-encoded": lambda text: f"https://x.example/?next=%20{quote(text, safe='')}&b=1",
    "diff": lambda text: "@@ -0,0 +1 @@\n+" + text.replace("\n", "\n+"),
}
"""How a program may write a secret. Not among them: base64, compression, encryption, and a secret that is cut into
several JSON values. A redactor cannot undo every encoding that there is, and to guess would hide ordinary text.
"""
