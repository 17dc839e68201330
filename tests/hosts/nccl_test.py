# SPDX-License-Identifier: Apache-2.0
"""NCCL, emulated, between hosts that share neither memory nor processes, but a folder through which the emulation
moves bytes: nccl_test.py COMM_TESTS FILTER VICTIM EMULATION FAULT...

One run does all, for hosts take seconds to make."""

import re
import sys
import tempfile
from pathlib import Path

from hosts_test import SKIP, hosts

COMM_TESTS, FILTER, VICTIM, EMULATION, *FAULTS = sys.argv[1:]
RANKS, DEADLINE = 4, 1.0
CULPRITS = {"kill": 2, "stop": 3, "wrong_size": 2}

# What every process does. No two hosts have the same GPU. A process that ends is not to end the job; one that is
# stopped is ended by time.
SCRIPT = f"""
export RINGSPAN_TEST_TRANSPORT=nccl LD_LIBRARY_PATH={EMULATION} RINGSPAN_EMULATED_NCCL_FOLDER=$1
case $(hostname) in host0) gpus=0,1,2,3 ;; *) gpus=4,5,6,7 ;; esac
export CUDA_VISIBLE_DEVICES=$gpus
{COMM_TESTS} "{FILTER}" --gtest_brief=1 || exit 1
""" + "".join(
    f"timeout -s KILL 10 {VICTIM} nccl ring {fault} {CULPRITS[fault]} 1 {RANKS} {DEADLINE} $1/{fault} "
    "$OMPI_COMM_WORLD_RANK || true\n"
    for fault in FAULTS
)


def failures(folder: Path, fault: str) -> list[str]:
    """What is wrong with how the survivors of a fault on one of two hosts have ended."""
    wrong = []
    for rank in set(range(RANKS)) - {CULPRITS[fault]}:
        notes = (folder / fault / f"rank.{rank}").read_text()
        failed = re.findall(r"^failed \S+ (.*)$", notes, re.M)
        if not failed or not re.search(rf"\brank {CULPRITS[fault]}\b", failed[0]):
            wrong.append(f"{fault}: rank {rank} does not name rank {CULPRITS[fault]}: {notes}")
    return wrong


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for fault in FAULTS:
        (folder / fault).mkdir()
    run = hosts("--hosts", "2", "--per-host", "2", "--", "sh", "-c", SCRIPT, "sh", name, timeout=280)
    print(run.stdout, run.stderr, sep="", end="")
    if run.returncode != 0:
        sys.exit(SKIP if run.returncode == SKIP else 1)
    wrong = [text for fault in FAULTS for text in failures(folder, fault)]
    if not re.search(r"nccl, 4 processes: [1-9]\d* passed, 0 failed", run.stdout):
        wrong.append("the tests have not run on 4 processes")
    print(*wrong, sep="\n")
    sys.exit(1 if wrong else 0)
