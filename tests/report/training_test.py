# SPDX-License-Identifier: Apache-2.0
"""Training in the report: a line for each run, the same on one rank beside it, and what is refused."""

import csv
from html import escape

import pytest
import synthetic_rows
from conftest import report
from report_page.training import ABOUT, NUMBERS, Training
from report_page.training_section import names

RUN = {
    "machine": "synthetic-machine",
    "commit": "synthetic",
    "variant": "llama",
    "dtype": "fp32",
    "transport": "threads",
    "mesh": "ulysses=2,<ring>=2",
    "ranks": 4,
    "schedule": "usp",
    "recompute": "none",
    "offload": 0,
    "mlp_tiles": 1,
    "blockwise": 0,
    "loss_tiles": 1,
    "sequence_length": 256,
    "batch": 4,
}


def step(number, loss, one_rank="", **changes):
    return RUN | {
        "step": number,
        "loss": loss,
        "loss_on_one_rank": one_rank,
        "seconds": 0.5,
        "tokens_per_s": 2048,
        "activation_bytes_per_rank": 3 << 20,
        "parameter_bytes_per_rank": 1 << 20,
    } | changes


def write_training(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*ABOUT, *NUMBERS])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_losses_are_compared_with_those_on_one_rank(tmp_path):
    rows = [step(1, 5.0, 4.0), step(2, 3.0, 3.0)]
    run = Training(write_training(tmp_path / "run.csv", rows))
    assert run.compared() and run.largest_difference() == 0.25
    alone = Training(write_training(tmp_path / "alone.csv", [step(1, 5.0)]))
    assert not alone.compared()


def test_the_page_and_the_pictures_have_it(tmp_path, open_page):
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    first = write_training(tmp_path / "first.csv", [step(1, 5.0, 4.0), step(2, 3.0, 3.0)])
    second = write_training(tmp_path / "second.csv", [step(1, 5.5), step(2, 2.5)])
    html, pictures = tmp_path / "report.html", tmp_path / "pictures"
    done = report(
        *(rows, "-o", html, "--svg", pictures, "--training", first, "--training", second)
    )
    assert done.returncode == 0, done.stderr
    page = open_page(html)
    drawn = page.locator("#training svg")
    assert drawn.count() == 1 and "A small model learns" in drawn.text_content()
    assert page.locator("#training svg .mark-line path").count() == 2
    assert page.locator("#training svg .mark-symbol.role-mark path").count() == 2  # of one run
    cells = page.locator("#training tbody tr").first.locator("td").all_inner_texts()
    assert cells[0] == "usp, ulysses=2,<ring>=2 (first.csv)"
    assert cells[2:8] == ["2", "5.0000", "3.0000", "2.5e-01", "2,048", "3.00"]
    assert "usp, ulysses=2,&lt;ring&gt;=2" in (pictures / "training.svg").read_text()


def test_its_picture_follows_the_page_and_no_words_lie_on_others(tmp_path, open_page):
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    run = write_training(tmp_path / "run.csv", [step(1, 5.0), step(2, 3.0)])
    assert report(rows, "-o", tmp_path / "report.html", "--training", run).returncode == 0
    page = open_page(tmp_path / "report.html", color_scheme="dark")
    axis = page.locator("#training svg .role-axis", has_text="loss (nats")
    title = axis.locator(".role-axis-title text").bounding_box()
    labels = [one.bounding_box() for one in axis.locator(".role-axis-label text").all()]
    assert labels and all(title["x"] + title["width"] < label["x"] for label in labels)
    fill = "([text]) => getComputedStyle(text).fill"
    ink = page.evaluate("getComputedStyle(document.body).color")
    paper = page.evaluate("getComputedStyle(document.querySelector('#training')).backgroundColor")
    assert page.locator("#training svg text").evaluate_all(fill) == ink
    assert page.locator("#training svg > rect").evaluate_all(fill) == paper


def test_runs_of_one_file_name_are_told_apart_and_one_given_twice_is_shown_once(tmp_path):
    paths = [tmp_path / "one" / "run.csv", tmp_path / "two" / "run.csv"]
    for path in paths:
        path.parent.mkdir()
        write_training(path, [step(1, 5.0), step(2, 3.0)])
    run = "usp, ulysses=2,<ring>=2"
    expected = [f"{run} (one/run.csv)", f"{run} (two/run.csv)"]
    assert names([Training(path) for path in paths]) == expected
    rows = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    words = [word for path in [*paths, paths[0]] for word in ("--training", path)]
    assert report(rows, "-o", tmp_path / "report.html", *words).returncode == 0
    html = (tmp_path / "report.html").read_text()
    assert html.count(f"<td>{escape(expected[0])}</td>") == 1


@pytest.mark.parametrize(
    "rows, complaint",
    [
        ([], "run.csv: has no steps"),
        ([step(1, "high")], "run.csv:2: loss is 'high'; expected a finite number"),
        ([step(1, 5.0, "?")], "run.csv:2: loss_on_one_rank is '?'; expected a finite number"),
        ([step(1, 5.0, 0)], "run.csv:2: loss_on_one_rank is '0'; expected a number above 0"),
        (
            [step(1, 5.0, sequence_length="abc")],
            "run.csv:2: sequence_length is 'abc'; expected a whole number",
        ),
        (
            [step(1, 5.0), step(2, 4.0, ranks=2)],
            "run.csv: has steps of several runs; give each a file of its own",
        ),
    ],
)
def test_what_is_no_run_is_refused(tmp_path, rows, complaint):
    sweep = synthetic_rows.write(tmp_path / "rows.csv", [synthetic_rows.row()])
    run = write_training(tmp_path / "run.csv", rows)
    done = report(sweep, "-o", tmp_path / "report.html", "--training", run)
    assert done.returncode == 2 and complaint in done.stderr
    assert not (tmp_path / "report.html").exists()
    done = report(sweep, "-o", tmp_path / "report.html", "--training", sweep)
    assert "is not a CSV that `ringspan train --csv` wrote" in done.stderr
