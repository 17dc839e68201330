# SPDX-License-Identifier: Apache-2.0
"""TFLOP/s of PyTorch's scaled_dot_product_attention, for comparison: the shapes of scripts/gpu_check, FLOPs as in
attention/flops.cpp. Prints one line of JSON."""
import json
import sys

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

TOKENS = 8192
RUNS, CALLS = 7, 5


def seconds(call):
    call()
    runs = []
    for _ in range(RUNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        runs.append(start.elapsed_time(end) * 1e-3 / CALLS)
    return sorted(runs)[RUNS // 2]


def random(heads, dim):
    return torch.randn(1, heads, TOKENS, dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)


figures = {"torch": torch.__version__}
matrix = torch.randn(TOKENS, TOKENS, device="cuda", dtype=torch.bfloat16)
figures["torch_matmul_tflops"] = 2e-12 * TOKENS**3 / seconds(lambda: matrix @ matrix)
for mask, dim, heads, kv_heads in json.loads(sys.argv[1]):
    q, k, v = random(heads, dim), random(kv_heads, dim), random(kv_heads, dim)
    causal = mask == "causal"
    pairs = TOKENS * (TOKENS + 1) / 2 if causal else TOKENS**2
    flops = 4 * pairs * heads * dim

    def attention():
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)

    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
        with torch.no_grad():
            forward = seconds(attention)
        out = attention()
        d_out = torch.randn_like(out)
        backward = seconds(lambda: torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True))
    shape = f"{mask}_{dim}_{heads}_{kv_heads}_tflops"
    figures[f"torch_forward_{shape}"] = flops / forward * 1e-12
    figures[f"torch_backward_{shape}"] = 2.5 * flops / backward * 1e-12
print(json.dumps(figures))
