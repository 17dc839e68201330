# SPDX-License-Identifier: Apache-2.0
"""The columns of a sweep's CSV, in the order in which `ringspan sweep` writes them."""

# Kinds: text; count (a whole number >= 0); seconds, bytes, share and number (finite reals).
COLUMNS = {
    "machine": "text",
    "commit": "text",
    "world": "text",
    "transport": "text",
    "device": "text",
    "cluster": "text",
    "kernel": "text",
    "schedule": "text",
    "layout": "text",
    "pass": "text",
    "dtype": "text",
    "ranks": "count",
    "ranks_per_node": "count",
    "ulysses_degree": "count",
    "ring_degree": "count",
    "inner_ring": "count",
    "head_groups": "count",
    "placement": "text",
    "all_to_all": "text",
    "hop": "text",
    "backward": "text",
    "sequence_length": "count",
    "batch": "count",
    "heads": "count",
    "kv_heads": "count",
    "head_dim": "count",
    "value_dim": "count",
    "mask": "text",
    "repeats": "count",
    "median_s": "seconds",
    "p10_s": "seconds",
    "p90_s": "seconds",
    "compute_s": "seconds",
    "synchronised_s": "seconds",
    "communication_s": "seconds",
    "imbalance_s": "seconds",
    "exposed_s": "seconds",
    "serial_share": "share",
    "exposed_share": "share",
    "hidden": "share",
    "hideable": "share",
    "overlap_efficiency": "share",
    "compute_slowdown": "number",
    "tokens_per_s": "number",
    "tflops_per_rank": "number",
    "strong_efficiency": "share",
    "weak_efficiency": "share",
    "bytes_sent_per_rank": "bytes",
    "inter_node_bytes_per_rank": "bytes",
    "messages_sent_per_rank": "count",
    "peak_bytes_per_rank": "bytes",
    "max_abs_error": "number",
    "status": "text",
}

WORLDS = {
    "host": "measured on CPU cores",
    "gpu": "measured on GPUs",
    "simulated": "simulated, not measured",
}

PASSES = ["forward", "backward", "both"]

# Where a number comes from, and how bytes were moved: what two rows must share to be one line.
PROVENANCE = ["machine", "commit", "world", "transport", "device", "cluster", "kernel", "hop"]

# What was computed. The rows of a panel agree in these, but for the axis it is drawn over.
PROBLEM = [
    "pass",
    "mask",
    "ranks",
    "sequence_length",
    "batch",
    "heads",
    "kv_heads",
    "head_dim",
    "value_dim",
    "dtype",
]

# How a schedule did it: over which transport, and its own choices; they tell its lines in a panel apart.
VARIANT = [
    "transport",
    "ulysses_degree",
    "ring_degree",
    "layout",
    "inner_ring",
    "head_groups",
    "placement",
    "all_to_all",
    "backward",
    "ranks_per_node",
]

# Shapes that Vega lacks, as SVG paths from -1 to 1: a star of six points and a slanted cross.
STAR = "M0,-1L.29,-.5L.87,-.5L.58,0L.87,.5L.29,.5L0,1L-.29,.5L-.87,.5L-.58,0L-.87,-.5L-.29,-.5Z"
SLANTED_CROSS = (
    "M-.8,-.4L-.4,-.8L0,-.4L.4,-.8L.8,-.4L.4,0L.8,.4L.4,.8L0,.4L-.4,.8L-.8,.4L-.4,0Z"
)

# A colour and a point shape for each schedule, the same on every page. Points are filled: shapes
# without an area ("stroke") would not be seen.
SCHEDULES = {
    "ring": ("#0072B2", "circle"),
    "striped": ("#4DA8DA", "square"),
    "zigzag": ("#009E73", "triangle-up"),
    "ulysses": ("#E69F00", "diamond"),
    "usp": ("#D55E00", "triangle-down"),
    "all_gather_kv": ("#CC79A7", "cross"),
    "double_ring": ("#7A5195", "triangle-right"),
    "bidirectional_ring": ("#44AA99", STAR),
    "dist_flash": ("#8C6D31", "triangle-left"),
    "ring_self_attention": ("#7F7F7F", SLANTED_CROSS),
    "ulysses_overlapped": ("#B2182B", "circle"),
    "halo": ("#5E3C99", "square"),
}


def schedule_style(name, names):
    """Colour and shape of a schedule; one that is not listed above takes the next that is free."""
    if name in SCHEDULES:
        return SCHEDULES[name]
    spare = [
        ("#1B7837", "diamond"),
        ("#8C510A", "cross"),
    ]
    unknown = [other for other in names if other not in SCHEDULES]
    return spare[unknown.index(name) % len(spare)]
