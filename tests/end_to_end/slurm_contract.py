"""The rows of matrix.py under a real srun: the bare step, toporun inside it, and toporun in front of srun."""

import contextlib
import json
import os
import re
import select
import shlex
import signal
import unittest

import harness
import slurm_cluster
from harness import RECORD_SIGNALS, TOPORUN, Record, Terminal, read_file, wait_until
from slurm_cluster import MISSING, SlurmCase

SRUN = ["srun", "-n1"]
FORMS = {"bare": SRUN, "inside": [*SRUN, TOPORUN], "outside": [TOPORUN, *SRUN]}


class ContractHelpers:
    def compare_results(self, run):
        """run(words of a form) is the same for each form; returns it."""
        results = {}
        for form, words in FORMS.items():
            results[form] = run(words)
            self.assertEqual(results["bare"], results[form], form)
        return results["bare"]

    def in_bash(self, script, words, **options):
        done = self.run_command(["bash", "-c", script, "bash", *words], **options)
        return done.returncode, done.stdout

    def task_named(self, name):
        """The process of the step with this name: srun's is a child of slurmstepd."""
        found = [pid for pid in self.left_overs()
                 if read_file(f"/proc/{pid}/comm").strip() == name.encode()[:15]]
        return found[0] if found else None


@unittest.skipIf(MISSING, MISSING)
class Surroundings(ContractHelpers, SlurmCase):
    """Status and bytes are the same wherever the step stands."""

    def each_end(self, run):
        """srun may lose what a task printed that a signal ended; slurm_statuses.py has its status."""
        for status in (0, 3):
            with self.subTest(status=status):
                script = f"echo words; exit {status}"
                self.assertEqual(self.compare_results(lambda words: run([*words, "sh", "-c", script])),
                                 (status, b"words\n"))

    def test_pipe_and_pipefail(self):
        self.each_end(lambda words: self.in_bash('"$@" | cat; exit ${PIPESTATUS[0]}', words))
        self.each_end(lambda words: self.in_bash('set -o pipefail; "$@" | cat', words))

    def test_timeout(self):
        self.each_end(lambda words: self.in_bash('timeout 100 "$@"', words))

    def test_terminal(self):
        def run(words):
            terminal = Terminal(self, words)
            return terminal.finish(), terminal.output.replace(b"\r", b"").split(b"\n").count(b"words")
        for end, status in (("exit 3", 3), ("exit 0", 0)):
            with self.subTest(end=end):
                self.assertEqual(self.compare_results(lambda words: run([*words, "sh", "-c", f"echo words; {end}"])),
                                 (status, 1))

    def test_libraries_that_do_not_fit(self):
        """In the step: srun itself would not start with them."""
        libraries = os.path.join(self.directory, "libraries")
        os.mkdir(libraries)
        for name in ("libstdc++.so.6", "libgcc_s.so.1", "libhwloc.so.15", "libnvidia-ml.so.1"):
            with open(os.path.join(libraries, name), "wb") as file:
                file.write(b"not a library")
        words = ["env", f"LD_LIBRARY_PATH={libraries}"]
        script = ["sh", "-c", "echo $LD_LIBRARY_PATH; exit 3"]
        results = [self.run_command([*SRUN, *words, *prefix, *script]) for prefix in harness.PREFIXES]
        for result in results:
            self.assertEqual((result.returncode, result.stdout), (3, libraries.encode() + b"\n"), result)

    def test_closed_streams(self):
        """Bare srun 22.05 waits for ever when it has words of a task and its own stream for them is closed. A task
        cannot see that, so inside the step toporun has to be told to say nothing."""
        for streams, script, result in (("<&-", "echo words; exit 3", (3, b"words\n")), (">&-", "exit 3", (3, b"")),
                                        ("<&- >&-", "exit 3", (3, b""))):
            with self.subTest(streams=streams):
                self.assertEqual(self.compare_results(
                    lambda words: self.in_bash(f'"$@" {streams}', [*words, "sh", "-c", script])), result)
        for words in (SRUN, [*SRUN, TOPORUN, "-q"], [TOPORUN, *SRUN]):
            self.assertEqual(self.in_bash('"$@" 2>&-', [*words, "sh", "-c", "echo words; exit 3"]), (3, b"words\n"))

    def test_standard_input(self):
        outcome = self.compare_results(lambda words: self.in_bash('seq 20000 | "$@"', [*words, "md5sum"]))
        self.assertEqual(outcome, self.in_bash("seq 20000 | md5sum", []))

    def test_a_reader_that_goes_away(self):
        outcome = self.compare_results(lambda words: self.in_bash('"$@" 2>/dev/null | head -n 1', [*words, "seq", "9"]))
        self.assertEqual(outcome, (0, b"1\n"))

    def test_a_reader_that_leaves_a_full_pipe(self):
        """srun throws away what nobody reads any more; the task does not notice."""
        def run(words):
            reading, writing = os.pipe()
            running = self.start([*words, "sh", "-c", "seq 1000000; exit 3"], stdout=writing)
            wait_until(lambda: not select.select([], [writing], [], 0)[1], "a full pipe")
            os.close(reading)
            status = running.finish().returncode
            os.close(writing)
            return status
        self.assertEqual(self.compare_results(run), 3)

    def test_arguments(self):
        odd = ["", " ", "-", "--", "-x", "a b", "quo'te\"", "$HOME", "*", "\\", "\t", "ä", "=", b"\xff\xfe", "new\nline"]
        for what, arguments in (("odd", odd), ("many", [f"argument-{i}" for i in range(10000)])):
            with self.subTest(what):
                status, _ = self.compare_results(
                    lambda words: self.in_bash('exec "$@"', [*words, "/usr/bin/printf", "[%s]", *arguments]))
                self.assertEqual(status, 0)


