"""The whole chain on a real MPI program: log, plugin, share, warning, report. The program counts its own
communication share on its own clock; the measured one must agree."""

import json
import os
import re
import resource
import time
import unittest

import harness
from harness import TOPORUN, Case

RING = os.path.join(os.path.dirname(TOPORUN), "ring_allreduce")
# About 40 % of the time of an idle machine, more else. Buffers of 2 MiB: with small ones the program's clock
# counts the calls of the plugin too, a point and more of the time where the machine is slow.
LITTLE_COMPUTE = ["--compute-us", "0", "--elements", "524288", "--steps", "200"]
MUCH_COMPUTE = ["--compute-us", "20000", "--elements", "65536", "--steps", "60"]
TOLERANCE = 0.02  # two percentage points
# A process that other programs keep off its core counts time for which the plugin has no stamps, so a run
# beside others says nothing about the measurement: it is repeated. What keeps it off is not always seen (the
# host of a virtual machine), so one run of the three may differ: an error of the measurement is in all of them.
RUNS = 3
TRIES = 12
MOST_FOREIGN_LOAD = 0.1  # share of all processors

# Schema toporun.report/1: every key of the contract.
REPORT_KEYS = {
    "schema", "command", "exit", "communication", "warnings", "findings", "next_steps", "nccl", "collectives",
    "ranks", "nodes", "steps", "settings"}
SHARES = ("in_flight_share", "transfer_share", "waiting_share", "exposed_share")
LABELS = ("measured", "bounded", "estimated", "unknown")


def busy_seconds():
    """CPU time that anybody used since boot, of all processors together."""
    user, nice, system, _, _, *others = map(int, harness.read_file("/proc/stat").split(b"\n")[0].split()[1:9])
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """CPU time of this process and of the ended ones that it started."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


@unittest.skipUnless(os.access(RING, os.X_OK), "ring_allreduce is not built: no MPI")
class RingAllreduce(Case):
    def run_ring(self, options, ranks=2, toporun_options=()):
        """(result, share that the program counted, report.json)"""
        done = self.run_command([TOPORUN, *toporun_options, "mpirun", "--oversubscribe", "-np", str(ranks), RING,
                                 *options])
        self.assertEqual(done.returncode, 0, done)
        counted = re.search(rb"communication (\d+\.\d+) % of the time", done.stdout)
        self.assertTrue(counted, done)
        newest = os.path.join(self.work, "toporun", "latest")
        with open(os.path.join(newest, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertTrue(os.path.getsize(os.path.join(newest, "report.txt")) > 0)
        return done, float(counted.group(1)) / 100, report

    def run_undisturbed(self, options):
        """What run_ring() returns, and the share of all processors that other programs used meanwhile."""
        busy, own, begin = busy_seconds(), own_seconds(), time.monotonic()
        outcome = self.run_ring(options)
        foreign = (busy_seconds() - busy) - (own_seconds() - own)
        return *outcome, foreign / (time.monotonic() - begin) / os.cpu_count()

    def undisturbed_runs(self, options):
        """What run_ring() returns, RUNS times without other programs; TRIES must be enough for that."""
        disturbed, done = [], 0
        while done < RUNS:
            if done + len(disturbed) == TRIES:
                self.skipTest(f"other programs used {disturbed} of the processors, {done} undisturbed runs")
            *outcome, foreign = self.run_undisturbed(options)
            if foreign > MOST_FOREIGN_LOAD:
                disturbed.append(round(foreign, 2))
                continue
            done += 1
            yield outcome

    def check_shares_agree(self, runs):
        """runs: (counted share, report) of each"""
        pairs = []
        for counted, report in runs:
            share = report["communication"]["in_flight_share"]
            self.assertEqual(share["label"], "measured")
            pairs.append((share["value"], counted))
        differences = sorted(abs(measured - counted) for measured, counted in pairs)
        self.assertLessEqual(differences[len(pairs) // 2], TOLERANCE, f"(measured, counted) shares: {pairs}")

    def share_warnings(self, done):
        return [line for line in done.own_lines("warning") if "collectives in flight" in line]

    def test_little_compute_gets_the_warning(self):
        done, _, report = self.run_ring(LITTLE_COMPUTE)
        self.assertEqual(len(self.share_warnings(done)), 1, done)
        self.assertIn("limit 30 %", self.share_warnings(done)[0])
        self.assertEqual(report["exit"]["status"], 0)
        self.assertTrue(report["warnings"])
        self.assertTrue(1 <= len(report["next_steps"]) <= 3)

    def test_the_shares_agree_with_little_compute(self):
        self.check_shares_agree([run[1:] for run in self.undisturbed_runs(LITTLE_COMPUTE)])

    def test_the_shares_agree_with_much_compute_and_nothing_is_warned_of(self):
        runs, below = [], 0
        for done, counted, report in self.undisturbed_runs(MUCH_COMPUTE):
            runs.append((counted, report))
            if counted < 0.28:  # with one core the ranks wait for each other, which counts too
                below += 1
                self.assertEqual(self.share_warnings(done), [], done)
        self.check_shares_agree(runs)
        if below == 0:
            self.skipTest("no run below the limit in spite of much compute")

    def test_the_limit_can_be_moved(self):
        done, counted, _ = self.run_ring(LITTLE_COMPUTE, toporun_options=("--comm-limit", "99.9"))
        self.assertLess(counted, 0.999)
        self.assertEqual(self.share_warnings(done), [], done)

    def test_what_nccl_did_is_in_the_report(self):
        _, _, report = self.run_ring(["--steps", "20"], ranks=4)
        self.assertEqual(report["schema"], "toporun.report/1")
        self.assertFalse(REPORT_KEYS - set(report))
        for share in SHARES:
            value = report["communication"][share]
            self.assertIn(value["label"], LABELS)
            self.assertTrue(value["value"] is None or 0 <= value["value"] <= 1)
        self.assertEqual(len(report["ranks"]), 4)
        self.assertTrue(report["nccl"]["versions"])
        self.assertTrue(report["nccl"]["transports"])
        for key in ("status", "signal", "first_failure"):
            self.assertIn(key, report["exit"])

    def test_without_measuring_the_share_is_unknown_not_zero(self):
        done, _, report = self.run_ring(["--steps", "20"], toporun_options=("--no-measure", "--no-log"))
        share = report["communication"]["in_flight_share"]
        self.assertEqual((share["value"], share["label"]), (None, "unknown"))
        self.assertEqual(self.share_warnings(done), [])

    def test_a_profiler_plugin_of_the_user_is_left_alone(self):
        done = self.run_command([TOPORUN, "mpirun", "--oversubscribe", "-np", "2", "sh", "-c",
                                 "echo plugin=$NCCL_PROFILER_PLUGIN"],
                                env=self.variables(NCCL_PROFILER_PLUGIN="mine"))
        self.assertEqual(done.stdout, b"plugin=mine\n" * 2)

    def test_few_lines(self):
        done, _, _ = self.run_ring(LITTLE_COMPUTE)
        self.assertLessEqual(len(done.own_lines()), 15, done)


class NoNccl(Case):
    def test_a_job_without_nccl_gets_one_line_and_a_report(self):
        done = self.run_command([TOPORUN, "sh", "-c", "exit 3"])
        with open(os.path.join(self.work, "toporun", "latest", "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["exit"]["status"], 3)
        self.assertEqual(report["communication"]["in_flight_share"]["label"], "unknown")
        self.assertEqual(len([line for line in done.own_lines() if "no sign of NCCL" in line]), 1, done)


if __name__ == "__main__":
    harness.main()
