# SPDX-License-Identifier: Apache-2.0
"""Words and units for values, as people read them."""

import os.path
from pathlib import Path

import pandas as pd


def tokens(count):
    count = int(count)
    for factor, suffix in ((1 << 20, "Mi"), (1 << 10, "Ki")):
        if count >= factor and count % factor == 0:
            return f"{count // factor}{suffix}"
    return f"{count:,}"


def seconds(value):
    value = float(f"{value:.3g}")  # 0.9996 s is 1 s, not 1,000 ms
    if value >= 1000:
        return f"{value:,.0f} s"
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor or unit == "µs":
            return f"{value / factor:.3g} {unit}"
    return ""


def plural(count, noun):
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def listed(names):
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def describe(column, row):
    """The value of a column in words, or "" where it adds nothing."""
    value = row[column]
    if pd.isna(value) or value == "":
        return ""
    words = {
        "commit": f"commit {value}",
        "kernel": f"{value} kernel",
        "hop": f"hop by {value}",
        "batch": f"batch {value}",
        "head_dim": f"head_dim {value}",
    }
    if column in words:
        return words[column]
    if column == "ranks":
        return plural(value, "rank")
    if column == "ranks_per_node":
        return f"{value:g} per node"
    if column == "heads":
        return plural(value, "head")
    if column == "kv_heads":
        return "" if value == row["heads"] else plural(value, "KV head")
    if column == "heads_per_kv_head":
        return "" if value == 1 else f"{value:g} query heads per KV head"
    if column == "value_dim":
        return "" if value == row["head_dim"] else f"value_dim {value}"
    if column in ("sequence_length", "tokens_per_rank"):
        return f"{tokens(value)} tokens" + (" per rank" if column == "tokens_per_rank" else "")
    return shorten(str(value))


def describe_all(columns, row):
    words = (describe(column, row) for column in columns)
    # Once each: a transport, a device and a machine may all be called simulated.
    return " · ".join(dict.fromkeys(filter(None, words)))


def wrap(text, limit=34):
    """Breaks a description between its parts, so that it fits above a panel."""
    lines = []
    for part in text.split(" · "):
        if lines and len(lines[-1]) + len(part) + 3 <= limit:
            lines[-1] += " · " + part
        else:
            lines.append(part)
    return "\n".join(lines)


def variant(columns, row):
    """How one line of a schedule differs from its others: "ulysses 2, ring 4"."""
    words = {
        "ulysses_degree": "ulysses",
        "ring_degree": "ring",
        "inner_ring": "inner ring",
        "backward": "moves",
    }
    present = [column for column in columns if not pd.isna(row[column]) and row[column] != ""]
    return ", ".join(
        f"{words.get(column, column.replace('_', ' '))} {row[column]}" for column in present
    )


def unique_labels(labels):
    """Shortened values may coincide; what is told apart by such a label alone is numbered."""
    return [
        label if labels.count(label) == 1 else f"{label} ({labels[:i].count(label) + 1})"
        for i, label in enumerate(labels)
    ]


def tails(paths):
    """Each of these files by the last parts of its path, as few as tell it from the others."""
    parts = [(*Path(os.path.realpath(Path(path).parent)).parts, Path(path).name) for path in paths]
    return [
        next(
            "/".join(one[-count:])
            for count in range(1, len(one) + 1)
            if count == len(one) or sum(other[-count:] == one[-count:] for other in parts) == 1
        )
        for one in parts
    ]


def shorten(text, limit=40):
    """A long value (a list of document lengths) by its two ends, which tell most of them apart."""
    return text if len(text) <= limit else f"{text[: limit - 14]}…{text[-12:]}"