@unittest.skipIf(MISSING, MISSING)
class Deliveries(ContractHelpers, SlurmCase):
    def recorded(self, words, send, name):
        record = Record(self)
        running = self.start([*words, RECORD_SIGNALS, record.path, "3"])
        record.wait_for("ready")
        recorder = wait_until(lambda: self.task_named("record_signals"), "the recorder")
        send(running, recorder)
        record.wait_for(name)
        os.kill(recorder, signal.SIGUSR2)
        return running.finish().returncode, record.counts()

    WAYS = {"direct": lambda running, number: os.kill(running.pid, number),
            "group": lambda running, number: os.killpg(running.pid, number)}

    def test_usr1_to_srun_and_to_its_group(self):
        """srun hands it on."""
        for way, send in self.WAYS.items():
            with self.subTest(way=way):
                outcome = self.compare_results(lambda words: self.recorded(
                    words, lambda running, _: send(running, signal.SIGUSR1), "USR1"))
                self.assertEqual(outcome, (3, {"USR1": 1}))

    def test_term_to_srun_and_to_its_group(self):
        """srun kills its tasks and ends with their status."""
        for way, send in self.WAYS.items():
            def run(words, send=send):
                running = self.start([*words, "sh", "-c", "echo ready; exec sleep 1000"])
                wait_until(lambda: read_file(running.paths[0]), "the task")
                send(running, signal.SIGTERM)
                status = running.finish().returncode
                wait_until(self.cluster.no_jobs, "the end of the step", interval=slurm_cluster.ASK_INTERVAL_S)
                self.assert_nothing_left()
                return status
            with self.subTest(way=way):
                self.assertEqual(self.compare_results(run), 128 + signal.SIGKILL)

    def end_of_step(self, words, *options):
        running = self.start([*words, "sh", "-c", "echo ready; exec sleep 1000"])
        wait_until(lambda: read_file(running.paths[0]), "the task")
        step = wait_until(lambda: self.cluster.ask("squeue", "-h", "-s", "-o", "%i"), "the step")
        self.cluster.ask("scancel", *options, step)
        status = running.finish().returncode
        wait_until(self.cluster.no_jobs, "the end of the step", interval=slurm_cluster.ASK_INTERVAL_S)
        self.assert_nothing_left()
        return status

    def test_a_cancelled_step(self):
        """Without -s Slurm kills what the step has."""
        self.assertEqual(self.compare_results(self.end_of_step), 128 + signal.SIGKILL)

    def test_a_step_that_is_told_to_end(self):
        status = self.compare_results(lambda words: self.end_of_step(words, "-s", "TERM"))
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertEqual(self.end_of_step(FORMS["inside"], "-s", "TERM"), 128 + signal.SIGTERM)
        with open(os.path.join(self.work, "toporun", "latest", "report.json"), encoding="utf-8") as file:
            first = json.load(file)["exit"]["first_failure"]
        self.assertEqual(first["cause"], "signal-external")
        self.assertIn("from slurmstepd (process ", str(first))

    def test_to_the_child_alone(self):
        status, counts = self.compare_results(lambda words: self.recorded(
            words, lambda _, recorder: os.kill(recorder, signal.SIGUSR1), "USR1"))
        self.assertEqual((status, counts), (3, {"USR1": 1}))


