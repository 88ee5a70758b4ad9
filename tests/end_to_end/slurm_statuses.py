"""Under a real Slurm the command ends and prints as without toporun, wherever toporun stands."""

import os
import unittest

import harness
from harness import TOPORUN
from slurm_cluster import MISSING, SlurmCase


@unittest.skipIf(MISSING, MISSING)
class Statuses(SlurmCase):
    def test_exit_status(self):
        for status in (0, 1, 3, 125, 255):
            with self.subTest(status=status):
                bare = self.compare_forms(["-N1", "-n1"], ["sh", "-c", f"echo out; exit {status}"])
                self.assertEqual((bare.returncode, bare.stdout), (status, b"out\n"))

    def test_one_of_two_nodes_fails(self):
        bare = self.compare_forms(["-N2"], ["sh", "-c", "exit $SLURM_PROCID"])
        self.assertEqual(bare.returncode, 1)

    def test_death_by_a_signal(self):
        for number in (9, 11, 15):
            with self.subTest(signal=number):
                bare = self.compare_forms(["-N1", "-n1"], ["sh", "-c", f"ulimit -c 0; kill -{number} $$"])
                self.assertEqual(bare.returncode, 128 + number)

    def test_a_program_that_cannot_run(self):
        """srun ends with the error number: 2 for a missing program, 13 for one that may not be executed. Behind
        srun it is toporun that cannot run it, and says so as env(1) does."""
        plain = os.path.join(self.work, "plain")
        with open(plain, "w", encoding="ascii"):
            pass
        for program, status, own in (("no-such-program-here", 2, 127), (plain, 13, 126), (self.directory, 13, 126)):
            with self.subTest(program=program):
                bare = self.run_command(["srun", "-n1", program])
                outside = self.run_command([TOPORUN, "srun", "-n1", program])
                inside = self.run_command(["srun", "-n1", TOPORUN, program])
                as_env = self.run_command(["srun", "-n1", "env", program])
                self.assertEqual((bare.returncode, bare.stdout), (status, b""), bare)
                self.assertEqual((outside.returncode, outside.stdout), (status, b""), outside)
                self.assertEqual((as_env.returncode, inside.returncode), (own, own), inside)
                self.assertEqual(inside.stdout, b"")

    def test_usage_errors_of_srun(self):
        for words in (["--no-such-option", "true"], ["-N2", "-n1000", "--immediate=1", "true"]):
            with self.subTest(words=words):
                self.compare(["srun", *words])


if __name__ == "__main__":
    harness.main()
