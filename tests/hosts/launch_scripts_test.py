# SPDX-License-Identifier: Apache-2.0
"""The launch scripts of a cluster, with launchers and GPUs that are played by small scripts."""

import os
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
ONE_ARGUMENT_A_LINE = "printf '%s\\n' \"$@\""


def cores(text: str) -> set[int]:
    """ "0-2,7" as a set."""
    ends = [part.split("-") for part in text.strip().split(",")]
    return {core for end in ends for core in range(int(end[0]), int(end[-1]) + 1)}


class LaunchScriptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name)
        launchers = ("OMPI_", "SLURM_", "UCX_", "NCCL_", "RINGSPAN_", "MPI_", "CUDA_")
        kept = {n: v for n, v in os.environ.items() if not n.startswith(launchers)}
        self.environment = kept | {"PATH": f"{self.path}:{os.environ['PATH']}"}

    def play(self, name: str, body: str) -> None:
        (self.path / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.path / name).chmod(0o755)

    def script(self, name: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [SCRIPTS / name, *arguments],
            env=self.environment | variables,
            capture_output=True,
            text=True,
            timeout=20,
        )

    def play_mpirun(self) -> None:
        version = "[ $1 != --version ] || { echo 'mpirun (Open MPI) 4.1.4'; exit; }"
        self.play("mpirun", f"{version}\n{ONE_ARGUMENT_A_LINE}")

    def play_gpus(self, addresses: list[str]) -> None:
        indices = "\\n".join(str(index) for index in range(len(addresses)))
        cases = "\n".join(f"--id={i}) echo {address};;" for i, address in enumerate(addresses))
        self.play("nvidia-smi", f"case $1 in\n--query*) printf '{indices}\\n';;\n{cases}\nesac")

    def test_mpirun_gets_ranks_per_node_bindings_and_our_variables(self):
        self.play_mpirun()
        hostfile = self.path / "hosts"
        hostfile.touch()
        run = self.script(
            "launch_mpirun", "--per-node", "4", "--hostfile", str(hostfile), "--", "sweep", "a b",
            RINGSPAN_TIMEOUT_S="5", UCX_TLS="tcp", OTHER="x",
        )  # fmt: skip
        expected = ["--hostfile", str(hostfile), "--map-by", "ppr:4:node", "--bind-to", "core"]
        expected += ["-x", "RINGSPAN_TIMEOUT_S", "-x", "UCX_TLS"]
        expected += [str(SCRIPTS / "bind_rank"), "sweep", "a b"]
        self.assertEqual(run.stdout.splitlines(), expected)

    def test_an_mpirun_that_stays_when_its_ranks_have_gone_is_killed_and_no_other(self):
        stays = "import subprocess, time\nrank = subprocess.Popen(['sleep', '0.5'])\ntime.sleep(60)"
        self.play("stays", f'exec python3 -c "{stays}"')  # it does not even reap its rank
        self.play("ends", "sleep 11.5\nexit 3")  # with a rank that runs for long
        with ThreadPoolExecutor() as both:
            stayed, ended = both.map(lambda name: self.script("ending_mpirun", name), ("stays", "ends"))
        self.assertEqual((ended.returncode, ended.stderr), (3, ""))
        self.assertEqual(stayed.returncode, 137)
        self.assertEqual(
            stayed.stderr, "ending_mpirun: all ranks have ended, mpirun has not; it is killed\n"
        )

    def test_ways_to_other_nodes_stay_children_of_mpirun(self):
        self.play("mpirun", "echo $OMPI_MCA_orte_leave_session_attached $OMPI_MCA_plm_rsh_num_concurrent")
        self.assertEqual(self.script("ending_mpirun", "mpirun").stdout, "1 65536\n")

    def test_srun_waits_for_the_survivors_of_a_rank_for_longer_than_their_deadline(self):
        self.play("srun", f"echo $SLURM_MPI_TYPE\n{ONE_ARGUMENT_A_LINE}")
        job = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(SCRIPTS.parent)}
        run = self.script("launch_slurm", "sweep", "a b", RINGSPAN_TIMEOUT_S="90.5", **job)
        expected = ["pmix", "--kill-on-bad-exit=0", "--wait=150", "--cpu-bind=cores"]
        self.assertEqual(run.stdout.splitlines(), expected + [str(SCRIPTS / "bind_rank"), "sweep", "a b"])

    def test_srun_waits_by_the_deadline_of_the_command_where_that_is_longer(self):
        self.play("srun", ONE_ARGUMENT_A_LINE)
        job = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(SCRIPTS.parent)}
        for given, expected in (
            (("--deadline", "600"), "--wait=660"),
            (("--deadline=1e3",), "--wait=1060"),
            (("--deadline", "5"), "--wait=120"),
            (("--deadline",), "--wait=120"),  # which the command refuses
        ):
            with self.subTest(given=given):
                run = self.script("launch_slurm", "ringspan", "sweep", *given, **job)
                self.assertEqual(run.stdout.splitlines()[1], expected)

    def test_local_ranks_take_the_gpus_in_turn_and_the_cores_beside_them(self):
        devices = sorted(Path("/sys/bus/pci/devices").glob("0000:*"))
        if not devices:
            self.skipTest("no PCI device could be a GPU")
        near = cores((devices[0] / "local_cpulist").read_text())
        here = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(here)})  # as a launcher binds
        self.addCleanup(os.sched_setaffinity, 0, here)
        address = f"0000{devices[0].name.upper()}"  # as nvidia-smi writes it
        self.play_gpus([address, address])
        show = "echo $CUDA_VISIBLE_DEVICES; grep Cpus_allowed_list /proc/self/status"
        for launcher in ("OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"):
            for local_rank, expected in enumerate("010"):
                run = self.script("bind_rank", "sh", "-c", show, **{launcher: str(local_rank)})
                gpu, bound = run.stdout.splitlines()
                self.assertEqual((gpu, run.stderr), (expected, ""))
                self.assertLessEqual(near & here, cores(bound.split()[1]))
                self.assertLessEqual(cores(bound.split()[1]), near)

    def test_the_launcher_of_ranks_knows_them_better_than_the_job_it_runs_in(self):
        self.play_gpus(["?"] * 2)
        show = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        for launcher in ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"):
            both = {launcher: "1", "SLURM_LOCALID": "0"}  # one task of Slurm starts all ranks
            self.assertEqual(self.script("bind_rank", *show, **both).stdout, "1\n", launcher)

    def test_a_rank_takes_only_gpus_that_the_job_has(self):
        self.play_gpus(["?"] * 8)
        show = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        job = {"CUDA_VISIBLE_DEVICES": "6,7", "SLURM_LOCALID": "1"}
        self.assertEqual(self.script("bind_rank", *show, **job).stdout, "7\n")

    def assert_the_binding_of_the_launcher_stays(self, gpus: str, **variables: str):
        show = ("sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-not set}; taskset -cp $$")
        core = min(os.sched_getaffinity(0))
        command = ["taskset", "-c", str(core), SCRIPTS / "bind_rank", *show]
        variables = self.environment | {"SLURM_LOCALID": "1"} | variables
        run = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=20)
        self.assertRegex(run.stdout, rf"^{gpus}\npid \d+'s current affinity list: {core}\n$")
        self.assertEqual(run.stderr, "")

    def test_without_gpus_the_binding_of_the_launcher_stays(self):
        for body in ("echo 'NVIDIA-SMI has failed'; exit 9", "echo 'No devices were found'", ":"):
            with self.subTest(body=body):
                self.play("nvidia-smi", body)
                self.assert_the_binding_of_the_launcher_stays("not set")

    def test_a_job_without_gpus_takes_none_of_those_that_the_node_has(self):
        self.play_gpus(["?"] * 2)
        self.assert_the_binding_of_the_launcher_stays("", CUDA_VISIBLE_DEVICES="")
        self.assert_the_binding_of_the_launcher_stays("-1", CUDA_VISIBLE_DEVICES="-1")

    def test_bad_input_gives_one_line_that_names_the_script(self):
        self.play_mpirun()
        for script, arguments, words in (
            ("launch_mpirun", ("--per-node", "x", "--", "true"), "a number of ranks"),
            ("launch_mpirun", ("--hostfile", "/nowhere", "--", "true"), "cannot be read"),
            ("launch_mpirun", ("--", "true"), "--per-node is needed"),
            ("launch_mpirun", ("--per-node", "2"), "no command"),
            ("launch_mpirun", ("sweep", "--check"), "not known"),
            ("launch_slurm", (), "no command"),
            ("launch_slurm", ("true",), "sbatch"),
            ("bind_rank", ("true",), "mpirun or srun"),
            ("bind_rank", (), "no command"),
            ("ending_mpirun", (), "no command"),
        ):
            with self.subTest(script=script, arguments=arguments):
                run = self.script(script, *arguments)
                self.assertEqual((run.returncode, run.stdout), (2, ""))
                self.assertEqual(run.stderr.count("\n"), 1)
                self.assertTrue(run.stderr.startswith(f"{script}: "))
                self.assertIn(words, run.stderr)


if __name__ == "__main__":
    unittest.main()
