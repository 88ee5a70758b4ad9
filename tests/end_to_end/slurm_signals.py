"""Signals that Slurm sends reach the training as often as without toporun, and its ends leave a report.

Slurm signals every process of a step, toporun and the training alike. Each count ends with SIGUSR2, which is
sent the same way and after the others.
"""

import json
import os
import unittest

import harness
import slurm_cluster
from harness import RECORD_SIGNALS, TOPORUN, Record, read_file, wait_until
from slurm_cluster import MISSING, SlurmCase


class SignalHelpers:
    def forms_of(self, words):
        """srun's command lines in which the program gets signals, by name."""
        return {"bare": ["srun", "-n1", *words],
                "inside": ["srun", "-n1", TOPORUN, *words],
                # The shell would end by the signals; its trap lets the program have its own handlers.
                "inside, under a shell": ["srun", "-n1", "bash", "-c",
                                          f'trap : USR1 USR2 HUP TERM; {TOPORUN} "$@"; exit $?', "bash", *words],
                "outside": [TOPORUN, "srun", "-n1", *words]}

    def report(self, directory):
        path = os.path.join(self.work, "toporun", directory, "report.json")
        return json.loads(wait_until(lambda: read_file(path), f"report in {directory}"))


@unittest.skipIf(MISSING, MISSING)
class SentByScancel(SignalHelpers, SlurmCase):
    def test_each_signal_is_counted_once(self):
        for form in self.forms_of([]):
            with self.subTest(form=form):
                record = Record(self)
                running = self.start(self.forms_of([RECORD_SIGNALS, record.path, "5"])[form])
                record.wait_for("ready")
                step = wait_until(lambda: self.cluster.ask("squeue", "-h", "-s", "-o", "%i"), "the step")
                for name in ("USR1", "HUP", "TERM"):
                    self.cluster.ask("scancel", "-s", name, step)
                    record.wait_for(name)
                self.cluster.ask("scancel", "-s", "USR2", step)
                self.assertEqual(running.finish().returncode, 5)
                self.assertEqual(record.counts(), {"HUP": 1, "TERM": 1, "USR1": 1})

    def test_to_the_whole_job_of_a_batch_script(self):
        """Without --full the steps get the signal, the script does not."""
        for form in ("bare", "inside", "outside"):
            with self.subTest(form=form):
                record = Record(self)
                words = " ".join(self.forms_of([RECORD_SIGNALS, record.path])[form])
                job = self.submit(f"{words}\n")
                record.wait_for("ready")
                self.cluster.ask("scancel", "-s", "USR1", job)
                record.wait_for("USR1")
                self.cluster.ask("scancel", "-s", "USR2", job)
                state, _, error = self.wait_for_job(job)
                self.assertEqual((state, record.counts()), ("COMPLETED", {"USR1": 1}), error)


    def test_the_signal_before_the_time_limit(self):
        """sbatch --signal: within a minute of the limit, so soon. Slurm sends CONT with it."""
        records, jobs = {}, {}
        for form, prefix in (("bare", ""), ("inside", TOPORUN)):  # both at once, on a node each
            records[form] = Record(self)
            jobs[form] = self.submit(f"srun -n1 {prefix} {RECORD_SIGNALS} {records[form].path}\n", "--time=1",
                                     "--signal=USR1@60")
        for form, job in jobs.items():
            records[form].wait_for("USR1")
            self.cluster.ask("scancel", "-s", "USR2", job)
            self.assertEqual(self.wait_for_job(job)[0], "COMPLETED")
        self.assertEqual(records["bare"].counts(), records["inside"].counts())
        self.assertEqual(records["inside"].counts()["USR1"], 1)


@unittest.skipIf(MISSING, MISSING)
class EndedBySlurm(SignalHelpers, SlurmCase):
    def test_a_cancelled_job_has_its_report(self):
        """SIGTERM and, after KillWait, SIGKILL: the training ends at the first, and the report is written."""
        private = os.path.join(self.directory, "tmp")
        os.mkdir(private)
        job = self.submit(f"srun {TOPORUN} sh -c 'echo ready; exec sleep 1000'\n", "-N2", TMPDIR=private)
        wait_until(lambda: read_file(os.path.join(self.work, f"{job}.out")).count(b"ready") == 2, "the training")
        self.assertEqual(len(os.listdir(private)), 2)
        self.cluster.ask("scancel", job)
        state, _, _ = self.wait_for_job(job)
        self.assertEqual(state, "CANCELLED")
        report = self.report(f"sh-{job}.0")
        self.assertEqual(report["exit"]["signal"], 15)
        self.assertEqual([node["status"] for node in report["node_reports"]], [143, 143])
        wait_until(lambda: not os.listdir(private), "removal of the private directories")

    def test_a_job_that_is_killed_has_its_report(self):
        """The training does not end by SIGTERM: after KillWait all is killed, toporun too."""
        job = self.submit(f"srun {TOPORUN} sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1; done'\n", "-N2")
        wait_until(lambda: read_file(os.path.join(self.work, f"{job}.out")).count(b"ready") == 2, "the training")
        self.cluster.ask("scancel", job)
        self.assertEqual(self.wait_for_job(job)[0], "CANCELLED")
        wait_until(self.cluster.no_jobs, "the kill", slurm_cluster.JOB_DEADLINE_S, slurm_cluster.ASK_INTERVAL_S)
        report = json.loads(self.run_command([TOPORUN, "report", "--json"]).stdout)
        self.assertEqual([node["name"] for node in report["node_reports"]], list(slurm_cluster.NODES))
        self.assertEqual([node["tasks_ended"] for node in report["node_reports"]], [0, 0])
        self.assertIn("SIGTERM", report["notes"][0])

    def test_the_time_limit(self):
        """The shortest limit that Slurm knows is a minute."""
        job = self.submit(f"srun {TOPORUN} sh -c 'echo ready; exec sleep 1000'\n", "-n1", "--time=0:01")
        state, _, error = self.wait_for_job(job)
        self.assertEqual(state, "TIMEOUT", error)
        self.assertEqual(self.report(f"sh-{job}.0")["exit"]["signal"], 15)

    def test_requeue_keeps_the_reports_of_both_starts(self):
        first = os.path.join(self.work, "first")
        job = self.submit(f"srun {TOPORUN} sh -c '[ -e {first} ] && exit 0; touch {first}; exec sleep 1000'\n", "-n1",
                          "--requeue", "--open-mode=append")
        wait_until(lambda: os.path.exists(first), "the first start")
        self.cluster.ask("scontrol", "requeue", job)
        # Slurm would let a requeued job wait for two minutes. It refuses one whose first start ended in the same
        # second ("Job credential revoked").
        wait_until(lambda: self.job_state(job) == "PENDING" and self.cluster.no_jobs(), "the requeued job",
                   interval=slurm_cluster.ASK_INTERVAL_S)
        self.cluster.ask("scontrol", "update", f"JobId={job}", "StartTime=now+2")
        state, _, error = self.wait_for_job(job)
        self.assertEqual(state, "COMPLETED", error)
        self.assertEqual(self.run_directories(), [f"sh-{job}.0", f"sh-{job}.0.r1"])
        self.assertEqual(self.report(f"sh-{job}.0")["exit"]["signal"], 15)
        self.assertEqual(self.report(f"sh-{job}.0.r1")["exit"]["status"], 0)


if __name__ == "__main__":
    harness.main()