@unittest.skipIf(MISSING, MISSING)
class Keys(ContractHelpers, SlurmCase):
    def test_ctrl_c(self):
        """The first makes srun tell the state of its tasks, the second within a second ends the step: SIGINT, and
        SIGKILL some 15 ms later, which ends a task that has not ended yet, bare or not."""
        def run(words):
            terminal = Terminal(self, [*words, "sh", "-c", "echo up-and-running; exec sleep 1000"])
            terminal.wait_for(b"up-and-running")
            terminal.type(b"\x03")
            terminal.wait_for(b"one more within")
            terminal.type(b"\x03")
            return terminal.finish()
        interrupted, killed = (128 + number for number in (signal.SIGINT, signal.SIGKILL))
        for form, words in FORMS.items():
            with self.subTest(form=form):
                self.assertIn(run(words), (interrupted, killed))

    def test_ctrl_c_on_two_nodes(self):
        """One: srun tells the state of its tasks, which go on. Two within a second end the step."""
        for form, prefix in (("bare", []), ("outside", [TOPORUN])):
            for keys, statuses in ((1, {5}), (2, {128 + signal.SIGINT, 128 + signal.SIGKILL})):
                with self.subTest(form=form, keys=keys):
                    go = os.path.join(self.directory, f"go-{form}-{keys}")
                    task = f"echo up-and-running; until [ -e {go} ]; do sleep 0.1; done; exit 5"
                    terminal = Terminal(self, [*prefix, "srun", "-N2", "sh", "-c", task])
                    terminal.wait_until(lambda seen=terminal: seen.output.count(b"up-and-running") == 2, "both tasks")
                    terminal.type(b"\x03")
                    terminal.wait_for(b"one more within")
                    if keys == 2:
                        terminal.type(b"\x03")
                    else:
                        with open(go, "w", encoding="ascii"):
                            pass
                    self.assertIn(terminal.finish(), statuses)
                    wait_until(self.cluster.no_jobs, "the end", interval=slurm_cluster.ASK_INTERVAL_S)
                    wait_until(lambda: not self.left_overs(), "end of the nodes' observers")

    def test_an_interrupted_task_does_not_wait_for_its_report(self):
        """What comes next is SIGKILL, and with it another status."""
        running = self.start([*SRUN, TOPORUN, "--report-wait=1000", "sh", "-c", "echo ready; exec sleep 1000"])
        wait_until(lambda: read_file(running.paths[0]), "the task")
        observer = harness.child_named(self.task_named("toporun"), harness.OBSERVER_NAME)
        os.kill(observer, signal.SIGSTOP)
        step = self.cluster.ask("squeue", "-h", "-s", "-o", "%i")
        self.cluster.ask("scancel", "--signal=INT", step)
        self.assertEqual(running.finish().returncode, 128 + signal.SIGINT)

    @staticmethod
    def waits_of(pid):
        """How often the process has waited for something until now; more than any when it is gone."""
        found = re.search(rb"^voluntary_ctxt_switches:\s*(\d+)", read_file(f"/proc/{pid}/status"), re.MULTILINE)
        return int(found[1]) if found else float("inf")

    def test_a_task_that_ends_itself_at_an_interrupt_waits_for_its_report(self):
        """Nobody kills it then: `srun --signal=INT@60` asks for a checkpoint."""
        script = "trap 'exit 0' INT; echo ready; while :; do sleep 0.1; done"
        running = self.start([*SRUN, TOPORUN, "--report-wait=1000", "--run-dir=own", "sh", "-c", script])
        wait_until(lambda: read_file(running.paths[0]), "the task")
        toporun = self.task_named("toporun")
        observer = harness.child_named(toporun, harness.OBSERVER_NAME)
        os.kill(observer, signal.SIGSTOP)
        self.cluster.ask("scancel", "--signal=INT", self.cluster.ask("squeue", "-h", "-s", "-o", "%i"))
        wait_until(lambda: harness.child_named(toporun, "sh") is None, "the end of the command")
        ended = self.waits_of(toporun)
        wait_until(lambda: self.waits_of(toporun) >= ended + 3, "a toporun that goes on waiting, or ends")
        with contextlib.suppress(ProcessLookupError):
            os.kill(observer, signal.SIGCONT)
        done = running.finish()
        self.assertEqual(done.returncode, 0, done)
        self.assertNotIn(b"not ready in time", done.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.work, "own", "report.json")))

    def test_ctrl_z_and_fg(self):
        """srun alone stops: its tasks go on meanwhile."""
        def run(words):
            environment = self.variables(PS1="prompt> ", HISTFILE="/dev/null", INPUTRC="/dev/null", TERM="dumb")
            shell = Terminal(self, ["bash", "--norc", "--noprofile", "-i"], environment)
            shell.wait_for(b"prompt> ")
            go = os.path.join(self.directory, "go")
            with contextlib.suppress(FileNotFoundError):
                os.remove(go)
            waiter = f"echo up-and-running; while [ ! -e {go} ]; do sleep 0.1; done; exit 5"
            shell.type((" ".join(shlex.quote(word) for word in [*words, "sh", "-c", waiter]) + "\n").encode())
            shell.wait_for(b"\nup-and-running")
            shell.type(b"\x1a")
            shell.wait_for(b"Stopped")
            return harness.continue_stopped_job(self, shell, go)
        self.assertEqual(self.compare_results(run), 0)


