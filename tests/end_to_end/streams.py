"""Standard streams, pipes and locks: nobody waits for a descriptor that toporun or a helper holds."""

import json
import os
import signal
import subprocess

import harness
from harness import PREFIXES, RECORD_SIGNALS, TOPORUN, Case, Record, wait_until


def shell(script, *arguments):
    """`script` sees the arguments as "$@"."""
    return ["bash", "-c", script, "bash", *arguments]


class Pipes(Case):
    def test_a_pipe_ends_with_the_command(self):
        self.assertEqual(self.compare_shell('"$@" echo words | cat', []), b"words\n")

    def compare_shell(self, script, arguments):
        """Standard output of a script that gets the command line as "$@", equal with and without."""
        def run(prefix):
            done = self.run_command(shell(script, *prefix, *arguments))
            return done.returncode, done.stdout
        return self.compare_runs(run)[1]

    def test_command_substitution(self):
        self.assertEqual(self.compare_shell('x=$("$@"); echo "[$x]"', ["echo", "words"]), b"[words]\n")

    def test_status_in_a_pipe(self):
        self.assertEqual(self.compare_shell('"$@" | cat; echo "${PIPESTATUS[*]}"', ["sh", "-c", "exit 3"]),
                         b"3 0\n")

    def test_a_reader_that_goes_away(self):
        self.assertEqual(self.compare_shell('"$@" | head -n 1; echo "${PIPESTATUS[*]}"', ["yes"]),
                         b"y\n141 0\n")

    def test_standard_input_reaches_the_command_whole(self):
        self.assertEqual(self.compare_shell('seq 100000 | "$@" | md5sum', ["cat"]),
                         subprocess.run("seq 100000 | md5sum", shell=True, check=True,
                                        capture_output=True).stdout)

    def test_the_rest_of_standard_input_is_left_for_the_next_reader(self):
        self.assertEqual(self.compare_shell('printf "a\\nb\\n" | { "$@" true; cat; }', []), b"a\nb\n")

    def test_process_substitution(self):
        self.assertEqual(self.compare_shell('"$@" <(echo x) <(echo y)', ["cat"]), b"x\ny\n")

    def test_binary_output(self):
        self.compare(["sh", "-c", "printf '\\000\\377\\033[31m\\r\\n'; printf '\\200' >&2; exit 1"])

    def test_standard_error_of_the_command_is_unchanged(self):
        bare, wrapped = self.compare(["sh", "-c", "printf 'one\\n\\033[1mtwo' >&2"])
        self.assertIn(bare.stderr, wrapped.stderr)

    def test_every_line_of_toporun_has_its_prefix(self):
        for command in (["sh", "-c", "exit 3"], ["no-such-program-here"], ["--no-such-option"],
                        ["mpirun", "--oversubscribe", "-np", "2", "true"]):
            with self.subTest(command=command):
                done = self.run_command([TOPORUN, *command])
                lines = done.stderr.splitlines()
                self.assertTrue(lines)
                self.assertFalse([line for line in lines if not line.startswith(b"toporun: ")], done)

    def test_toporun_writes_nothing_to_standard_output(self):
        for command in (["true"], ["no-such-program-here"], ["mpirun", "--oversubscribe", "-np", "1", "true"]):
            self.assertEqual(self.run_command([TOPORUN, *command]).stdout, b"")


class Locks(Case):
    """flock(1) hands its descriptor to the command: the lock is held while anybody keeps it open."""

    def assert_lock_is_free(self, lock):
        self.assertEqual(self.run_command(["flock", "-n", lock, "true"]).returncode, 0, "the lock is held")

    def test_a_lock_is_free_when_toporun_has_ended(self):
        lock = os.path.join(self.directory, "lock")
        for _ in range(5):
            self.assertEqual(self.run_command(["flock", lock, TOPORUN, "true"]).returncode, 0)
            self.assert_lock_is_free(lock)

    def test_a_lock_is_held_by_a_process_that_the_command_left(self):
        lock = os.path.join(self.directory, "lock")

        def run(prefix):
            self.run_command(["flock", lock, *prefix, "sh", "-c", "sleep 1000 & exit 0"])
            held = self.run_command(["flock", "-n", lock, "true"]).returncode
            self.end_left_overs()
            return held
        self.assertEqual(self.compare_runs(run), 1)


