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
    for kernels, reference, least in (("cuda", "cudnn", 0.5), ("cudnn", "torch", 0.95))
    for which in ("forward", "backward")
    for mask, dim, heads, kv_heads in SHAPES
] + [
    (f"{kernels}_{which}_causal_128_16_16_tflops", "mma_sync_tflops", None)  # told, not judged
    for kernels in ("cuda", "cudnn")
    for which in ("forward", "backward")
]


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
