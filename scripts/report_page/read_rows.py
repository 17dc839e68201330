# SPDX-License-Identifier: Apache-2.0
"""Reads the CSVs of a sweep and refuses what is not one, naming file, line and column."""

import csv
import math
import os
import re
from pathlib import Path

import pandas as pd

from .columns import COLUMNS, PASSES, WORLDS
from .labels import tails

# The types of a column that may hold nothing; text stays as it is.
TYPES = {"count": "Int64", "seconds": float, "bytes": float, "share": float, "number": float}

# What int() and float() take beyond this, as 1_0 or digits of other scripts, no sweep writes.
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WHOLE_NUMBER = re.compile(r"[0-9]+")


class BadInput(Exception):
    """Something the caller gave is wrong; the message is the one line they see."""


def read_rows(paths):
    """All rows of all files as one frame with the columns of COLUMNS, and `file`."""
    paths = without_repeats(paths)
    rows = [
        row | {"file": name}
        for path, name in zip(paths, tails(paths), strict=True)
        for row in read_file(path)
    ]
    types = {name: TYPES[kind] for name, kind in COLUMNS.items() if kind in TYPES}
    # By way of object: a column of integers and None would pass through float64 and lose digits.
    return pd.DataFrame(rows, columns=[*COLUMNS, "file"], dtype=object).astype(types)


def without_repeats(paths):
    """Each file once, however often and by whatever names it is given."""
    once = {}
    for path in paths:
        once.setdefault(os.path.realpath(path), Path(path))
    return list(once.values())


def read_file(path):
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return parse(path, csv.reader(file, strict=True))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not a text file in UTF-8: {error.reason}") from error


def parse(path, reader):
    try:
        header = next(reader, None)
        check_header(path, header)
        rows = [parse_row(path, reader.line_num, header, fields) for fields in reader if fields]
    except csv.Error as error:
        raise BadInput(f"{path}:{reader.line_num}: {error}") from error
    if not rows:
        raise BadInput(f"{path}: has no rows below its header")
    return rows


def check_header(path, header):
    if not header:
        raise BadInput(
            f"{path}: is empty; a CSV of `ringspan sweep` starts with a line of column names"
        )
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise BadInput(
            f"{path}:1: has no column {', '.join(missing[:5])}"
            + (f" and {len(missing) - 5} others" if len(missing) > 5 else "")
        )
    repeated = [name for name in COLUMNS if header.count(name) > 1]
    if repeated:
        raise BadInput(f"{path}:1: column {repeated[0]} appears {header.count(repeated[0])} times")


def parse_row(path, line, header, fields):
    if set(COLUMNS) <= set(fields):
        raise BadInput(f"{path}:{line}: is a second header; give each sweep as a file of its own")
    if len(fields) != len(header):
        raise BadInput(f"{path}:{line}: has {len(fields)} fields, and the header has {len(header)}")
    values = dict(zip(header, fields, strict=True))
    row = {name: parse_value(path, line, name, values[name].strip()) for name in COLUMNS}
    check_row(path, line, row)
    return row


def parse_value(path, line, column, text):
    """An empty field means not measured: "" in a text column and None in the others."""
    kind = COLUMNS[column]
    if kind == "text" or not text:
        return text if kind == "text" else None
    value = whole_number(text) if kind == "count" else real_number(text)
    if value is None or (kind == "bytes" and value < 0):
        expected = {"count": "a whole number >= 0 and < 2^63", "bytes": "a number >= 0"}.get(
            kind, "a finite number"
        )
        raise BadInput(
            f"{path}:{line}: {column} is {text!r}; expected {expected}, or nothing if not measured"
        )
    return value


def whole_number(text):
    # The length first: int() refuses thousands of digits with an error of its own.
    fits = WHOLE_NUMBER.fullmatch(text) and len(text) < 20 and int(text) < 2**63
    return int(text) if fits else None


def real_number(text):
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def check_row(path, line, row):
    if not row["status"]:
        raise BadInput(
            f"{path}:{line}: status is empty; expected ok, or the reason why nothing was measured"
        )
    if row["world"] not in WORLDS:
        raise BadInput(f"{path}:{line}: world is {row['world']!r}; expected {', '.join(WORLDS)}")
    if row["pass"] not in ("", *PASSES):
        raise BadInput(f"{path}:{line}: pass is {row['pass']!r}; expected {', '.join(PASSES)}")
    if row["status"] != "ok":
        return
    for name in ("schedule", "pass", "ranks", "sequence_length", "heads", "kv_heads"):
        if not row[name]:
            found, needed = (
                ("empty", "one") if row[name] in ("", None) else (row[name], "1 or more")
            )
            raise BadInput(f"{path}:{line}: {name} is {found}; a row with status ok needs {needed}")
    if row["median_s"] is None:
        raise BadInput(
            f"{path}:{line}: median_s is empty; a row with status ok needs a measured time"
        )
    if row["median_s"] <= 0:
        raise BadInput(f"{path}:{line}: median_s is {row['median_s']}; a measured time is > 0")
