# SPDX-License-Identifier: Apache-2.0
"""Reads what `ringspan train --csv` wrote: the steps of one run."""

import csv
from pathlib import Path

from .read_rows import WHOLE_NUMBER, BadInput, real_number

ABOUT = (
    "machine commit variant dtype transport mesh ranks schedule recompute offload mlp_tiles blockwise "
    "loss_tiles sequence_length batch"
).split()
NUMBERS = (
    "step loss loss_on_one_rank seconds tokens_per_s activation_bytes_per_rank parameter_bytes_per_rank"
).split()
OPTIONAL = "loss_on_one_rank"


class Training:
    """One run: what is equal in all of its rows, and its steps as numbers."""

    def __init__(self, path):
        self.path = Path(path)
        stranger = f"{path}: is not a CSV that `ringspan train --csv` wrote"
        try:
            with self.path.open(encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file, strict=True)
                if not {*ABOUT, *NUMBERS} <= set(reader.fieldnames or ()):
                    raise BadInput(stranger)
                rows = [(reader.line_num, row) for row in reader]
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadInput(stranger) from error
        if not rows:
            raise BadInput(f"{path}: has no steps")
        self.about = {name: rows[0][1][name] for name in ABOUT}
        length = self.about["sequence_length"] or ""
        if not WHOLE_NUMBER.fullmatch(length):
            raise BadInput(
                f"{path}:{rows[0][0]}: sequence_length is {length!r}; expected a whole number"
            )
        self.steps = [self.numbers(line, row) for line, row in rows]
        if any(row[name] != self.about[name] for _, row in rows for name in ABOUT):
            raise BadInput(f"{path}: has steps of several runs; give each a file of its own")

    def numbers(self, line, row):
        values = {}
        for name in NUMBERS:
            values[name] = real_number(row[name] or "")
            if values[name] is None and not (name == OPTIONAL and row[name] == ""):
                raise BadInput(
                    f"{self.path}:{line}: {name} is {row[name]!r}; expected a finite number"
                )
        if values[OPTIONAL] is not None and values[OPTIONAL] <= 0:
            raise BadInput(
                f"{self.path}:{line}: {OPTIONAL} is {row[OPTIONAL]!r}; expected a number above 0"
            )
        return values

    def compared(self):
        return all(step["loss_on_one_rank"] is not None for step in self.steps)

    def largest_difference(self):
        """Between the losses and those on one rank, in parts of the loss."""
        return max(
            abs(step["loss"] - step["loss_on_one_rank"]) / abs(step["loss_on_one_rank"])
            for step in self.steps
        )

    def name(self):
        return f"{self.about['schedule']}, {self.about['mesh']}"
