# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu_check does without GPUs."""

import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/gpu_check"
sys.path.insert(0, str(SCRIPT.parent))  # as for a script that is run


def gpu_check():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


class GpuCheckScriptTest(unittest.TestCase):
    def test_a_machine_without_git_loses_no_figures(self):
        with tempfile.TemporaryDirectory() as empty, mock.patch.dict(os.environ, PATH=empty):
            self.assertEqual(gpu_check().commit(), "unknown")

    def test_what_cannot_be_judged_has_a_reason(self):
        script = gpu_check()
        figures = {"cudnn_forward_full_128_16_16_tflops": 500.0, "cudnn_alone_forward_full_128_16_16_tflops": 550.0}
        parts = [{"name": "PyTorch's attention, for comparison", "status": "skipped", "reason": "no PyTorch"},
                 {"name": "speed of movement", "status": "ok", "reason": ""}]
        judged = script.judge(figures)
        self.assertEqual([(row["of"], row["status"]) for row in judged],
                         [("cudnn_alone_forward_full_128_16_16_tflops", "FAILED")])
        reasons = {(row["figure"], row["of"]): row["reason"] for row in script.not_judged(figures, parts, False)}
        torch = "cudnn_forward_full_128_16_16_tflops", "torch_forward_full_128_16_16_tflops"
        self.assertEqual(reasons[torch], "PyTorch's attention, for comparison: skipped no PyTorch")
        self.assertEqual(reasons["merge_gb_per_s", "copy_gb_per_s"], "speed of movement: ok")
        self.assertNotIn(("cudnn_forward_full_128_16_16_tflops", "cudnn_alone_forward_full_128_16_16_tflops"), reasons)
        self.assertEqual({row["reason"] for row in script.not_judged(figures, parts, True)},
                         {"emulated: no time means anything"})

    def test_what_was_left_out_is_named(self):
        parts = [{"name": "several GPUs, nccl", "status": "skipped", "reason": "one GPU"},
                 {"name": "contract of comm, nccl", "status": "ok", "reason": "60 tests; 9 skipped, for want of GPUs"},
                 {"name": "graphs", "status": "ok", "reason": ""}]
        names = [row["name"] for row in gpu_check().not_checked(parts, False)]
        self.assertEqual(names[:2], ["several GPUs, nccl", "contract of comm, nccl"])
        self.assertIn("ucx and mpi", names)
        self.assertNotIn("graphs", names)

    def test_every_figure_that_is_judged_comes_from_a_part(self):
        script = gpu_check()
        parts = {name for name, _ in script.PARTS} | {"PyTorch's attention, for comparison"}
        self.assertLessEqual({part for _, part in sys.modules["gpu_judgement"].PARTS}, parts)


class GpuCheckRunTest(unittest.TestCase):
    """What the run on the emulation has left, if there is one: its path is the argument of this script."""

    REPORT = None

    def test_it_tells_how_long_and_what_is_open(self):
        if not self.REPORT or not self.REPORT.exists():
            self.skipTest("there is no report")
        report = json.loads(self.REPORT.read_text())
        self.assertGreater(report["total_seconds"], 0)
        self.assertIsNone(report["build_seconds"])  # it was given the programs
        self.assertTrue(report["not_checked"])
        self.assertEqual({row["reason"] for row in report["not_judged"]}, {"emulated: no time means anything"})
        status = {part["name"]: part["status"] for part in report["parts"]}
        for name in ("nccl, one rank: aborted", "cuda_ipc, two processes: one is silent",
                     "speed of cuDNN by its own interface"):
            self.assertEqual(status[name], "ok")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        GpuCheckRunTest.REPORT = Path(sys.argv.pop())
    unittest.main()
