# SPDX-License-Identifier: Apache-2.0
"""How rows become lines, and what the summary says of them."""

from collections import Counter
from dataclasses import replace

import conftest  # noqa: F401  (finds the package)
import synthetic_rows
from report_page import markup, summary
from report_page.figures import HEADS, LENGTH, RANKS, WEAK
from report_page.labels import seconds
from report_page.read_rows import read_rows
from report_page.series import draw, prepare

row = synthetic_rows.row


def prepared(tmp_path, rows):
    return prepare(read_rows([synthetic_rows.write(tmp_path / "rows.csv", rows)]))


def panels(drawing):
    return [panel.label for panel in drawing.panels]


def test_a_line_joins_only_rows_that_differ_in_its_axis(tmp_path):
    changes = [
        {},
        {"machine": "other"},
        {"commit": "other"},
        {"hop": "reference"},
        {"kernel": "null"},
        {"dtype": "bf16"},
        {"mask": "full"},
        {"batch": 2},
        {"kv_heads": 2},
        {"value_dim": 32},
        {"pass": "backward"},
    ]
    rows, _ = prepared(
        tmp_path,
        [row("ring", 2, length, **change) for change in changes for length in (1024, 2048)],
    )
    drawing = draw(rows, "host", LENGTH, "median_s")
    assert len(drawing.panels) == len(changes) == len(set(panels(drawing)))
    assert set(Counter(point["panel"] for point in drawing.points).values()) == {2}


def test_worlds_have_figures_of_their_own(tmp_path):
    rows, _ = prepared(
        tmp_path,
        [
            row("ring", 2, length, world=world)
            for world in ("host", "simulated")
            for length in (1024, 2048)
        ],
    )
    for world in ("host", "simulated"):
        drawing = draw(rows, world, LENGTH, "median_s")
        assert len(drawing.points) == 2 and drawing.world == world
        assert set(rows.loc[[point["row"] for point in drawing.points], "world"]) == {world}


def test_a_single_place_on_the_axis_is_no_figure(tmp_path):
    rows, _ = prepared(
        tmp_path, [row("ring", 2, 1024), row("zigzag", 2, 1024), row("ring", 2, 2048, mask="full")]
    )
    assert draw(rows, "host", LENGTH, "median_s") is None


def test_rows_that_failed_are_not_drawn(tmp_path):
    rows, _ = prepared(
        tmp_path,
        [row("ring", 2, 1024), row("ring", 2, 2048), row("ring", 2, 4096, status="timed out")],
    )
    assert [point["x"] for point in draw(rows, "host", LENGTH, "median_s").points] == [1024, 2048]


