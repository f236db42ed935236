"""Journals of any size, the same bytes for the same seed.

    python tests/generate.py --kind journal --size 1G --seed 1 OUT
    python tests/generate.py --kind journal --style fisk-ai-v3 --records 266 OUT
    python tests/generate.py --kind short --size 100M OUT
    python tests/generate.py --kind record --size 50M OUT
    python tests/generate.py --kind runs --count 10000 --size 70K DIRECTORY
    python tests/generate.py --kind small-runs --count 50000 DIRECTORY
    python tests/generate.py --kind damaged --damage torn --seed 3 OUT

Tool results are lognormal in size (median 1.8 KB, sigma 1.5, 200 B to 200 KB) and look like what tools
print: source, log lines, pretty JSON, prose in several scripts. Lines are written as Go's encoder would
write them: no spaces, `<`, `>` and `&` escaped.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import datetime as dt
import functools
import itertools
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

Style = Literal["native", "fisk-ai-v3", "fisk-ai-v2"]
Ending = Literal["completed", "suspended", "error", "budget", "crashed", "in-flight"]

STYLES: tuple[Style, ...] = ("native", "fisk-ai-v3", "fisk-ai-v2")
ENDINGS: tuple[Ending, ...] = ("completed", "suspended", "error", "budget", "crashed", "in-flight")

_TERMINALS: dict[Ending, bytes] = {
    "completed": b'{"reason":"completed"}',
    "suspended": b'{"reason":"suspended"}',
    "error": b'{"reason":"error","message":"llm call: 529 Overloaded \\u003chtml\\u003e"}',
    "budget": b'{"reason":"budget","message":"token budget of 200000 used up"}',
}
_TOOLS = ("read_file", "list_files", "search", "bash", "replace_text", "fetch_page", "stream_info")
_SENTENCE = (
    "stream consumer subject ledger invoice retry window offset commit shard replica quorum lease timeout "
    "checksum token budget prompt batch worker queue payload header cursor index snapshot journal record "
    "fold prefix suffix branch merge rebase pipeline deploy rollout canary latency throughput histogram"
)
_WORDS = tuple(_SENTENCE.split())
_SCRIPTS = (
    "结算流水与对账单不一致，请重新核对第三季度的发票。",
    "注文の再送キューに未処理のメッセージが残っています。",
    "Проверьте, что журнал закрыт и сумма сходится.",
    "تحقق من أن السجل مغلق وأن المجموع صحيح.",
    "Größenordnung überprüfen: 12 µs statt 12 ms, naïve façade.",
    "배포가 완료되었습니다 ✓ 롤백은 필요하지 않습니다 🚀",
)
_EPOCH = dt.datetime(2026, 3, 4, 9, 15, 30, tzinfo=dt.UTC)


def go_string(text: str) -> bytes:
    """Give a JSON string as Go's encoder writes it."""
    encoded = json.dumps(text, ensure_ascii=False)
    for raw, escaped in (
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
    ):
        encoded = encoded.replace(raw, escaped)
    return encoded.encode("utf-8", "surrogatepass")


def _source(rng: random.Random) -> str:
    a, b, c = rng.choice(_WORDS), rng.choice(_WORDS), rng.choice(_WORDS)
    return (
        f'def {a}_{b}(self, {c}: int) -> list[str]:\n    """Give the {a} of each {b}."""\n'
        f"    if {c} < {rng.randrange(99)} & self._{a}:\n        raise ValueError(f'{{{c}!r}} \\u2026')\n"
        f"    return [str(row) for row in self.{b} if row.{a} > {c}]\n\n"
    )


def _log(rng: random.Random) -> str:
    return (
        f"2026-03-04T{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}Z "
        f"{rng.choice(('INFO', 'WARN', 'ERROR'))} {rng.choice(_WORDS)}.{rng.choice(_WORDS)} "
        f'msg="{rng.choice(_WORDS)} {rng.choice(_WORDS)}" took={rng.random() * 900:.3f}ms '
        f"<id={rng.getrandbits(48):x}>\n"
    )


