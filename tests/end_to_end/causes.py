"""Which rank failed first and how, where the launcher's status tells neither. Each launcher's own status
stays as it is without toporun."""

import glob
import json
import os
import platform
import re
import shutil
import signal
import unittest

import harness
from harness import TOPORUN, Case, wait_until

HYDRA = shutil.which("mpiexec.hydra")

# A rank says that it is there and waits. What it is told to do is a line in the fifo of its rank.
RANK = """
echo $$ >"$D/up-{rank}.tmp"; mv "$D/up-{rank}.tmp" "$D/up-{rank}"
read what <"$D/go-{rank}"
eval "$what"
"""

WORKER = """
import os, time
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    directory, rank = os.environ["D"], os.environ["RANK"]
    with open(f"{directory}/up-{rank}.tmp", "w") as file:
        print(os.getpid(), file=file)
    os.rename(f"{directory}/up-{rank}.tmp", f"{directory}/up-{rank}")
    with open(f"{directory}/go-{rank}") as file:
        exec(file.read())

main()
"""


def status_after_wait_is_told():
    """Linux 6.15 tells a status also when the launcher has taken it."""
    return tuple(int(n) for n in re.findall(r"\d+", platform.release())[:2]) >= (6, 15)


class RankHelpers:
    def setUp(self):
        super().setUp()
        self.environment["D"] = self.directory

    def start_ranks(self, prefix, command, count):
        for rank in range(count):
            for name in (f"up-{rank}", f"go-{rank}"):
                if os.path.exists(os.path.join(self.directory, name)):
                    os.remove(os.path.join(self.directory, name))
            os.mkfifo(os.path.join(self.directory, f"go-{rank}"))
        running = self.start([*prefix, *command])
        pids = [int(wait_until(lambda r=rank: harness.read_file(os.path.join(self.directory, f"up-{r}")),
                               f"rank {rank}")) for rank in range(count)]
        if prefix:
            def observer_of_run():
                parents = [running.pid, *harness.children(running.pid)]  # toporun, or what stands in front of it
                return next(filter(None, (harness.child_named(pid, harness.OBSERVER_NAME) for pid in parents)), None)
            observer = wait_until(observer_of_run, "observer")
            for pid in pids:
                wait_until(lambda p=pid: self.watches(observer, p), f"pidfd of {pid}")
        return running

    def watches(self, observer, pid):
        return any(f"\nPid:\t{pid}\n".encode() in harness.read_file(path)
                   for path in glob.glob(f"/proc/{observer}/fdinfo/*"))

    def tell(self, rank, what):
        with open(os.path.join(self.directory, f"go-{rank}"), "w", encoding="ascii") as file:
            file.write(what + "\n")

    def report(self):
        with open(os.path.join(self.work, "toporun", "latest", "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def first_failure(self, command, count, rank, what):
        """Tells `rank` what to do, with and without toporun; returns (status, report's first failure, ranks)."""
        def run(prefix):
            running = self.start_ranks(prefix, command, count)
            self.tell(rank, what)
            return running.finish().returncode
        status = self.compare_runs(run)
        report = self.report()
        ranks = {r["rank"]: (r["exit_status"], r["exit_signal"]) for r in report["ranks"]}
        return status, report["exit"]["first_failure"], ranks

    def shell(self, variable):
        return ["sh", "-c", RANK.replace("{rank}", f"${variable}")]


class Mpirun(RankHelpers, Case):
    COMMAND = ["mpirun", "--oversubscribe", "-np", "3"]

    def test_a_signal(self):
        status, first, ranks = self.first_failure([*self.COMMAND, *self.shell("OMPI_COMM_WORLD_RANK")], 3, 1,
                                                  "kill -SEGV $$")
        self.assertEqual(status, 128 + signal.SIGSEGV)
        self.assertEqual(first["rank"], 1, first)
        if status_after_wait_is_told():
            self.assertEqual(first["cause"], "native-crash")
            self.assertEqual(ranks[1], (None, signal.SIGSEGV))
            self.assertIn("ended by SIGSEGV", first["evidence"])

    def test_a_status(self):
        _, first, ranks = self.first_failure([*self.COMMAND, *self.shell("OMPI_COMM_WORLD_RANK")], 3, 2, "exit 7")
        self.assertEqual(first["rank"], 2, first)
        if status_after_wait_is_told():
            self.assertEqual((first["cause"], ranks[2]), ("silent-exit", (7, None)))

    def test_an_end_from_outside_is_no_ranks_fault(self):
        """mpirun, told to end, ends its ranks by SIGTERM."""
        running = self.start_ranks([TOPORUN], [*self.COMMAND, *self.shell("OMPI_COMM_WORLD_RANK")], 3)
        os.kill(running.pid, signal.SIGTERM)
        running.finish()
        first = self.report()["exit"]["first_failure"]
        if status_after_wait_is_told():
            self.assertEqual((first["cause"], first["rank"]), ("signal-external", None), first)
        elif first is not None:
            self.assertEqual(first["rank"], None)

    def test_a_run_that_ended_well_has_no_first_cause(self):
        running = self.start_ranks([TOPORUN], [*self.COMMAND, *self.shell("OMPI_COMM_WORLD_RANK")], 3)
        for rank in range(3):
            self.tell(rank, "exit 0")
        self.assertEqual(running.finish().returncode, 0)
        self.assertIsNone(self.report()["exit"]["first_failure"])


class SentSignals(RankHelpers, Case):
    """A signal that ended the run is named with its sender, under each launcher."""

    def first_cause(self, prefix, command, count, send):
        """After the signal the command may end as it likes."""
        running = self.start_ranks([*prefix, TOPORUN], command, count)
        send(running.pid)
        status = running.finish().returncode
        self.end_left_overs()
        return status, self.report()["exit"]["first_failure"]

    def launches(self):
        ranks = {"sh": ([*self.shell("{Z:-0}")], 1), "mpirun": (["mpirun", "--oversubscribe", "-np", "2",
                                                            *self.shell("OMPI_COMM_WORLD_RANK")], 2)}
        if HYDRA and status_after_wait_is_told():  # it ends with 0 now and then, bare as well
            ranks["hydra"] = ([HYDRA, "-n", "2", *self.shell("PMI_RANK")], 2)
        return ranks

    def test_by_kill(self):
        with open("/proc/self/comm", encoding="ascii") as file:
            name = file.read().rstrip()
        for launcher, (command, count) in self.launches().items():
            with self.subTest(launcher=launcher):
                _, first = self.first_cause([], command, count, lambda pid: os.kill(pid, signal.SIGTERM))
                self.assertEqual(first["cause"], "signal-external", first)
                self.assertIn(f"{name} (process {os.getpid()})", str(first))

    def test_by_timeout(self):
        for launcher, (command, count) in self.launches().items():
            with self.subTest(launcher=launcher):
                status, first = self.first_cause(["timeout", "1000"], command, count,
                                                 lambda pid: os.kill(pid, signal.SIGALRM))
                self.assertEqual(status, 124)
                self.assertEqual(first["cause"], "signal-external", first)
                self.assertIn("came from timeout (process ", str(first))  # once, though it signals the group too


@unittest.skipUnless(HYDRA, "MPICH is not installed (mpiexec.hydra)")
class Hydra(RankHelpers, Case):
    def test_statuses_that_hydra_joins(self):
        """3 and 4 come out as 7."""
        command = [HYDRA, "-n", "2", *self.shell("PMI_RANK")]

        def run(prefix):
            running = self.start_ranks(prefix, command, 2)
            self.tell(1, "exit 4")
            if prefix:
                observer = harness.child_named(running.pid, harness.OBSERVER_NAME)
                pid = int(harness.read_file(os.path.join(self.directory, "up-1")))
                wait_until(lambda: not os.path.exists(f"/proc/{pid}") or not self.watches(observer, pid), "its end")
            self.tell(0, "exit 3")
            return running.finish().returncode
        self.assertEqual(self.compare_runs(run), 7)
        report = self.report()
        self.assertEqual(report["exit"]["first_failure"]["rank"], 1, report["exit"])
        if status_after_wait_is_told():
            self.assertEqual({r["rank"]: r["exit_status"] for r in report["ranks"]}, {0: 3, 1: 4})


@unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
class Torchrun(RankHelpers, Case):
    """torchrun ends with 1 whatever happened, and names the rank that it looked at first."""

    def first_failure_of(self, rank, what):
        with open(os.path.join(self.work, "worker.py"), "w", encoding="ascii") as file:
            file.write(WORKER)

        def run(prefix):
            command = ["torchrun", "--nproc_per_node=3", f"--master_port={harness.free_port()}", "worker.py"]
            running = self.start_ranks(prefix, command, 3)
            self.tell(rank, what)
            return running.finish().returncode
        self.assertEqual(self.compare_runs(run), 1)
        report = self.report()
        return report["exit"]["first_failure"], {r["rank"]: (r["exit_status"], r["exit_signal"])
                                                 for r in report["ranks"]}

    def test_a_signal(self):
        first, ranks = self.first_failure_of(1, "import os; os.kill(os.getpid(), 11)")
        self.assertEqual((first["rank"], first["cause"]), (1, "native-crash"), first)
        self.assertEqual(ranks[1], (None, signal.SIGSEGV))

    def test_a_status(self):
        first, ranks = self.first_failure_of(2, "import os; os._exit(9)")
        self.assertEqual((first["rank"], first["cause"]), (2, "silent-exit"), first)
        self.assertEqual(ranks[2], (9, None))

    def test_an_exception(self):
        first, _ = self.first_failure_of(1, "raise ValueError('bad sample 17')")
        self.assertEqual((first["rank"], first["cause"]), (1, "user-exception"), first)
        self.assertIn("bad sample 17", first["evidence"])
        self.assertEqual(first["confidence"], "certain")


if __name__ == "__main__":
    harness.main()
