# SPDX-License-Identifier: Apache-2.0
"""Starts jobs of three ranks, one of which goes wrong on purpose, and expects of every other rank that it ends
within the deadline and two seconds with the culprit in its message, and that nothing is left behind.

    run_faults.py VICTIM [--mpiexec MPIEXEC] [--ucx] [--emulation FOLDER] [--soak]

A death may also end a job of mpirun through mpirun itself, before a survivor can speak."""

import argparse
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

ENDING_MPIRUN = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "ending_mpirun"
RANKS, DEADLINE, GRACE = 3, 1.0, 2.0  # seconds
MPI_START = 1.5  # for which the roll is called before MPI_Init at least
AT_ONCE = 2  # most of the time they wait
PHASES = ["start", "bootstrap", "ring", "all_to_all", "backward", "shutdown", "exit"]
FAULTS = ["kill", "stop", "exit", "never", "late", "wrong_size"]
INSIDE = ["ring", "all_to_all", "backward"]  # where there are messages to get wrong
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mpi_yield_when_idle": "1",
}


@dataclass(frozen=True)
class World:
    """How a job is started: the transport and, for UCX, the network."""
    name: str
    transport: str
    mpirun: bool = False
    network: str = ""
    emulated: bool = False  # on GPUs that are not there
    hosts: str = ""  # processes of each host that is played, with a comma after each


@dataclass(frozen=True)
class Case:
    world: World
    phase: str
    fault: str
    culprit: int
    post: int

    def __str__(self):
        where = f", post {self.post}" if self.phase in INSIDE else ""
        return f"{self.world.name}: rank {self.culprit}: {self.fault} in {self.phase}{where}"


THREADS = World("threads", "threads")


def exists(world, phase, fault):
    if fault == "wrong_size" and phase not in INSIDE:
        return False
    if world.mpirun and phase == "start" and fault == "late":
        return False
    if world is THREADS:  # they die together, and nobody waits for one that has nothing left to do
        return fault in {"never", "late", "wrong_size"} and phase in INSIDE
    return phase != "exit" or fault in {"kill", "stop"}  # nobody waits for anybody any more


def all_cases(worlds, soak):
    """Every combination, of which a short run takes each pair of world and fault with two of the phases."""
    cases = []
    for at, (world, fault) in enumerate(itertools.product(worlds, FAULTS)):
        phases = [phase for phase in PHASES if exists(world, phase, fault)]
        if soak:
            cases += [Case(world, phase, fault, culprit, post) for phase in phases for culprit in range(RANKS)
                      for post in ([0, 3] if phase in INSIDE else [0])]
        else:
            chosen = {phases[at % len(phases)], phases[(at + 3) % len(phases)]} if phases else set()
            cases += [Case(world, phase, fault, at % RANKS, at % 4) for phase in sorted(chosen)]
    return cases


class Job:
    """The processes of one case, and what they leave in a folder."""

    def __init__(self, case, options, folder):
        self.case, self.folder, self.started = case, pathlib.Path(folder), time.monotonic()
        words = [options.victim, case.world.transport, case.phase, case.fault, case.culprit, case.post, RANKS,
                 DEADLINE, folder]
        if case.world.mpirun:
            commands = [[ENDING_MPIRUN, options.mpiexec, "-n", RANKS, *words]]
        elif case.world is THREADS:
            commands = [words]
        else:
            commands = [[*words, rank] for rank in range(RANKS)]
        environment = {**os.environ, **MPI}
        if case.world.network:
            environment["UCX_TLS"] = f"self,{case.world.network}"
        if case.world.emulated:
            environment["LD_LIBRARY_PATH"] = options.emulation
        if case.world.hosts:
            environment["VICTIM_HOSTS"] = case.world.hosts
        self.log = open(self.folder / "log", "w")
        self.children = [subprocess.Popen([str(word) for word in command], env=environment, stdout=self.log,
                                          stderr=self.log, start_new_session=True) for command in commands]
        self.ended = {}  # rank -> when its process was first seen to be gone
        self.processes = {}  # rank -> a descriptor, which stays that of this process; None: gone before it was seen

    def limit(self):
        """Seconds from the fault within which every survivor must have ended."""
        if self.case.world.emulated:  # as long again until GPUs are known to be quiet, and twice to leave without it
            return 4 * DEADLINE + GRACE
        in_mpi_init = self.case.world.mpirun and self.case.phase == "start"
        return (MPI_START if in_mpi_init else DEADLINE) + GRACE

    def notes(self, rank, what):
        """The times and texts of what a rank has noted."""
        file = self.folder / f"rank.{rank}"
        lines = [line.split(" ", 2) for line in file.read_text(errors="replace").splitlines()] if file.exists() else []
        return [(float(line[1]), line[2]) for line in lines if line[0] == what and len(line) == 3]

    def fault(self):
        notes = self.notes(self.case.culprit, "fault")
        return notes[0][0] if notes else None

    def find(self, rank):
        for _, pid in self.notes(rank, "pid") if rank not in self.processes else []:
            try:
                self.processes[rank] = os.pidfd_open(int(pid))
            except ProcessLookupError:
                self.processes[rank] = None

    def alive(self, rank):
        self.find(rank)
        if rank in self.processes:
            process = self.processes[rank]
            return process is not None and not select.select([process], [], [], 0)[0]
        return rank not in self.ended and any(child.poll() is None for child in self.children)

    def look(self):
        for child in self.children:
            child.poll()  # reaps: UCX takes a zombie for alive
        for rank in range(RANKS):
            if rank not in self.ended and not self.alive(rank):
                self.ended[rank] = time.monotonic()

    def watch(self, ranks, until):
        while time.monotonic() < until and not set(ranks) <= self.ended.keys():
            time.sleep(0.02)
            self.look()

    def kill(self, rank):
        if self.processes.get(rank) is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.processes[rank], signal.SIGKILL)

    def wait_for_children(self, seconds):
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up and any(child.poll() is None for child in self.children):
            time.sleep(0.02)

    def end(self):
        """Kills a culprit that never ends, and what else has not ended by itself, whose names it returns."""
        if self.case.world.mpirun:
            self.wait_for_children(5)  # it kills what it has started, unless all the others end well
        culprit = 0 if self.case.world is THREADS else self.case.culprit
        if self.case.fault in {"stop", "never"} and self.alive(culprit):
            self.kill(culprit)
        self.wait_for_children(20)  # longer than it takes to end mpirun
        left = [f"rank {rank}" for rank in range(RANKS) if self.alive(rank)]
        for rank in range(RANKS):
            if self.alive(rank):
                self.kill(rank)
        for child in self.children:
            if child.poll() is None:
                left.append(" ".join(child.args[:3]))
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        for process in filter(None, self.processes.values()):
            os.close(process)
        self.log.close()
        return left


