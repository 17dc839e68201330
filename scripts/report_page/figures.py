# SPDX-License-Identifier: Apache-2.0
"""The figures of the report: what each draws, and the words above it that define the number."""

from dataclasses import dataclass

LENGTH, HEADS, RANKS, WEAK = "sequence_length", "heads", "ranks", "ranks at equal tokens per rank"

AXIS_TITLES = {
    LENGTH: "sequence length (tokens)",
    HEADS: "query heads",
    RANKS: "ranks",
    WEAK: "ranks",
}


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    text: str
    axes: tuple  # the first over which the rows have anything to show
    y: str
    y_title: str
    unit: str  # seconds, flops, bytes, share or ratio
    low: str = ""
    high: str = ""
    ideal: str = ""  # an expression on a point: datum.x, or a number
    log_y: bool = True
    several_ranks: bool = False  # leaves rows of one rank out, which have nothing to communicate


FIGURES = [
    Figure(
        "time",
        "Time against sequence length",
        "How long one pass of attention takes with computing and communicating together: in each "
        "repeat the time of the slowest rank (O), of these the median; thin bars reach from the "
        "10th to the 90th percentile. Lower is better.",
        (LENGTH,),
        "median_s",
        "time O",
        "seconds",
        "p10_s",
        "p90_s",
    ),
    Figure(
        "rate",
        "Arithmetic rate",
        "Useful floating-point operations per second and rank: the exact count for the mask, "
        "divided by O and by the ranks. Nothing is counted for communication or for tiles that the "
        "mask hides, so this shows how much of a core or GPU a schedule puts to use.",
        (LENGTH, RANKS),
        "flops_per_rank",
        "FLOP/s per rank",
        "flops",
        log_y=False,
    ),
    Figure(
        "heads",
        "Time against heads",
        "The same time O at a fixed length while the number of query heads grows. Ulysses and USP "
        "cut heads, the others tokens.",
        (HEADS,),
        "median_s",
        "time O",
        "seconds",
        "p10_s",
        "p90_s",
    ),
    Figure(
        "strong_scaling",
        "Strong scaling",
        "The same global work on more ranks: speed-up = O(1 rank) / O(P ranks) = P × "
        "strong_efficiency. The dashed line is ideal: P ranks, P times as fast. Ranks beyond the "
        "cores or GPUs of the machine cannot follow it.",
        (RANKS,),
        "speed_up",
        "speed-up over one rank",
        "ratio",
        ideal="datum.x",
    ),
    Figure(
        "weak_scaling",
        "Weak scaling",
        "The sequence grows with the ranks, so that each keeps the same number of tokens. The work "
        "of attention per rank then grows too, so rates are compared and not times: "
        "weak_efficiency = FLOP/s per rank on P ranks / FLOP/s on one rank. The dashed line at 100 "
        "% is ideal.",
        (WEAK,),
        "weak_efficiency",
        "weak efficiency",
        "share",
        ideal="1",
        log_y=False,
    ),
    Figure(
        "serial_share",
        "Communication share, serial",
        "What communication would cost if nothing overlapped: serial_share = M / (S + M), where M "
        "is the run with messages and no kernel, packing included, and S the run with the kernel "
        "and zero-byte messages.",
        (LENGTH, RANKS),
        "serial_share",
        "serial share",
        "share",
        log_y=False,
        several_ranks=True,
    ),
    Figure(
        "exposed_share",
        "Communication share, exposed",
        "What communication does cost: exposed_share = (O − S) / O, the part of the time that "
        "overlap did not hide, and what it slowed down. Not clamped: noise may make it negative.",
        (LENGTH, RANKS),
        "exposed_share",
        "exposed share",
        "share",
        log_y=False,
        several_ranks=True,
    ),
    Figure(
        "imbalance",
        "Imbalance",
        "What ranks lose waiting for the slowest one: imbalance = S − C, shown as a part of O, "
        "where C is the run that only computes. A schedule that gives all ranks equal work shows "
        "noise around zero.",
        (LENGTH, RANKS),
        "imbalance_share",
        "imbalance / O",
        "share",
        log_y=False,
        several_ranks=True,
    ),
    Figure(
        "bytes_sent",
        "Bytes sent per rank",
        "Counted in the transport, not taken from a formula: bytes that one rank sends in one "
        "pass, the maximum over ranks. Schedules that send the same share one line.",
        (LENGTH, RANKS),
        "bytes_sent_per_rank",
        "sent per rank",
        "bytes",
        several_ranks=True,
    ),
    Figure(
        "peak_memory",
        "Peak memory per rank",
        "The most bytes that one rank's device had allocated at one time during the pass, the "
        "maximum over ranks.",
        (LENGTH, RANKS),
        "peak_bytes_per_rank",
        "peak per rank",
        "bytes",
    ),
]
