# SPDX-License-Identifier: Apache-2.0
"""Bad input: one line that says what was wrong and where, exit status 2, nothing written."""

import os
import xml.etree.ElementTree as xml

import pytest
import synthetic_rows
from conftest import MARKS, report, run_report
from report_page import summary
from report_page.read_rows import read_rows


@pytest.fixture
def good(tmp_path):
    return synthetic_rows.write(tmp_path / "good.csv", synthetic_rows.grid(passes=("forward",)))


def refused(tmp_path, *arguments):
    """The one line of complaint of a run that must leave the directory as it was."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = report(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == "" and done.stderr.startswith("report: ") and done.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    return done.stderr


def changed(line, **values):
    """Rows of which one, counted like the lines of the file, has other values."""
    rows = synthetic_rows.grid(passes=("forward",))
    rows[line - 2] |= values
    return rows


@pytest.mark.parametrize(
    "values, complaint",
    [
        (
            {"median_s": "fast"},
            "broken.csv:7: median_s is 'fast'; expected a finite number, or nothing",
        ),
        ({"median_s": "nan"}, "broken.csv:7: median_s is 'nan'"),
        ({"median_s": "-0.5"}, "broken.csv:7: median_s is -0.5; a measured time is > 0"),
        ({"median_s": ""}, "broken.csv:7: median_s is empty; a row with status ok needs a"),
        ({"median_s": "1_0.5"}, "broken.csv:7: median_s is '1_0.5'; expected a finite number"),
        ({"median_s": "1e999"}, "broken.csv:7: median_s is '1e999'; expected a finite number"),
        ({"p10_s": "٣.٥"}, "broken.csv:7: p10_s is '٣.٥'; expected a finite number"),
        ({"ranks": "1_0"}, "broken.csv:7: ranks is '1_0'; expected a whole number >= 0"),
        ({"ranks": "٤"}, "broken.csv:7: ranks is '٤'; expected a whole number >= 0"),
        ({"ranks": "4\n2"}, r": ranks is '4\n2'; expected a whole number >= 0"),
        (
            {"sequence_length": "99999999999999999999"},
            "broken.csv:7: sequence_length is '99999999999999999999'; expected a whole number >= 0 "
            "and < 2^63, or nothing",
        ),
        ({"messages_sent_per_rank": str(2**63)}, "broken.csv:7: messages_sent_per_rank is '92233"),
        ({"batch": "9" * 5000}, "broken.csv:7: batch is '999"),
        ({"ranks": "2.5"}, "broken.csv:7: ranks is '2.5'; expected a whole number >= 0"),
        ({"ranks": ""}, "broken.csv:7: ranks is empty; a row with status ok needs one"),
        ({"heads": "0"}, "broken.csv:7: heads is 0; a row with status ok needs 1 or more"),
        (
            {"bytes_sent_per_rank": "-1"},
            "broken.csv:7: bytes_sent_per_rank is '-1'; expected a number >= 0",
        ),
        ({"world": "moon"}, "broken.csv:7: world is 'moon'; expected host, gpu, simulated"),
        (
            {"pass": "sideways"},
            "broken.csv:7: pass is 'sideways'; expected forward, backward, both",
        ),
        ({"status": ""}, "broken.csv:7: status is empty"),
    ],
)
def test_a_bad_value_is_named_by_line_and_column(tmp_path, values, complaint):
    csv = synthetic_rows.write(tmp_path / "broken.csv", changed(7, **values))
    assert complaint in refused(tmp_path, csv, "-o", tmp_path / "report.html")


def test_a_line_cut_short_is_named(tmp_path, good):
    text = good.read_text()
    good.write_text(text[: text.rindex(",threads")])
    assert "good.csv:55: has 3 fields, and the header has 53" in refused(
        tmp_path, good, "-o", tmp_path / "report.html"
    )


@pytest.mark.parametrize("more", ["", ",phase_of_the_moon"])
def test_a_second_header_is_named(tmp_path, good, more):
    lines = good.read_text().splitlines()
    lines.insert(10, lines[0] + more)
    good.write_text("\n".join(lines))
    assert "good.csv:11: is a second header; give each sweep as a file of its own" in refused(
        tmp_path, good, "-o", tmp_path / "report.html"
    )


def test_numbers_in_every_plain_notation_and_of_every_size_are_read(tmp_path):
    values = {"median_s": "+1.", "p10_s": ".5", "p90_s": "2E+0", "compute_s": "1e-3"}
    rows = [
        synthetic_rows.row(**values, messages_sent_per_rank=2**63 - 1),
        synthetic_rows.row(messages_sent_per_rank=""),
    ]
    row, _ = read_rows([synthetic_rows.write(tmp_path / "plain.csv", rows)]).to_dict("records")
    assert [row[name] for name in values] == [1, 0.5, 2, 0.001]
    assert row["messages_sent_per_rank"] == 2**63 - 1


def test_a_file_given_twice_is_read_once(tmp_path, good):
    (tmp_path / "link.csv").symlink_to(good)
    other = synthetic_rows.write(tmp_path / "other.csv", [synthetic_rows.row()])
    beside = f"{tmp_path}/./good.csv"
    rows = read_rows([str(good), str(other), beside, str(tmp_path / "link.csv")])
    assert list(rows["file"]) == 54 * ["good.csv"] + ["other.csv"]


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path):
    places = ["x/deep/sweep.csv", "y/deep/sweep.csv", "other.csv", "z/sweep.csv"]
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        synthetic_rows.write(tmp_path / place, [synthetic_rows.row()])
    rows = read_rows([tmp_path / place for place in places])
    assert list(rows["file"]) == ["x/deep/sweep.csv", "y/deep/sweep.csv", "other.csv", "z/sweep.csv"]
    assert next(summary.counts(rows)).startswith("4 rows from 4 files")
    assert len(summary.provenance(rows)) == 4


def test_a_missing_column_is_named(tmp_path, good):
    good.write_text(good.read_text().replace("hop,", "hope,", 1))
    assert "good.csv:1: has no column hop" in refused(
        tmp_path, good, "-o", tmp_path / "report.html"
    )


@pytest.mark.parametrize(
    "content, complaint",
    [
        (b"", "is empty"),
        (",".join(synthetic_rows.COLUMNS).encode() + b"\n", "has no rows below its header"),
        (",".join(synthetic_rows.COLUMNS).encode() + b",status\n", "column status appears 2 times"),
        (
            b"a picture, perhaps",
            "has no column machine, commit, world, transport, device and 48 others",
        ),
        (b"\xff\xfe\x00", "not a text file in UTF-8"),
        (
            ",".join(synthetic_rows.COLUMNS).encode() + b'\n"never closed',
            "broken.csv:2: unexpected end of data",
        ),
    ],
)
def test_what_is_no_sweep_is_refused(tmp_path, content, complaint):
    csv = tmp_path / "broken.csv"
    csv.write_bytes(content)
    assert complaint in refused(tmp_path, csv, "-o", tmp_path / "report.html")


def test_files_that_cannot_be_read_are_refused_before_the_good_ones_are_used(tmp_path, good):
    assert "missing.csv: No such file" in refused(
        tmp_path, good, tmp_path / "missing.csv", "-o", tmp_path / "report.html"
    )
    assert "Is a directory" in refused(tmp_path, good, tmp_path, "-o", tmp_path / "report.html")


def test_pages_that_cannot_be_written_are_refused(tmp_path, good):
    assert "is not a directory" in refused(
        tmp_path, good, "-o", tmp_path / "nowhere" / "report.html"
    )
    assert "is not a regular file" in refused(tmp_path, good, "-o", tmp_path)
    assert "is not a regular file" in refused(tmp_path, good, "-o", "/dev/null")
    assert "is one of the CSVs" in refused(tmp_path, good, "-o", good)
    assert "good.csv: is not a directory" in refused(
        tmp_path, good, "-o", tmp_path / "report.html", "--svg", good
    )
    assert os.path.exists("/dev/null") and not os.path.isfile("/dev/null")


@pytest.mark.parametrize("svg", ["o.html", "./o.html", "o.html/pictures"])
def test_svgs_have_another_place_than_the_page(tmp_path, good, svg):
    assert "o.html is to be the page; give the SVGs another place" in refused(
        tmp_path, good, "-o", tmp_path / "o.html", "--svg", f"{tmp_path}/{svg}"
    )
    assert not (tmp_path / "o.html").exists()


def test_the_script_is_this_program(tmp_path, good):
    done = run_report(good, "-o", tmp_path / "report.html")
    assert (done.returncode, done.stderr) == (0, "")
    again = report(good, "-o", tmp_path / "again.html")
    assert done.stdout == again.stdout.replace("again.html", "report.html")
    assert (tmp_path / "report.html").read_text() == (tmp_path / "again.html").read_text()
    wrong = run_report(tmp_path / "missing.csv", "-o", tmp_path / "report.html")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == f"report: {tmp_path}/missing.csv: No such file or directory\n"


def test_a_wrong_command_line_is_one_line(tmp_path, good):
    assert "the following arguments are required: csv" in refused(tmp_path)
    assert "unrecognized arguments: --colour" in refused(tmp_path, good, "--colour")


def test_a_failed_run_keeps_the_page_of_the_one_before(tmp_path, good):
    page = tmp_path / "report.html"
    assert report(good, "-o", page).returncode == 0
    broken = synthetic_rows.write(tmp_path / "broken.csv", changed(7, ranks="two"))
    refused(tmp_path, good, broken, "-o", page)


def test_every_figure_becomes_an_svg(tmp_path, good):
    done = report(good, "-o", tmp_path / "report.html", "--svg", tmp_path / "new" / "pictures")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "new" / "pictures").iterdir()}
    assert names == {
        f"{name}.host.svg"
        for name in (
            "time",
            "rate",
            "strong_scaling",
            "weak_scaling",
            "serial_share",
            "exposed_share",
            "imbalance",
            "bytes_sent",
            "peak_memory",
        )
    }
    for name in names:
        picture = (tmp_path / "new" / "pictures" / name).read_text()
        assert xml.fromstring(picture).tag.endswith("svg") and "synthetic-machine" in picture
        assert picture.count('aria-roledescription="point"') >= 36


def test_a_sweep_of_which_nothing_succeeded_still_has_a_page(tmp_path):
    csv = synthetic_rows.write(
        tmp_path / "failed.csv", [synthetic_rows.row(status="out of memory", median_s="")]
    )
    assert report(csv, "-o", tmp_path / "report.html").returncode == 0
    assert "out of memory" in (tmp_path / "report.html").read_text()


def test_columns_that_newer_sweeps_add_are_left_aside(tmp_path, good):
    lines = good.read_text().splitlines()
    good.write_text(
        "\n".join([lines[0] + ",phase_of_the_moon", *(line + ",full" for line in lines[1:])])
    )
    assert report(good, "-o", tmp_path / "report.html").returncode == 0


def test_text_of_a_csv_is_never_markup(tmp_path, open_page):
    evil = "</script><img src=x onerror=alert(1)> & \"'{{data}}"
    csv = synthetic_rows.write(
        tmp_path / "evil.csv", synthetic_rows.grid(passes=("forward",), machine=evil, mask="a·<b>")
    )
    assert report(csv, "-o", tmp_path / "report.html").returncode == 0
    page = open_page(tmp_path / "report.html")
    assert page.locator("img").count() == 0
    assert evil in page.locator("#provenance td").first.inner_text()
    assert page.locator(f"#time-host {MARKS}").count() == 54


def test_a_page_of_one_world_says_so_beside_its_numbers(tmp_path, open_page):
    csv = synthetic_rows.write(tmp_path / "host.csv", synthetic_rows.grid(passes=("forward",)))
    assert report(csv, "-o", tmp_path / "report.html").returncode == 0
    page = open_page(tmp_path / "report.html")
    assert "world" in page.locator("#rows th").all_text_contents()
