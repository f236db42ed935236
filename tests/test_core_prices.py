"""What tokens cost by a table, and that nothing is worked out without one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import run_story as story
from tests.rivumi_cases import make

from refold.app.config import ConfigError
from refold.app.lines import plain
from refold.app.present.money import Money, bill_at, money_json, money_lines
from refold.app.present.reading import reading_of
from refold.app.settings import Options, load
from refold.core.prices import Bill, Price, Spent, amount, bill, by_model, filled
from refold.core.store.catalog import Catalog, Root
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary, bill_of

GPT = Price(1.0, 10.0, cache_read=0.1, context=10_000, currency="USD")
PRICES = {"gpt-5": GPT}

NUMBERS = st.integers(0, 10**9)
SPENT = st.builds(Spent, NUMBERS, NUMBERS, NUMBERS, NUMBERS)


def test_a_bill_is_the_sum_of_all_kinds() -> None:
    assert bill(PRICES, [("gpt-5", Spent(1_000_000, 100_000, 1_000_000))]) == Bill(2.1, "USD")
    assert bill(PRICES, [("gpt-5", Spent())]) == bill({}, [("x", Spent())]) == Bill(0.0)


def test_what_the_table_lacks_is_named_and_nothing_is_worked_out() -> None:
    assert bill({}, [("gpt-5", Spent(1))]) == Bill(None, missing=('prices."gpt-5"',))
    found = bill(PRICES, [("gpt-5", Spent(1, 1, 1, 1))])
    assert found == Bill(None, missing=('prices."gpt-5".cache_create',))
    two = {**PRICES, "other": Price(1.0, 1.0, currency="EUR")}
    assert bill(two, [("gpt-5", Spent(1)), ("other", Spent(1))]) == Bill(
        None, reason="its models are paid in several currencies"
    )


def test_what_no_table_can_help_is_a_reason_and_no_key_of_it() -> None:
    assert bill({}, [("", Spent(1))]) == Bill(None, reason="no model is recorded")
    both = bill({}, [("", Spent(1)), ("gpt-5", Spent(1))])
    assert both == Bill(None, missing=('prices."gpt-5"',), reason="no model is recorded")
    assert said(Money(both, both)).strip() == (
        'cost          no [prices."gpt-5"] configured; not known: no model is recorded'
    )


def test_sums_that_grow_smaller_cost_nobody_knows_what() -> None:
    models = [(0, "gpt-5"), (4, "gpt-5")]
    found = bill(PRICES, by_model(models, [Spent(1_000), Spent(900)]))
    assert found == Bill(None, reason="the recorded sums of tokens grow smaller")
    assert bill(PRICES, [("gpt-5", Spent(5, output=-1))]).amount is None
    assert filled(GPT, Spent(-1)) is None


@given(st.lists(SPENT, min_size=1, max_size=5))
def test_nothing_is_counted_twice_over_the_models_of_a_run(parts: list[Spent]) -> None:
    table = {str(number): Price(1.0, 2.0, 3.0, 4.0) for number in range(len(parts))}
    sums: list[Spent] = []
    for part in parts:
        last = sums[-1] if sums else Spent()
        sums.append(Spent().less(Spent().less(last)).less(Spent().less(part)))
    models = [(number, str(number)) for number in range(len(parts))]
    assert by_model(models, sums) == [(str(number), part) for number, part in enumerate(parts)]
    whole = bill({"one": Price(1.0, 2.0, 3.0, 4.0)}, [("one", sums[-1])])
    assert bill(table, by_model(models, sums)).amount == pytest.approx(whole.amount)


def test_how_full_the_context_is() -> None:
    assert filled(GPT, Spent(1_000, 900, 1_500)) == 0.25
    assert filled(Price(1.0, 1.0), Spent(1)) is None
    assert filled(None, Spent(1)) is None


def said(money: Money, width: int = 90) -> str:
    return "\n".join(plain(line).rstrip() for line in money_lines(money, width))


def test_state_says_what_a_run_cost_up_to_the_cursor(tmp_path: Path) -> None:
    with RunReader.open(story.write(tmp_path / "fix-add.json", story.fix_add())) as reader:
        reader.index_all()
        reading = reading_of(reader)
        item = reading.timeline.item_at(5)
        assert item is not None
        money = reading.money(item, PRICES)
        assert money is not None
        assert said(money) == (
            "  cost          0.0035 USD  of 0.0052 USD in all\n  context       13%  1,300 of 10k tokens sent"
        )
        assert money_json(money) == {
            "amount": pytest.approx(0.00348), "currency": "USD", "unknown": [], "reason": None,
            "inherited": None, "run": pytest.approx(0.00522), "context": 0.13,
        }  # fmt: skip
        unknown = reading.money(item, {})
        assert unknown is not None
        assert said(unknown).strip().startswith('cost          no [prices."gpt-5"] configured')
        text = "\n".join(plain(line) for line in reading.state(item, 60, prices=PRICES) if line is not None)
        assert "0.0035 USD" in text
        assert "cost" not in "\n".join(plain(line) for line in reading.state(item, 60) if line is not None)


def test_a_fork_pays_for_what_it_added(tmp_path: Path) -> None:
    fork = {"run_id": "fix-add", "seq": 5, "prefix_sha256": "0" * 64, "reason": ""}
    lines = [story.meta(1, "child", "x", forked_from=fork), *story.fix_add()[1:]]
    path = story.write(tmp_path / "child.json", lines)
    with RunReader.open(path) as reader:
        reader.index_all()
        reading = reading_of(reader)
        money = reading.money(reading.timeline.items - 1, PRICES)
        assert money is not None
        assert "0.0052 USD  0.0035 USD inherited, 0.0017 own" in said(money)
    row = next(
        row
        for row in Catalog((Root(tmp_path, "refold", "--root"),), cache=None).scan()
        if isinstance(row, RunSummary)
    )
    whole, inherited = bill_of(row, PRICES)
    assert whole.amount == pytest.approx(0.00522)
    assert inherited.amount == pytest.approx(0.00348)


def test_turns_of_events_are_paid_at_the_price_of_their_own_model(tmp_path: Path) -> None:
    with RunReader.open(make("12-terminal-completed", tmp_path)) as reader:
        reader.index_all()
        reading = reading_of(reader)
        last = reading.timeline.items - 1
        models = reading.models()
        assert {model for _, model in models} <= {"", "scripted-1"}
        table = {"scripted-1": Price(1.0, 1.0, 1.0)}
        assert bill_at(reading.timeline, last, models, table).amount == pytest.approx(
            reading.timeline.counters(last).tokens / 1_000_000
        )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Bill(0.0, "USD"), "0.00 USD"),
        (Bill(1234.5, ""), "1,234.50"),
        (Bill(None), "–"),
        (Bill(0.00012), "0.0001"),
    ],
)
def test_amounts(found: Bill, text: str) -> None:
    assert amount(found) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[prices."m"]\ninput = 1\n', 'config.toml:1: prices.m.output: is missing'),
        ('[prices."m"]\ninput = -1\noutput = 1\n', "config.toml:2: prices.m.input: must be at least 0"),
        ('[prices."m"]\ninput = "1"\noutput = 1\n', "config.toml:2: prices.m.input: must be a number"),
        ('[prices."m"]\ninput = nan\noutput = 1\n', "config.toml:2: prices.m.input: must be a number"),
        ('[prices."m"]\ninput = 1e308\noutput = 1\n', "config.toml:2: prices.m.input: must be at most 1,"),
        ('[prices."m"]\ninput = 1\noutput = 1\ncontext = 1\n', "config.toml:4: prices.m.context: must be a"),
        ('prices.m = 3\n', "config.toml:1: prices.m: must be a table"),
        ('prices = [1]\n', "config.toml:1: prices: must be a table"),
        ('[prices."m"]\ninput = 1\noutput = 1\ncash = 1\n', "config.toml:4: prices.m.cash: no such setting"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_price_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "refold" / "config.toml"
    config.parent.mkdir()
    config.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(Options(), {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert message in str(raised.value)


def test_commands_say_cost_only_where_there_are_prices(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from refold.app.cli import main

    runs = tmp_path / "runs"
    runs.mkdir()
    path = story.write(runs / "fix-add.json", story.fix_add())
    for name in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))

    def answer(*arguments: str) -> dict[str, object]:
        main(list(arguments))
        found: dict[str, object] = json.loads(capfd.readouterr().out)
        return found

    listing = ("ls", "--json", "--root", str(runs), "--only")
    assert "cost" not in answer(*listing)
    assert "cost" not in answer("state", str(path), "--json")
    assert answer("config", "--json")["prices"] == {}
    config = tmp_path / "CONFIG" / "refold" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        'columns = ["id", "cost"]\n[prices."gpt-5"]\ninput = 1\noutput = 10\ncache_read = 0.1\n'
    )
    assert answer(*listing)["cost"] == {
        "amount": pytest.approx(0.00522), "currency": "", "unknown": [], "reason": None, "inherited": 0.0,
    }  # fmt: skip
    cost = answer("state", str(path), "--json", "--at", "5")["cost"]
    assert isinstance(cost, dict)
    assert cost["amount"] == pytest.approx(0.00348)
    assert answer("config", "--json")["prices"] == {
        "gpt-5": {"input": 1.0, "output": 10.0, "cache_read": 0.1}
    }
    main(["ls", "--root", str(runs), "--only"])
    assert "0.0052" in capfd.readouterr().out
    main(["config"])
    assert '[prices."gpt-5"]\ninput = 1.0' in capfd.readouterr().out


def test_a_family_pays_once_for_what_forks_took_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from refold.app.cli import main

    runs = tmp_path / "runs"
    runs.mkdir()
    lines = story.fix_add()
    parent = story.write(runs / "fix-add.json", lines)
    prefix = b"".join(lines[:5])
    fork = {"run_id": "fix-add", "seq": 5, "prefix_sha256": hashlib.sha256(prefix).hexdigest(), "reason": ""}
    story.write(runs / "child.json", [story.meta(1, "child", "x", forked_from=fork), *lines[1:]])
    for name in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    config = tmp_path / "CONFIG" / "refold" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[prices."gpt-5"]\ninput = 1\noutput = 10\ncache_read = 0.1\n')
    main(["lineage", "--json", "--root", str(runs), str(parent)])
    rows = [json.loads(row) for row in capfd.readouterr().out.splitlines()]
    assert [(row["id"], row["cost"]["amount"], row["cost"]["inherited"]) for row in rows] == [
        ("fix-add", pytest.approx(0.00522), 0.0),
        ("child", pytest.approx(0.00174), pytest.approx(0.00348)),
    ]
    main(["lineage", "--root", str(runs), str(parent)])
    # One run of three turns, and a fork of it with one turn of its own: four turns, not six.
    assert "0.0070 together" in capfd.readouterr().err
