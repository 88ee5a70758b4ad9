"""A signal reaches the command as often as it would without toporun.

Every count ends with SIGUSR2, sent the same way: it is handed on after whatever was still to be handed
on before it, so that a second copy of a signal cannot come too late to be counted.
"""

import os
import signal
import unittest

import harness
from harness import RECORD_SIGNALS, Case, Record, wait_until


def number(name):
    return getattr(signal, f"SIG{name}")


class SentToToporun(Case):
    def test_each_signal_arrives_once(self):
        def run(prefix):
            record = Record(self)
            running = self.start([*prefix, RECORD_SIGNALS, record.path, "5"])
            record.wait_for("ready")
            for name in ("TERM", "HUP", "INT", "QUIT", "USR1", "WINCH", "CONT"):
                os.kill(running.pid, number(name))
                record.wait_for(name)
            os.kill(running.pid, signal.SIGUSR2)
            return running.finish().returncode, record.counts()
        status, counts = self.compare_runs(run)
        self.assertEqual(status, 5)
        self.assertEqual(set(counts.values()), {1})

    def test_a_repeated_signal_arrives_as_often_as_sent(self):
        def run(prefix):
            record = Record(self)
            running = self.start([*prefix, RECORD_SIGNALS, record.path])
            record.wait_for("ready")
            for times in (1, 2, 3):
                os.kill(running.pid, signal.SIGUSR1)
                wait_until(lambda times=times: record.names().count("USR1") >= times, "the signal")
            os.kill(running.pid, signal.SIGUSR2)
            return running.finish().returncode, record.counts()
        self.assertEqual(self.compare_runs(run), (0, {"USR1": 3}))

    def test_a_signal_that_ends_the_command(self):
        for name in ("TERM", "HUP", "INT", "USR1"):
            def run(prefix, name=name):
                running = self.start([*prefix, "sh", "-c", "echo ready; exec sleep 1000"])
                wait_until(lambda: harness.read_file(running.paths[0]), "start of the command")
                os.kill(running.pid, number(name))
                return running.finish().returncode
            with self.subTest(signal=name):
                self.assertEqual(self.compare_runs(run), -number(name))
                self.assert_nothing_left()


class SentToTheGroup(Case):
    def test_a_signal_to_the_process_group_arrives_once(self):
        def run(prefix):
            record = Record(self)
            running = self.start([*prefix, RECORD_SIGNALS, record.path])
            record.wait_for("ready")
            for name in ("TERM", "HUP", "USR1", "INT"):
                os.killpg(running.pid, number(name))
                record.wait_for(name)
            os.kill(running.pid, signal.SIGUSR2)
            return running.finish().returncode, record.counts()
        _, counts = self.compare_runs(run)
        self.assertEqual(set(counts.values()), {1})

    def test_timeout_ends_the_command_with_one_signal(self):
        """timeout(1) signals its child and then its whole group. SIGALRM makes its time run out."""
        record = Record(self)
        running = self.start(["timeout", "1000", harness.TOPORUN, RECORD_SIGNALS, record.path])
        record.wait_for("ready")
        toporun = wait_until(lambda: harness.child_named(running.pid, "toporun"), "toporun")
        os.kill(running.pid, signal.SIGALRM)
        record.wait_for("TERM")
        os.kill(toporun, signal.SIGUSR2)
        self.assertEqual(running.finish().returncode, 124)
        self.assertEqual(record.counts()["TERM"], 1, record.names())

    def test_status_of_timeout(self):
        bare, _ = self.compare(["timeout", "1", *[], "sleep", "1000"])
        wrapped = self.run_command(["timeout", "1", harness.TOPORUN, "sleep", "1000"])
        self.assertEqual((bare.returncode, wrapped.returncode), (124, 124))
        self.assert_nothing_left()


