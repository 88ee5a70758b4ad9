"""toporun as process 1 of a PID namespace, as in `docker run IMAGE toporun torchrun ...`."""

import os
import signal
import unittest

import harness
from harness import RECORD_SIGNALS, TOPORUN, Case, Record, Terminal, wait_until
from matrix import DeliveryHelpers

NAMESPACE = harness.PID_NAMESPACE


@unittest.skipIf(harness.namespace_is_impossible(), harness.namespace_is_impossible())
class FirstProcess(Case):
    def start_recorder(self, *command):
        """(running, toporun's pid outside of the namespace, record)"""
        record = Record(self)
        running = self.start([*NAMESPACE, TOPORUN, *command, RECORD_SIGNALS, record.path, "4"])
        record.wait_for("ready")
        return running, wait_until(lambda: harness.child_named(running.pid, "toporun"), "toporun"), record

    def test_exit_status(self):
        for status in (0, 3, 255):
            with self.subTest(status=status):
                done = self.run_command([*NAMESPACE, TOPORUN, "sh", "-c", f"exit {status}"])
                self.assertEqual(done.returncode, status, done)

    def test_death_of_the_command_by_a_signal(self):
        """Process 1 cannot die of a signal that it sends to itself: the status is a shell's."""
        done = self.run_command([*NAMESPACE, TOPORUN, "sh", "-c", "kill -TERM $$"])
        self.assertEqual(done.returncode, 128 + signal.SIGTERM, done)

    def test_signals_arrive_once(self):
        running, toporun, record = self.start_recorder()
        for name in ("TERM", "INT", "HUP"):
            os.kill(toporun, getattr(signal, f"SIG{name}"))
            record.wait_for(name)
        os.kill(toporun, signal.SIGUSR2)
        self.assertEqual(running.finish().returncode, 4)
        self.assertEqual(record.counts(), {"TERM": 1, "INT": 1, "HUP": 1})

    def test_orphans_do_not_stay_as_zombies(self):
        running, toporun, _ = self.start_recorder("sh", "-c", '(true &); (true &); exec "$@"', "sh")
        wait_until(lambda: not any((harness.process_state(p) or "?")[0] == "Z"
                                   for p in harness.children(toporun)), "end of the zombies")
        os.kill(toporun, signal.SIGUSR2)
        self.assertEqual(running.finish().returncode, 4)


@unittest.skipIf(harness.namespace_is_impossible(), harness.namespace_is_impossible())
class Launchers(DeliveryHelpers, Case):
    """Process 1 is the launcher, or toporun in front of it."""

    def launchers(self):
        return [*harness.mpi_launchers(1), *([] if harness.torchrun_is_missing() else [harness.torchrun()])]

    def test_exit_status(self):
        for launcher in self.launchers():
            for program in (["sh", "-c", "echo words; exit 3"], ["sh", "-c", "echo words"], ["no-such-program-here"]):
                with self.subTest(launcher=launcher[0], program=program):
                    self.compare_runs(lambda prefix, words=(*launcher, *program): self.outcome(prefix, words))

    def outcome(self, prefix, words):
        done = self.run_command([*NAMESPACE, *prefix, *words])
        return done.returncode, done.stdout

    def test_signals_arrive_once(self):
        """SIGUSR1, which MPI launchers hand on, and SIGTERM, which torchrun hands on."""
        def send(running, number):
            os.kill(harness.children(running.pid)[0], number)
        for launcher in self.launchers():
            name, status = ("TERM", 1) if launcher[0] == "torchrun" else ("USR1", 0)
            with self.subTest(launcher=launcher[0]):
                outcome = self.compare_runs(lambda prefix, words=tuple(launcher), name=name: self.delivered(
                    [*NAMESPACE, *prefix, *words], name, send))
                self.assertEqual(outcome, (status, {name: 1}))

    def test_ctrl_c(self):
        """unshare, which has it too, waits for process 1. Hydra ends with the one status or the other."""
        for launcher in self.launchers():
            def run(prefix, launcher=tuple(launcher)):
                terminal = Terminal(self, [*NAMESPACE, *prefix, *launcher, "sh", "-c",
                                           "echo up-and-running; exec sleep 1000"])
                terminal.wait_for(b"up-and-running")
                harness.wait_until_torchrun_watches(self, terminal.wait_until)
                terminal.type(b"\x03")
                status = terminal.finish()
                self.assert_nothing_left()
                return status
            with self.subTest(launcher=launcher[0]):
                bare, wrapped = (run(prefix) for prefix in harness.PREFIXES)
                if launcher[0] == harness.HYDRA:
                    self.assertLessEqual({bare, wrapped}, {0, 2})
                else:
                    self.assertEqual(bare, wrapped)

    def test_orphans(self):
        """They end with the namespace."""
        script = "sleep 1000 </dev/null >/dev/null 2>&1 & echo words; exit 3"
        for launcher in self.launchers():
            if launcher[0] == harness.HYDRA:
                continue  # waits for them
            with self.subTest(launcher=launcher[0]):
                self.compare_runs(lambda prefix, words=(*launcher, "sh", "-c", script): self.outcome(prefix, words))
                self.assert_nothing_left()

    def test_it_is_killed(self):
        for launcher in self.launchers():
            def run(prefix, launcher=tuple(launcher)):
                running = self.start([*NAMESPACE, *prefix, *launcher, "sh", "-c", "echo ready; exec sleep 1000"])
                wait_until(lambda: harness.read_file(running.paths[0]), "the rank")
                os.kill(harness.children(running.pid)[0], signal.SIGKILL)
                status = running.finish().returncode
                self.assert_nothing_left()
                return status
            with self.subTest(launcher=launcher[0]):
                self.compare_runs(run)


if __name__ == "__main__":
    harness.main()
