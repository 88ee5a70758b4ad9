"""The exit status is the command's own: exit, death by a signal, and commands that cannot be run."""

import os
import signal
import unittest

import harness
from harness import PREFIXES, TOPORUN, Case

MPIRUN = ["mpirun", "--oversubscribe", "-np", "2"]

WORKER = """
import os, signal, sys
what = sys.argv[1]
if what.isdigit():
    sys.exit(int(what))
os.kill(os.getpid(), getattr(signal, what))
"""


class PlainCommand(Case):
    def test_exit_status(self):
        for status in (0, 1, 3, 125, 126, 127, 255):
            with self.subTest(status=status):
                bare, _ = self.compare(["sh", "-c", f"exit {status}"])
                self.assertEqual(bare.returncode, status)

    def test_death_by_a_signal(self):
        for name in ("SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT", "SIGSEGV", "SIGUSR1"):
            number = getattr(signal, name)
            with self.subTest(signal=name):
                bare, _ = self.compare(["sh", "-c", f"ulimit -c 0; kill -{int(number)} $$"])
                self.assertEqual(bare.returncode, -number)

    def test_a_shell_sees_128_and_the_signal(self):
        for prefix in PREFIXES:
            done = self.run_command(["sh", "-c", '"$@"; echo $?', "sh", *prefix, "sh", "-c", "kill -9 $$"])
            self.assertEqual(done.stdout, b"137\n")

    def test_a_loop_ends_at_the_first_interrupted_run(self):
        def run(prefix):
            script = 'for i in 1 2 3; do "$@" sh -c "echo run; kill -INT \\$\\$"; done; echo after'
            return self.run_command(["bash", "-c", script, "bash", *prefix]).stdout
        self.compare_runs(run)


class CommandThatCannotRun(Case):
    """env(1) is the measure: its statuses are those of a shell, without a shell's builtins."""

    def compare_with_env(self, command, status):
        bare = self.run_command(["env", *command])
        wrapped = self.run_command([TOPORUN, *command])
        self.assertEqual((bare.returncode, bare.stdout), (wrapped.returncode, wrapped.stdout), wrapped)
        self.assertEqual(wrapped.returncode, status)
        return wrapped

    def test_not_found(self):
        for command in (["no-such-program-here"], ["./no-such-program"], ["/no/such/directory/program"],
                        [""]):
            with self.subTest(command=command):
                wrapped = self.compare_with_env(command, 127)
                self.assertEqual(len(wrapped.own_lines("error")), 1, wrapped)
                self.assertIn("cannot run", wrapped.own_lines("error")[0])

    def test_a_slip_of_the_pen_gets_a_suggestion(self):
        wrapped = self.compare_with_env(["mpirnu", "-np", "2", "true"], 127)
        self.assertIn(b"did you mean 'mpirun'?", wrapped.stderr)

    def test_not_executable(self):
        plain = os.path.join(self.work, "plain")
        with open(plain, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n")
        for command in ([plain], ["./plain", "x"], [self.directory]):
            with self.subTest(command=command):
                self.compare_with_env(command, 126)

    def test_a_missing_interpreter(self):
        script = os.path.join(self.work, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write("#!/no/such/interpreter\n")
        os.chmod(script, 0o755)
        self.compare_with_env([script], 127)

    def test_a_script_without_an_interpreter_line(self):
        script = os.path.join(self.work, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write('echo "$1"\nexit 3\n')
        os.chmod(script, 0o755)
        self.compare_with_env([script, "argument"], 3)


class Mpirun(Case):
    def test_exit_status(self):
        for status in (0, 1, 3, 255):
            with self.subTest(status=status):
                bare, _ = self.compare([*MPIRUN, "sh", "-c", f"exit {status}"])
                self.assertEqual(bare.returncode, status)

    def test_one_of_two_ranks_fails(self):
        self.compare([*MPIRUN, "sh", "-c", "exit $OMPI_COMM_WORLD_RANK"])

    def test_death_by_a_signal(self):
        for name in ("TERM", "KILL"):
            with self.subTest(signal=name):
                self.compare([*MPIRUN, "sh", "-c", f"kill -{name} $$"])

    def test_a_program_that_cannot_run(self):
        plain = os.path.join(self.work, "plain")
        with open(plain, "w", encoding="ascii"):
            pass
        for program in ("no-such-program-here", "./plain", self.directory):
            with self.subTest(program=program):
                bare, _ = self.compare([*MPIRUN, program])
                self.assertNotEqual(bare.returncode, 0)

    def test_the_launchers_own_usage_error(self):
        self.compare(["mpirun", "--no-such-option", "true"])


@unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
class Torchrun(Case):
    def torchrun(self, *arguments):
        with open(os.path.join(self.work, "worker.py"), "w", encoding="ascii") as file:
            file.write(WORKER)
        return ["torchrun", "--nproc_per_node=2", f"--master_port={harness.free_port()}", *arguments]

    def test_exit_status(self):
        for status, expected in ((0, 0), (3, 1)):
            with self.subTest(status=status):
                bare, _ = self.compare(self.torchrun("worker.py", str(status)))
                self.assertEqual(bare.returncode, expected)

    def test_death_by_a_signal(self):
        for name in ("SIGTERM", "SIGKILL"):
            with self.subTest(signal=name):
                self.compare(self.torchrun("worker.py", name))

    def test_a_missing_script(self):
        self.compare(self.torchrun("no-such-script.py"))

    def test_the_launchers_own_usage_error(self):
        self.compare(["torchrun", "--no-such-option", "worker.py"])


if __name__ == "__main__":
    harness.main()
