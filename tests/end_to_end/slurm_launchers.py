"""The rows of matrix.py for mpirun, Hydra and torchrun as the one task of a step: `srun -n1 toporun mpirun ...`."""

import os
import signal
import unittest

import harness
import slurm_cluster
from harness import HYDRA, RECORD_SIGNALS, Record, Terminal, read_file, wait_until
from slurm_cluster import MISSING, SlurmCase
from slurm_contract import FORMS, ContractHelpers


def launchers():
    """By themselves the MPI launchers start their daemon as one more step, which waits for the CPUs of this one."""
    return [["mpirun", "--mca", "plm", "isolated", "--mca", "ras", "^slurm", "-np", "1"],
            *([[HYDRA, "-launcher", "fork", "-rmk", "user", "-n", "1"]] if HYDRA else []),
            *([] if harness.torchrun_is_missing() else [harness.torchrun()])]


@unittest.skipIf(MISSING, MISSING)
class Statuses(ContractHelpers, SlurmCase):
    def test_exit_status(self):
        for launcher in launchers():
            for program in (["sh", "-c", "echo words; exit 3"], ["sh", "-c", "echo words"], ["no-such-program-here"]):
                with self.subTest(launcher=launcher[0], program=program):
                    self.compare_results(lambda words, rest=(*launcher, *program): self.status_of([*words, *rest]))

    def status_of(self, words):
        """MPICH 4.0 itself ends by SIGPIPE, now and then, bare or not: it writes to a rank that is gone."""
        for _ in range(4):
            outcome = self.in_bash('"$@"', words)
            if HYDRA not in words or outcome[0] != 128 + signal.SIGPIPE:
                break
        return outcome


@unittest.skipIf(MISSING, MISSING)
class Surroundings(ContractHelpers, SlurmCase):
    def test_pipes_and_closed_streams(self):
        """A task that reads what was closed for srun waits for ever under bare srun too."""
        scripts = (('set -o pipefail; "$@" | cat', "echo words; exit 3"), ('timeout 100 "$@"', "echo words; exit 3"),
                   ('echo words | "$@"', "cat; exit 3"), ('"$@" <&-', "echo words; exit 3"))
        for launcher in launchers():
            for script, program in scripts:
                with self.subTest(launcher=launcher[0], script=script):
                    outcome = self.compare_results(lambda words, script=script, rest=(*launcher, "sh", "-c", program):
                                                   self.in_bash(script, [*words, *rest]))
                    self.assertEqual(outcome, (1 if launcher[0] == "torchrun" else 3, b"words\n"))

    def test_terminal(self):
        def run(words):
            terminal = Terminal(self, words)
            return terminal.finish(), terminal.output.replace(b"\r", b"").split(b"\n").count(b"words")
        for launcher in launchers():
            with self.subTest(launcher=launcher[0]):
                rest = (*launcher, "sh", "-c", "echo words; exit 3")
                self.compare_results(lambda words, rest=rest: run([*words, *rest]))


@unittest.skipIf(MISSING, MISSING)
class Deliveries(ContractHelpers, SlurmCase):
    def recorded(self, words, name, send):
        """(status, counts) of a rank that the signal has reached; send(running) sends it."""
        record = Record(self)
        running = self.start([*words, RECORD_SIGNALS, record.path])
        record.wait_for("ready")
        harness.wait_until_torchrun_watches(self)
        send(running)
        record.wait_for(name)
        os.kill(self.task_named("record_signals"), signal.SIGUSR2)
        status = running.finish().returncode
        wait_until(self.cluster.no_jobs, "the end of the step", interval=slurm_cluster.ASK_INTERVAL_S)
        self.assert_nothing_left()
        return status, record.counts()

    def scancel(self, name):
        step = wait_until(lambda: self.cluster.ask("squeue", "-h", "-s", "-o", "%i"), "the step")
        self.cluster.ask("scancel", "-s", name, step)

    def test_to_all_processes_of_the_step(self):
        """Slurm signals the launcher and the rank; the launcher hands SIGUSR1 on, but for torchrun, which dies of it.
        Of two that come together the kernel makes one: exact counts are those of a signal to one process."""
        ways = {"scancel": lambda running: self.scancel("USR1"),
                "srun": lambda running: os.kill(running.pid, signal.SIGUSR1)}
        for launcher in launchers():
            for way, send in ways.items():
                with self.subTest(launcher=launcher[0], way=way):
                    results = {form: self.recorded([*words, *launcher], "USR1", send) for form, words in FORMS.items()}
                    self.assertEqual(len({status for status, _ in results.values()}), 1, results)
                    allowed = ({"USR1": 1},) if launcher[0] == "torchrun" else ({"USR1": 1}, {"USR1": 2})
                    for _, counts in results.values():
                        self.assertIn(counts, allowed, results)

    def test_to_the_task_alone(self):
        """The task is the launcher, or toporun in front of it: the rank has the signal once."""
        for launcher in launchers():
            name, status = ("TERM", 1) if launcher[0] == "torchrun" else ("USR1", 0)

            def send(words, launcher=launcher, name=name):
                task = self.task_named("toporun" if words == FORMS["inside"] else os.path.basename(launcher[0]))
                os.kill(task, getattr(signal, f"SIG{name}"))
            with self.subTest(launcher=launcher[0]):
                outcome = self.compare_results(lambda words, rest=tuple(launcher), name=name, send=send: self.recorded(
                    [*words, *rest], name, lambda _: send(words)))
                self.assertEqual(outcome, (status, {name: 1}))

    def test_the_wrapper_is_killed(self):
        """The task is what has been killed, and nothing of it is left."""
        for launcher in launchers():
            with self.subTest(launcher=launcher[0]):
                running = self.start([*FORMS["inside"], *launcher, "sh", "-c", "echo ready; exec sleep 1000"])
                wait_until(lambda: read_file(running.paths[0]), "the rank")
                harness.wait_until_torchrun_watches(self)
                os.kill(self.task_named("toporun"), signal.SIGKILL)
                self.assertEqual(running.finish().returncode, 128 + signal.SIGKILL)
                wait_until(self.cluster.no_jobs, "the end of the step", interval=slurm_cluster.ASK_INTERVAL_S)
                self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
