# SPDX-License-Identifier: Apache-2.0
"""NCCL, emulated, between hosts that share neither memory nor processes, but a folder through which the emulation
moves bytes: nccl_test.py COMM_TESTS FILTER VICTIM EMULATION FAULT...
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

from hosts_test import SKIP, hosts

COMM_TESTS, FILTER, VICTIM, EMULATION, *FAULTS = sys.argv[1:]
RANKS, DEADLINE = 4, 1.0
CULPRITS = {"kill": 2, "stop": 3, "wrong_size": 2}
# No two hosts have the same GPU.
GPUS = f"""export RINGSPAN_TEST_TRANSPORT=nccl LD_LIBRARY_PATH={EMULATION} RINGSPAN_EMULATED_NCCL_FOLDER="$1"
case $(hostname) in host0) gpus=0,1,2,3 ;; *) gpus=4,5,6,7 ;; esac
export CUDA_VISIBLE_DEVICES=$gpus
shift
"""


class NcclTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_on_hosts(self, command: str, *arguments: str):
        size = ("--hosts", "2", "--per-host", "2")
        return hosts(*size, "--", "sh", "-c", GPUS + command, "sh", self.folder, *arguments)

    def test_what_every_transport_must_do_works_between_hosts(self):
        run = self.run_on_hosts('exec "$@"', COMM_TESTS, FILTER, "--gtest_brief=1")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"nccl, 4 processes: [1-9]\d* passed, 0 failed")

    def test_survivors_name_a_rank_that_goes_wrong_on_another_host(self):
        for fault in FAULTS:
            culprit = CULPRITS[fault]
            with self.subTest(fault), tempfile.TemporaryDirectory() as notes:
                # What ends here is not to end the job; what is stopped is ended by time.
                arguments = ("nccl", "ring", fault, str(culprit), "1", str(RANKS), str(DEADLINE), notes)
                command = 'timeout -s KILL 10 "$@" "$OMPI_COMM_WORLD_RANK" || exit 0'
                run = self.run_on_hosts(command, VICTIM, *arguments)
                for rank in set(range(RANKS)) - {culprit}:
                    text = (Path(notes) / f"rank.{rank}").read_text()
                    failed = re.findall(r"^failed \S+ (.*)$", text, re.M)
                    self.assertTrue(failed, f"{fault}: rank {rank}: {text}{run.stderr}")
                    self.assertRegex(failed[0], rf"\brank {culprit}\b", f"{fault}: rank {rank}")


if __name__ == "__main__":
    probe = hosts("--", "true")
    if probe.returncode == SKIP:
        print(probe.stderr, end="")
        sys.exit(SKIP)
    unittest.main(argv=sys.argv[:1])
