"""The rows of matrix.py that torchrun takes long for."""

import os
import signal
import unittest

import harness
from harness import PREFIXES, Case
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


@unittest.skipIf(MISSING, MISSING)
class Deliveries(DeliveryHelpers, Case):
    def test_to_torchrun(self):
        """It ends its workers by the signal that it was sent."""
        command = ["torchrun", "--nproc_per_node=1", f"--master_port={harness.free_port()}", "--no_python"]
        for name in ("TERM", "INT"):
            with self.subTest(signal=name):
                outcome = self.deliver(command, name, lambda running, number: os.kill(running.pid, number))
                self.assertEqual(outcome, (1, {name: 1}))

    def test_to_the_group(self):
        """Its worker is of the group too. It gets the signal from there and from torchrun: the kernel makes one of
        two that come together."""
        command = ["torchrun", "--nproc_per_node=1", f"--master_port={harness.free_port()}", "--no_python"]
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
        command = ["torchrun", "--nproc_per_node=1", f"--master_port={harness.free_port()}", "--no_python"]

        def run(prefix):
            return self.delivered(["timeout", "-s", "USR1", "1000", *prefix, *command], "USR1",
                                  lambda running, _: os.kill(running.pid, signal.SIGALRM))
        status, counts = self.compare_runs(run)
        self.assertEqual((status, counts["USR1"]), (124, 1))


@unittest.skipIf(MISSING, MISSING)
class Streams(Case):
    def test_standard_input(self):
        command = ["torchrun", "--nproc_per_node=1", f"--master_port={harness.free_port()}", "--no_python", "md5sum"]
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
            bare, _ = self.compare(["torchrun", "--nproc_per_node=1", f"--master_port={harness.free_port()}",
                                    "--no_python", "/usr/bin/printf", "[%s]", *arguments])
            self.assertEqual(bare.returncode, 0, bare)


if __name__ == "__main__":
    harness.main()
