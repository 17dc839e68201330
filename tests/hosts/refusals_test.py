# SPDX-License-Identifier: Apache-2.0
"""What `ringspan` refuses on several hosts: for want of memory, of which each rank has a host's, or of a rank.
Argument 1 is the command."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HOSTS = Path(__file__).resolve().parents[2] / "scripts" / "hosts"
RINGSPAN = sys.argv.pop(1)
SKIP = 77
LACKS = re.compile(r"take(?: at least)? (\d\S*) GiB on 1 rank; the machine has (\d+)\n")


def ringspan(*arguments: str) -> subprocess.CompletedProcess:
    command = [HOSTS, "--hosts", "2", "--per-host", "1", "--", RINGSPAN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


class RefusalsTest(unittest.TestCase):
    def refused(self, *arguments: str) -> str:
        run = ringspan(*arguments)
        self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
        self.assertEqual(run.stderr.count("ringspan: "), 1, run.stderr)
        return run.stderr

    def test_a_trace_that_takes_more_than_its_host_has(self):
        with tempfile.TemporaryDirectory() as folder:
            output = f"{folder}/t.json"
            text = self.refused("trace", "--transport", "mpi", "--batch", "1Gi", "-o", output)
            self.assertRegex(text, LACKS)
            self.assertEqual(os.listdir(folder), [])

    def test_a_training_whose_half_fits_and_whose_comparison_on_one_rank_does_not(self):
        with tempfile.NamedTemporaryFile() as there:  # as --csv, which is refused only after memory
            def train(batch: int) -> str:
                return self.refused("train", "--transport", "mpi", "--mesh", "ring=2", "--compare",
                                    "--batch", str(batch), "--csv", there.name)  # fmt: skip

            huge = 1 << 20
            needed, has = map(float, LACKS.search(train(huge)).groups())
            text = train(int(huge * 0.75 * has / needed))
            self.assertRegex(text, r"(?m)^ringspan: --compare: .* take")
            self.assertRegex(text, LACKS)
            self.assertIn("exists", train(int(huge * 0.25 * has / needed)))

    def test_a_launch_in_which_a_rank_of_one_host_does_not_come(self):
        come = f"[ $OMPI_COMM_WORLD_RANK = 3 ] && exec sleep 8; RINGSPAN_TIMEOUT_S=1 exec {RINGSPAN} info"
        command = [HOSTS, "--hosts", "2", "--per-host", "2", "--", "sh", "-c", come]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(run.stderr, r"ringspan: launch: no sign of local rank 1 of host host1 within")


if __name__ == "__main__":
    probe = subprocess.run([HOSTS, "--", "true"], capture_output=True, text=True, timeout=60)
    if probe.returncode == SKIP:
        print(probe.stderr, end="")
        sys.exit(SKIP)
    unittest.main()
