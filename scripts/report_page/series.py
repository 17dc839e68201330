# SPDX-License-Identifier: Apache-2.0
"""Arranges rows as panels of lines, none of which joins rows that differ in more than its axis."""

from dataclasses import dataclass

import pandas as pd

from .columns import PASSES, PROBLEM, PROVENANCE, SCHEDULES, VARIANT
from .labels import describe_all, plural, unique_labels, variant, wrap

# What stands in for a column that changes along with the axis.
FOLLOWS_AXIS = {
    "sequence_length": {"sequence_length": []},
    "heads": {"heads": [], "kv_heads": ["heads_per_kv_head"]},
    "ranks": {"ranks": []},
    "ranks at equal tokens per rank": {"ranks": [], "sequence_length": ["tokens_per_rank"]},
}


@dataclass(frozen=True)
class Panel:
    label: str  # what its rows agree in and the other panels do not
    weight: int  # 0 for the panel with the most points, which stays when there is no room for all


@dataclass(frozen=True)
class Drawing:
    world: str
    axis: str
    points: list  # of {row, x, y, low, high, schedule, line, panel}
    panels: list
    shared: list  # of lines of text: what all its rows agree in


def prepare(rows):
    """Adds the derived columns, drops repeated rows, and tells in notes what it had to decide."""
    rows = rows.copy()
    rows["pass"] = pd.Categorical(rows["pass"], ["", *PASSES], ordered=True)
    rows["tokens_per_rank"] = rows["sequence_length"] / rows["ranks"]
    rows["heads_per_kv_head"] = rows["heads"] / rows["kv_heads"]
    rows["flops_per_rank"] = 1e12 * rows["tflops_per_rank"]
    rows["speed_up"] = rows["ranks"] * rows["strong_efficiency"]
    rows["imbalance_share"] = rows["imbalance_s"] / rows["median_s"]

    notes = []
    identity = ["schedule", *PROVENANCE, *PROBLEM, *VARIANT]
    measured = rows[rows["status"] == "ok"]
    again = measured.duplicated(identity, keep="last")
    if again.any():
        count = int(again.sum())
        notes.append(
            f"{plural(count, 'point')} {'was' if count == 1 else 'were'} measured more than once: "
            f"{'its' if count == 1 else 'their'} last row is drawn, the table has all."
        )
    rows["drawn"] = (rows["status"] == "ok") & ~again.reindex(rows.index, fill_value=False)
    return rows, notes


def draw(rows, world, axis, y, low=None, high=None):
    """The panels over one axis in which two places or more have a value, or None."""
    x = axis.split(" ")[0]
    agree = agreeing_columns(axis)
    rows = rows[rows["drawn"] & (rows["world"] == world) & rows[x].notna() & rows[y].notna()]
    groups = [
        group for _, group in rows.groupby(agree, dropna=False, sort=True) if group[x].nunique() > 1
    ]
    if not groups:
        return None

    rows = pd.concat(groups)
    varying = [column for column in agree if rows[column].nunique(dropna=False) > 1]
    labels = unique_labels([wrap(describe_all(varying, group.iloc[0])) for group in groups])
    heaviest_first = sorted(range(len(groups)), key=lambda i: (-len(groups[i]), i))
    points = [
        point | {"panel": label}
        for label, group in zip(labels, groups, strict=True)
        for point in group_points(group, x, y, low, high)
    ]
    panels = [Panel(label, heaviest_first.index(i)) for i, label in enumerate(labels)]
    same = [column for column in PROVENANCE if rows[column].nunique(dropna=False) == 1]
    return Drawing(world, axis, points, panels, shared_lines(agree, varying, same, rows.iloc[0]))


def agreeing_columns(axis):
    """What the rows of a panel agree in: figures have one world, and lines one transport."""
    replacement = FOLLOWS_AXIS[axis]
    problem = [name for column in PROBLEM for name in replacement.get(column, [column])]
    return [*problem, *(column for column in PROVENANCE if column not in ("world", "transport"))]


def shared_lines(agree, varying, same_provenance, row):
    provenance = describe_all([column for column in same_provenance if column != "world"], row)
    same = [column for column in agree if column not in (*varying, *PROVENANCE)]
    return list(filter(None, [provenance, describe_all(same, row)]))


def group_points(group, x, y, low, high):
    for schedule in sorted(group["schedule"].unique(), key=schedule_order):
        rows = group[group["schedule"] == schedule]
        apart = columns_apart(rows, x)
        for index, row in rows.iterrows():
            point = {
                "row": int(index),
                "x": number(row[x]),
                "y": number(row[y]),
                "schedule": schedule,
                "line": variant(apart, row),
            }
            if low and pd.notna(row[low]) and pd.notna(row[high]):
                point |= {"low": number(row[low]), "high": number(row[high])}
            yield point


def columns_apart(rows, x):
    """The columns of a schedule, as few as do, that tell rows at one place of the axis apart.

    The transport always does, even where two have no place in common.
    """
    columns = ["transport"] if rows["transport"].nunique(dropna=False) > 1 else []
    for column in (name for name in VARIANT if name not in columns):
        if not rows.duplicated([x, *columns]).any():
            break
        if (rows.groupby([x, *columns], dropna=False)[column].nunique(dropna=False) > 1).any():
            columns.append(column)
    return columns


def schedule_order(name):
    known = list(SCHEDULES)
    return (known.index(name) if name in known else len(known), name)


def number(value):
    value = float(value)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
