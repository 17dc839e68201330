# SPDX-License-Identifier: Apache-2.0
"""Published figures beside predictions in the report: what counts, what is shown, what is refused."""

import csv

import pytest
import synthetic_rows
from conftest import SOURCE, report
from report_page.validation import COLUMNS, read_validation
from report_page.validation_section import details, scores

NO_SCHEDULE = "there is no such <schedule>"


def write_validation(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def figure(row, simulated, mark="prediction", **changes):
    """One of table `operators` that was published as 100, of which the naive model says 150."""
    return {
        "system": "Synthetic",
        "figure": "T1",
        "row": f"synthetic.csv:{row}",
        "metric": "iterations/s",
        "published": 100,
        "simulated": simulated,
        "naive": 150,
        "error": simulated / 100 - 1,
        "naive_error": 0.5,
        "mark": mark,
        "commit": "synthetic",
        "table": "operators",
    } | changes


def omission(row, table="operators"):
    return {"row": f"synthetic.csv:{row}", "reason": NO_SCHEDULE, "table": table}


@pytest.fixture
def validation(tmp_path):
    rows = [
        figure(2, 100, "calibration"),
        figure(3, 90),
        figure(4, 120, "fit"),
        omission(5),
        omission(6),
        omission(7, ""),
    ]
    return write_validation(tmp_path / "published.csv", rows)


def test_anchors_are_no_predictions(validation):
    table, rest = read_validation(validation)
    assert [one["row"] for one in table.predicted()] == ["synthetic.csv:3", "synthetic.csv:4"]
    assert scores(table) == (
        "2 predictions, mean error 15.0%, largest +20.0%; of the naive model 50.0% on average; "
        "1 anchor; 2 rows not predicted"
    )
    assert scores(rest) == "1 row not predicted"


def test_errors_that_are_differences_are_no_per_cent(tmp_path):
    speed_up = {"published": 0.8, "naive": 1.3, "naive_error": 0.5, "table": "speed-ups"}
    rows = [
        figure(2, 0.9, error=0.1, **speed_up),
        figure(3, 0.7, error=-0.1, **speed_up),
        figure(4, 110),
        figure(5, 0.02, published=0, naive=0.1, error=0.02, naive_error=0.1, table="shares"),
    ]
    validation = write_validation(tmp_path / "v.csv", rows)
    differences, relative, shares = read_validation(validation)
    assert scores(differences) == (
        "2 predictions, mean error 0.100, largest +0.100; of the naive model 0.500 on average"
    )
    assert "mean error 10.0%, largest +10.0%" in scores(relative)
    assert "mean error 0.020, largest +0.020" in scores(shares)
    assert '<td class="number">-0.100</td>' in details(differences)
    assert '<td class="number">+10.0%</td>' in details(relative)


def test_the_page_and_the_pictures_have_it(tmp_path, validation, open_page):
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    page = tmp_path / "report.html"
    done = report(rows, "-o", page, "--validation", validation, "--svg", tmp_path / "pictures")
    assert (done.returncode, done.stderr) == (0, "")
    assert "predicted / published" in (tmp_path / "pictures/validation.svg").read_text()
    opened = open_page(page)
    assert opened.locator("#validation figure svg path[aria-roledescription=point]").count() == 4
    assert "simulated, not measured" in opened.locator("#validation figcaption").inner_text()
    assert opened.locator("#validation details").count() == 2
    opened.locator("#validation summary").first.click()
    row = opened.locator("#validation tbody tr").nth(1)
    assert row.locator("td").all_inner_texts()[:5] == (
        ["synthetic.csv:3", "iterations/s", "100", "90", "-10.0%"]
    )
    assert opened.locator("#validation tbody").first.locator("tr").count() == 3
    assert opened.locator("#validation li").first.inner_text() == f"2 rows: {NO_SCHEDULE}"


def test_a_page_without_it_has_no_such_section(tmp_path, open_page):
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    assert report(rows, "-o", tmp_path / "report.html").returncode == 0
    assert open_page(tmp_path / "report.html").locator("#validation").count() == 0


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "\ufffd"])
def test_what_is_no_validation_is_refused(tmp_path, text):
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    (tmp_path / "v.csv").write_text(text)
    done = report(rows, "-o", tmp_path / "report.html", "--validation", tmp_path / "v.csv")
    assert done.returncode == 2
    assert done.stderr == (
        f"report: {tmp_path}/v.csv: is not a CSV that `ringspan validate --csv` wrote\n"
    )
    assert not (tmp_path / "report.html").exists()


def test_a_number_that_is_none_is_named_by_line_and_column(tmp_path):
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    validation = write_validation(tmp_path / "v.csv", [figure(2, 100), figure(3, 90, naive="fast")])
    done = report(rows, "-o", tmp_path / "report.html", "--validation", validation)
    assert done.returncode == 2
    assert done.stderr == f"report: {validation}:3: naive is 'fast'; expected a finite number\n"


def test_the_report_can_show_what_is_kept(tmp_path):
    kept = read_validation(SOURCE / "results/validation/published.csv")
    assert sum(len(table.predicted()) for table in kept) > 100
    assert {table.name for table in kept if table.absolute()} == {
        "striped-gpu",
        "striped-tpu",
        "megatron-shares",
        "usp-training",
        "fpdt",
        "llama3",
    }
