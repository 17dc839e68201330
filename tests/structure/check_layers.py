# SPDX-License-Identifier: Apache-2.0
"""An include points only downwards, to a public header, and a schedule asks in no way which world it runs in."""
import pathlib
import re
import sys

ORDER = ["comm", "attention", "model", "bench"]
BELOW = {layer: set(ORDER[: place + 1]) for place, layer in enumerate(ORDER)}
CLOCKS = r"thread_local|sleep_for|_clock::now|std::mutex|condition_variable"

root = pathlib.Path(sys.argv[1])


def public_headers(layer):
    file_set = re.search(r"FILE_SET HEADERS.*?FILES(.*?)PRIVATE", (root / layer / "CMakeLists.txt").read_text(), re.S)
    return {f"{layer}/{header}" for header in file_set.group(1).split()}


PUBLIC = public_headers("comm") | public_headers("attention") | public_headers("model")
faults = []
for layer, below in BELOW.items():
    for path in sorted(p for p in (root / layer).rglob("*") if p.suffix in {".hpp", ".cpp"}):
        text, name = path.read_text(), path.relative_to(root)
        for include in re.findall(r'#include "([^"]+)"', text):
            target = include.split("/")[0]
            if target in BELOW.keys() - below:
                faults.append(f"{name} includes {include}, of a layer above")
            elif target in below - {layer} and include not in PUBLIC:
                faults.append(f"{name} includes {include}, which {target} keeps to itself")
        owns_clock = layer == "bench" or {"transports", "devices"} & set(name.parts)
        if not owns_clock and re.search(CLOCKS, text):
            faults.append(f"{name} uses a clock, lock or sleep; these belong in transports and devices")
print("\n".join(faults) or "layers: every include points downwards")
sys.exit(bool(faults))
