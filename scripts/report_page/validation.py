# SPDX-License-Identifier: Apache-2.0
"""Reads what `ringspan validate --csv` wrote: published figures beside predictions."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

from .read_rows import BadInput, real_number

COLUMNS = (
    "system figure row metric published simulated naive error naive_error mark reason commit table"
).split()
NUMBERS = ("published", "simulated", "naive", "error", "naive_error")
MODELS = {"simulated": "error", "naive": "naive_error"}  # and the columns of their errors
ANCHOR = "calibration"


@dataclass
class Table:
    """The figures of one published table, and rows of it that are not predicted."""

    name: str
    figures: list = field(default_factory=list)
    omitted: list = field(default_factory=list)

    def predicted(self):
        return [figure for figure in self.figures if figure["mark"] != ANCHOR]

    def absolute(self):
        """Whether its errors are differences, as of ratios and shares; the file has no column for it."""
        return self.misfit(absolute=True) < self.misfit(absolute=False)

    def misfit(self, absolute):
        """How far its errors, in parts of what they are relative to, are from the differences."""
        return sum(
            abs(figure[error] * (1 if absolute else abs(published)) - (figure[model] - published))
            for figure in self.figures
            for published in [figure["published"]]
            for model, error in MODELS.items()
        )


def read_validation(path):
    """Its tables, in the order of the file."""
    path = Path(path)
    tables = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            if reader.fieldnames is None or not set(COLUMNS) <= set(reader.fieldnames):
                raise BadInput(f"{path}: is not a CSV that `ringspan validate --csv` wrote")
            for row in reader:
                table = tables.setdefault(row["table"], Table(row["table"]))
                if row["reason"]:
                    table.omitted.append(row)
                else:
                    table.figures.append(row | numbers(path, reader.line_num, row))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: is not a CSV that `ringspan validate --csv` wrote") from error
    return list(tables.values())


def numbers(path, line, row):
    values = {name: real_number(row[name] or "") for name in NUMBERS}
    for name, value in values.items():
        if value is None:
            raise BadInput(f"{path}:{line}: {name} is {row[name]!r}; expected a finite number")
    return values