def names_culprit(job, rank):
    return any(re.search(rf"\brank {job.case.culprit}\b", text) for _, text in job.notes(rank, "failed"))


def complaint(job, rank, fault):
    """What is wrong about a survivor's end, or nothing."""
    case = job.case
    failures = job.notes(rank, "failed")
    end = failures[0][0] if case.world is THREADS and failures else job.ended.get(rank)
    if end is None:
        return f"rank {rank} had not ended {time.monotonic() - fault:.1f} s after the fault"
    if end > fault + job.limit():
        return f"rank {rank} ended {end - fault:.1f} s after the fault"
    ends_the_job = case.fault in {"kill", "exit"} or (  # or who has named it at the start, before MPI_Init
        case.phase == "start" and any(names_culprit(job, other) for other in range(RANKS)))
    ended_by_mpirun = case.world.mpirun and ends_the_job and not failures
    nobody_asks = case.phase == "exit"
    if names_culprit(job, rank) or ended_by_mpirun or nobody_asks:
        return None
    return f"rank {rank} does not name the culprit: {failures[0][1] if failures else 'no message'}"


def run(case, options):
    """What is wrong with the outcome: lines of text, none if nothing is."""
    with tempfile.TemporaryDirectory(prefix="ringspan_fault_") as folder:
        job = Job(case, options, folder)
        while job.fault() is None and time.monotonic() < job.started + 20 and len(job.ended) < RANKS:
            time.sleep(0.02)
            job.look()
        fault = job.fault()
        survivors = [rank for rank in range(RANKS) if rank != case.culprit]
        job.watch(survivors, (fault or time.monotonic()) + job.limit() + 5)
        if case.fault in {"late", "wrong_size"}:  # the culprit must come to an end, too
            job.watch(range(RANKS), time.monotonic() + 2 * DEADLINE + GRACE)
        wrong = [complaint(job, rank, fault) for rank in survivors] if fault else ["the fault did not happen"]
        wrong += [f"left: {name}" for name in job.end()]
        wrong = [text for text in wrong if text]
        if wrong:
            wrong += (job.folder / "log").read_text(errors="replace").splitlines()[-8:]
        return wrong


def shared_memory():
    """Files in /dev/shm that nobody uses."""
    files = {str(path) for path in pathlib.Path("/dev/shm").iterdir()}
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            files -= set(re.findall(r"/dev/shm/\S+", maps.read_text()))
        except OSError:
            continue
    return files


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("victim")
    parser.add_argument("--mpiexec", default="")
    parser.add_argument("--ucx", action="store_true")
    parser.add_argument("--emulation", default="", help="where the emulated CUDA driver and NCCL are")
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--only", default="", help="run the cases whose name holds this")
    parser.add_argument("--times", type=int, default=1, help="run each case so often")
    options = parser.parse_args()
    worlds = [THREADS]
    if options.mpiexec:
        worlds.append(World("mpi", "mpi", mpirun=True))
    if options.mpiexec and options.ucx:
        worlds.append(World("ucx by mpirun", "ucx", mpirun=True))
    if options.ucx:
        worlds += [World(f"ucx over {network}", "ucx", network=network) for network in ("sm", "tcp")]
    if options.emulation:
        worlds.append(World("nccl", "nccl", emulated=True))
        worlds.append(World("nccl between hosts", "nccl", emulated=True, hosts="1,2,"))
    cases = [case for case in all_cases(worlds, options.soak) if options.only in str(case)] * options.times

    left_before = shared_memory()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for case, wrong in zip(cases, pool.map(lambda case: run(case, options), cases)):
            failed += bool(wrong)
            if wrong:
                print(f"{case}", *wrong, sep="\n    ", flush=True)
    left = shared_memory() - left_before
    if left:
        time.sleep(1)  # a file that was new is in use by now, unless nobody uses it
        left &= shared_memory()
    if left:
        print("left in /dev/shm:", *sorted(left))
    print(f"{len(cases)} faults injected in {len(worlds)} worlds, {failed} of them not as they should end")
    return bool(failed or left or not cases)


sys.exit(main())
