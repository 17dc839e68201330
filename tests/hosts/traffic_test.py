# SPDX-License-Identifier: Apache-2.0
"""What the library counts as sent between nodes is what the links between hosts carried:
traffic_test.py EXCHANGE TRANSPORT
"""

import csv
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from hosts_test import SKIP, hosts

EXCHANGE, TRANSPORT = sys.argv[1:3]
BYTES_PER_PAIR = 2 << 20
PER_HOST = 2


class TrafficTest(unittest.TestCase):
    def exchange(self, number_of_hosts: int) -> tuple[Counter, Counter]:
        """[host] -> bytes between nodes by the count of its ranks, and by that of its link."""
        with tempfile.TemporaryDirectory() as folder:
            links = Path(folder) / "links.csv"
            size = ("--hosts", str(number_of_hosts), "--per-host", str(PER_HOST))
            run = hosts(*size, "--bytes", str(links), "--", EXCHANGE, TRANSPORT, str(BYTES_PER_PAIR))
            self.assertEqual(run.returncode, 0, run.stderr)
            rows = csv.DictReader(links.read_text().splitlines())
            carried = {row["host"]: int(row["sent"]) for row in rows}
        counted = Counter()
        for line in run.stdout.splitlines():
            node, sent = line.split()
            counted[f"host{node}"] += int(sent)
        return counted, Counter(carried)

    def test_the_bytes_of_an_exchange_are_those_of_the_links(self):
        for number in (2, 3):
            with self.subTest(hosts=number):
                counted, carried = self.exchange(number)
                expected = PER_HOST * PER_HOST * (number - 1) * BYTES_PER_PAIR
                self.assertEqual(counted, {f"host{i}": expected for i in range(number)})
                for host, sent in carried.items():
                    # Headers and acknowledgements; mpirun and the start of the transport.
                    self.assertGreaterEqual(sent, expected, host)
                    self.assertLess(sent, 1.03 * expected + 500_000, host)


if __name__ == "__main__":
    probe = hosts("--", "true")
    if probe.returncode == SKIP:
        print(probe.stderr, end="")
        sys.exit(SKIP)
    unittest.main(argv=sys.argv[:1])