@unittest.skipIf(MISSING, MISSING)
class Deaths(ContractHelpers, SlurmCase):
    def test_orphans(self):
        """The step ends with its task. It would wait a minute for one that keeps the task's streams."""
        def run(words):
            return self.in_bash('exec "$@"', [*words, "sh", "-c",
                                              "sleep 1000 </dev/null >/dev/null 2>&1 & echo words; exit 3"])
        self.assertEqual(self.compare_results(run), (3, b"words\n"))

    def test_the_wrapper_is_killed(self):
        """In front of srun: srun gets SIGTERM and ends the step. Inside: the task is what has been killed."""
        def run(words):
            running = self.start([*words, "sh", "-c", "echo ready; exec sleep 1000"])
            wait_until(lambda: read_file(running.paths[0]), "the task")
            wrapper = running.pid if words[0] == TOPORUN else self.task_named("toporun")
            os.kill(wrapper, signal.SIGKILL)
            status = running.finish().returncode
            wait_until(self.cluster.no_jobs, "the end of the step", interval=slurm_cluster.ASK_INTERVAL_S)
            self.assert_nothing_left()
            return status
        self.assertEqual(run(FORMS["outside"]), -signal.SIGKILL)
        self.assertEqual(run(FORMS["inside"]), 128 + signal.SIGKILL)


if __name__ == "__main__":
    harness.main()
