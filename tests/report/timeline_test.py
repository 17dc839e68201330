# SPDX-License-Identifier: Apache-2.0
"""Timelines of `ringspan trace` in the report: what is drawn where, and what is refused."""

import json
import re
from xml.etree import ElementTree

import pytest
import synthetic_rows
from conftest import report
from report_page.read_rows import BadInput
from report_page.timeline import ABOUT, CATEGORIES, LEFT, RIGHT, WIDTH, Trace, draw

SVG = "{http://www.w3.org/2000/svg}"


def write_trace(path, ranks=2, spans=None):
    """Of each rank: a kernel in the first half of 2 ms, a wait behind it, a message over all."""
    if spans is None:
        spans = [(0, "attention", 0, 1000), (0, "wait", 1000, 1000), (1, "message", 0, 2000)]
    events = [
        {"ph": "X", "pid": rank, "tid": tid, "name": cat, "cat": cat, "ts": start, "dur": length}
        for rank in range(ranks)
        for tid, cat, start, length in spans
    ]
    about = {
        "world": "simulated",
        "cluster": "h800",
        "schedule": "zigzag",
        "ranks": str(ranks),
        "pass": "forward",
        "sequence_length": "65536",
        "heads": "32",
        "kv_heads": "8",
        "mask": "causal",
        "dtype": "bf16",
        "kernel": "modelled",
    }
    path.write_text(json.dumps({"otherData": about, "traceEvents": events}))
    return path


def bars(svg, category):
    """[(left, width)] of what is drawn in a category's colour, without its place in the legend."""
    colour = CATEGORIES[category][0]
    rectangles = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    drawn = [one for one in rectangles if one.get("fill") == colour]
    return [(float(one.get("x")), float(one.get("width"))) for one in drawn[1:]]


def test_every_span_lies_where_its_time_is(tmp_path):
    svg = draw(Trace(write_trace(tmp_path / "t.json")))
    inside = WIDTH - LEFT - RIGHT
    assert bars(svg, "attention") == [(LEFT, inside / 2)] * 2
    assert bars(svg, "wait") == [(LEFT + inside / 2, inside / 2)] * 2
    assert bars(svg, "message") == [(LEFT, inside)] * 2
    assert "simulated: simulated, not measured; h800; 64Ki tokens" in svg
    assert "zigzag on 2 ranks, forward" in svg
    assert "0 ms" in svg and "µs" not in svg


def test_of_many_ranks_the_first_the_last_and_some_between_are_drawn(tmp_path):
    svg = draw(Trace(write_trace(tmp_path / "t.json", ranks=64)))
    ranks = [int(rank) for rank in re.findall(r">rank (\d+)<", svg)]
    assert len(ranks) == 8 and ranks[0] == 0 and ranks[-1] == 63
    assert "8 of 64 ranks" in svg


def test_what_is_too_short_to_be_seen_joins_its_like(tmp_path):
    spans = [(0, "attention", 0.01 * i, 0.01) for i in range(10000)] + [(0, "pack", 100, 100)]
    svg = draw(Trace(write_trace(tmp_path / "t.json", ranks=1, spans=spans)))
    assert len(bars(svg, "attention")) == 1
    left, width = bars(svg, "attention")[0]
    assert (left, width) == (LEFT, pytest.approx((WIDTH - LEFT - RIGHT) / 2, abs=0.2))


def test_the_page_and_the_pictures_have_it(tmp_path, open_page):
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    trace = write_trace(tmp_path / "h800.json")
    page = tmp_path / "report.html"
    done = report(rows, "-o", page, "--trace", trace, "--svg", tmp_path / "pictures")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "pictures/timeline.h800.svg").read_text() == draw(Trace(trace))
    opened = open_page(page, viewport={"width": 1200, "height": 800})
    assert opened.locator("#timeline svg").count() == 1
    frame = opened.locator("#timeline .scroll")
    assert frame.evaluate("(one) => one.scrollWidth <= one.clientWidth")  # all of it is seen
    assert "simulated, not measured" in opened.locator("#timeline figcaption").inner_text()


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"otherData": {"world": "host", "ranks": "1"}, "traceEvents": []}', "\ufffd"],
)
def test_what_is_no_trace_is_refused(tmp_path, text):
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    (tmp_path / "t.json").write_text(text)
    done = report(rows, "-o", tmp_path / "report.html", "--trace", tmp_path / "t.json")
    assert done.returncode == 2
    assert done.stderr == f"report: {tmp_path}/t.json: is not a trace that `ringspan trace` wrote\n"
    assert not (tmp_path / "report.html").exists()


def spoilt(path, change):
    """A trace in which `change` has altered what it says of itself and its spans."""
    document = json.loads(write_trace(path).read_text())
    change(document["otherData"], document["traceEvents"])
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "change",
    [
        *(lambda about, _, name=name: about.pop(name) for name in ABOUT),
        lambda about, _: about.pop("cluster"),  # nor has it a machine
        lambda about, _: about.update(sequence_length="many"),
        lambda about, _: about.update(ranks="1"),  # but there are spans of two
        lambda about, _: about.update(ranks=float("inf")),
        lambda _, events: events[0].update(ts=-1),
        lambda _, events: events[0].update(dur=float("nan")),
        lambda _, events: events[0].update(cat="others"),
        lambda _, events: events[0].pop("tid"),
    ],
)
def test_what_lacks_something_that_is_drawn_is_refused(tmp_path, change):
    path = spoilt(tmp_path / "t.json", change)
    with pytest.raises(BadInput) as refused:
        Trace(path)
    assert str(refused.value) == f"{path}: is not a trace that `ringspan trace` wrote"


def test_what_takes_no_time_is_refused(tmp_path):
    path = write_trace(tmp_path / "t.json", spans=[(0, "attention", 0, 0)])
    with pytest.raises(BadInput, match="ends within a nanosecond; there is nothing to draw"):
        Trace(path)


def test_pictures_of_one_name_are_refused(tmp_path):
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    traces = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        traces += ["--trace", write_trace(tmp_path / folder / "t.json")]
    svgs, page = tmp_path / "pictures", tmp_path / "report.html"
    done = report(rows, "-o", page, "--svg", svgs, *traces)
    assert done.returncode == 2
    assert done.stderr == (
        f"report: --trace {tmp_path}/b/t.json: its picture would be timeline.t.svg, as that of "
        f"{tmp_path}/a/t.json; rename one of them\n"
    )
    assert not svgs.exists() and not page.exists()
    assert report(rows, "-o", page, *traces).returncode == 0  # the page can show both