def _pretty(rng: random.Random) -> str:
    row = {
        rng.choice(_WORDS): rng.randrange(10**6),
        "name": rng.choice(_WORDS),
        "path": "C:\\var\\" + rng.choice(_WORDS),
    }
    return json.dumps(row, indent=2) + ",\n"


def _prose(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return rng.choice(_SCRIPTS) + "\n"
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randrange(8, 18))).capitalize() + ".\n"


_KINDS = (_source, _log, _pretty, _prose)


def text(rng: random.Random, size: int) -> str:
    """Give about `size` characters of text that looks like the output of a tool."""
    piece = rng.choice(_KINDS)
    parts: list[str] = []
    length = 0
    while length < size:
        part = piece(rng)
        parts.append(part)
        length += len(part)
    return "".join(parts)[:size]


@dataclasses.dataclass(frozen=True)
class Bodies:
    """Rendered texts, reused over and over so that a gigabyte is written at the speed of the disk."""

    results: tuple[bytes, ...]
    replies: tuple[bytes, ...]
    inputs: tuple[bytes, ...]

    @classmethod
    @functools.lru_cache(maxsize=8)
    def render(
        cls, seed: int, *, count: int = 600, median: float = 1800.0, longest_reply: int = 1600
    ) -> Bodies:
        """Render `count` tool results, replies and inputs; the same for the same seed."""
        rng = random.Random(f"bodies {seed} {count} {median}")
        normal = statistics.NormalDist()
        steps = [normal.inv_cdf((n + 0.5) / count) for n in range(count)]
        rng.shuffle(steps)
        sizes = (min(200_000, max(200, int(median * math.exp(1.5 * step)))) for step in steps)
        long = text(rng, 210_000)
        results = []
        for size in sizes:
            start = rng.randrange(len(long) - size)
            whole = long[start : start + size] if size > 20_000 else text(rng, size)
            results.append(go_string(whole[: size * size // len(go_string(whole))]))
        replies = tuple(go_string(text(rng, rng.randrange(20, longest_reply))) for _ in range(count))
        inputs = tuple(
            b'{"path":%b,"limit":%d}'
            % (go_string(f"src/{rng.choice(_WORDS)}/{rng.choice(_WORDS)}.py"), rng.randrange(400))
            for _ in range(count)
        )
        return cls(tuple(results), replies, inputs)


@dataclasses.dataclass(frozen=True)
class Wording:
    """How one format spells the parts of a record."""

    style: Style
    prefix: bytes
    version: int

    @classmethod
    def of(cls, style: Style) -> Wording:
        """Give the spelling of a style."""
        prefix = b"refold.v1.session." if style == "native" else b"io.choria.fisk-ai.v1.session."
        return cls(style, prefix, 3 if style == "fisk-ai-v3" else 2)

    @property
    def timed(self) -> bool:
        """True where every record carries its time."""
        return self.style == "native"

    def line(self, seq: int, kind: bytes, payload: bytes, seconds: float = 0.0) -> bytes:
        """Give one line of a journal, with its newline."""
        time_ = b'"time":"%b",' % stamp(seconds) if self.timed else b""
        return b'{"seq":%d,"protocol":"%b%b",%b"%b":%b}\n' % (seq, self.prefix, kind, time_, kind, payload)

    def meta(self, run_id: str, *, prompt: bytes, model: str, interactive: bool) -> bytes:
        """Give the payload of a meta record."""
        provider = b'"provider":"anthropic",' if self.version == 3 else b""
        return (
            b'{"version":%d,"run_id":%b,"created":"%b","fingerprint":{%b"model":%b,"system_hash":"%b","tools_hash":"%b",'
            b'"thinking_mode":"off","max_tokens":200000,"max_iterations":50},"prompt":%b%b}'
        ) % (
            self.version, go_string(run_id), stamp(0.0), provider, go_string(model), b"f8" * 32, b"4f" * 32,
            prompt, b',"interactive":true' if interactive else b"",
        )  # fmt: skip

    def message(self, role: bytes, blocks: Iterable[bytes]) -> bytes:
        """Give a message, with its keys in the order of the version."""
        content = b",".join(blocks)
        if self.version == 3:
            return b'{"role":"%b","content":[%b]}' % (role, content)
        return b'{"content":[%b],"role":"%b"}' % (content, role)

    def text_block(self, body: bytes) -> bytes:
        """Give a text block; `body` is a JSON string."""
        return b'{"text":{"text":%b}}' % body if self.version == 3 else b'{"text":%b,"type":"text"}' % body

    def thinking(self, body: bytes, signature: bytes) -> bytes:
        """Give a thinking block."""
        if self.version == 3:
            return b'{"thinking":{"text":%b,"signature":"%b"}}' % (body, base64.b64encode(signature))
        return b'{"signature":"%b","thinking":%b,"type":"thinking"}' % (signature, body)

    def call(self, call_id: bytes, name: bytes, arguments: bytes) -> bytes:
        """Give a tool call block; `call_id`, `name` are bare, `arguments` is JSON."""
        if self.version == 3:
            return b'{"tool_use":{"id":"%b","name":"%b","input":%b}}' % (call_id, name, arguments)
        return b'{"id":"%b","input":%b,"name":"%b","type":"tool_use"}' % (call_id, arguments, name)

    def result(self, call_id: bytes, body: bytes, *, error: bool, remote: bool = False) -> bytes:
        """Give the payload of a tool result record."""
        tail = b',"remote":true' if remote else b""
        if self.version == 3:
            flag = b',"is_error":true' if error else b""
            inner = b'{"tool_use_id":"%b","content":%b%b}' % (call_id, body, flag)
        else:
            flag = b"true" if error else b"false"
            content = b'[{"text":%b,"type":"text"}]' % body
            inner = b'{"tool_use_id":"%b","is_error":%b,"content":%b,"type":"tool_result"}' % (
                call_id, flag, content,
            )  # fmt: skip
        return b'{"tool_use_id":"%b","result":%b%b}' % (call_id, inner, tail)


def stamp(seconds: float) -> bytes:
    """Give the time that lies so many seconds after the start of every generated run."""
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def journal(
    *,
    seed: int = 1,
    size: int | None = None,
    records: int | None = None,
    style: Style = "native",
    run_id: str = "generated",
    ending: Ending = "completed",
    model: str = "claude-opus-4-8",
    prompt: str = "reconcile the invoices of <Q3> & close the ledger 核对",
    bodies: Bodies | None = None,
    interactive: bool = False,
) -> Iterator[bytes]:
    """Give the lines of a run that ends near `size` bytes, or after `records` records."""
    rng = random.Random(f"journal {seed} {style}")
    bodies = bodies or Bodies.render(seed)
    words = Wording.of(style)
    limit_bytes = size if size is not None else 1 << 62
    limit_records = records if records is not None else 1 << 62
    seq = itertools.count(1)
    written = 0
    count = 0
    clock = 0.0

    def line(kind: bytes, payload: bytes) -> bytes:
        nonlocal written, count, clock
        made = words.line(next(seq), kind, payload, clock)
        written += len(made)
        count += 1
        clock += 0.25 + rng.random()
        return made

    def room(more: int) -> bool:
        return written < limit_bytes and count + more < limit_records

    yield line(b"meta", words.meta(run_id, prompt=go_string(prompt), model=model, interactive=interactive))
    iteration = 0
    while room(3):
        wanted = min(rng.choice((1, 1, 1, 1, 1, 2, 2, 3, 5)), max(1, limit_records - count - 3))
        ids = [b"toolu_%07x%d" % (iteration, n) for n in range(wanted)]
        blocks = [words.text_block(rng.choice(bodies.replies))]
        if rng.random() < 0.2:
            blocks.insert(0, words.thinking(rng.choice(bodies.replies), b"EqQBCkYIBxgC%d" % iteration))
        blocks += [words.call(i, rng.choice(_TOOLS).encode(), rng.choice(bodies.inputs)) for i in ids]
        yield line(b"assistant", _turn(words, iteration, blocks, b"tool_use", rng))
        for call_id in ids:
            error = rng.random() < 0.03
            payload = words.result(
                call_id, rng.choice(bodies.results), error=error, remote=rng.random() < 0.02
            )
            yield line(b"tool_result", payload)
        iteration += 1
    if ending == "in-flight":
        blocks = [words.call(b"toolu_last", b"bash", b'{"command":"make deploy"}')]
        yield line(b"assistant", _turn(words, iteration, blocks, b"tool_use", rng))
        return
    blocks = [words.text_block(go_string("Done: the ledger is closed."))]
    yield line(b"assistant", _turn(words, iteration, blocks, b"end_turn", rng))
    if ending in _TERMINALS:
        yield line(b"terminal", _TERMINALS[ending])


def _turn(words: Wording, iteration: int, blocks: list[bytes], stop: bytes, rng: random.Random) -> bytes:
    cache = b',"cache_read_tokens":%d' % rng.randrange(1, 90_000) if rng.random() < 0.5 else b""
    return b'{"iteration":%d,"message":%b,"stop_reason":"%b","in_tokens":%d,"out_tokens":%d%b}' % (
        iteration, words.message(b"assistant", blocks), stop,
        rng.randrange(200, 9000), rng.randrange(10, 900), cache,
    )  # fmt: skip


def huge_record(
    size: int, *, style: Style = "native", seed: int = 1, run_id: str = "huge"
) -> Iterator[bytes]:
    """Give a run in which one tool result alone is `size` bytes long."""
    words = Wording.of(style)
    rng = random.Random(f"huge {seed}")
    chunk = go_string(text(rng, 1 << 16))[1:-1]
    body = b'"' + chunk * (size // len(chunk) + 1) + b'"'
    yield words.line(1, b"meta", words.meta(run_id, prompt=b'"read it all"', model="m", interactive=False))
    call = words.call(b"toolu_1", b"read_file", b'{"path":"huge.log"}')
    yield words.line(2, b"assistant", _turn(words, 0, [call], b"tool_use", rng), 1.0)
    yield words.line(3, b"tool_result", words.result(b"toolu_1", body, error=False), 2.0)
    blocks = [words.text_block(b'"That was long."')]
    yield words.line(4, b"assistant", _turn(words, 1, blocks, b"end_turn", rng), 3.0)
    yield words.line(5, b"terminal", _TERMINALS["completed"], 4.0)


def write(path: Path, lines: Iterable[bytes]) -> int:
    """Write lines to a new private file in big pieces; give the number of records."""
    count = 0
    batch: list[bytes] = []
    held = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for line in lines:
            batch.append(line)
            held += len(line)
            count += 1
            if held >= 1 << 22:
                file.write(b"".join(batch))
                batch.clear()
                held = 0
        file.write(b"".join(batch))
    return count


def runs(
    directory: Path, count: int, *, size: int = 70_000, style: Style = "native", seed: int = 1
) -> list[Path]:
    """Write `count` runs of about `size` bytes each, newest last, endings mixed; give their paths."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    bodies = Bodies.render(seed)
    rng = random.Random(f"runs {seed}")
    paths = []
    for number in range(count):
        run_id = f"run-{number:06d}-{rng.getrandbits(32):08x}"
        lines = journal(
            seed=seed + number, size=max(0, size - 3000), style=style, run_id=run_id, bodies=bodies,
            ending=rng.choice(ENDINGS), model=rng.choice(("claude-opus-4-8", "claude-sonnet-4-8", "gpt-5")),
            prompt=f"{rng.choice(_WORDS)} the {rng.choice(_WORDS)} of {rng.choice(_WORDS)} {number}",
        )  # fmt: skip
        path = directory / f"{run_id}.json"
        write(path, lines)
        moment = _EPOCH.timestamp() + number * 60
        os.utime(path, (moment, moment))
        paths.append(path)
    return paths


def short_bodies(seed: int) -> Bodies:
    """Give texts for records of about 350 bytes."""
    return Bodies.render(seed, median=40.0, longest_reply=60)


def small_runs(directory: Path, count: int, *, style: Style = "native", seed: int = 1) -> list[Path]:
    """Write very many runs of 4 to 12 short records: two hundred different ones, each with its id."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    bodies = Bodies.render(seed, count=60, median=300.0, longest_reply=400)
    kinds = [
        b"".join(
            journal(
                seed=seed + number, records=4 + number % 9, style=style, run_id="x", bodies=bodies,
                ending=ENDINGS[number % len(ENDINGS)], prompt=f"{_WORDS[number % 40]} {number}",
            )
        )
        for number in range(200)
    ]  # fmt: skip
    paths = []
    for number in range(count):
        run_id = f"small-{number:06d}"
        path = directory / f"{run_id}.json"
        write(
            path,
            (kinds[number % len(kinds)].replace(b'"run_id":"x"', b'"run_id":"%b"' % run_id.encode(), 1),),
        )
        moment = _EPOCH.timestamp() + number
        os.utime(path, (moment, moment))
        paths.append(path)
    return paths


def byte_count(text_: str) -> int:
    """Read 70K, 50M, 1G or a plain number."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text_[:-1]) * units[text_[-1].upper()] if text_[-1].upper() in units else int(text_)


def main(arguments: list[str] | None = None) -> int:
    """Write what was asked for and say how much it was."""
    parser = argparse.ArgumentParser(
        description="Write journals for tests; the same seed gives the same bytes."
    )
    parser.add_argument(
        "--kind", choices=("journal", "short", "record", "runs", "small-runs", "damaged"), default="journal"
    )
    parser.add_argument("--style", choices=STYLES, default="native")
    parser.add_argument("--size", type=byte_count)
    parser.add_argument("--records", type=int)
    parser.add_argument("--count", type=int, default=10_000, help="runs to write with --kind runs")
    parser.add_argument("--ending", choices=ENDINGS, default="completed")
    parser.add_argument("--damage", help="class of damage with --kind damaged; see tests/damage.py")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("out", type=Path)
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    if given.kind == "small-runs":
        made = len(small_runs(given.out, given.count, style=given.style, seed=given.seed))
        total = sum(path.stat().st_size for path in given.out.iterdir())
    elif given.kind == "runs":
        made = len(
            runs(given.out, given.count, size=given.size or 70_000, style=given.style, seed=given.seed)
        )
        total = sum(path.stat().st_size for path in given.out.iterdir())
    else:
        if given.kind == "record":
            lines = huge_record(
                given.size or 50 << 20, style=given.style, seed=given.seed, run_id=given.out.stem
            )
        else:
            size = given.size if given.size or given.records else 1 << 20
            lines = journal(
                seed=given.seed, size=size, records=given.records, style=given.style, ending=given.ending,
                run_id=given.out.stem, bodies=short_bodies(given.seed) if given.kind == "short" else None,
            )  # fmt: skip
        if given.kind == "damaged":
            sys.path.append(str(Path(__file__).parent.parent))
            from tests.damage import damage

            lines = iter((damage(given.damage, given.seed, b"".join(lines)),))
        made = write(given.out, lines)
        total = given.out.stat().st_size
    seconds = time.perf_counter() - started
    sys.stdout.write(f"{given.out}: {made} written, {total:,} bytes, {seconds:.1f} s\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
