# SPDX-License-Identifier: Apache-2.0
"""How scripts/gpu_check builds what it runs."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def make(build):
    """The programs, with the libraries that not every Linux has beside them. Returns the seconds it took."""
    start = time.monotonic()
    if not shutil.which("cmake"):
        sys.exit("gpu_check: cmake is missing; run scripts/setup --build, or gpu_check --make elsewhere and bring build/gpu")
    programs = ["gpu_check", "comm_tests", "ringspan"]
    if not shutil.which("nvcc") and not os.path.exists("/usr/local/cuda/bin/nvcc"):
        subprocess.run([ROOT / "scripts/setup", "--cuda"])  # without it there are no kernels, and parts say so
    for command in (["cmake", "--preset", "gpu"], ["cmake", "--build", str(build), "-j", "--target", *programs]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
        if done.returncode != 0:
            sys.exit(f"{done.stdout[-3000:]}\ngpu_check: {' '.join(command)} has failed")
    (build / "lib").mkdir(exist_ok=True)
    for program in programs:
        listed = subprocess.run(["ldd", build / "bin" / program], capture_output=True, text=True).stdout
        for library in re.findall(r"(/\S*/lib(?:hwy|blis|fmt|spdlog|tomlplusplus|csv|hwloc|stdc\+\+|gcc_s)\.\S*)", listed):
            shutil.copy(library, build / "lib")
    return round(time.monotonic() - start, 1)
