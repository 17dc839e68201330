# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/report."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from .read_rows import BadInput, read_rows, without_repeats
from .series import prepare
from .timeline import Trace
from .training import Training
from .validation import read_validation


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise BadInput(f"{message}; see scripts/report --help")


def arguments(words):
    parser = Parser(
        prog="scripts/report",
        description="Turns CSVs of `ringspan sweep` into one self-contained page.",
    )
    parser.add_argument("csv", nargs="+", help="a CSV that `ringspan sweep --csv` wrote")
    parser.add_argument(
        "-o", "--output", default="report.html", type=Path, help="the page (default: report.html)"
    )
    parser.add_argument(
        "--svg", metavar="DIR", type=Path, help="also write every figure as DIR/FIGURE.WORLD.svg"
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        action="append",
        default=[],
        help="also draw a timeline that `ringspan trace` wrote; may be repeated",
    )
    parser.add_argument(
        "--validation",
        metavar="FILE",
        help="also show published figures beside predictions, from `ringspan validate --csv`",
    )
    parser.add_argument(
        "--training",
        metavar="FILE",
        action="append",
        default=[],
        help="also show a run that `ringspan train --csv` wrote; may be repeated",
    )
    return parser.parse_args(words)


def check_output(path, inputs):
    """Before any work: says what would go wrong with writing the page."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{path}: is not a regular file; give the name of the page to write")
    if any(path.exists() and path.samefile(one) for one in inputs if Path(one).exists()):
        raise BadInput(f"{path}: is one of the CSVs or traces; give the page another name")
    check_directory(path.parent, path)


def check_pictures(directory, page):
    """The page may be neither the directory of the SVGs nor one on the way to it."""
    if Path(os.path.realpath(directory)).is_relative_to(os.path.realpath(page)):
        raise BadInput(f"--svg {directory}: {page} is to be the page; give the SVGs another place")
    if directory.exists() and not directory.is_dir():
        raise BadInput(f"--svg {directory}: is not a directory; give one for the SVGs")


def check_names(traces):
    """A picture is named after its trace, so that of one would be written over that of another."""
    named = {}
    for path in map(Path, traces):
        if path.stem in named:
            raise BadInput(
                f"--trace {path}: its picture would be timeline.{path.stem}.svg, as that of "
                f"{named[path.stem]}; rename one of them"
            )
        named[path.stem] = path


def check_directory(directory, path):
    if not directory.is_dir():
        raise BadInput(f"{path}: {directory} is not a directory")
    if not os.access(directory, os.W_OK):
        raise BadInput(f"{path}: {directory} is not writable")


def write(path, text):
    """Under a temporary name first, so that nobody ever sees half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def report(options):
    validation = [options.validation] if options.validation else []
    check_output(options.output, [*options.csv, *options.trace, *validation, *options.training])
    if options.svg:
        check_pictures(options.svg, options.output)
        check_names(options.trace)
    traces = [Trace(path) for path in options.trace]
    tables = [table for path in validation for table in read_validation(path)]
    runs = [Training(path) for path in without_repeats(options.training)]
    rows, notes = prepare(read_rows(options.csv))
    from .page import render, svgs  # slow to load, and not needed to say what is wrong

    texts = {options.output: render(rows, notes, traces, tables, runs)}
    if options.svg:
        options.svg.mkdir(parents=True, exist_ok=True)
        check_directory(options.svg, options.svg)
        drawn = svgs(rows, traces, tables, runs)
        texts |= {options.svg / name: svg for name, svg in drawn.items()}
    for path, text in texts.items():
        write(path, text)
    failed = int((rows["status"] != "ok").sum())
    pictures = f"; {len(texts) - 1} SVGs in {options.svg}" if options.svg else ""
    verdict = f"{failed} without a measurement" if failed else "all ok"
    print(f"{options.output}: {len(rows)} rows, {verdict}{pictures}")


def main(words):
    try:
        report(arguments(words))
    except BadInput as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"report: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