class StoppedObserver(Case):
    """The observer is stopped in mid-run and never continued."""

    def stop_observer_of(self, ready):
        ready()
        toporun = wait_until(lambda: next((p for p in self.left_overs() if harness.read_file(
            f"/proc/{p}/comm") == b"toporun\n" and harness.child_named(p, harness.OBSERVER_NAME)), None),
            "toporun with its observer")
        observer = harness.child_named(toporun, harness.OBSERVER_NAME)
        os.kill(observer, signal.SIGSTOP)
        wait_until(lambda: harness.is_stopped(observer), "stop of the observer")
        return toporun, observer

    def run_with_stopped_observer(self, command):
        """`command` gets the recorder's command line appended; returns its result."""
        record = Record(self)
        running = self.start([*command, TOPORUN, RECORD_SIGNALS, record.path, "3"])
        toporun, _ = self.stop_observer_of(lambda: record.wait_for("ready"))
        os.kill(toporun, signal.SIGUSR2)
        return running.finish()

    def test_status_is_kept(self):
        self.assertEqual(self.run_with_stopped_observer(["env"]).returncode, 3)

    def test_a_pipe_ends(self):
        done = self.run_with_stopped_observer(shell('"$@" | cat; echo "${PIPESTATUS[*]}"'))
        self.assertEqual(done.stdout, b"3 0\n")

    def test_command_substitution_ends(self):
        done = self.run_with_stopped_observer(shell('x=$("$@"); echo "[$x] $?"'))
        self.assertEqual(done.stdout, b"[] 3\n")

    def test_a_lock_is_free(self):
        lock = os.path.join(self.directory, "lock")
        self.assertEqual(self.run_with_stopped_observer(["flock", lock]).returncode, 3)
        self.assertEqual(self.run_command(["flock", "-n", lock, "true"]).returncode, 0, "the lock is held")

    def test_a_signal_while_the_report_is_awaited_does_not_replace_the_status(self):
        for name in ("TERM", "INT"):
            with self.subTest(signal=name):
                record = Record(self)
                running = self.start([TOPORUN, "--report-wait", "3600", RECORD_SIGNALS, record.path, "3"])
                toporun, _ = self.stop_observer_of(lambda: record.wait_for("ready"))
                os.kill(toporun, signal.SIGUSR2)
                wait_until(lambda: len(harness.children(toporun)) == 1, "end of the command")
                os.kill(toporun, getattr(signal, f"SIG{name}"))
                self.assertEqual(running.finish().returncode, 3)
                self.assert_nothing_left()

    def test_the_report_is_written_all_the_same(self):
        self.run_with_stopped_observer(["env"])
        report = os.path.join(self.work, "toporun", "latest", "report.json")
        wait_until(lambda: os.path.exists(report), "the report")
        with open(report, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["exit"]["status"], 3)

    def test_signals_still_arrive_once(self):
        record = Record(self)
        running = self.start([TOPORUN, RECORD_SIGNALS, record.path])
        self.stop_observer_of(lambda: record.wait_for("ready"))
        for name in ("TERM", "HUP"):
            os.kill(running.pid, getattr(signal, f"SIG{name}"))
            record.wait_for(name)
        os.kill(running.pid, signal.SIGUSR2)
        self.assertEqual(running.finish().returncode, 0)
        self.assertEqual(record.counts(), {"TERM": 1, "HUP": 1})


class DetectionThatHangs(Case):
    """NVML's first call never returns, and no signal that can be blocked ends it."""

    def setUp(self):
        super().setUp()
        self.environment["TOPORUN_NVML_LIBRARY"] = harness.HANGING_NVML

    def test_the_command_runs_and_one_line_says_what_is_missing(self):
        done = self.run_command([TOPORUN, "sh", "-c", "echo runs; exit 3"])
        self.assertEqual((done.returncode, done.stdout), (3, b"runs\n"), done)
        said = [line for line in done.own_lines() if "NVML" in line]
        self.assertEqual(len(said), 1, done)

    def test_pipes_substitutions_and_locks_end(self):
        lock = os.path.join(self.directory, "lock")
        for prefix in PREFIXES:
            done = self.run_command(shell('"$@" | cat; x=$("$@"); echo "[$x]"', *prefix, "echo", "words"))
            self.assertEqual(done.stdout, b"words\n[words]\n")
            self.assertEqual(self.run_command(["flock", lock, *prefix, "true"]).returncode, 0)
            self.assertEqual(self.run_command(["flock", "-n", lock, "true"]).returncode, 0)


class ClosedStreams(Case):
    def test_the_command_sees_the_same_streams_closed(self):
        for redirection in (">&-", "<&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"):
            def run(prefix, redirection=redirection):
                seen = os.path.join(self.directory, "seen")
                script = f'"$@" sh -c "ls /proc/\\$\\$/fd >{seen}; exit 3" {redirection}'
                done = self.run_command(shell(script, *prefix))
                return done.returncode, harness.read_file(seen)
            with self.subTest(redirection=redirection):
                self.assertEqual(self.compare_runs(run)[0], 3)

    def test_closed_streams_are_not_taken_by_files_of_toporun(self):
        """What the command writes to a closed stream must not land in a file that toporun opened."""
        def run(prefix):
            done = self.run_command(shell('"$@" sh -c "echo lost; echo lost >&2; exit 3" >&- 2>&-', *prefix))
            return done.returncode
        self.compare_runs(run)
        for directory, _, names in os.walk(self.work):
            for name in names:
                self.assertNotIn(b"lost\n", harness.read_file(os.path.join(directory, name)))

    def test_nobody_reads_standard_error(self):
        def run(prefix):
            reader, writer = os.pipe()
            os.close(reader)
            try:
                return self.run_command([*prefix, "sh", "-c", "echo out; exit 3"], stderr=writer).returncode
            finally:
                os.close(writer)
        self.assertEqual(self.compare_runs(run), 3)

    def test_a_full_pipe_as_standard_error(self):
        """Its reader is stopped, say: toporun's lines are dropped, the command is not held up."""
        def run(prefix):
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
            try:
                while True:
                    os.write(writer, bytes(4096))
            except BlockingIOError:
                os.set_blocking(writer, True)
            try:
                return self.run_command([*prefix, "sh", "-c", "echo out; exit 3"], stderr=writer).returncode
            finally:
                os.close(reader)
                os.close(writer)
        self.assertEqual(self.compare_runs(run), 3)


if __name__ == "__main__":
    harness.main()
