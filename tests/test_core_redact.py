"""What looks like a secret leaves no way out; what only looks odd stays; no text takes forever."""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.secret_story import clean_texts, secrets

from refold.core.records import Json
from refold.core.redact import LONGEST, WINDOW, Redactor, explain
from refold.core.secret_marks import matches

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT" * 2


def spelled_out(text: str) -> str:
    """The same JSON string with every character escaped."""
    return "".join(f"\\u{ord(character):04x}" for character in text)


@pytest.mark.parametrize("seed", range(3))
def test_no_secret_is_left_in_texts_and_json(seed: int) -> None:
    for secret in secrets(seed):
        redactor = Redactor()
        assert secret.core not in redactor.text(f"before\n{secret.text}\nafter"), secret
        assert redactor.total
        raw = json.dumps({"a": [secret.text], "b": {secret.text: 1}, "c": json.dumps([secret.text])}).encode()
        left = Redactor().line(raw)
        assert secret.core not in str(json.loads(left)), secret
        assert secret.core not in left.decode()


@pytest.mark.parametrize("seed", range(3))
def test_escapes_hide_nothing(seed: int) -> None:
    for secret in secrets(seed, 80):
        raw = f'{{"a":"x {spelled_out(secret.text)}","n":1.50e3}}'.encode()
        left = Redactor().line(raw)
        assert secret.core not in json.loads(left)["a"], secret
        assert b'"n":1.50e3' in left
        damaged = Redactor().line(raw.partition(b',"n"')[0])
        assert secret.core not in json.loads(damaged + b"}")["a"]


def test_a_key_tells_its_value_eight_strings_deep() -> None:
    value: Json = {"pin": 12, "password": 48151623}
    for _ in range(8):
        value = [json.dumps(value)]
    # Beside what looks like a secret at once: else nobody looks so deep.
    left = json.loads(Redactor().line(json.dumps([value, TOKEN]).encode()))[0]
    for _ in range(8):
        left = json.loads(left[0])
    assert left == {"pin": 12, "password": "[redacted: password]"}


def test_json_in_strings_takes_no_more_of_the_stack_the_deeper_it_lies() -> None:
    # Each escape is spelled by its number: a level is five characters longer than the one around it.
    inner = "".join(f"[\\{'u005c' * level}u0022" for level in range(120))
    raw = f'["{TOKEN}","{inner}"]'.encode()
    assert json.loads(raw)[0] == TOKEN
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        left = Redactor().line(raw)
    finally:
        sys.setrecursionlimit(limit)
    assert left == raw.replace(TOKEN.encode(), b"[redacted: github token]")


def test_what_is_put_for_a_number_is_no_longer_the_deeper_it_lies() -> None:
    quotes = [f"\\{'u005c' * level}u0022" for level in range(21)]
    inner = "".join(f"[{quote}" for quote in quotes[:20])
    inner += f"{{{quotes[20]}password{quotes[20]}:48151623}}" + "".join(
        f"{quote}]" for quote in quotes[19::-1]
    )
    raw = json.dumps([TOKEN, "text"]).replace("text", inner).encode()
    value = json.loads(raw)[1]
    for _ in range(20):
        value = json.loads(value)[0]
    assert json.loads(value) == {"password": 48151623}
    assert len(Redactor().line(raw)) < 2 * len(raw)


def test_values_behind_telling_keys_go_whatever_they_are() -> None:
    value: Json = {
        "password": 'a"b c',
        "Passphrase": "correct horse",
        "db": {"pwd": "q"},
        "api_key": "k4Jd93mXq0",
    }
    left = Redactor().value(value)
    assert isinstance(left, dict)
    assert left == {
        "password": "[redacted: password]",
        "Passphrase": "[redacted: password]",
        "db": {"pwd": "[redacted: password]"},
        "api_key": "[redacted: secret value]",
    }
    listed = Redactor().value(
        [{"name": "DEPLOY_TOKEN", "value": "k4Jd93mXq0"}, {"name": "PORT", "value": "8080"}]
    )
    assert "k4Jd93mXq0" not in str(listed)
    assert "8080" in str(listed)


