"""Secrets that are known by the name they stand behind: `password=...`, `"api_key": "..."`, `--token ...`.

A password is any value that is no stand-in; behind other names only what looks drawn by lot is a secret,
so that `token: string` and `secret_name = config.name` stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from refold.core.secret_marks import matches


class Found(NamedTuple):
    """A secret in a text."""

    start: int
    end: int
    kind: str
    quote: str = ""
    """What has to stand around the placeholder: a number in JSON was no string."""


ITS_NAMES: Final = (
    "pass[_-]?(?:word|wd|phrase|code)|pwd|psk|passwort|contraseña|mot de passe"
    "|пароль|密码|密碼|口令|パスワード|비밀번호"
)
ITS_MARKS: Final = (
    *("pass", "pwd", "psk", "contraseña", "mot de passe"),
    *("пароль", "密码", "密碼", "口令", "パスワード", "비밀번호"),
)
"""What these begin with."""
_TAIL: Final = (
    r"(?:[_-]?(?:key|value|token|id|string|hash|base|data|prod|dev|test|live|main|default|\d{1,3})s?){0,3}+"
)
_ASSIGNED: Final = re.compile(
    rf"(?:(?P<pass>{ITS_NAMES}|(?P<short>(?<=[_&?;\"'-])pass|(?<![a-z0-9])pw))|key|secret|token|credential|auth|sig)s?+{_TAIL}(?![a-z0-9_-])",
    re.ASCII,
)
"""In a text without capitals; a key alone says nothing, see `_KEYS`."""
ASSIGNED: Final = (*ITS_MARKS, "pw", "key", "secret", "token", "credential", "auth", "sig")
"""What begins such a name."""
_KEYS: Final = (
    *("api", "access", "client", "secret", "private", "signing", "encryption", "auth", "account", "master"),
    *(
        "consumer",
        "service",
        "shared",
        "subscription",
        "license",
        "app",
        "admin",
        "deploy",
        "storage",
        "root",
    ),
    *("hmac", "aes"),
)
"""What stands before a key that is secret, with a dash or a space between or without."""
_VALUE: Final = re.compile(
    r"\\{0,8}[\"'`]?\]?[ \t]{0,8}(?P<sep>:=|=>|==?|[:：]|>(?=[^\s<>])|[ \t](?=[\"']))"
    r"[ \t]{0,8}(?P<escaped>\\{1,8})?"
    # Between quotes that are not escaped themselves, one that is escaped belongs to the value.
    r"(?:\"(?P<double>(?(escaped)[^\"\n]{1,4096}+|(?:[^\"\\\n]|\\[^\n]?){1,4096}+))"
    r"|'(?P<single>[^'\n]{1,4096}+)|`(?P<back>[^`\n]{1,4096}+)"
    r"|(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\]{1,4096}+))",
    re.ASCII,
)
_OPTION: Final = re.compile(
    r"[ \t]{1,4}(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\-][^\s\"'`,;&|<>(){}\[\]\\]{3,4096}+)"
)
_STAND_IN: Final = re.compile(
    r"[*x.•…_#?-]*|\$\{\{?[ \w.:-]+\}?\}|\$(?-i:[A-Z_][A-Z0-9_]*)"
    r"|\$\w*(?:pass|secret|token|key|pwd)\w*|\$\([^)]*\)|<[\w .-]+>|\{\{?[\w .]+\}?\}"
    r"|%\([\w.]+\)[a-z]|%[sr]|%[A-Z_]+%"
    r"|\[redacted.*|changeme|your[a-z _-]*|(?:example|dummy|sample|change|enter)[ _-][a-z _-]*"
    r"|(?:none|null|nil|true|false|undefined|string|str|text|password|passwd|secret|token|required|optional"
    r"|redacted|hidden|masked|bool|int|bytes|unknown|invalid|missing|empty|default|expired|bearer|basic|self"
    r"|this|any|object|number)[.!?:]*",
    re.IGNORECASE | re.DOTALL,
)
_CODE: Final = re.compile(
    r"[A-Za-z_]\w*+(?:(?:\.|->|::)[A-Za-z_]\w*+)++[?!]?|[.~]{1,2}/[\w./ ~-]*"
    r"|/(?:[a-z._~-][a-z0-9._~-]*+|Users|Library|Volumes)(?:/[\w. ~-]*)*|[a-z0-9_.-]++(?:/[a-z0-9_.-]*)++"
    r"|https?://.*",
    re.ASCII,
)
_NAME: Final = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)+\d*")
_PLAIN_WORD: Final = re.compile("[A-Za-z_.:?!-]+")
_SHELL: Final = re.compile("[\\s\"'(]")
_LETTERS: Final = re.compile("[^a-z0-9]")
_LONGEST_STAND_IN: Final = 200
_LOOKED_AT: Final = 256
"""So much of a value tells what it is."""

_PASS_ENDS: Final = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "passwords",
    "passwordvalue",
    "psk",
    *("dbpass", "userpass", "rootpass", "adminpass", "smtppass", "mailpass", "dbpw", "userpw"),
)
_KEY_ENDS: Final = (
    *(
        "secret",
        "secretkey",
        "keydata",
        "secrets",
        "secretvalue",
        "secretstring",
        "secretkeybase",
        "token",
        "tokens",
    ),
    *("tokenvalue", "apikey", "apikeys", "accesskey", "accesskeyid", "privatekey", "signingkey"),
    *("encryptionkey", "authkey", "accountkey", "masterkey", "consumerkey", "servicekey", "sharedkey"),
    *("subscriptionkey", "licensekey", "adminkey", "deploykey", "storagekey", "appkey", "hmackey", "aeskey"),
    *("credential", "credentials", "authorization", "cookie", "auth", "bearer"),
)
_SHORT: Final = frozenset({"pass", "pw"})
"""Names that mean other things as often: what stands behind them has to look drawn by lot."""
_NO_ENDS: Final = (
    *("pagetoken", "continuationtoken", "synctoken", "cursortoken", "nexttoken", "stoptoken", "eostoken"),
    *("bostoken", "padtoken", "unktoken", "masktoken", "septoken", "clstoken", "stoptokens"),
    # What fences off an earlier writer of a run directory (formats/rivumi.md 4).
    "activewritertoken",
)


@lru_cache(maxsize=4096)
def stands_behind(key: str) -> str:
    """Give the kind of secret that may stand behind a key; empty for none."""
    if len(key) > _LONGEST_STAND_IN:
        return ""
    word = _LETTERS.sub("", key.lower())
    if word.endswith(_PASS_ENDS):
        return "password"
    if (not word.endswith(_KEY_ENDS) and word not in _SHORT) or word.endswith(_NO_ENDS):
        return ""
    return "header value" if word.endswith(("authorization", "cookie")) else "secret value"


def is_secret_value(key: str, value: str) -> str:
    """Give the kind of secret that a value is because of the key it stands behind; empty for none."""
    kind = stands_behind(key)
    if not kind or not value:
        return ""
    if kind == "password":
        return "" if is_no_value(value) else kind
    if kind == "header value":
        return kind if len(value) >= 6 and has_digit(value) and not is_no_value(value) else ""
    return kind if is_random(value) else ""


def is_secret_number(key: str, number: str) -> bool:
    """Say whether a number is a password because of the key it stands behind; a short one only counts."""
    return 4 <= len(number) <= 64 and stands_behind(key) == "password" and number.isdigit()


def assignments(text: str, lowered: str, marks: frozenset[str]) -> Iterator[Found]:
    """Find the values that a text gives to names of secrets.

    Args:
        text: any text.
        lowered: the same without capitals, of the same length.
        marks: those that may stand in it.
    """
    done = 0
    for name in matches(_ASSIGNED, lowered, marks.intersection(ASSIGNED)):
        start = name.start()
        if start < done:
            continue
        if lowered.startswith("key", start):
            dash = start > 0 and lowered[start - 1] in "_- "
            if not lowered.endswith(_KEYS, 0, start) and not (dash and lowered.endswith(_KEYS, 0, start - 1)):
                continue
        found = _VALUE.match(text, name.end())
        before, word = text[max(0, start - 40) : start], text[start : name.end()]
        is_password = name["pass"] is not None
        in_shell = False
        if found is None:
            found = _OPTION.match(text, name.end()) if before.rpartition(" ")[2].startswith("--") else None
            if found is None or found["bare"].islower():
                # In prose a word follows the name of an option: "the --password option".
                continue
            in_shell = True
        value, at = _value_of(found)
        if found["bare"] is not None:
            in_shell = in_shell or _is_shell(before, word)
            in_shell = in_shell or (found["sep"] == ">" and text.startswith("</", at + len(value)))
            called = text.startswith("(", at + len(value))
            real = not called and _is_bare_secret(value, is_password=is_password, in_shell=in_shell)
        elif is_password:
            is_word = len(value) <= _LONGEST_STAND_IN and any(map(str.isalnum, value))
            real = is_word and not is_no_value(value)
        else:
            real = is_random(value)
        if name["short"] is not None:
            real = real and _is_behind_short(value, joined=text[start - 1 : start] in tuple("_&?;-"))
        if real and not _LETTERS.sub("", (before + word).lower()).endswith(_NO_ENDS):
            done = at + len(value)
            yield Found(at, done, "password" if is_password else "secret value")


def _is_behind_short(value: str, *, joined: bool) -> bool:
    """Say whether a value behind `pass` or `pw` is one: so many tests pass, and pages have a width."""
    if value.isdigit() or _NAME.fullmatch(value):
        return False
    return joined or is_random(value)


def _value_of(found: re.Match[str]) -> tuple[str, int]:
    for group, value in found.groupdict().items():
        if value is not None and group != "sep":
            # A quote that is itself escaped keeps its backslash.
            return value.rstrip("\\") if group != "bare" else value, found.start(group)
    return "", found.end()


def _is_shell(before: str, name: str) -> bool:
    """Say whether a name is that of an environment variable, an option or a part of a query."""
    word = _SHELL.split(before)[-1]
    return word.startswith("--") or "&" in word or "?" in word or (word + name).isupper()


def _is_bare_secret(value: str, *, is_password: bool, in_shell: bool) -> bool:
    value = value[:_LOOKED_AT]
    if len(value) < (4 if is_password else 8) or is_no_value(value):
        return False
    if not is_password:
        return is_random(value)
    return in_shell if _PLAIN_WORD.fullmatch(value) else not is_code(value)


def is_random(value: str) -> bool:
    """Say whether a value behind the name of a secret is one: one long word that nobody would speak."""
    value = value[:_LOOKED_AT]
    if len(value) < 8 or is_no_value(value) or any(map(str.isspace, value.strip())):
        return False
    return is_varied(value) and not is_code(value)


def is_varied(text: str) -> bool:
    """Say whether a text looks drawn by lot: digits among letters, or both cases in a long word."""
    if len(set(text)) < min(8, len(text) // 2 + 1):
        return False
    upper, lower = any(map(str.isupper, text)), any(map(str.islower, text))
    return (has_digit(text) and (upper or lower)) or (len(text) >= 20 and upper and lower)


def is_no_value(value: str) -> bool:
    """Say whether a value only stands in for one: empty, a variable, a type, a row of stars."""
    return len(value) < _LONGEST_STAND_IN and _STAND_IN.fullmatch(value.strip()) is not None


def is_code(value: str) -> bool:
    """Say whether a value is an expression, a path or an address."""
    return _CODE.fullmatch(value) is not None


def has_digit(text: str) -> bool:
    """Say whether a text holds a digit."""
    return any(map(str.isdigit, text))
