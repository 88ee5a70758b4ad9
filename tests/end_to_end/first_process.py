"""toporun as process 1 of a PID namespace, as in `docker run IMAGE toporun torchrun ...`."""

import os
import signal
import unittest

import harness
from harness import RECORD_SIGNALS, TOPORUN, Case, Record, wait_until

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


if __name__ == "__main__":
    harness.main()
