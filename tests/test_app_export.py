"""Every format of every run parses, holds no secret and nothing live; files are whole or not there."""

from __future__ import annotations

import base64
import errno
import hashlib
import html
import json
import os
import re
import stat
import subprocess
import sys
import tracemalloc
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from shutil import copytree

import pytest
from tests import run_story, story
from tests.secret_story import Secret, secrets

from refold.app.cli import main
from refold.app.exporting import text_of
from refold.app.picturing import picture
from refold.app.screens.standing import AS_PRINTED
from refold.app.settings import Settings
from refold.core.errors import NotRegular, Refused, StoreError, WriteFailed
from refold.core.export.entries import visible
from refold.core.export.html import html as page
from refold.core.export.json_text import json_lines
from refold.core.export.markdown import inline, markdown
from refold.core.playback import AS_RECORDED, Playhead
from refold.core.redact import Redactor
from refold.core.store import bundle as bundles
from refold.core.store.bundle import BadBundle, open_bundle
from refold.core.store.export import LONGEST, Source, as_text
from refold.core.store.export_target import NameTaken, refuse_target, write_file, write_new_file
from refold.core.store.reader import RunReader

TEXT_FORMATS = ("md", "html", "json", "jsonl", "cast", "svg")
FORMATS = (*TEXT_FORMATS, "bundle")
VOID = {"meta", "input"}