def test_json_in_json_is_read_as_such() -> None:
    inner: Json = {"password": 'a"b c', "note": 'say "hi"'}
    for _ in range(3):
        inner = {"body": json.dumps(inner)}
    left = json.loads(Redactor().line(json.dumps(inner).encode()))
    for _ in range(3):
        left = json.loads(left["body"])
    assert left == {"password": "[redacted: password]", "note": 'say "hi"'}


def test_numbers_behind_a_password_go_and_json_stays_json() -> None:
    value: Json = {
        "password": 12345678,
        "pins": [1, 2.5],
        "passwords": 3,
        "db": {"pwd": [4711, -4711, 4711.5]},
    }
    for _ in range(3):
        left = Redactor().line(json.dumps(value).encode())
        told = json.loads(left)
        while "inner" in told:
            told = json.loads(told["inner"])
        assert told == {
            "password": "[redacted: password]",
            "pins": [1, 2.5],
            "passwords": 3,
            "db": {"pwd": ["[redacted: password]", -4711, 4711.5]},
        }
        value = {"inner": json.dumps(value)}
    assert Redactor().value(12345678, "password") == "[redacted: password]"
    assert Redactor().value(12345678, "port") == 12345678


def test_sentences_that_tell_a_password() -> None:
    for said in (
        "set password to swordfish",
        "Please change the root password to: swordfish.",
        'set the password to "sword fish"',
        "the passphrase is sw0rdfish!",
        "try sw0rdfish as the password",
        "Das Passwort ist Sw0rdfish",
    ):
        assert "ord" not in Redactor().text(said).partition("password")[2].replace("password", ""), said
        assert Redactor().text(said) != said
    for said in ("the password is required", "set the password to something else", "password to connect"):
        assert Redactor().text(said) == said


def test_passwords_behind_names_in_many_tongues() -> None:
    for name in (
        *("password", "PassWord", "pass_word", "passwd", "pass-phrase", "passcode", "PWD", "psk", "Passwort"),
        *("CONTRASEÑA", "mot de passe", "Пароль", "密码", "密碼", "口令", "パスワード", "비밀번호"),
    ):
        assert "w0rdf" not in Redactor().text(f"{name}: sw0rdfish"), name
        # One letter that becomes two when it is made small moves nothing.
        assert "w0rdf" not in Redactor().text(f"İ {name}: sw0rdfish"), name


@given(st.text("abck- "), st.booleans())
def test_marks_find_what_a_search_everywhere_finds(text: str, capitals: bool) -> None:
    pattern = re.compile(r"(?<![abc])(?:a[bk]|b)[abc-]{0,3}?c", re.IGNORECASE if capitals else 0)
    written = text.title() if capitals else text
    found = matches(pattern, written, ("ab", "b", "ak"), text)
    assert [match.span() for match in found] == [match.span() for match in pattern.finditer(written)]


def test_what_the_configuration_allows_stays() -> None:
    text = f"{TOKEN} password=sw0rdfish"
    redactor = Redactor(allow=["sw0rd*"])
    assert redactor.text(text) == "[redacted: github token] password=sw0rdfish"
    assert redactor.counts == {"github token": 1}
    inner = json.dumps({"a": json.dumps({"password": "correct horse"})})
    assert Redactor(allow=["correct *"]).json_text(inner) == inner
    assert Redactor(allow=["4711"]).value({"pwd": 4711}) == {"pwd": 4711}


def test_stand_ins_stay() -> None:
    for text in (
        'password = os.environ["PASSWORD"]',
        "password=${DB_PASSWORD}",
        '{"password": "<your password>"}',
        "token: string",
        "api_key=self.settings.api_key",
        "https://user:${TOKEN}@example.org",
        "max_tokens=200000",
    ):
        assert Redactor().text(text) == text


def test_fewer_than_two_in_a_hundred_clean_texts_are_touched(project: Path) -> None:
    texts = list(clean_texts(7, project))
    touched = [text for text in texts if Redactor().text(text) != text]
    as_json = [
        text for text in texts if Redactor().line(json.dumps([text]).encode()) != json.dumps([text]).encode()
    ]
    assert len(touched) < len(texts) / 50, touched[:5]
    assert len(as_json) < len(texts) / 50, as_json[:5]


