# SPDX-License-Identifier: Apache-2.0
"""Rows in the shape of a sweep's CSV with invented numbers, for tests of the report alone."""

import csv
import itertools

from report_page.columns import COLUMNS

SCHEDULES = ("ring", "striped", "zigzag", "ulysses", "usp", "all_gather_kv")


def row(schedule="ring", ranks=2, sequence_length=4096, **changes):
    """One row; the numbers follow from simple rules so that charts have a plausible slope."""
    slowness = 1 + 0.1 * SCHEDULES.index(schedule)
    heads = changes.get("heads", 8)
    backward = changes.get("pass") == "backward"
    compute = 1e-9 * sequence_length**2 * heads / 8 * slowness / ranks * (2.5 if backward else 1)
    communication = 0 if ranks == 1 else 2e-8 * sequence_length * heads / 8 * slowness
    median = compute + communication
    flops = 2.0 * sequence_length**2 * heads * 64 * (2.5 if backward else 1)
    sent = 0 if ranks == 1 else int(sequence_length * 512 * (ranks - 1) / ranks * slowness)
    values = {
        "machine": "synthetic-machine",
        "commit": "synthetic",
        "world": "host",
        "transport": "threads",
        "device": "host",
        "kernel": "cpu",
        "schedule": schedule,
        "layout": "contiguous",
        "pass": "forward",
        "dtype": "fp32",
        "ranks": ranks,
        "ranks_per_node": ranks,
        "ulysses_degree": 1,
        "ring_degree": ranks,
        "hop": "copy",
        "backward": "automatic",
        "sequence_length": sequence_length,
        "batch": 1,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": 64,
        "value_dim": 64,
        "mask": "causal",
        "repeats": 5,
        "median_s": median,
        "p10_s": 0.97 * median,
        "p90_s": 1.06 * median,
        "compute_s": compute,
        "synchronised_s": 1.02 * compute,
        "communication_s": communication,
        "imbalance_s": 0.02 * compute,
        "exposed_s": 0.8 * communication,
        "serial_share": communication / (1.02 * compute + communication),
        "exposed_share": 0.8 * communication / median,
        "tokens_per_s": sequence_length / median,
        "strong_efficiency": 1 / (1 + 0.1 * (ranks - 1) * slowness),
        "weak_efficiency": 1 / (1 + 0.05 * (ranks - 1) * slowness),
        "bytes_sent_per_rank": sent,
        "tflops_per_rank": flops / median / ranks / 1e12,
        "messages_sent_per_rank": ranks - 1,
        "peak_bytes_per_rank": 4096 * sequence_length // ranks,
        "status": "ok",
    }
    return {name: "" for name in COLUMNS} | values | changes


def grid(lengths=(1024, 2048, 4096), ranks=(1, 2, 4), passes=("forward", "backward"), **changes):
    return [
        row(schedule, count, length, **{"pass": one_pass}, **changes)
        for one_pass, count, length, schedule in itertools.product(
            passes, ranks, lengths, SCHEDULES
        )
    ]


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path
