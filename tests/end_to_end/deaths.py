"""Parts of toporun die in mid-run: the observer without consequence, the supervisor with the command."""

import json
import os
import signal
import unittest

import harness
from harness import RECORD_SIGNALS, TOPORUN, Case, Record, wait_until


class ObserverKilled(Case):
    def run_and_kill(self, command, ready):
        running = self.start([TOPORUN, *command])
        ready()
        observer = wait_until(lambda: harness.child_named(running.pid, harness.OBSERVER_NAME), "observer")
        os.kill(observer, signal.SIGKILL)
        wait_until(lambda: (harness.process_state(observer) or "Z")[0] in "ZX", "death of the observer")
        return running

    def assert_one_more_warning(self, done, undisturbed):
        warnings = [line for line in done.own_lines("warning") if line not in undisturbed.own_lines("warning")]
        self.assertEqual(len(warnings), 1, done)
        self.assertIn("observer", warnings[0])

    def test_a_plain_command_ends_normally(self):
        record = Record(self)
        running = self.run_and_kill([RECORD_SIGNALS, record.path, "3"], lambda: record.wait_for("ready"))
        os.kill(running.pid, signal.SIGTERM)  # relayed without the witness as well
        record.wait_for("TERM")
        os.kill(running.pid, signal.SIGUSR2)
        done = running.finish()
        self.assertEqual(done.returncode, 3, done)
        self.assertEqual(record.counts(), {"TERM": 1})
        self.assert_one_more_warning(done, self.run_command([TOPORUN, "sh", "-c", "exit 3"]))
        self.assert_nothing_left()

    def test_ranks_of_mpirun_end_normally(self):
        go = os.path.join(self.directory, "go")
        os.mkfifo(go)
        started = os.path.join(self.directory, "started")
        command = ["mpirun", "--oversubscribe", "-np", "1", "sh", "-c", f"touch {started}; read x <{go}; exit 5"]
        running = self.run_and_kill(command, lambda: wait_until(lambda: os.path.exists(started), "rank"))
        with open(go, "w", encoding="ascii") as file:
            file.write("go\n")
        done = running.finish()
        self.assertEqual(done.returncode, 5, done)
        self.assert_nothing_left()


class SupervisorKilled(Case):
    """No process is left after five seconds."""

    def kill_supervisor(self, command, ready, options=()):
        running = self.start([TOPORUN, *options, *command])
        wait_until(lambda: harness.read_file(running.paths[0]).count(b"ready") == ready, "every process")
        harness.wait_until_torchrun_watches(self)
        os.kill(running.pid, signal.SIGKILL)
        self.assertEqual(running.finish().returncode, -signal.SIGKILL)
        return running

    def test_a_plain_command(self):
        self.kill_supervisor(["sh", "-c", "echo ready; exec sleep 1000"], 1)
        self.assert_nothing_left()

    def test_mpirun(self):
        self.kill_supervisor(["mpirun", "--oversubscribe", "-np", "2", "sh", "-c",
                              "echo ready; exec sleep 1000"], 2)
        self.assert_nothing_left()

    @unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
    def test_torchrun(self):
        self.write_waiting_worker()
        self.kill_supervisor(["torchrun", "--nproc_per_node=2", f"--master_port={harness.free_port()}",
                              "worker.py"], 2)
        self.assert_nothing_left()

    def test_the_observer_names_what_is_left(self):
        running = self.kill_supervisor(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], 1)
        wait_until(lambda: b"toporun: " in running.stderr() and b"killed" in running.stderr(),
                   "a line of the observer")
        survivor = [p for p in self.left_overs() if harness.read_file(f"/proc/{p}/comm") == b"sh\n"]
        self.assertEqual(len(survivor), 1)
        self.assertIn(str(survivor[0]).encode(), running.stderr())

    def test_no_pdeath_leaves_the_command_alone(self):
        record = Record(self)
        running = self.start([TOPORUN, "--no-pdeath", RECORD_SIGNALS, record.path])
        record.wait_for("ready")
        child = harness.child_named(running.pid, "record_signals")
        os.kill(running.pid, signal.SIGKILL)
        running.finish()
        os.kill(child, signal.SIGUSR2)  # the barrier: a SIGTERM would be recorded before it
        wait_until(lambda: "USR2" in record.names(), "end of the command")
        self.assertEqual(record.counts(), {})
        self.assert_nothing_left()


