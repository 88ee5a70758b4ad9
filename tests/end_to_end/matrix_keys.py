"""The rows of matrix.py that are keys on a terminal, for launchers."""

import json
import os
import shlex
import signal
import unittest

import harness
from harness import HYDRA, PREFIXES, RECORD_SIGNALS, Case, Record, Terminal

CTRL_C, CTRL_Z = b"\x03", b"\x1a"


class Keys(Case):
    def shell(self):
        environment = self.variables(PS1="prompt> ", HISTFILE="/dev/null", INPUTRC="/dev/null", TERM="dumb")
        shell = Terminal(self, ["bash", "--norc", "--noprofile", "-i"], environment)
        shell.wait_for(b"prompt> ")
        return shell

    @unittest.skipUnless(HYDRA, "MPICH is not installed (mpiexec.hydra)")
    def test_ctrl_c_in_hydra(self):
        def run(prefix):
            terminal = Terminal(self, [*prefix, HYDRA, "-n", "2", "sh", "-c", "echo up-and-running; exec sleep 1000"])
            terminal.wait_until(lambda: terminal.output.count(b"up-and-running") >= 2, "both ranks")
            terminal.type(CTRL_C)
            status = terminal.finish()
            self.assert_nothing_left()
            return status
        # Hydra itself ends with the one or the other, now and then: what both can say is compared.
        bare, wrapped = ({run(prefix) for _ in range(3)} for prefix in PREFIXES)
        self.assertLessEqual(bare, {0, 2})
        self.assertLessEqual(wrapped, {0, 2})

    def stop_and_go_on(self, command):
        """Ctrl-Z, then fg: the prompt comes back, and the ranks end as they are told. Open MPI hands Ctrl-Z on to its
        ranks and stays in the foreground itself: there they go on by a SIGCONT to it."""
        stays = command[0] == "mpirun"

        def run(prefix):
            words = " ".join(shlex.quote(word) for word in [*prefix, *command])
            shell = self.shell()
            go = os.path.join(self.directory, "go")
            if os.path.exists(go):
                os.remove(go)
            shell.type(f"GO={go} {words}\n".encode())
            shell.wait_until(lambda: shell.output.count(b"\nup-and-running") >= 2, "both ranks")
            shell.type(CTRL_Z)
            job = harness.children(shell.pid)[0]
            if stays:
                shell.wait_until(lambda: sum(map(harness.is_stopped, self.left_overs())) >= 2, "stop of the ranks")
                self.assertFalse(harness.is_stopped(job))
                os.kill(job, signal.SIGCONT)
            else:
                shell.wait_for(b"Stopped")
                shell.type(b"fg; echo ended=$?\n")
            shell.wait_until(lambda: not any(map(harness.is_stopped, self.left_overs())), "continuation")
            with open(go, "w", encoding="ascii"):
                pass
            if stays:
                shell.wait_until(lambda: not harness.children(shell.pid), "end of the job")
                shell.type(b"echo ended=$?\n")
            shell.wait_for(b"ended=5")
            shell.type(b"exit 0\n")
            return shell.finish()
        self.assertEqual(self.compare_runs(run), 0)

    WAITER = "echo up-and-running; while [ ! -e $GO ]; do sleep 0.1; done; exit 5"

    def test_ctrl_z_and_fg_in_launchers(self):
        for launcher in harness.mpi_launchers(2):
            with self.subTest(launcher=launcher[0]):
                self.stop_and_go_on([*launcher, "sh", "-c", self.WAITER])

    def test_fg_of_a_stopped_mpirun(self):
        """Ctrl-Z does not stop Open MPI; a SIGSTOP to its job does, and fg goes on with it."""
        def run(prefix):
            shell = self.shell()
            go = os.path.join(self.directory, f"go-{len(prefix)}")
            words = " ".join([*prefix, "mpirun", "--oversubscribe", "-np", "2", "sh", "-c", shlex.quote(self.WAITER)])
            shell.type(f"GO={go} {words}\n".encode())
            shell.wait_until(lambda: shell.output.count(b"\nup-and-running") >= 2, "both ranks")
            os.killpg(harness.children(shell.pid)[0], signal.SIGSTOP)
            shell.wait_for(b"Stopped")
            return harness.continue_stopped_job(self, shell, go)
        self.assertEqual(self.compare_runs(run), 0)

    @unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
    def test_ctrl_z_and_fg_in_torchrun(self):
        command = ["torchrun", "--nproc_per_node=2", f"--master_port={harness.free_port()}", "--no_python", "sh", "-c",
                   self.WAITER.replace("exit 5", "exit 0")]
        self.stop_and_go_on(["sh", "-c", '"$@" && exit 5', "sh", *command])


class SecondCtrlC(Case):
    """The first one is at work and the rank has not ended by it."""

    def recorder_twice(self, words, first):
        """(status, counts of the recorder, recorders left) when the second came after the signal `first` arrived."""
        record = Record(self)
        terminal = Terminal(self, [*words, RECORD_SIGNALS, record.path])
        record.wait_for("ready", terminal.wait_until)
        terminal.type(CTRL_C)
        record.wait_for(first, terminal.wait_until)
        terminal.type(CTRL_C)
        status = terminal.finish()
        left = [pid for pid in self.left_overs()
                if harness.read_file(f"/proc/{pid}/comm").startswith(b"record_signals")]
        self.end_left_overs()
        return status, record.counts(), len(left)

    def test_mpirun(self):
        """It goes at once and leaves the rank, which had CONT and would have TERM and KILL after that time."""
        command = ["mpirun", "--mca", "odls_base_sigkill_timeout", "1000", "-np", "1"]
        outcome = self.compare_runs(lambda prefix: self.recorder_twice([*prefix, *command], "CONT"))
        self.assertEqual(outcome, (1, {"CONT": 1}, 1))

    @unittest.skipUnless(HYDRA, "MPICH is not installed (mpiexec.hydra)")
    def test_hydra(self):
        """It kills the rank."""
        outcome = self.compare_runs(lambda prefix: self.recorder_twice([*prefix, HYDRA, "-n", "1"], "INT"))
        self.assertEqual(outcome, (255, {"INT": 1}, 0))
        report = json.loads(self.run_command([harness.TOPORUN, "report", "--json"]).stdout)
        self.assertEqual(report["exit"]["first_failure"]["cause"], "signal-external", report["exit"])
        self.assertIn("Ctrl-C came 2 times", report["exit"]["first_failure"]["what"])

    @unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
    def test_torchrun(self):
        """It waits for workers that do not end by SIGINT; the second makes it send SIGTERM."""
        def run(prefix):
            terminal = Terminal(self, [*prefix, *harness.torchrun(), "sh", "-c",
                                       "trap '' INT; echo up-and-running; exec sleep 1000"])
            terminal.wait_for(b"up-and-running")
            harness.wait_until_torchrun_watches(self, terminal.wait_until)
            terminal.type(CTRL_C)
            terminal.wait_for(b"closing signal SIGINT")
            harness.wait_until_torchrun_watches(self, terminal.wait_until)
            terminal.type(CTRL_C)
            status = terminal.finish()
            self.assert_nothing_left()
            return status, terminal.output.count(b"closing signal SIGTERM")
        self.assertEqual(self.compare_runs(run), (1, 1))


if __name__ == "__main__":
    harness.main()