class Page(HTMLParser):
    """Reads a page strictly: every element is closed, in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def check_html(text: str) -> None:
    read = Page(text)
    tags = {tag for tag, _ in read.elements}
    assert tags <= {
        *(
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "h1",
            "dl",
            "dt",
            "dd",
            "header",
            "input",
            "small",
        ),
        *("main", "details", "summary", "b", "span", "pre", "p", "div", "script"),
    }
    for tag, attributes in read.elements:
        allowed = {"id", "class", "open", "lang", "charset", "http-equiv", "content", "name"}
        assert set(attributes) <= allowed | {"type", "placeholder", "aria-label"}, tag
    (policy,) = (a["content"] or "" for tag, a in read.elements if a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        (body,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(
        r"""(?:src|href|url)\s*[=(]""",
        re.sub(r"<pre>.*?</pre>|<dd>.*?</dd>", "", text, flags=re.DOTALL).split("<main>")[0],
    )


def check_json(text: str) -> None:
    read = json.loads(text)
    assert text.isascii()
    assert set(read) == {"run", "records", "findings", "state", "state_error", "redacted"}
    assert len(read["records"]) == read["run"]["items"]


def check_lines(text: str) -> None:
    for line in text.split("\n")[:-1]:
        json.loads(line)


def check_cast(text: str) -> None:
    header, *events = (json.loads(line) for line in text.split("\n")[:-1])
    assert header["version"] == 2
    times = [event[0] for event in events]
    assert times == sorted(times)
    for _, kind, shown in events:
        assert kind == "o"
        left = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "")
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", left)


def check_svg(text: str) -> None:
    """It parses, holds nothing but what draws, and fetches nothing."""
    root = ET.fromstring(text)
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names <= {"svg", "style", "defs", "clipPath", "rect", "circle", "g", "text"}
    (style,) = root.findall("{*}style")
    assert style.text is not None
    assert not re.search(r"url\(|@import|https?:", style.text)
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert name.rpartition("}")[2] != "href"
            assert "url(" not in value or value.startswith("url(#")


def drawn(source: Source) -> str:
    """The picture of a run as the command line draws it."""
    settings = Settings(roots=(), state_dir=Path("/nowhere"), cache_dir=None, config_file=Path("/nowhere/no"))
    return picture(source, AS_PRINTED, settings)


def shown_in(svg: str) -> list[str]:
    """The rows of a picture that are not blank, as one reads them."""
    rows: dict[str, str] = {}
    for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        place = element.get("clip-path", "")
        before = rows.get(place, "").ljust(round(float(element.get("x", "0")) / _CELL))
        rows[place] = before + (element.text or "").replace("\xa0", " ").rstrip("\n")
    return [row.rstrip() for place, row in rows.items() if place and row.strip()]


_CELL = 12.2


def check_md(text: str) -> None:
    """Outside of fences there is nothing but lines of ours."""
    fence = ""
    for line in text.split("\n"):
        if fence:
            if re.fullmatch("`{3,}", line) and len(line) >= len(fence):
                fence = ""
            continue
        if found := re.fullmatch("(`{3,})(?:text|json)", line):
            fence = found[1]
            continue
        bare = re.sub(r"(`+) .*? \1(?!`)", "", line)
        assert re.fullmatch(r"[#·\w :+.,-]*", bare), line
    assert not fence


CHECKS: dict[str, Callable[[str], None]] = {
    "md": check_md,
    "html": check_html,
    "json": check_json,
    "jsonl": check_lines,
    "cast": check_cast,
    "svg": check_svg,
}


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def export(run: Path, name: str, out: Path, *more: str) -> int:
    return main(["export", str(run), "--format", name, "-o", str(out), "--force", *more])


def everything(name: str, out: Path) -> str:
    """All that an export says, as a reader of the format sees it."""
    if name != "bundle":
        text = out.read_text()
        text += "\n".join(shown_in(text)) if name == "svg" else ""
        return text + html.unescape(text) + text.replace("\\n", "\n").replace('\\"', '"')
    with zipfile.ZipFile(out) as file:
        return "".join(file.read(member).decode(errors="replace") for member in file.namelist())


def words_of(said: str) -> str:
    """Each word once: a secret of the story is part of one, and looking for 500 of them is quick."""
    return "\n".join(set(re.findall(r"[\w+/=~.-]+", said)))


def write(path: Path, *texts: str) -> Path:
    """A run that says these texts wherever a run can say something."""
    run = story.Writing(path.stem, "\n".join(texts[:3]))
    for text in texts:
        run.turn(text, f"bash:{text}", "bash:" + json.dumps({"inner": text}))
        run.results(text, json.dumps({"output": text}))
    run.lines.append(json.dumps(texts).encode()[:-1] + b"\n")
    path.write_bytes(run.end("completed").data)
    return path


@pytest.mark.parametrize("place", ["fisk-ai/v2", "fisk-ai/v3", "rivumi"])
def test_every_format_of_every_run_parses(place: str, journals: Path, tmp_path: Path) -> None:
    runs = [
        path
        for path in sorted((journals.parent / place).iterdir())
        if path.is_dir() or (path.suffix == ".json" and place != "rivumi")
    ]
    assert len(runs) > 25
    pictured = runs[:: len(runs) // 8]
    for run in runs:
        with RunReader.open(run, hint="fisk-ai") as reader:
            for name in TEXT_FORMATS if run in pictured else TEXT_FORMATS[:-1]:
                source = Source(reader, Redactor())
                CHECKS[name]("".join(text_of(name, source, drawn, ascii_text=False)))
                assert not source.redactor.total
    for name in TEXT_FORMATS:
        assert export(runs[-1], name, tmp_path / name) == 0
        CHECKS[name]((tmp_path / name).read_text())


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_a_bundle_holds_the_very_run(version: str, journals: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zip"
    for run in sorted((journals / version).glob("*.json")):
        assert export(run, "bundle", out) == 0
        opened = open_bundle(out, into=tmp_path)
        assert opened.run.read_bytes() == run.read_bytes(), run
        assert opened.run.name == run.name
        assert opened.directory.stat().st_mode & 0o777 == 0o700
        assert opened.run.stat().st_mode & 0o777 == 0o600
        assert opened.manifest["redacted"] == {}
        with RunReader.open(run, hint="fisk-ai") as reader:
            found = {finding.code for finding in reader.index_all().findings}
        findings = opened.manifest["findings"]
        assert isinstance(findings, list)
        assert {each["code"] for each in findings if isinstance(each, dict)} == found


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Secret]]:
    every = secrets(11)
    return write(tmp_path_factory.mktemp("leaky") / "leaky.json", *(each.text for each in every)), every


@pytest.mark.parametrize("name", FORMATS)
def test_no_secret_leaves(
    name: str, leaky: tuple[Path, list[Secret]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, every = leaky
    out = tmp_path / "out"
    assert export(run, name, out) == 0
    said = words_of(everything(name, out))
    assert [secret for secret in every if secret.core in said] == []
    told = re.search(r"refold: ([\d,]+) secrets were replaced: .*github token", capsys.readouterr().err)
    assert told is not None
    assert int(told[1]) >= (10 if name == "svg" else len(every))
    assert export(run, name, out, "--no-redact") == 0
    kept = words_of(everything(name, out))
    left = [secret for secret in every if secret.core in kept]
    # Rows show the beginning of a text only, and a picture a screen of them.
    assert len(left) > {"svg": 0, "cast": len(every) // 3}.get(name, len(every) - 1)
    assert "nothing was redacted" in capsys.readouterr().err


TWO = "AKIAIOSFODNN7EXAMPLQ, password: hunter2hunter"
"""Two secrets, in few enough letters that the row of a prompt shows both."""


@pytest.mark.parametrize("name", FORMATS)
def test_a_secret_counts_once_in_every_format(
    name: str, journals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the prompt stands in the journal or beside the log, and however often the file repeats it."""
    journal = tmp_path / "said.json"
    journal.write_bytes(story.Writing("said", TWO).turn("Fine.").end("completed").data)
    directory = copytree(
        journals.parent / "rivumi" / "12-terminal-completed", tmp_path / "12-terminal-completed"
    )
    request = json.loads((directory / "request.json").read_text())
    (directory / "request.json").write_text(json.dumps({**request, "instruction": TWO}))
    for run, no_prompt in ((journal, ()), (directory, ("jsonl",))):
        out = tmp_path / "out"
        assert export(run, name, out) == 0
        assert "hunter2" not in everything(name, out)
        wanted = (
            "nothing in it" if name in no_prompt else "2 secrets were replaced: 1 × aws access key, 1 × p"
        )
        said = capsys.readouterr().err
        assert f"refold: {wanted}" in said
        assert ("the file repeats is counted once" in said) is (name in {"html", "json"})
        if name == "json":
            assert json.loads(out.read_text())["redacted"] == {"aws access key": 1, "password": 1}


def test_what_does_not_show_a_prompt_does_not_count_it(
    journals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copytree(journals.parent / "rivumi" / "04-tail-tool-started", tmp_path / "04-beside")
    request = json.loads((directory / "request.json").read_text())
    (directory / "request.json").write_text(json.dumps({**request, "instruction": TWO}))
    main(["why", str(directory), "--redact"])
    said = capsys.readouterr()
    assert "[redacted" not in said.out
    assert "replaced" not in said.err


CUT = "ghp_aB3dE6gH9jK2mN5pQ8sTuV1wX4yZ7bC0dF3h"


@pytest.mark.parametrize("name", FORMATS)
def test_a_secret_that_damage_cut_in_two_leaves_nowhere(name: str, tmp_path: Path) -> None:
    lines = story.Writing("cut", "x").turn(f"the key {CUT} is good").turn("on").lines
    run, out = tmp_path / "cut.json", tmp_path / "out"
    at = lines[1].index(CUT.encode()) + 9
    broken = {
        "by a line end": [lines[0], lines[1][:at] + b"\n" + lines[1][at:], lines[2]],
        "by a record": [lines[0], lines[1][:at] + lines[2] + lines[1][at:]],
        "by a record on its line": [lines[0], lines[1][:at] + b"\n", lines[2], lines[1][at:]],
        "by the end": [lines[0], lines[1][:at]],
        "glued": [lines[0], lines[1][:at], lines[2]],
    }
    for how, parts in broken.items():
        run.write_bytes(b"".join(parts))
        assert export(run, name, out) == 0
        said = everything(name, out)
        assert CUT[4:9] not in said, how
        assert CUT[9:20] not in said, how
        assert export(run, name, out, "--no-redact") == 0
        assert name in {"svg", "cast"} or CUT[4:9] in everything(name, out)


BREAKOUTS = (
    "</pre></details></main><script>alert(1)</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</title></style></script><!--",
    "]]></text><script>1</script>&amp;&#x41;",
    "```\n# heading\n```\n````\n<b>x</b>\n`````` `` ` ",
    "~~~\n![x](https://example.org/x.png)\n| a | b |",
    "\x1b[2J\x1b]52;c;cm0gLXJm\x07\x00\x9b31m\x7f \u202eevil\u202c \u2028 \ufeff \ufffe \U000e0041",
    "\ud800 half \udfff",
    "line\r\nfeed\rback\x0b\x0c\x85",
)


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_no_text_breaks_out(name: str, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "hostile.json"
    run.parent.mkdir()
    lines = story.Writing("hostile", "x").lines
    for number, text in enumerate(BREAKOUTS):
        call = {"tool_use": {"id": text, "name": text, "input": {text: [text, {text: text}]}}}
        blocks = [{"text": {"text": text}}, {"thinking": {"text": text}}, call, {"odd": text}]
        payload = {
            "iteration": number,
            "message": {"role": "assistant", "content": blocks},
            "stop_reason": text,
        }
        protocol = "io.choria.fisk-ai.v1.session."
        lines.append(
            json.dumps(
                {"seq": 2 * number + 2, "protocol": f"{protocol}assistant", "assistant": payload}
            ).encode()
        )
        result = {"tool_use_id": text, "result": {"tool_use_id": text, "content": text, "is_error": True}}
        lines.append(
            json.dumps(
                {"seq": 2 * number + 3, "protocol": f"{protocol}tool_result", "tool_result": result}
            ).encode()
        )
        lines.append(text.encode(errors="surrogatepass").replace(b"\n", b" "))
    run.write_bytes(b"\n".join(line.rstrip(b"\n") for line in lines))
    out = tmp_path / "out"
    assert export(run, name, out) == 0
    CHECKS[name](out.read_text())


def test_a_page_is_searched_and_folded() -> None:
    assert visible("a\x00\x1b\u202e\ud800\n\tb") == "a␀␛‹U+202E›‹U+D800›\n\tb"
    hidden = "\u034f\u115f\u1160\u3164\uffa0\u180b\ufdd0\U0001d173\U000e0100\U0010ffff\U0001fffe"
    assert visible(hidden) == "".join(f"‹U+{ord(each):04X}›" for each in hidden)
    assert visible("می\u200cخواهم 👨\u200d👩") == "می\u200cخواهم 👨\u200d👩"
    assert inline("a`b``c\n") == "``` a`b``c⏎ ```"


def test_up_to_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "fix-add.json"
    writing = story.Writing("fix-add", "fix").turn("look", "read_file:calc.py").results("text")
    run.write_bytes(writing.turn("done").end("completed").data)
    assert main(["export", f"{run}@3", "--format", "json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert [row["seq"] for row in read["records"]] == [1, 2, 3]
    assert read["run"]["up_to"] == 3
    assert read["state"]["completed"] is False
    assert main(["export", f"{run}@3", "--format", "svg"]) == 0
    rows = shown_in(capsys.readouterr().out)
    assert "seq 3 / 5" in rows[0], "the screen at that record"
    assert main(["export", f"{run}@3", "--format", "cast"]) == 0
    assert len(capsys.readouterr().out.split("\n")) == 7
    assert main(["export", f"{run}@9"]) == 3


def test_a_recording_is_played_as_the_screen_plays_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_story.write(tmp_path / "fix-add.json", run_story.fix_add())
    assert main(["export", str(run), "--format", "cast"]) == 0
    header, _, *events = (json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1])
    with RunReader.open(run) as reader:
        timeline = reader.index_all()
        head, shown = Playhead().play(0.0), [0.0]
        for item in range(1, timeline.items):
            head = head.on(item, AS_RECORDED.wait(timeline, item))
            assert head.since is not None
            shown += [head.since] * (1 + timeline.own_calls(item))
    assert [event[0] for event in events] == pytest.approx(shown)
    assert shown[-1] == pytest.approx(7.5), "a minute and a half of waiting for the user takes two seconds"
    assert header["idle_time_limit"] == AS_RECORDED.idle


def test_a_call_without_a_result_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "fix-add.json"
    run.write_bytes(
        story.Writing("fix-add", "fix").turn("look", "read_file:a", "bash:b").results("text").data
    )
    for name in ("md", "html"):
        for place, count in (("", 1), ("@2", 2)):
            assert main(["export", f"{run}{place}", "--format", name]) == 0
            said = capsys.readouterr().out
            assert said.count("outcome unknown") == 1 + count
            assert ("2 calls without" if count == 2 else "1 call without") in said


def test_lines_are_those_of_the_file(journals: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    run = journals / "v3" / "thinking-and-provider-blocks.json"
    assert main(["export", str(run), "--format", "jsonl"]) == 0
    assert capsysbinary.readouterr().out == run.read_bytes()


def test_damage_is_marked(journals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = journals / "v3" / "two-records-one-line.json"
    for name, mark in (("md", "E_GLUED"), ("html", "E_GLUED"), ("json", "E_GLUED"), ("svg", "⚠")):
        assert main(["export", str(run), "--format", name]) == 0
        said = capsys.readouterr()
        assert mark in said.out
        assert "the run is damaged" in said.err


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    run = write(runs / "one.json", "hello")
    other = write(runs / "two.json", "hello")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (run, other)}
    link = tmp_path / "link"
    link.symlink_to(run)
    hard = tmp_path / "hard"
    hard.hardlink_to(run)
    for target in (run, other, runs / "new.json", hard):
        assert export(run, "json", target) == 1, target
    assert export(run, "md", link) == 3
    assert export(run, "md", tmp_path) == 3
    assert export(run, "md", tmp_path / "no" / "file") == 3
    assert export(tmp_path / "none.json", "md", tmp_path / "out") == 3
    assert main(["export", str(run), "--format", "bundle"]) == 2
    assert main(["export", f"{run}@1", "--format", "bundle", "-o", str(tmp_path / "part")]) == 2
    assert "a bundle holds the whole run" in capsys.readouterr().err
    assert main(["export", str(run), "--format", "pdf"]) == 2
    assert main(["export"]) == 2
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    assert names(runs) == ["one.json", "two.json"]
    assert names(tmp_path) == ["hard", "link", "runs"]
    capsys.readouterr()
    assert main(["--root", str(runs), "--only", "export", "one", "--format", "md", "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("# Run ` one `\n")


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_there_is_replaced_only_when_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "runs").mkdir()
    run = write(tmp_path / "runs" / "one.json", "hello")
    out = tmp_path / "out"
    words = ["export", str(run), "--format", name, "-o", str(out)]
    assert main(words) == 0
    out.write_text("the old one")
    capsys.readouterr()
    assert main(words) == 1
    said = capsys.readouterr().err
    assert f"{out}: this file is already there" in said
    assert "--force" in said
    assert out.read_text() == "the old one"
    assert names(tmp_path) == ["out", "runs"]
    assert main([*words, "--force"]) == 0
    assert b"the old one" not in out.read_bytes()
    assert names(tmp_path) == ["out", "runs"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_comes_while_it_is_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    out = tmp_path / "out"

    def pieces() -> Iterator[str]:
        yield "mine"
        out.write_text("theirs")

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(NameTaken):
        write_new_file(out, as_text(pieces()))
    assert (out.read_text(), names(tmp_path)) == ("theirs", ["out"])
    write_new_file(tmp_path / "other", as_text(["mine"]))
    assert ((tmp_path / "other").read_text(), names(tmp_path)) == ("mine", ["other", "out"])


@pytest.mark.parametrize("fails", [False, True])
def test_where_there_are_no_links_the_name_is_taken_before_the_file_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Whoever makes a file of this name at the last moment is refused, and loses nothing."""
    out = tmp_path / "out"
    rename = Path.rename

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    def late(new: Path, target: Path) -> Path:
        with pytest.raises(FileExistsError):
            out.open("x")
        if fails:
            raise OSError(errno.EIO, "no renaming")
        return rename(new, target)

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(Path, "rename", late)
    if fails:
        with pytest.raises(WriteFailed):
            write_new_file(out, as_text(["mine"]))
        assert names(tmp_path) == []
    else:
        write_new_file(out, as_text(["mine"]))
        assert (out.read_text(), names(tmp_path)) == ("mine", ["out"])
        assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("file", "name", "check"),
    [
        ("y.html", "html", check_html),
        ("Y.HTML", "html", check_html),
        ("y.md", "md", check_md),
        ("y.json", "json", check_json),
        ("y.export.json", "json", check_json),
        ("y.jsonl", "jsonl", check_lines),
        ("y.cast", "cast", check_cast),
        ("y.svg", "svg", check_svg),
        ("y.refold-bundle", "bundle", None),
    ],
)
def test_the_name_of_the_file_says_which_format_where_nothing_else_does(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    name: str,
    check: Callable[[str], None] | None,
) -> None:
    (tmp_path / "runs").mkdir()
    run, out = write(tmp_path / "runs" / "one.json", "hello"), tmp_path / file
    assert main(["export", str(run), "-o", str(out)]) == 0
    assert f"{out}: written as {name}, as its name says" in capsys.readouterr().err
    if check is None:
        assert zipfile.ZipFile(out).testzip() is None
    else:
        check(out.read_text())
    out.unlink()
    assert main(["export", str(run), "-o", str(out), "--format", "jsonl"]) == 0
    told = capsys.readouterr().err
    assert f"written as jsonl{'' if name == 'jsonl' else f', though it is called {name}'}\n" in told
    check_lines(out.read_text())


@pytest.mark.parametrize("file", ["y", "y.txt", "html", ".html", "y.html.gz", "y" * 300])
def test_a_name_that_speaks_of_no_format_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    run = write(tmp_path / "one.json", "hello")
    assert main(["export", str(run), "-o", str(tmp_path / file)]) == 2
    said = capsys.readouterr().err
    assert "names no format" in said
    assert "--format" in said
    assert ".html" in said
    assert main(["export", str(run), "-o", str(tmp_path)]) == 2
    assert f"{tmp_path}: this is a directory (name a file in it)" in capsys.readouterr().err
    assert names(tmp_path) == ["one.json"]


def test_every_format_takes_a_run_directory(
    journals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in sorted(path for path in (journals.parent / "rivumi").iterdir() if path.is_dir()):
        for name in FORMATS:
            assert export(run, name, tmp_path / name) == 0, (run, name)
        capsys.readouterr()
        read = json.loads((tmp_path / "json").read_text())
        assert main(["state", str(run), "--json"]) in (0, 1)
        said = json.loads(capsys.readouterr().out)
        assert (read["state"] is not None) == (said["ok"] and bool(read["records"])), run
        if read["state"] is not None:
            claims = said["state"]["manifest"]
            if claims is not None:
                claims["messages"] = len(claims["messages"])
            assert read["state"] == said["state"]
        main(["verify", str(run), "--json"])
        found = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
        assert [each["code"] for each in read["findings"]] == [
            code for each in found for code in ([each["code"]] if "code" in each else [])
        ]
        asked = json.loads((run / "request.json").read_text())["instruction"]
        assert read["run"]["prompt"] == asked
        assert asked in (tmp_path / "md").read_text()
        assert read["run"]["model"] or not (run / "session.json").exists()
        assert read["run"]["created"] or not read["records"] or run.name == "37-external-cli-run"


def test_a_failing_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    run = write(tmp_path / "runs" / "one.json", *["hello" * 4000] * 8)
    out = tmp_path / "out"
    out.write_text("the old one")
    real = os.write
    for name in FORMATS:
        for good in (0, 1, 3):
            left = [good]

            def failing(fd: int, data: bytes, left: list[int] = left) -> int:
                left[0] -= 1
                if left[0] < 0 and len(data) > 100:
                    raise OSError(28, "No space left on device")
                return real(fd, data)

            monkeypatch.setattr(os, "write", failing)
            code = export(run, name, out, "--no-redact")
            monkeypatch.undo()
            if code == 0:
                assert left[0] >= 0
                out.write_text("the old one")
                continue
            assert code == 1, name
            assert out.read_text() == "the old one"
            assert names(tmp_path) == ["out", "runs"]


def test_a_full_output_is_said(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    run = write(tmp_path / "one.json", "hello")
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "refold.app", "export", str(run)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 74
    assert b"the output could not be written: No space left" in done.stderr


def test_a_stop_leaves_nothing(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "x" * 100_000
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "out", as_text(pieces()))
    assert names(tmp_path) == []


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("")
    (tmp_path / "run.json").write_text("")
    with pytest.raises(NotRegular, match=r"real\.md: not a directory"):
        refuse_target(tmp_path / "real.md" / "x.md", tmp_path / "run.json", ())


def test_nothing_is_written_into_a_run_directory(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"")
    with pytest.raises(Refused):
        refuse_target(tmp_path / "out.md", tmp_path / "events.jsonl", ())


PROTECTED = (
    "runs/.refold-trash/one.x/one.json",
    "runs/.refold-trash/out.md",
    "runs/one.lock",
    "runs/one.12.torn",
    "elsewhere/two.lock",
    "state/refold/notes/1-2.json",
    "state/refold/refold.log",
    "cache/refold/search.md",
    "config/refold/config.toml",
    "runs/dir/workspace/deep/out.md",
    "elsewhere/dir/workspace/out.md",
)


@pytest.mark.parametrize("name", PROTECTED)
@pytest.mark.parametrize("options", [(), ("--no-cache",)])
def test_what_belongs_to_a_run_or_to_refold_is_not_overwritten(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    options: tuple[str, ...],
) -> None:
    for kind in ("state", "cache", "config"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    (tmp_path / "runs").mkdir()
    run = write(tmp_path / "runs" / "one.json", "hello")
    for inner in ("runs/dir", "elsewhere/dir"):
        (tmp_path / inner).mkdir(parents=True)
        for part in ("session.json", "events.jsonl"):
            (tmp_path / inner / part).write_bytes(b"{}")
    out = tmp_path / name
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("")
    words = ["--root", str(run.parent), "--only", *options, "export", str(run), "-o", str(out)]
    assert main([*words, "--format", "md", "--force"]) == 1
    assert "choose another" in capsys.readouterr().err
    assert out.read_text() == ""


def test_an_export_may_lie_beside_what_only_looks_like_a_part_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(b"")
    (tmp_path / "out").mkdir()
    (tmp_path / "runs").mkdir()
    run = write(tmp_path / "runs" / "one.json", "hello")
    state = tmp_path / "runs"
    refuse_target(tmp_path / "out" / "out.md", run, (run.parent,), (tmp_path / "own",))
    refuse_target(run.parent / "out.md", run, (run.parent,), (state, tmp_path / "own"))


def zipped(path: Path, *members: tuple[str, bytes], mode: int = 0o100600) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            file.writestr(info, data)
    return path


MANIFEST = ("manifest.json", b'{"bundle":1}')


def test_a_hostile_bundle_unpacks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, into = tmp_path / "b.zip", tmp_path / "into"
    into.mkdir()
    for name in (
        "../evil.json",
        "run/../../evil.json",
        "/run/x.json",
        "run/a/b.json",
        "run/.json",
        "run/-x.json",
        "run\\x.json",
        "run/x.txt",
        "run/x.json/",
    ):
        zipped(path, (name, b"{}"), MANIFEST)
        with pytest.raises(BadBundle):
            open_bundle(path, into=into)
    run = ("run/x.json", b"{}\n" * 10)
    for members in (
        (run,),
        (MANIFEST,),
        (run, MANIFEST, ("more", b"")),
        (run, ("manifest.json", b"[]")),
        (run, ("manifest.json", b"{}")),
        (run, ("manifest.json", b'{"bundle":2}')),
    ):
        with pytest.raises(BadBundle):
            open_bundle(zipped(path, *members), into=into)
    with pytest.raises(BadBundle, match="not a file"):
        open_bundle(zipped(path, run, MANIFEST, mode=0o120777), into=into)
    whole = zipped(path, run, MANIFEST).read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(BadBundle):
            open_bundle(path, into=into)
    path.write_bytes(whole)
    monkeypatch.setattr(bundles, "LARGEST_RUN", 20)
    with pytest.raises(BadBundle, match="claims to hold more"):
        open_bundle(path, into=into)
    monkeypatch.undo()
    assert names(into) == []
    assert open_bundle(path, into=into).manifest == {"bundle": 1}
    with pytest.raises(StoreError):
        open_bundle(tmp_path / "none", into=into)
    with pytest.raises(StoreError):
        open_bundle(path, into=tmp_path / "none")


def test_no_room_for_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "b.zip", ("run/x.json", b"{}\n"), MANIFEST)

    def failing(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    (tmp_path / "into").mkdir()
    monkeypatch.setattr(os, "write", failing)
    with pytest.raises(WriteFailed):
        open_bundle(path, into=tmp_path / "into")
    assert names(tmp_path / "into") == []


def test_a_record_of_fifty_megabytes_is_never_held_many_times(tmp_path: Path) -> None:
    size = 50 << 20
    run = tmp_path / "huge.json"
    line = story.Writing("huge", "x").turn("@@").lines
    head, _, tail = line[1].partition(b"@@")
    with run.open("wb") as file:
        file.write(line[0] + head)
        for _ in range(size >> 20):
            file.write(b"words of it \\n" * ((1 << 20) // 13))
        file.write(b" ghp_aB3dE6gH9jK2mN5pQ8sTaB3dE6gH9jK2mN5p" + tail)
    for name in ("md", "html", "jsonl"):
        with RunReader.open(run, hint="fisk-ai") as reader:
            source = Source(reader, Redactor())
            assert source.items == 2
            # How much is held is the same whatever is looked for; without that it is quick.
            source.redactor.on = False
            tracemalloc.start()
            try:
                if name == "jsonl":
                    written = sum(len(piece) for piece in json_lines(source.outlines(), source.spelled))
                else:
                    writer = markdown if name == "md" else page
                    written = sum(len(piece) for piece in writer(source.head(), source.entries()))
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert (written > size - (1 << 20)) == (name == "jsonl")
        assert peak < (2.5 * size if name == "jsonl" else 4 * LONGEST)