class StoppedAndContinued(Case):
    def test_stop_and_continue_by_kill(self):
        record = Record(self)
        running = self.start([harness.TOPORUN, RECORD_SIGNALS, record.path])
        record.wait_for("ready")
        child = wait_until(lambda: harness.child_named(running.pid, "record_signals"), "the command")
        os.kill(running.pid, signal.SIGTSTP)
        wait_until(lambda: harness.is_stopped(child), "stop of the command")
        wait_until(lambda: harness.is_stopped(running.pid), "stop of toporun")
        os.kill(running.pid, signal.SIGCONT)
        wait_until(lambda: not harness.is_stopped(child), "continuation of the command")
        record.wait_for("CONT")
        os.kill(running.pid, signal.SIGUSR2)
        self.assertEqual(running.finish().returncode, 0)
        self.assertEqual(record.counts(), {"CONT": 1})


    def stopped_from_outside(self, prefix, stop):
        """The command, with its pid, when it and whoever waits for it have stopped."""
        record = Record(self)
        running = self.start([*prefix, RECORD_SIGNALS, record.path, "5"])
        record.wait_for("ready")
        pid = running.pid if not prefix else harness.child_named(running.pid, "record_signals")
        os.kill(pid, number(stop))
        wait_until(lambda: harness.is_stopped(pid), "stop of the command")
        wait_until(lambda: harness.is_stopped(running.pid), "stop of toporun")
        return record, running, pid

    def test_the_command_alone_is_stopped_and_continued(self):
        for stop in ("STOP", "TTIN"):
            def run(prefix, stop=stop):
                record, running, pid = self.stopped_from_outside(prefix, stop)
                os.kill(pid, signal.SIGCONT)
                record.wait_for("CONT")
                wait_until(lambda: not harness.is_stopped(running.pid), "continuation of toporun")
                os.kill(running.pid, signal.SIGUSR2)
                return running.finish().returncode, record.counts()
            with self.subTest(stop=stop):
                self.assertEqual(self.compare_runs(run), (5, {"CONT": 1}))

    def test_the_command_ends_while_it_is_stopped(self):
        def run(prefix):
            _, running, pid = self.stopped_from_outside(prefix, "STOP")
            os.kill(pid, signal.SIGKILL)
            return running.finish().returncode
        self.assertEqual(self.compare_runs(run), -signal.SIGKILL)


class ThroughMpirun(Case):
    def test_signals_reach_each_rank_as_often_as_without_toporun(self):
        def run(prefix):
            record = Record(self)
            template, record.path = f"{record.path}.%r", f"{record.path}.0"
            other = Record(self)
            other.path = template.replace("%r", "1")
            running = self.start([*prefix, "mpirun", "--oversubscribe", "-np", "2", RECORD_SIGNALS, template])
            for one in (record, other):
                one.wait_for("ready")
            os.kill(running.pid, signal.SIGUSR1)
            for one in (record, other):
                one.wait_for("USR1")
            os.kill(running.pid, signal.SIGUSR2)
            return running.finish().returncode, record.counts(), other.counts()
        self.assertEqual(self.compare_runs(run), (0, {"USR1": 1}, {"USR1": 1}))

    def test_end_by_a_signal(self):
        for name in ("TERM", "INT"):
            def run(prefix, name=name):
                running = self.start([*prefix, "mpirun", "--oversubscribe", "-np", "2",
                                      "sh", "-c", "echo ready; exec sleep 1000"])
                wait_until(lambda: harness.read_file(running.paths[0]).count(b"ready") == 2, "both ranks")
                os.kill(running.pid, number(name))
                status = running.finish().returncode
                self.assert_nothing_left()
                return status
            with self.subTest(signal=name):
                self.compare_runs(run)


@unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
class ThroughTorchrun(Case):
    def test_end_by_a_signal(self):
        self.write_waiting_worker()

        def run(prefix):
            running = self.start([*prefix, "torchrun", "--nproc_per_node=2",
                                  f"--master_port={harness.free_port()}", "worker.py"])
            wait_until(lambda: harness.read_file(running.paths[0]).count(b"ready") == 2, "both workers")
            harness.wait_until_torchrun_watches(self)
            os.kill(running.pid, signal.SIGTERM)
            status = running.finish().returncode
            self.assert_nothing_left()
            return status
        self.compare_runs(run)


if __name__ == "__main__":
    harness.main()
