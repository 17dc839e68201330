# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu_check does without GPUs."""

import importlib.machinery
import importlib.util
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


if __name__ == "__main__":
    unittest.main()
