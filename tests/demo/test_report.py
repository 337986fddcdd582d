"""The page and the lines: whole, escaped, and alone in the world."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from coconet.cli import demo
from coconet.demo.checks import checks
from coconet.demo.report import page, summary

VOID = {"meta", "br"}
LOADS = {"src", "href", "srcset", "data", "action", "xlink:href"}


class Page(HTMLParser):
    """Checks that tags match, and gathers text and everything that loads something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [f"{tag} {name}" for name, _ in attrs if name in LOADS]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [f"{tag} {name}" for name, _ in attrs if name in LOADS]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_page_is_well_formed_and_loads_nothing(facts):
    text = page(facts, checks(facts))
    parsed = Page(text)
    assert not parsed.open
    assert not parsed.loads
    assert not {"script", "link", "img", "iframe"} & set(parsed.tags)
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert text.isascii()


def test_page_shows_every_fact(facts):
    parsed = Page(page(facts, checks(facts)))
    shown = [
        *("A model reads <text> & learns", "coconet <ours>", "DDP", "2 ranks", "62 s"),
        *("42 ms", "39.5 .. 57.2, 190 runs", "8 ms", "4.0 times as long", "4 MiB"),
        *("split(avg)", "avg = g", "fused", "if (a < b) c();", "Measured in turns."),
        *("A CPU", "L3 48 MiB", "torch 2.13", "Every check passed."),
    ]
    assert [text for text in shown if text not in parsed.text] == []
    assert parsed.tags.count("polyline") == 3
    assert parsed.tags.count("svg") == 4


def test_page_says_what_failed(facts):
    bad = replace(facts, ours=replace(facts.ours, digests=["ab", "cd"]))
    parsed = Page(page(bad, checks(bad)))
    assert "A check failed" in parsed.text
    assert "FAIL Every rank has the same parameters" in parsed.text


def test_a_rest_lost_in_noise_has_no_ratio(facts):
    rest = replace(facts.ours.rest, median_ms=-0.1)
    noisy = replace(facts, ours=replace(facts.ours, rest=rest))
    assert "immeasurably many times" in Page(page(noisy, checks(noisy))).text


def test_summary_has_times_schedule_and_verdicts(facts):
    lines = summary(facts, checks(facts)).splitlines()
    assert lines[1].split()[:4] == ["coconet", "<ours>", "42", "(39.5..57.2)"]
    assert "split(avg)" in lines
    assert sum(line.startswith("pass  ") for line in lines) == 4


@pytest.fixture
def ran(monkeypatch, facts, tmp_path):
    """Run the command on given facts."""

    def run(found=facts, *, as_json=False):
        monkeypatch.setattr(demo, "run", lambda ranks, recipe: found)
        out = tmp_path / "report.html"
        return demo.main(ranks=2, out=out, as_json=as_json), out

    return run


def test_command_writes_the_report(ran, capsys):
    code, out = ran()
    assert code == 0
    assert Page(out.read_text()).tags.count("table") == 3
    assert capsys.readouterr().out.endswith(f"report: {out}\n")


def test_command_exits_1_when_losses_part(ran, facts, capsys):
    losses = [loss * 1.002 for loss in facts.ours.losses]
    code, out = ran(replace(facts, ours=replace(facts.ours, losses=losses)))
    assert code == 1
    assert "A check failed" in out.read_text()
    assert "FAIL  The loss of each of the first 50 steps" in capsys.readouterr().out


def test_json_is_one_object_with_the_same_facts(ran, capsys):
    code, out = ran(as_json=True)
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert code == 0
    assert found["passed"] is True
    assert found["report"] == str(out)
    assert found["ours"]["rest"]["median_ms"] == 2.0
    assert len(found["reference"]["losses"]) == 200
    assert [check["passed"] for check in found["checks"]] == [True] * 4
    assert set(found["listing"]) == {"schedule", "before", "after", "plan", "code"}
    assert "2 ranks" in captured.err


def test_ranks_that_failed_give_their_exit_code_and_no_report(ran):
    code, out = ran(130)
    assert code == 130
    assert not out.exists()
