"""NCCL's log under real mpirun: taken as asked, followed where it is the user's own, and nothing claimed
where somebody dropped it on the way."""

import json
import os
import unittest

import harness
from harness import TOPORUN, Case

RING = os.path.join(os.path.dirname(TOPORUN), "ring_allreduce")
MPIRUN = ["mpirun", "--oversubscribe", "-np", "2"]


@unittest.skipUnless(os.access(RING, os.X_OK), "ring_allreduce is not built: no MPI")
class NcclLog(Case):
    def report(self):
        with open(os.path.join(self.work, "toporun", "latest", "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def run_ring(self, *options, before=(), **variables):
        done = self.run_command([TOPORUN, "--no-measure", *options, *MPIRUN, *before, RING, "--steps", "5"],
                                env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done)
        return done, self.report()

    def test_a_log_that_is_taken_replaces_all_three_variables(self):
        user = {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": os.path.join(self.work, "mine.%p")}
        script = "printf '%s ' $NCCL_DEBUG $NCCL_DEBUG_SUBSYS $NCCL_DEBUG_FILE; echo"
        for launcher in (MPIRUN, []):
            kept = self.run_command([TOPORUN, *launcher, "sh", "-c", script], env=self.variables(**user))
            self.assertIn(b"WARN " + user["NCCL_DEBUG_FILE"].encode() + b" \n", kept.stdout, kept)
            taken = self.run_command([TOPORUN, "--take-log", *launcher, "sh", "-c", script],
                                     env=self.variables(**user))
            for line in taken.stdout.splitlines():
                self.assertRegex(line, rb"^INFO INIT\S+ /\S+/nccl\.\S*%h\.%p\.log $", taken)
            self.assertEqual(len(taken.stdout.splitlines()), 2 if launcher else 1, taken)
        _, report = self.run_ring("--take-log", **user)
        self.assertTrue(report["nccl"]["started"])

    def test_a_log_of_the_users_own_is_followed(self):
        old = os.path.join(self.work, "mine.old.1")
        with open(old, "w", encoding="utf-8") as file:
            file.write("a:1:1 [0] NCCL INFO Using network Old\n")
        os.utime(old, (1, 1))
        _, report = self.run_ring(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="mine.%h.%p")
        self.assertTrue(report["nccl"]["started"])
        self.assertNotIn("Old", report["nccl"]["networks"])
        self.assertTrue(report["nccl"]["versions"])

    def test_a_log_that_somebody_drops_proves_nothing(self):
        done, report = self.run_ring(before=("env", "-u", "NCCL_DEBUG"))
        self.assertIsNone(report["nccl"]["started"])
        self.assertTrue(any("no sign of NCCL" in line for line in done.own_lines()), done)
        self.assertFalse(any("not started" in line for line in done.own_lines()), done)


if __name__ == "__main__":
    harness.main()
