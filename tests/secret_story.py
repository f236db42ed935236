"""Made-up secrets of every shape, each in words that it may stand in, and texts that hold none."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

_ALNUM = string.ascii_letters + string.digits
_WORD = _ALNUM + "_-"
_HEX = "0123456789abcdef"


class Secret(NamedTuple):
    """One secret and a text that gives it away."""

    text: str
    core: str
    """A part of it that must be nowhere."""


def secrets(seed: int, count: int = 500) -> list[Secret]:
    """Give secrets; each shape comes again and again with other letters."""
    rng = random.Random(seed)
    shapes = tuple(_shapes(rng))
    return [shapes[number % len(shapes)]() for number in range(count)]


def _shapes(rng: random.Random) -> Iterator[Callable[[], Secret]]:
    def pick(alphabet: str, length: int) -> str:
        # One of each kind first: a word drawn by lot that has no digit is no fair test.
        text = "".join(rng.choice(alphabet) for _ in range(length - 2))
        return rng.choice([c for c in alphabet if c.isalpha()]) + text + rng.choice("23456789")

    def prefixed(prefix: str, alphabet: str, length: int, around: str = "the key is {} now") -> Secret:
        core = pick(alphabet, length)
        return Secret(around.format(prefix + core), core)

    def key_block() -> Secret:
        body = "\n".join(pick(_ALNUM + "+/", 64) for _ in range(6))
        kind = rng.choice(("RSA ", "", "EC ", "OPENSSH ", "ENCRYPTED "))
        text = f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----\n"
        return Secret(text, body.split("\n")[3])

    def jwt() -> Secret:
        parts = [
            base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "n": pick(_ALNUM, 9)}).encode()).decode()
        ]
        parts += [f"eyJ{pick(_WORD, 60)}", pick(_WORD, 43)]
        return Secret(f"cookie jwt {'.'.join(part.rstrip('=') for part in parts)};", parts[2])

    def basic() -> Secret:
        core = base64.b64encode(f"bob:{pick(_ALNUM, 14)}".encode()).decode()
        return Secret(f"Authorization: Basic {core}", core)

    def named(text: str, alphabet: str = _ALNUM, length: int = 24) -> Secret:
        core = pick(alphabet, length)
        return Secret(text.replace("@@", core), core)

    def number(text: str) -> Secret:
        core = "".join(rng.choice("23456789") for _ in range(9))
        return Secret(text.replace("@@", core), core)

    simple = (
        *(
            ("sk-ant-api03-", _WORD, 90),
            ("sk-proj-", _ALNUM, 60),
            ("sk-", _ALNUM, 48),
            ("sk-or-v1-", _HEX, 64),
        ),
        *(("ghp_", _ALNUM, 36), ("gho_", _ALNUM, 36), ("ghs_", _ALNUM, 36), ("github_pat_", _ALNUM, 82)),
        *(("glpat-", _WORD, 20), ("glrt-", _WORD, 20), ("xapp-1-", _ALNUM, 40), ("AIza", _WORD, 35)),
        *(("sk_live_", _ALNUM, 24), ("rk_test_", _ALNUM, 24), ("whsec_", _ALNUM, 32), ("hf_", _ALNUM, 34)),
        *(
            ("npm_", _ALNUM, 36),
            ("pypi-AgEIcHlwaS5vcmc", _WORD, 80),
            ("gsk_", _ALNUM, 52),
            ("xai-", _ALNUM, 80),
        ),
        *(("hvs.", _WORD, 24), ("dop_v1_", _HEX, 64), ("AKIA", string.ascii_uppercase + "234567", 16)),
        *(("ya29.", _WORD, 60), ("GOCSPX-", _WORD, 28), ("shpat_", _HEX, 32), ("glsa_", _ALNUM, 32)),
        *(("SK", _HEX, 32), ("key-", _HEX, 32), ("dckr_pat_", _ALNUM, 27), ("lin_api_", _ALNUM, 40)),
        *(
            ("xoxb-123456789012-1234567890123-", _ALNUM, 24),
            ("https://hooks.slack.com/services/T0A/B0C/", _ALNUM, 24),
        ),
    )
    for prefix, alphabet, length in simple:
        yield partial(prefixed, prefix, alphabet, length)
    texts = (
        "Authorization: Bearer @@",
        'curl -H "Authorization: token @@" https://api.example.org',
        "postgres://app:@@@db.example.org:5432/live",
        "export DB_PASSWORD=@@ && make",
        "password: @@\nuser: bob",
        '{"client_secret": "@@", "id": 7}',
        "api_key = '@@'",
        "https://example.org/cb?access_token=@@&state=1",
        "curl -u bob:@@ https://example.org",
        "machine example.org login bob password @@",
        "tool --api-key @@ --verbose",
        "aws_secret_access_key = @@",
        "Set-Cookie: session=@@; Path=/",
        "AccountKey=@@;EndpointSuffix=core.windows.net",
        r"{\"refresh_token\": \"@@\"}",
        "X-Api-Key: @@",
        "<config><password>@@</password></config>",
        "sshpass -p '@@' ssh example.org",
        "mysql -u root -p@@ shop",
        "client-key-data: @@",
        "密码：@@",
        "redis://:@@@example.org:6379/0",
        "please set the root password to @@ and restart",
        "The password for bob@example.org is @@.",
        "use '@@' as the database password",
        "the api key is @@",
        "api key: @@",
        "DB_PASS=@@",
        "https://example.org/login?user=bob&pass=@@",
        "my pw: @@",
        '{"auth": {"user": "bob", "pass": "@@"}}',
        "CREATE USER bob IDENTIFIED BY '@@'",
        "echo @@ | sudo -S make install",
    )
    for text in texts:
        yield partial(named, text)
    yield lambda: number("change password to @@")
    yield lambda: number('{"password": @@, "port": 5432}')
    yield lambda: named("aws_secret_access_key = @@", _ALNUM + "/+", 40)
    yield from (key_block, jwt, basic)
    yield lambda: Secret(
        (made := prefixed("SG.", _WORD, 22)).text.replace(" now", f".{pick(_WORD, 43)}"), made.core
    )


_PROSE = (
    "the token count grew; no password was asked for, see the secret garden",
    "The password is required; a password of 8 characters is too short.",
    "set the password to something that nobody guesses, then change the token to another one",
    "if the password was wrong, the token is refreshed and the secret is read from the vault",
    "use the same name as the key of the map; the key is sorted, the token is next_page",
    "the access key is stored in ~/.aws/credentials, and the password is hashed with argon2",
    "make the password to be at least as long as before",
    "PASS: test_login2 (0.01s); n_pass=1203 n_fail=4, all tests pass: 12 of 12",
    "pw = page_width2 * 4; the primary key: user_id42 and the api key: see docs/keys2.md",
    '{"pass": "3 of 4 tests", "result": "pass", "bypass": "v1.2.3-rc4"}',
    "echo hello2 | sudo tee /etc/motd && echo done",
)


def clean_texts(seed: int, project: Path, count: int = 3000) -> Iterator[str]:
    """Give texts without a secret that look like some: ids, hashes, pictures, code."""
    rng = random.Random(seed)
    ksuid = string.digits + string.ascii_uppercase + string.ascii_lowercase
    code = [
        line
        for path in sorted((project / "core").rglob("*.py"))
        for line in path.read_text().split("\n")
        if line.strip() and "secret" not in path.name
    ]
    for number in range(count):
        data = rng.randbytes(48)
        made = (
            hashlib.sha256(data).hexdigest(),
            f"commit {hashlib.sha1(data).hexdigest()}",
            f'{{"id": "{uuid.UUID(bytes=data[:16])}", "max_tokens": 4096}}',
            f'{{"next_page_token": "{data[:9].hex()}"}}',
            f"2Jf{''.join(rng.choice(ksuid) for _ in range(24))}",
            f"data:image/png;base64,{base64.b64encode(rng.randbytes(300)).decode()}",
            f'"integrity": "sha512-{base64.b64encode(rng.randbytes(64)).decode()}"',
            f"toolu_01{''.join(rng.choice(_ALNUM) for _ in range(22))}",
            f'{{"thinking": "so be it", "signature": "{base64.b64encode(data).decode()}"}}',
            f"https://example.org/a/{data[:8].hex()}?page={number}#top",
            rng.choice(_PROSE),
            "def login(token: str, password: str | None = None) -> None: self.token = token",
            f"-rw-r--r-- 1 bob bob {number} Jul 24 09:15 token_{data[:4].hex()}.txt",
            rng.choice(code),
            rng.choice(code),
        )
        yield made[number % len(made)]