def test_the_journals_that_hold_no_secret_stay_as_they_are(journals: Path) -> None:
    for path in sorted(journals.glob("v*/*.json")):
        for line in path.read_bytes().split(b"\n"):
            assert Redactor().line(line) == line


@given(JSON, st.integers(0, 199))
def test_json_stays_json_and_twice_is_once(value: object, number: int) -> None:
    raw = json.dumps({"value": value, "note": secrets(3)[number].text}, ensure_ascii=False).encode(
        errors="surrogatepass"
    )
    first = Redactor()
    left = first.line(raw)
    json.loads(left.decode(errors="surrogatepass"))
    second = Redactor()
    assert second.line(left) == left
    assert not second.total


@given(st.binary(max_size=300))
def test_any_bytes_come_through(data: bytes) -> None:
    Redactor().line(data)
    assert Redactor(on=False).line(data) == data


HOSTILE = {
    "quotes": '"',
    "backslashes": "\\",
    "escaped quotes": '\\"',
    "escapes": "\\u0067",
    "dashes": "ask-",
    "tokens": "eyJaaaaaaaaa-",
    "dotted tokens": "eyJaaaaaaaaa.",
    "begins": "-----BEGIN RSA PRIVATE KEY-----",
    "half begins": "-----BEGIN ",
    "addresses": "://:",
    "users": "://a",
    "passwords": "password=:",
    "names": "password",
    "open values": "token='",
    "key tails": "tokenkey",
    "headers": "authorization:",
    "cookies": ";a",
    "letters": "M",
    "logins": "login a ",
    "options": " -u a",
    "brackets": "[",
    "paths": "token=a/b",
    "sentences": "set a ",
    "told": "password for a to ",
    "used": "use a as a ",
    "numbers": '"password":1',
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_more_than_its_share_of_time(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.process_time()
        Redactor().line(json.dumps([text]).encode())
        Redactor().line(f"{{{text}".encode())
        return time.process_time() - started

    short, long = max(seconds(1 << 14), 0.02), seconds(1 << 17)
    # Eight times the text; the square of that would be sixty-four.
    assert long < short * 30


@pytest.mark.parametrize("place", [WINDOW - 20, WINDOW + LONGEST - 7, 3 * WINDOW // 2])
def test_a_long_record_is_redacted_piece_by_piece(place: int) -> None:
    size = 2 * WINDOW
    place -= place % 5  # not within an escape
    body = ("a b\\n" * (size // 5))[:size]
    raw = f'{{"text":"{body[:place]} \\u0067{TOKEN[1:]} {body[place:]}"}}'.encode()
    redactor = Redactor()
    left = b"".join(redactor.pieces(raw[at : at + 65_536] for at in range(0, len(raw), 65_536)))
    assert redactor.counts == {"github token": 1}
    assert TOKEN[4:] not in left.decode()
    assert len(json.loads(left)["text"]) > size // 2


def test_a_long_record_is_not_held() -> None:
    tracemalloc.start()
    try:
        done = sum(len(piece) for piece in Redactor().pieces(b"word " * 65_536 for _ in range(20)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done == 20 * 5 * 65_536
    assert peak < 24 << 20


def test_what_was_replaced_is_said() -> None:
    redactor = Redactor()
    redactor.text(f"{TOKEN} and {TOKEN} and password=sw0rdfish")
    assert explain(redactor.counts) == "3 secrets were replaced: 2 × github token, 1 × password"
    assert explain(Redactor().counts) == "nothing in it looked like a secret"
    assert Redactor(on=False).text(TOKEN) == TOKEN


def test_a_password_with_a_quote_in_it_leaves_nothing_behind_in_a_record_that_is_not_read_whole() -> None:
    filling = "x" * (WINDOW + 2 * LONGEST)
    record = json.dumps({"a": filling, "password": 'Zq9},{more"tail9', "b": filling}).encode()
    shared = b"".join(Redactor().pieces(record[at : at + 65_536] for at in range(0, len(record), 65_536)))
    assert json.loads(shared) == {"a": filling, "password": "[redacted: password]", "b": filling}
