# SPDX-License-Identifier: Apache-2.0
"""The page as a reader meets it: figures that really draw, choices that work, tables that sort."""

import pytest
import synthetic_rows
from conftest import MARKS, report
from report_page import columns

SCHEDULES = synthetic_rows.SCHEDULES
REFUSAL = "ulysses: 8 heads cannot be cut for 16 ranks; use at most 8"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Two worlds, a sweep over heads, a point that was refused: 108 + 12 + 24 + 1 rows."""
    directory = tmp_path_factory.mktemp("page")
    rows = synthetic_rows.grid()
    rows += [
        synthetic_rows.row(name, 2, 4096, heads=heads, kv_heads=heads)
        for heads in (4, 16)
        for name in SCHEDULES
    ]
    simulated = [
        synthetic_rows.row(
            name,
            ranks,
            65536 * ranks,
            world="simulated",
            transport="simulated",
            machine="synthetic-cluster",
            kernel="modelled",
        )
        for ranks in (8, 16, 32, 64)
        for name in SCHEDULES
    ]
    simulated.append(synthetic_rows.row("ulysses", 16, 4096, median_s="", status=REFUSAL))
    files = [
        synthetic_rows.write(directory / "measured.csv", rows),
        synthetic_rows.write(directory / "simulated.csv", simulated),
    ]
    done = report(*files, "-o", directory / "report.html")
    assert (done.returncode, done.stderr) == (0, "")
    return directory / "report.html"


def figures(page):
    """{id: its points} as the page was given them."""
    return page.evaluate(
        "Object.fromEntries(report.figures.map((figure) => [figure.id, figure.points]))"
    )


def table(page, selector, column):
    return page.evaluate(
        """([selector, column]) => {
        const cells = (row) => [...row.children].map((cell) => cell.textContent);
        const rows = [...document.querySelectorAll(`${selector} tr`)].map(cells);
        return rows.slice(1).map((row) => row[rows[0].indexOf(column)]);
    }""",
        [selector, column],
    )


def test_every_figure_draws_one_mark_per_point(path, open_page):
    page = open_page(path)
    expected = {
        "time-host": 108,
        "rate-host": 108,
        "heads-host": 18,
        "strong_scaling-host": 108,
        "weak_scaling-host": 84,
        "weak_scaling-simulated": 24,
        "serial_share-host": 72,
        "exposed_share-host": 72,
        "imbalance-host": 72,
        "bytes_sent-host": 72,
        "peak_memory-host": 108,
    }
    drawn = {name: page.locator(f"#{name} {MARKS}").count() for name in figures(page)}
    assert drawn == expected
    assert page.locator("figure").count() == len(expected)


def test_marks_lie_inside_their_figure_and_have_a_size(path, open_page):
    page = open_page(path)
    for name in figures(page):
        frame = page.locator(f"#{name} .chart").bounding_box()
        boxes = page.eval_on_selector_all(
            f"#{name} {MARKS}", "all => all.map((one) => one.getBoundingClientRect())"
        )
        assert all(box["width"] > 2 and box["height"] > 2 for box in boxes)
        assert all(
            frame["x"] <= box["x"] + page.evaluate("scrollX") <= frame["x"] + frame["width"]
            for box in boxes
        )
        assert len({(round(box["x"]), round(box["y"])) for box in boxes}) > 6, (
            f"{name}: marks lie on one another"
        )


def test_no_text_of_a_figure_is_cut_off(path, open_page):
    expect_whole_texts(open_page(path))


def test_all_schedules_have_marks_that_are_seen_and_a_whole_legend(tmp_path, open_page):
    rows = [
        synthetic_rows.row(sequence_length=length) | {"schedule": name}
        for length in (1024, 2048)
        for name in columns.SCHEDULES
    ]
    csv = synthetic_rows.write(tmp_path / "all.csv", rows)
    assert report(csv, "-o", tmp_path / "report.html").returncode == 0
    page = open_page(tmp_path / "report.html")
    for name in columns.SCHEDULES:
        assert page.locator("svg text").get_by_text(name, exact=True).count() > 0, name
    expect_whole_texts(page)
    for name in figures(page):
        for width, height in page.eval_on_selector_all(
            f"#{name} {MARKS}",
            """all => all.map((one) => {
                const box = one.getBoundingClientRect();
                return [box.width, box.height];
            })""",
        ):
            assert width > 4 and height > 4, name
    expect_whole_texts(open_page(tmp_path / "report.html", viewport={"width": 400, "height": 800}))


def expect_whole_texts(page):
    for name in figures(page):
        frame = page.locator(f"#{name}").bounding_box()  # which may be narrower than its picture
        for text in page.eval_on_selector_all(
            f"#{name} svg text",
            """all => all.map((one) => {
                const box = one.getBoundingClientRect();
                return [one.textContent, box.left, box.right];
            })""",
        ):
            assert (
                "…" not in text[0]
                and text[1] >= frame["x"] - 1
                and text[2] <= frame["x"] + frame["width"] + 1
            ), text


def test_scaling_has_an_ideal_line_in_every_panel(path, open_page):
    page = open_page(path)
    ideal = page.eval_on_selector_all(
        "#strong_scaling-host .mark-line path[stroke='#888888']",
        "all => all.map((one) => "
        "one.getAttribute('d').split('L').map((at) => at.replace('M', '').split(',').map(Number)))",
    )
    assert len(ideal) == 6  # two passes, three lengths
    for line in (
        ideal
    ):  # on two logarithmic axes P times as fast on P ranks is a straight line through 1, 2, 4
        assert len(line) == 3
        assert (
            line[0][1] - line[1][1] == pytest.approx(line[1][1] - line[2][1], abs=0.1)
            and line[0][1] > line[2][1]
        )


def test_a_legend_click_leaves_one_schedule_in_that_figure(path, open_page):
    page = open_page(path)
    page.locator("#time-host .role-legend-entry text", has_text="zigzag").first.click()
    page.wait_for_function(f"document.querySelectorAll('#time-host {MARKS}').length === 18")
    assert page.locator(f"#rate-host {MARKS}").count() == 108


def test_a_choice_of_rows_reaches_every_figure_and_table(path, open_page):
    page = open_page(path)
    page.locator("#filters [data-column=schedule] button", has_text="ring").first.click()
    page.wait_for_function(f"document.querySelectorAll('#time-host {MARKS}').length === 90")
    assert page.locator(f"#heads-host {MARKS}").count() == 15
    assert "ring" not in table(page, "#rows table", "schedule")
    page.locator("#filters [data-column=schedule] button", has_text="usp").dblclick()
    page.wait_for_function(f"document.querySelectorAll('#time-host {MARKS}').length === 18")
    assert set(table(page, "#rows table", "schedule")) == {"usp"}


def test_axes_change_between_logarithmic_and_linear(path, open_page):
    page = open_page(path)

    def steps():  # the horizontal gaps between 1,024, 2,048 and 4,096 tokens in the first panel
        at = sorted(
            set(
                page.eval_on_selector_all(
                    f"#time-host {MARKS}",
                    "all => all.slice(0, 18).map(one => Math.round(one.getBoundingClientRect().x))",
                )
            )
        )
        return (at[-1] - at[1]) / (at[1] - at[0]) if len(at) == 3 else at

    assert steps() == pytest.approx(1, abs=0.05)
    page.locator("#time-host .tools button", has_text="log x").click()
    page.wait_for_function(
        "document.querySelector('#time-host .tools button').ariaPressed === 'false'"
    )
    page.wait_for_timeout(300)
    assert steps() == pytest.approx(2, abs=0.05)
    assert "0" not in page.locator("#time-host .role-axis-label text").all_inner_texts()
    page.locator("#time-host .tools button", has_text="log y").click()
    page.wait_for_function(
        "[...document.querySelectorAll('#time-host .role-axis-label text')]"
        ".some((one) => one.textContent === '0')"
    )


def test_a_tooltip_says_where_the_number_comes_from(path, open_page):
    page = open_page(path)
    page.locator(f"#weak_scaling-simulated {MARKS}").first.hover()
    text = page.locator("#tooltip").inner_text()
    for word in (
        "simulated, not measured",
        "synthetic-cluster",
        "modelled",
        "524,288",
    ):
        assert word in text


def test_worlds_are_never_drawn_together(path, open_page):
    page = open_page(path)
    for name, points in figures(page).items():
        worlds = page.evaluate(
            "rows => [...new Set(rows.map((row) => field(row, 'world')))]",
            [point["row"] for point in points],
        )
        assert worlds == [name.split("-")[1]]
        badge = page.locator(f"#{name} .world").inner_text()
        assert (
            badge
            == {
                "host": "host: measured on CPU cores",
                "simulated": "simulated: simulated, not measured",
            }[worlds[0]]
        )


def test_rows_that_were_refused_stand_apart_with_their_reason(path, open_page):
    page = open_page(path)
    assert table(page, "#failed table", "status") == [REFUSAL]
    assert "144 ok, 1 not" in page.locator("#summary").inner_text()


def test_the_table_sorts_and_narrows(path, open_page):
    page = open_page(path)

    def lengths():
        return [
            int(text.replace(",", "")) for text in table(page, "#rows table", "sequence_length")
        ]

    assert len(lengths()) == 145
    head = page.locator("#rows th", has_text="sequence_length")
    head.click()
    assert lengths() == sorted(lengths())
    head.click()
    assert lengths() == sorted(lengths(), reverse=True)
    page.locator("#rows th", has_text="median_s").click()
    assert (
        table(page, "#rows table", "median_s").index("") == 144
    )  # what was not measured comes last
    page.locator("#rows input").fill("zigzag backward")
    assert len(lengths()) == 9 and set(table(page, "#rows table", "schedule")) == {"zigzag"}
    shown = page.locator("#rows th").all_text_contents()
    assert {"schedule", "median_s"} <= set(shown)
    assert not {"head_dim", "mask", "max_abs_error"} & set(shown)  # the same in all rows
    page.locator("#rows button", has_text="all columns").click()
    assert page.locator("#rows th").count() == len(synthetic_rows.COLUMNS) + 1  # and the file


def test_what_is_saved_holds_the_rows_shown_and_the_whole_picture(path, open_page):
    page = open_page(path, accept_downloads=True)
    page.locator("#rows input").fill("zigzag backward")
    with page.expect_download() as download:
        page.locator("#rows button", has_text="save csv").click()
    lines = download.value.path().read_text().splitlines()
    names = list(synthetic_rows.COLUMNS)
    assert lines[0].split(",")[: len(names)] == names and len(lines) == 10
    with page.expect_download() as download:
        page.locator("#time-host .tools button", has_text="save svg").click()
    svg = download.value.path().read_text()
    for word in ("Time against sequence length", "synthetic-machine", "host: measured on CPU"):
        assert word in svg


def test_dark_pages_draw_on_dark_ground(path, open_page):
    page = open_page(path, color_scheme="dark")
    assert page.locator("#time-host svg").evaluate(
        "one => one.style.backgroundColor || one.querySelector('rect').getAttribute('fill')"
    ) not in ("#ffffff", "white", "rgb(255, 255, 255)")
    page.locator("#theme").click()
    page.wait_for_function("document.documentElement.dataset.theme === 'light'")
