"""What secrets look like: known prefixes, key blocks, headers, URLs. What they stand behind: `secret_names`.

Every pattern runs in time linear in its text: repetitions are possessive or bounded, and nothing is tried
again inside what it has passed. A random look alone makes no secret: hashes and ids have it too.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from refold.core.secret_marks import matches, small
from refold.core.secret_names import ASSIGNED, Found, assignments, has_digit, is_code, is_no_value, is_varied
from refold.core.secret_prose import NAMES, USES, told


class Shape(NamedTuple):
    """A secret that begins with one of some marks."""

    kind: str
    marks: tuple[str, ...]
    """What it begins with; without one of these no text can hold the shape."""
    pattern: re.Pattern[str]
    is_real: Callable[[str], bool] | None = None

    def find(self, text: str) -> Iterator[Found]:
        """Find it in a text: to look for its beginnings is far quicker than to try it everywhere."""
        for mark in self.marks:
            at = text.find(mark)
            while at >= 0:
                found = self.pattern.match(text, at)
                if found is None:
                    at = text.find(mark, at + 1)
                    continue
                if self.is_real is None or self.is_real(found[0]):
                    yield Found(found.start(), found.end(), self.kind)
                at = text.find(mark, found.end())

    def may_be_in(self, text: str) -> bool:
        """Say whether a text holds one of its beginnings."""
        return any(map(text.__contains__, self.marks))


class _Within(NamedTuple):
    kind: str
    mark: re.Pattern[str]
    """What stands somewhere in it."""
    before: int
    """At most so many characters stand before that."""
    pattern: re.Pattern[str]

    def find(self, text: str) -> Iterator[Found]:
        """Find it in a text: around its marks."""
        done = 0
        for mark in self.mark.finditer(text):
            for at in range(max(done, mark.start() - self.before), mark.start()):
                found = self.pattern.match(text, at)
                if found is not None:
                    yield Found(found.start(), found.end(), self.kind)
                    done = found.end()
                    break


def _has_a_long_part(text: str) -> bool:
    """Say whether one part between dashes is long and mixed: words joined by dashes are none."""
    return any(len(part) >= 12 and has_digit(part) for part in re.split("[-_]", text))


_EDGE: Final = "(?<![A-Za-z0-9])"


def _shape(kind: str, marks: str, rest: str, is_real: Callable[[str], bool] | None = None) -> Shape:
    words = tuple(marks.split())
    pattern = f"{_EDGE}(?:{'|'.join(map(re.escape, words))})(?:{rest})"
    return Shape(kind, words, re.compile(pattern, re.ASCII), is_real)


def _within(kind: str, before: int, mark: str, pattern: str) -> _Within:
    return _Within(kind, re.compile(mark, re.ASCII), before, re.compile(f"{_EDGE}(?:{pattern})", re.ASCII))


_SHAPES: Final = (
    # A run of letters is looked at once: what begins in the middle of one is no token.
    _shape("json web token", "eyJ", r"(?<![\w-]eyJ)[\w-]{8,}+\.[\w-]{4,}+(?:\.[\w-]*+){1,4}+"),
    _shape("github token", "ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9]{16,}+"),
    _shape("github token", "github_pat_", r"\w{20,}+"),
    _shape(
        "gitlab token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glsoat- glimt- glagent- gloas- glffct-",
        r"[\w-]{16,}+(?:\.\w[\w-]*+)*+",
    ),
    _shape("gitlab token", "GR1348941", r"[\w-]{16,}+"),
    _shape("slack token", "xox", r"[a-z](?:\.xox[a-z])?-[\w-]{10,}+"),
    _shape("slack token", "xapp-", r"\d-[\w-]{10,}+"),
    _shape("slack webhook", "hooks.slack.com/", r"[a-z]{5,12}/[\w/+-]{16,}+"),
    _shape("discord webhook", "discord.com/api/ discordapp.com/api/", r"webhooks/\d{5,25}/[\w-]{20,}+"),
    _shape("aws access key", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("aws session token", "FwoGZXIvYXdz FQoGZXIvYXdz IQoJb3JpZ2lu", "[A-Za-z0-9+/=]{40,}+"),
    _shape("aws api key", "ABSK", "[A-Za-z0-9+/]{60,}+=*+"),
    _shape("aws api key", "bedrock-api-key-", "[A-Za-z0-9+/=_-]{30,}+"),
    _shape("signature of a url", "X-Amz-Signature= X-Goog-Signature=", "[0-9A-Za-z%]{32,}+"),
    _shape("anthropic key", "sk-ant-", r"[\w-]{16,}+"),
    _shape("api key", "sk-", r"[\w-]{16,}+", _has_a_long_part),
    _shape(
        "stripe key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ pk_live_ pk_test_", "[A-Za-z0-9]{10,}+"
    ),
    _shape("webhook secret", "whsec_", r"[\w+/=-]{16,}+"),
    _shape("google api key", "AIza", r"[\w-]{30,}+"),
    _shape("google token", "ya29. 1//0 GOCSPX- AQ.Ab", r"[\w-]{16,}+"),
    _shape("hugging face token", "hf_ api_org_", "[A-Za-z0-9]{20,}+"),
    _shape(
        "api key",
        "sk_ gsk_ r8_ fw_ npm_ ntn_ figd_ sbp_ sb_secret_ phx_ phc_ aio_ glsa_ glc_ fo1_ fm2_ dop_v1_ "
        "doo_v1_ dor_v1_ bkua_ pscale_tkn_ pscale_pw_ sntrys_ sntryu_ rubygems_ CCIPAT_ lin_api_ "
        "lin_oauth_ lsv2_pt_ lsv2_sk_ dckr_pat_ dckr_oat_ shpat_ shpca_ shppa_ shpss_ rnd_ secret_ key_live_ "
        "shippo_live_ e2b_ vcp_ vck_ tfp_ jina_",
        r"[A-Za-z0-9]{20,}+(?:[-_.=][\w-]++)*+",
        has_digit,
    ),
    _shape(
        "api key",
        "xai- pplx- nvapi- csk- tvly- pypi- pk-lf- NRAK- NRIQ- PMAK- HRKU- ATATT3 ATCTT3 ATBB sq0atp- "
        "sq0csp- sq0idp- AGE-SECRET-KEY-1 EZAK EZTK",
        r"[\w-]{16,}+=*+",
        has_digit,
    ),
    _shape("api key", "dapi fc- pul- v1.0- tgp_v1_", r"[0-9a-f]{32,}+(?:-[0-9a-f]++)?+"),
    _shape("sendgrid key", "SG.", r"[\w-]{16,}+\.[\w-]{16,}+"),
    _shape("vault token", "hvs. hvb. hvr.", r"[\w-]{20,}+"),
    _shape("doppler token", "dp.", r"[a-z]{2,5}\.[\w.-]{30,}+"),
    _shape("airtable token", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{40,}+"),
    _shape("dropbox token", "sl.", r"(?:u\.)?[\w-]{60,}+"),
    _shape("twilio key", "SK", "[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape("mailgun key", "key-", "[0-9a-f]{32}(?![A-Za-z0-9])"),
)
_WITHIN: Final = (
    _within("discord token", 28, r"\.(?=[\w-]{6}\.[\w-]{25})", r"[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{25,}+"),
    _within("terraform token", 14, r"\.atlasv1\.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}+"),
    _within("mailchimp key", 32, r"-us\d", r"[0-9a-f]{32}-us\d{1,2}(?![A-Za-z0-9])"),
    _within("telegram token", 10, ":AA", r"\d{8,10}:AA[\w-]{30,}+"),
    _within("azure secret", 4, "Q~", r"[\w~.-]{3}\dQ~[\w~.-]{31,40}"),
)

_PAIR: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}[\s,:;|/\"']{1,8}([A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])"
)
_BEARER: Final = re.compile(r"\b(?:bearer|token)[ \t]{1,4}([\w.~+/-]{16,}+=*+)", re.ASCII | re.IGNORECASE)
_BASIC: Final = re.compile(r"\bbasic[ \t]{1,4}([A-Za-z0-9+/]{6,}+=*+)", re.ASCII | re.IGNORECASE)
_HEADER: Final = re.compile(
    r"(?:authorization|cookie)\\{0,8}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,8}[\"']?"
    r"(?P<scheme>(?:bearer|basic|token|digest|apikey|negotiate|key)[ \t]{1,4})?"
    r"(?P<value>[^\s\"'\\<>]{6,}+(?:;[ ]?[^\s\"'\\<>;]{1,4096}+)*+)",
    re.ASCII | re.IGNORECASE,
)
_LOGIN: Final = re.compile(
    r"login[ \t]{1,4}\S{1,128}+[ \t\n]{1,4}password[ \t]{1,4}([^\s{$]\S{2,256}+)", re.ASCII
)
_USER: Final = re.compile(
    r"(?<![\w-])-(?:u|-user)[ =]?[\"']?[^\s:\"'/]{1,64}+:([^\s\"'@/]{4,256}+)", re.ASCII
)
_SSHPASS: Final = re.compile(r"sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?([^\s\"']{3,256}+)", re.ASCII)
_MYSQL: Final = re.compile(r"mysql[^\n|;]{0,200}?[ \t]-p[\"']?([^\s\"']{3,256}+)", re.ASCII)
_SQL: Final = re.compile(r"identified by[ \t]{1,4}'([^'\n]{3,256}+)'", re.ASCII | re.IGNORECASE)
_SUDO: Final = re.compile(
    r"echo[ \t]{1,4}[\"']?([^\s\"'|]{3,256}+)[\"']?[ \t]{0,4}\|[ \t]{0,4}sudo[ \t]{1,4}-S", re.ASCII
)
_LOGINS: Final = (
    (("login",), _LOGIN),
    (("-u", "--user"), _USER),
    (("sshpass",), _SSHPASS),
    (("mysql",), _MYSQL),
    (("identified by",), _SQL),
    (("echo",), _SUDO),
)
_MARKS: Final = tuple(
    dict.fromkeys(
        (
            *(*ASSIGNED, *NAMES, *USES, "bearer", "basic", "authorization", "cookie"),
            *(mark for begins, _ in _LOGINS for mark in begins),
        )
    )
)
"""Whatever a secret begins with that is no `Shape`, in small letters."""
_URL: Final = re.compile(r"://[^\s:/@\"'<>\\]{0,256}+:([^\s/@\"'<>\\]{1,256}+)@")
_URL_USER: Final = re.compile(r"://([\w-]{20,256}+)@", re.ASCII)

_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----")
_BODY: Final = re.compile(r"[A-Za-z0-9+/=\s\\]*+")
_LONGEST_KEY: Final = 1 << 15
_LONG: Final = 15
"""No shape is found without so many of these in a row, its beginning among them."""
_IN_WORDS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+=~%-")
_INSIDE, _OUTSIDE = b"a", b" "
_EACH: Final = b"".join(_INSIDE if byte in _IN_WORDS else _OUTSIDE for byte in range(256))


class Possible(NamedTuple):
    """What can be found in some texts at all."""

    shapes: tuple[Shape, ...]
    marks: frozenset[str]
    """What stands in one of them, of all that other secrets begin with."""


def possible(texts: Sequence[str]) -> Possible:
    """Look which beginnings of secrets stand in one of some texts: no others need to be looked for."""
    words = " ".join(word for text in texts for word in _long_words(text))
    shapes = tuple(shape for shape in _SHAPES if shape.may_be_in(words)) if words else ()
    lowered = [small(text) for text in texts]
    return Possible(shapes, frozenset(mark for mark in _MARKS if any(mark in text for text in lowered)))


def _long_words(text: str) -> Iterator[str]:
    """Give what a shape may begin in, which is little of most texts."""
    # One byte a character, and only two kinds of them: to look for a row of one is quick.
    drawn = text.encode("latin-1", "replace").translate(_EACH)
    at = drawn.find(_INSIDE * _LONG)
    while at >= 0:
        end = drawn.find(_OUTSIDE, at + _LONG)
        end = len(drawn) if end < 0 else end
        yield text[at:end]
        at = drawn.find(_INSIDE * _LONG, end)


def find(text: str, among: Possible) -> Iterator[Found]:
    """Find what looks like a secret in a text; what is found may overlap.

    Args:
        text: any text.
        among: what is `possible` in it.
    """
    for shape in among.shapes:
        yield from shape.find(text)
    for within in _WITHIN:
        yield from within.find(text)
    if "-----BEGIN" in text:
        yield from _private_keys(text)
    if "://" in text:
        yield from _urls(text)
    if "AKIA" in text or "ASIA" in text:
        for found in _PAIR.finditer(text):
            yield Found(found.start(1), found.end(1), "aws secret key")
    lowered = small(text)
    yield from _headers(text, lowered, among.marks)
    yield from _logins(text, lowered, among.marks)
    yield from assignments(text, lowered, among.marks)
    yield from told(text, lowered, among.marks)


def _headers(text: str, lowered: str, marks: frozenset[str]) -> Iterator[Found]:
    for found in matches(_BEARER, text, marks.intersection(("bearer", "token")), lowered):
        if is_varied(found[1]) and not is_code(found[1]):
            yield Found(found.start(1), found.end(1), "bearer token")
    for found in matches(_BASIC, text, marks.intersection(("basic",)), lowered):
        if _is_basic(found[1]):
            yield Found(found.start(1), found.end(1), "basic credentials")
    for found in matches(_HEADER, text, marks.intersection(("authorization", "cookie")), lowered):
        value = found["value"]
        if is_no_value(value) or is_code(value):
            continue
        if found["scheme"] is not None or (has_digit(value) and len(value) >= 8):
            yield Found(found.start("value"), found.end("value"), "header value")


def _logins(text: str, lowered: str, marks: frozenset[str]) -> Iterator[Found]:
    for begins, pattern in _LOGINS:
        for found in matches(pattern, text, marks.intersection(begins), lowered):
            if not is_no_value(found[1]):
                yield Found(found.start(1), found.end(1), "password")


def _is_basic(text: str) -> bool:
    try:
        read = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in read and read.isascii()


def _private_keys(text: str) -> Iterator[Found]:
    begins = [(found.start(), found.end()) for found in _BEGIN.finditer(text)]
    for number, (start, after) in enumerate(begins):
        following = begins[number + 1][0] if number + 1 < len(begins) else len(text)
        limit = min(following, after + _LONGEST_KEY)
        end = _END.search(text, after, limit)
        if end is not None:
            yield Found(start, end.end(), "private key")
            continue
        body = _BODY.match(text, after, limit)
        yield Found(start, body.end() if body is not None else after, "private key")


def _urls(text: str) -> Iterator[Found]:
    for found in _URL.finditer(text):
        if not is_no_value(found[1]) or found[1].isalpha():
            yield Found(found.start(1), found.end(1), "url password")
    for found in _URL_USER.finditer(text):
        if is_varied(found[1]):
            yield Found(found.start(1), found.end(1), "url password")