class LeftOvers(Case):
    def test_a_process_that_the_command_left_is_left_alone(self):
        def run(prefix):
            done = self.run_command([*prefix, "sh", "-c", "sleep 1000 & exit 3"])
            wait_until(lambda: [harness.read_file(f"/proc/{p}/comm") for p in self.left_overs()] == [b"sleep\n"],
                       "one sleep and nothing else")
            self.end_left_overs()
            return done.returncode
        self.assertEqual(self.compare_runs(run), 3)

    def left(self):
        with open(os.path.join(self.work, "toporun", "latest", "report.json"), encoding="utf-8") as file:
            return json.load(file)["exit"]["left"]

    def test_what_is_left_is_named(self):
        done = self.run_command([TOPORUN, "sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 3"])
        self.assertEqual(done.returncode, 3, done)
        left = self.left()
        self.assertEqual(sorted(p["pid"] for p in left), sorted(self.left_overs()))
        self.assertEqual({p["name"] for p in left}, {"sleep"})
        said = [line for line in done.own_lines() if "still running" in line]
        self.assertEqual(len(said), 1, done)
        for process in left:
            self.assertIn(f"{process['pid']} (sleep", said[0])

    def test_reap_ends_what_is_left(self):
        """SIGTERM for those that take it, SIGKILL for the others and for what they have started since."""
        script = "sleep 1000 & sh -c 'trap \"\" TERM; while :; do sleep 1; done' & exit 3"
        done = self.run_command([TOPORUN, "--reap", "sh", "-c", script])
        self.assertEqual(done.returncode, 3, done)
        self.assertEqual(self.left_overs(), [])
        self.assertTrue({("sleep", signal.SIGTERM), ("sh", signal.SIGKILL)} <=
                        {(p["name"], p["ended_by"]) for p in self.left()}, done)

    def test_nothing_is_said_where_nothing_is_left(self):
        done = self.run_command([TOPORUN, "--reap", "sh", "-c", "sleep 0 & wait; exit 3"])
        self.assertEqual((done.returncode, self.left()), (3, []), done)
        self.assertNotIn(b"still running", done.stderr)

    @unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
    def test_workers_that_a_dead_torchrun_left(self):
        """torchrun does not handle SIGUSR1: it dies, and its workers go on."""
        self.write_waiting_worker()

        def run(prefix):
            running = self.start([*prefix, "torchrun", "--nproc_per_node=2",
                                  f"--master_port={harness.free_port()}", "worker.py"])
            wait_until(lambda: harness.read_file(running.paths[0]).count(b"ready") == 2, "both workers")
            harness.wait_until_torchrun_watches(self)
            os.kill(running.pid, signal.SIGUSR1)
            status = running.finish().returncode
            workers = sorted(self.left_overs())
            self.end_left_overs()
            if prefix:
                self.assertEqual(sorted(p["pid"] for p in self.left()), workers)
            return status, len(workers)
        self.assertEqual(self.compare_runs(run), (-signal.SIGUSR1, 2))


class LeftOnGpus(Case):
    """A stand-in for NVML with two GPUs: the process of the file FAKE_NVML_PID computes on GPU 1."""

    def setUp(self):
        super().setUp()
        self.pid_file = os.path.join(self.directory, "pid")
        self.environment.update(TOPORUN_NVML_LIBRARY=harness.NVML_WITH_PROCESS, FAKE_NVML_PID=self.pid_file)
        self.command = [TOPORUN, "sh", "-c", f"sleep 1000 & echo $! >{self.pid_file}; sleep 1000 & exit 3"]

    def gpus(self):
        pid = int(harness.read_file(self.pid_file))
        with open(os.path.join(self.work, "toporun", "latest", "report.json"), encoding="utf-8") as file:
            left = json.load(file)["exit"]["left"]
        return [p["gpus"] for p in sorted(left, key=lambda process: process["pid"] != pid)]

    @unittest.skipIf(os.readlink("/proc/self/ns/pid") != "pid:[4026531836]",
                     "NVML's process ids mean nothing in a PID namespace")
    def test_the_gpu_of_each_process(self):
        done = self.run_command(self.command)
        self.assertEqual(done.returncode, 3, done)
        self.assertEqual(self.gpus(), [[1], []], done)
        self.assertIn(b"(sleep, GPU 1)", done.stderr)

    def test_what_is_left_is_told_also_where_nvml_does_not_answer(self):
        done = self.run_command([TOPORUN, "--report-wait", "1.2", *self.command[1:]],
                                env=self.variables(FAKE_NVML_HANGS="1"))
        self.assertEqual(done.returncode, 3, done)
        self.assertIn(b"still running after the command's end", done.stderr)
        self.assertIn(b"(sleep, GPU unknown)", done.stderr)
        self.assertEqual(self.gpus(), [None, None], done)

    @unittest.skipIf(harness.namespace_is_impossible(), harness.namespace_is_impossible())
    def test_process_ids_of_another_namespace_are_unknown(self):
        done = self.run_command([*harness.PID_NAMESPACE, "sh", "-c", '"$@"; exit $?', "sh", *self.command])
        self.assertEqual(done.returncode, 3, done)
        self.assertEqual(self.gpus(), [None, None], done)
        self.assertIn(b"(sleep, GPU unknown)", done.stderr)


if __name__ == "__main__":
    harness.main()
