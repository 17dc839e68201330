# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu_check measures of attention, and which figures of a run it holds against each other."""

# Of the attention that is timed: mask, head_dim, heads, KV heads; 8,192 tokens of bf16.
SHAPES = [("causal", 128, 16, 16), ("full", 128, 16, 16), ("causal", 128, 32, 8), ("causal", 64, 16, 16)]

# A figure, what it is compared with, the least ratio.
JUDGED = [
    ("merge_gb_per_s", "copy_gb_per_s", 0.8),
    ("pack_gb_per_s", "copy_gb_per_s", 0.8),
    ("ring_of_two_processes_gb_per_s", "copy_gb_per_s", 0.9),
] + [
    (f"{kernels}_{which}_{mask}_{dim}_{heads}_{kv_heads}_tflops",
     f"{reference}_{which}_{mask}_{dim}_{heads}_{kv_heads}_tflops", least)
    for kernels, reference, least in (("cuda", "cudnn_alone", 0.5), ("cudnn", "cudnn_alone", 0.95), ("cudnn", "torch", 0.95))
    for which in ("forward", "backward")
    for mask, dim, heads, kv_heads in SHAPES
] + [
    (f"{kernels}_{which}_causal_128_16_16_tflops", "mma_sync_tflops", None)  # told, not judged
    for kernels in ("cuda", "cudnn")
    for which in ("forward", "backward")
]

# Which part a figure comes from, by how it begins; the first that fits.
PARTS = [
    ("torch", "PyTorch's attention, for comparison"),
    ("cudnn_alone", "speed of cuDNN by its own interface"),
    ("cudnn", "speed of attention, cudnn"),
    ("cuda", "speed of attention, cuda"),
    ("ring_of_two", "cuda_ipc, two processes: bandwidth"),
    ("mma_sync", "speed of tensor cores"),
    ("", "speed of movement"),
]

LEFT_OUT = [("ucx and mpi", "they need processes that a launcher starts"),
            ("schedules between processes", "left out, for time"),
            ("several machines", "this is one")]


def judge(figures):
    rows = []
    for figure, reference, least in JUDGED:
        if figure in figures and reference in figures:
            ratio = figures[figure] / figures[reference]
            status = "ok" if least is None or ratio >= least else "FAILED"
            rows.append({"figure": figure, "of": reference, "ratio": round(ratio, 3), "least": least, "status": status})
            wanted = "" if least is None else f", {least} wanted: {status}"
            print(f"{figure} is {ratio:.2f} of {reference}{wanted}")
    return rows


def not_judged(figures, parts, emulated):
    """What would be held against each other, had both been measured, and why it was not."""
    parts = {part["name"]: part for part in parts}
    rows = []
    for figure, reference, _ in JUDGED:
        lacking = next((name for name in (figure, reference) if name not in figures), None)
        if not emulated and not lacking:
            continue
        source = next(part for begin, part in PARTS if (lacking or figure).startswith(begin))
        part = parts.get(source, {"status": "not run", "reason": ""})
        reason = "emulated: no time means anything" if emulated else f"{source}: {part['status']} {part['reason']}".strip()
        rows.append({"figure": figure, "of": reference, "reason": reason})
    return rows


def not_checked(parts, emulated):
    """What this machine cannot check, in whole or in part, and what is left out on any."""
    rows = [(part["name"], part["reason"]) for part in parts
            if part["status"] == "skipped" or part["reason"].startswith("in part") or " skipped" in part["reason"]]
    if emulated:
        rows.append(("contract of comm, PyTorch, overlap, compute-sanitizer", "emulated: there is no GPU"))
    return [{"name": name, "reason": reason} for name, reason in rows + LEFT_OUT]


def tell_what_is_open(unchecked, unjudged):
    for row in unchecked:
        print(f"not checked: {row['name']}: {row['reason'][:160]}")
    for reason in dict.fromkeys(row["reason"] for row in unjudged):
        count = sum(row["reason"] == reason for row in unjudged)
        print(f"not judged: {count} of {len(JUDGED)} comparisons: {reason[:160]}")
