# SPDX-License-Identifier: Apache-2.0
"""An include points only downwards, and a schedule asks in no way which world it runs in."""
import pathlib
import re
import sys

BELOW = {"comm": {"comm"}, "attention": {"comm", "attention"}, "bench": {"comm", "attention", "bench"}}
PRIVATE = {"attention": r"comm/transports/", "bench": r"comm/transports/|attention/(schedules|kernels)/"}
CLOCKS = r"thread_local|sleep_for|_clock::now|std::mutex|condition_variable"

root = pathlib.Path(sys.argv[1])
faults = []
for layer, below in BELOW.items():
    for path in sorted(p for p in (root / layer).rglob("*") if p.suffix in {".hpp", ".cpp"}):
        text, name = path.read_text(), path.relative_to(root)
        for include in re.findall(r'#include "([^"]+)"', text):
            private = re.match(PRIVATE[layer], include) if layer in PRIVATE else None
            layer_above = include.split("/")[0] in BELOW.keys() - below
            if layer_above or private:
                faults.append(f"{name} includes {include}")
        owns_clock = layer == "bench" or {"transports", "devices"} & set(name.parts)
        if not owns_clock and re.search(CLOCKS, text):
            faults.append(f"{name} uses a clock, lock or sleep; these belong in transports and devices")
print("\n".join(faults) or "layers: every include points downwards")
sys.exit(bool(faults))