def test_variants_of_a_schedule_are_lines_of_their_own(tmp_path):
    rows, _ = prepared(
        tmp_path,
        [
            row("usp", 4, length, ulysses_degree=degree, ring_degree=4 // degree)
            for length in (1024, 2048)
            for degree in (1, 2, 4)
        ]
        + [row("ring", 4, length) for length in (1024, 2048)],
    )
    drawing = draw(rows, "host", LENGTH, "median_s")
    lines = Counter((point["schedule"], point["line"]) for point in drawing.points)
    assert lines == {
        ("ring", ""): 2,
        ("usp", "ulysses 1"): 2,
        ("usp", "ulysses 2"): 2,
        ("usp", "ulysses 4"): 2,
    }


def test_transports_are_lines_of_one_panel(tmp_path):
    rows, _ = prepared(
        tmp_path,
        [
            row("ring", 2, length, transport=transport)
            for length in (1024, 2048)
            for transport in ("threads", "mpi", "ucx")
        ],
    )
    drawing = draw(rows, "host", LENGTH, "median_s")
    assert panels(drawing) == [""]
    assert {point["line"] for point in drawing.points} == {
        "transport threads",
        "transport mpi",
        "transport ucx",
    }
    assert not any("threads" in line for line in drawing.shared)
    alone = draw(rows[rows["transport"] == "mpi"], "host", LENGTH, "median_s")
    assert any("mpi" in line for line in alone.shared)


def test_no_line_goes_from_one_transport_to_another(tmp_path):
    rows, _ = prepared(
        tmp_path, [row("ring", 2, 1024, transport="threads"), row("ring", 2, 2048, transport="mpi")]
    )
    drawing = draw(rows, "host", LENGTH, "median_s")
    assert [point["line"] for point in drawing.points] == ["transport threads", "transport mpi"]


def test_weak_scaling_keeps_tokens_per_rank_and_strong_scaling_the_length(tmp_path):
    rows, _ = prepared(
        tmp_path,
        [row("ring", ranks, length) for ranks in (1, 2, 4) for length in (1024, 2048, 4096)],
    )
    strong, weak = (draw(rows, "host", axis, "weak_efficiency") for axis in (RANKS, WEAK))
    assert panels(strong) == ["1Ki tokens", "2Ki tokens", "4Ki tokens"]
    assert panels(weak) == ["512 tokens per rank", "1Ki tokens per rank", "2Ki tokens per rank"]


def test_heads_grow_together_with_their_kv_heads(tmp_path):
    rows, _ = prepared(
        tmp_path,
        [
            row("ring", 2, 1024, heads=heads, kv_heads=heads // ratio)
            for heads in (4, 8, 16)
            for ratio in (1, 4)
        ],
    )
    assert [panel.label for panel in draw(rows, "host", HEADS, "median_s").panels] == [
        "",
        "4 query heads per KV head",
    ]


def test_a_point_measured_again_is_drawn_once_and_told(tmp_path):
    rows, notes = prepared(
        tmp_path,
        [
            row("ring", 2, 1024),
            row("ring", 2, 2048, median_s=9.0),
            row("ring", 2, 2048, median_s=1.0),
        ],
    )
    assert [point["y"] for point in draw(rows, "host", LENGTH, "median_s").points][1] == 1
    assert notes == [
        "1 point was measured more than once: its last row is drawn, the table has all."
    ]


def test_shortened_masks_keep_their_panels_apart(tmp_path):
    masks = [
        "documents:" + ",".join(["64"] * 20 + [middle] + ["64"] * 20) for middle in ("128", "256")
    ]
    rows, _ = prepared(
        tmp_path, [row("ring", 2, length, mask=mask) for mask in masks for length in (1024, 2048)]
    )
    assert len(set(panels(draw(rows, "host", LENGTH, "median_s")))) == 2


def test_places_that_shorten_alike_stay_rows_of_their_own(tmp_path):
    masks = [
        "documents:" + ",".join(["64"] * 20 + [middle] + ["64"] * 20) for middle in ("128", "256")
    ]
    rows, _ = prepared(
        tmp_path,
        [
            row(name, 2, length, mask=mask)
            for mask in masks
            for length in (1024, 2048)
            for name in ("ring", "zigzag")
        ],
    )
    found = summary.fastest(rows)
    places = Counter(point.place for point in found)
    assert list(places.values()) == [2, 2] and all("documents:64" in place for place in places)
    assert markup.fastest_table(found).count("<tr>") == 1 + len(masks)


def test_the_fastest_schedule_is_named_and_a_close_race_is_left_open(tmp_path):
    rows, _ = prepared(
        tmp_path,
        [
            row("ring", 2, 1024, median_s=2, p10_s=1.9, p90_s=2.1),
            row("zigzag", 2, 1024, median_s=1, p10_s=0.9, p90_s=1.1),
            row("ring", 2, 2048, median_s=2, p10_s=1.9, p90_s=2.1),
            row("zigzag", 2, 2048, median_s=1.9, p10_s=1.8, p90_s=2.0),
        ],
    )
    clear, close = summary.fastest(rows)
    assert (clear.schedule, clear.next_schedule, clear.ratio, clear.clear) == (
        "zigzag",
        "ring",
        2.0,
        True,
    )
    assert (close.schedule, close.clear) == ("zigzag", False)
    assert "2.00× before ring" in markup.fastest_cell(clear)
    assert "&lt; 1.01× before ring" in markup.fastest_cell(replace(clear, ratio=1.001))
    text = " ".join(summary.sentences(rows, [clear, close], []))
    assert "of 2 points on several ranks: zigzag at 1, too close to call at 1." in text
    assert "2Ki tokens on 2 ranks, causal: from 1.9 s (zigzag) to 2 s (ring)" in text


def test_schedules_on_other_nodes_do_not_race(tmp_path):
    rows, notes = prepared(
        tmp_path,
        [row("ring", 4, 1024, ranks_per_node=1), row("zigzag", 4, 1024, ranks_per_node=4)],
    )
    assert not summary.fastest(rows)
    assert not any(text.startswith("Longest") for text in summary.sentences(rows, [], notes))


def test_simulated_rows_are_of_clusters_and_words_are_said_once(tmp_path):
    simulated = {"world": "simulated", "transport": "simulated", "machine": "simulated"}
    rows, _ = prepared(
        tmp_path,
        [
            row("ring", 2, length, cluster=cluster, device="simulated", **simulated)
            for cluster in ("h800", "a100", "b200")
            for length in (1024, 2048)
        ],
    )
    assert list(summary.worlds(rows)) == [
        "6 rows simulated, not measured: a100, b200 and h800, hop by copy."
    ]
    shared = draw(rows, "simulated", LENGTH, "median_s").shared
    assert shared[0] == "simulated · commit synthetic · cpu kernel · hop by copy"


def test_times_are_rounded_before_their_unit_is_chosen():
    texts = [seconds(value) for value in (0.9996, 1234, 999.4, 0.0123, 2e-6)]
    assert texts == ["1 s", "1,230 s", "999 s", "12.3 ms", "2 µs"]
