"""The rows of matrix.py that torchrun takes long for."""

import os
import signal
import unittest

import harness
from harness import PREFIXES, Case, wait_until
from matrix import DeliveryHelpers, SurroundingHelpers

MISSING = harness.torchrun_is_missing()
WORKER = """
import os, signal, sys
what = sys.argv[1]
print("words", flush=True)
if what.isdigit():
    sys.exit(int(what))
os.kill(os.getpid(), getattr(signal, what))
"""


@unittest.skipIf(MISSING, MISSING)
class Surroundings(SurroundingHelpers, Case):
    def test_statuses(self):
        with open(os.path.join(self.work, "worker.py"), "w", encoding="ascii") as file:
            file.write(WORKER)

        def command(what):
            return ["torchrun", "--nproc_per_node=1", f"--master_port={harness.free_port()}", "worker.py", what]
        self.compare_everywhere(command, [("3", 1)], leave_out=("alone",))
        self.compare_everywhere(command, [("0", 0), ("255", 1), ("SIGKILL", 1)],
                                leave_out=("alone", "pipe", "pipefail", "closed output", "closed input"))


@unittest.skipIf(MISSING, MISSING)
class Deliveries(DeliveryHelpers, Case):
    def test_to_torchrun(self):
        """It ends its workers by the signal that it was sent."""
        command = harness.torchrun()
        for name in ("TERM", "INT"):
            with self.subTest(signal=name):
                outcome = self.deliver(command, name, lambda running, number: os.kill(running.pid, number))
                self.assertEqual(outcome, (1, {name: 1}))

    def test_to_the_group(self):
        """Its worker is of the group too. It gets the signal from there and from torchrun: the kernel makes one of
        two that come together."""
        command = harness.torchrun()
        for name in ("TERM", "INT"):
            with self.subTest(signal=name):
                bare, wrapped = (self.delivered([*prefix, *command], name,
                                                lambda running, number: os.killpg(running.pid, number))
                                 for prefix in PREFIXES)
                self.assertEqual(bare[0], wrapped[0])
                for _, counts in (bare, wrapped):
                    self.assertIn(counts, ({name: 1}, {name: 2}))

    def test_usr1_of_timeout(self):
        """torchrun dies of it and leaves its worker, which has it from the group."""
        command = harness.torchrun()

        def run(prefix):
            return self.delivered(["timeout", "-s", "USR1", "1000", *prefix, *command], "USR1",
                                  lambda running, _: os.kill(running.pid, signal.SIGALRM))
        status, counts = self.compare_runs(run)
        self.assertEqual((status, counts["USR1"]), (124, 1))


@unittest.skipIf(MISSING, MISSING)
class Streams(Case):
    def test_standard_input(self):
        command = [*harness.torchrun(), "md5sum"]
        outputs = [self.run_command(["bash", "-c", 'seq 20000 | "$@"', "bash", *prefix, *command])
                   for prefix in PREFIXES]
        self.assertEqual((outputs[0].returncode, outputs[0].stdout), (0, outputs[1].stdout))
        self.assertEqual(outputs[0].stdout, self.run_command(["bash", "-c", "seq 20000 | md5sum"]).stdout)


@unittest.skipIf(MISSING, MISSING)
class Arguments(Case):
    def test_arguments(self):
        """One that starts with a dash and looks like an option of torchrun is the program's: it stands behind it."""
        odd = ["", " ", "--", "-x", "a b", "quo'te\"", "$HOME", "*", "\\", "ä", "=", b"\xff\xfe", "new\nline"]
        for arguments in (odd, [f"argument-{i}" for i in range(10000)]):
            bare, _ = self.compare([*harness.torchrun(), "/usr/bin/printf", "[%s]", *arguments])
            self.assertEqual(bare.returncode, 0, bare)


@unittest.skipIf(MISSING, MISSING)
class CannotRun(SurroundingHelpers, Case):
    def test_a_missing_program(self):
        self.compare_everywhere(lambda what: [*harness.torchrun(), *self.program(what)], [("missing", 1)])

    def test_what_is_no_program(self):
        script = os.path.join(self.work, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write("exit 3\n")
        os.chmod(script, 0o755)
        for name, words in (("not executable", self.program("plain file")), ("directory", self.program("directory")),
                            ("no interpreter line", [script])):
            with self.subTest(name):
                bare, _ = self.compare([*harness.torchrun(), *words])
                self.assertEqual(bare.returncode, 1, bare)


class FormHelpers:
    """Each way to write the launch line, with a worker that does what its argument says."""

    SCRIPT = """
import subprocess, sys
null = subprocess.DEVNULL
if sys.argv[-1] == "orphan":
    subprocess.Popen(["sleep", "1000"], stdin=null, stdout=null, stderr=null)
    print("words", flush=True)
    sys.exit(3)
while True:
    print("words", flush=True)
"""
    FORMS = {"script": (["torchrun"], ["worker.py"]), "module": (["torchrun"], ["-m", "worker"]),
             "program": (["torchrun"], ["--no_python", "/usr/bin/python3", "worker.py"]),
             "python -m ...run": (["/usr/bin/python3", "-m", "torch.distributed.run"], ["worker.py"]),
             "python -m ...launch": (["/usr/bin/python3", "-m", "torch.distributed.launch", "--use_env"],
                                     ["worker.py"])}

    def each_form(self, run, what):
        """run(command line) is the same with and without toporun; yields it for each form."""
        with open(os.path.join(self.work, "worker.py"), "w", encoding="ascii") as file:
            file.write(self.SCRIPT)
        for name, (launcher, worker) in self.FORMS.items():
            with self.subTest(form=name):
                yield self.compare_runs(lambda prefix, launcher=launcher, worker=worker: run(
                    [*prefix, *launcher, "--nproc_per_node=1", f"--master_port={harness.free_port()}", *worker, what]))


@unittest.skipIf(MISSING, MISSING)
class ReaderOfEachForm(FormHelpers, Case):
    def test_it_goes_away(self):
        def run(words):
            done = self.run_command(["bash", "-c", '"$@" | head -n 1; echo "${PIPESTATUS[*]}"', "bash", *words])
            return done.stdout
        for outcome in self.each_form(run, "write"):
            self.assertEqual(outcome, b"words\n1 0\n")


@unittest.skipIf(MISSING, MISSING)
class OrphansOfEachForm(FormHelpers, Case):
    def test_they_stay(self):
        def run(words):
            done = self.run_command(words)
            wait_until(lambda: len(self.left_overs()) <= 1, "the end of all but the orphan")
            left = [harness.read_file(f"/proc/{pid}/comm") for pid in self.left_overs()]
            self.end_left_overs()
            return done.returncode, done.stdout, left
        for outcome in self.each_form(run, "orphan"):
            self.assertEqual(outcome, (1, b"words\n", [b"sleep\n"]))


if __name__ == "__main__":
    harness.main()
