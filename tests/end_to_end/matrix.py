"""The contract of an exec wrapper, cell by cell: each row of the list in CELLS, under each launcher and in each
surrounding, is a test that runs the command with and without toporun side by side.

What other files test is named here and not repeated; a test checks that the names are those of tests.
"""

import importlib
import os
import signal
import unittest

import harness
from harness import HYDRA, PREFIXES, RECORD_SIGNALS, Case, Record, Terminal, wait_until

HERE = "matrix.Surroundings."
TORCHRUN = "matrix_torchrun."
SLURM = "slurm_contract."
STEP = "slurm_launchers."
# For each row of the contract the tests that hold it.
CELLS = {
    "exit 0, 1, 3, 255; death by a signal": {
        "plain": "statuses.PlainCommand.test_exit_status statuses.PlainCommand.test_death_by_a_signal",
        "mpirun": "statuses.Mpirun.test_exit_status statuses.Mpirun.test_death_by_a_signal",
        "hydra": "launchers.HydraStatuses.test_exit_status causes.Hydra.test_statuses_that_hydra_joins",
        "torchrun": "statuses.Torchrun.test_exit_status statuses.Torchrun.test_death_by_a_signal",
        "pipe, pipefail, pty, timeout, libraries, closed streams":
            f"{HERE}test_plain {HERE}test_mpirun {HERE}test_hydra {TORCHRUN}Surroundings.test_statuses",
        "process 1": "first_process.FirstProcess.test_exit_status "
                     "first_process.FirstProcess.test_death_of_the_command_by_a_signal "
                     "first_process.Launchers.test_exit_status",
        "slurm": "slurm_statuses.Statuses.test_exit_status slurm_statuses.Statuses.test_death_by_a_signal",
        "slurm: pipe, pipefail, pty, timeout, libraries":
            f"{SLURM}Surroundings.test_pipe_and_pipefail {SLURM}Surroundings.test_terminal "
            f"{SLURM}Surroundings.test_timeout {SLURM}Surroundings.test_libraries_that_do_not_fit",
        "launchers in a step": f"{STEP}Statuses.test_exit_status {STEP}Surroundings.test_pipes_and_closed_streams "
                               f"{STEP}Surroundings.test_terminal",
    },
    "missing, not executable, a directory, no #!": {
        "plain": "statuses.CommandThatCannotRun.test_not_found statuses.CommandThatCannotRun.test_not_executable "
                 "statuses.CommandThatCannotRun.test_a_script_without_an_interpreter_line",
        "mpirun": f"statuses.Mpirun.test_a_program_that_cannot_run {HERE}test_mpirun",
        "hydra": f"launchers.HydraStatuses.test_a_program_that_cannot_run {HERE}test_hydra",
        "torchrun": "statuses.Torchrun.test_a_missing_script launchers.TorchrunProgram.test_a_program_that_cannot_run "
                    f"{TORCHRUN}CannotRun.test_what_is_no_program",
        "torchrun: pipe, pipefail, pty, timeout, libraries, closed streams":
            f"{TORCHRUN}CannotRun.test_a_missing_program",
        "process 1": "first_process.Launchers.test_exit_status",
        "launchers in a step": f"{STEP}Statuses.test_exit_status",
        "slurm": "slurm_statuses.Statuses.test_a_program_that_cannot_run",
    },
    "a signal to the wrapper": {
        "plain": "signals.SentToToporun.test_each_signal_arrives_once "
                 "signals.SentToToporun.test_a_signal_that_ends_the_command",
        "mpirun": "signals.ThroughMpirun.test_signals_reach_each_rank_as_often_as_without_toporun "
                  "signals.ThroughMpirun.test_end_by_a_signal",
        "hydra": "launchers.HydraRanks.test_a_signal_reaches_each_rank_as_often_as_without_toporun",
        "torchrun": "signals.ThroughTorchrun.test_end_by_a_signal matrix_torchrun.Deliveries.test_to_torchrun",
        "process 1": "first_process.FirstProcess.test_signals_arrive_once "
                     "first_process.Launchers.test_signals_arrive_once",
        "launchers in a step": f"{STEP}Deliveries.test_to_all_processes_of_the_step "
                               f"{STEP}Deliveries.test_to_the_task_alone",
        "slurm": "slurm_signals.SentByScancel.test_each_signal_is_counted_once "
                 f"{SLURM}Deliveries.test_a_cancelled_step {SLURM}Deliveries.test_a_step_that_is_told_to_end {SLURM}Deliveries.test_usr1_to_srun_and_to_its_group "
                 f"{SLURM}Deliveries.test_term_to_srun_and_to_its_group",
    },
    "a signal to the child": {
        "plain": "matrix.Deliveries.test_to_the_child_alone",
        "mpirun": "matrix.Deliveries.test_to_a_rank_alone",
        "hydra": "matrix.Deliveries.test_to_a_rank_alone",
        "torchrun": "matrix.Deliveries.test_to_a_rank_alone",
        "slurm": f"{SLURM}Deliveries.test_to_the_child_alone",
    },
    "double delivery counts once: kill -- -PGID, timeout": {
        "plain": "signals.SentToTheGroup.test_a_signal_to_the_process_group_arrives_once "
                 "signals.SentToTheGroup.test_timeout_ends_the_command_with_one_signal",
        "mpirun": "matrix.Deliveries.test_mpirun",
        "hydra": "matrix.Deliveries.test_hydra",
        "torchrun": "matrix_torchrun.Deliveries.test_to_the_group",
        "timeout, launchers": "matrix.Deliveries.test_usr1_of_timeout matrix.Deliveries.test_timeout_around_launchers "
                              "matrix_torchrun.Deliveries.test_usr1_of_timeout",
    },
    "Ctrl-C": {
        "plain": "terminal.KeyPresses.test_one_ctrl_c terminal.KeyPresses.test_ctrl_c_twice",
        "mpirun": "terminal.CtrlCInLaunchers.test_mpirun matrix_keys.SecondCtrlC.test_mpirun",
        "hydra": "matrix_keys.Keys.test_ctrl_c_in_hydra matrix_keys.SecondCtrlC.test_hydra",
        "torchrun": "terminal.CtrlCInLaunchers.test_torchrun matrix_keys.SecondCtrlC.test_torchrun",
        "slurm": f"{SLURM}Keys.test_ctrl_c {SLURM}Keys.test_ctrl_c_on_two_nodes",
        "process 1": "first_process.Launchers.test_ctrl_c",
    },
    "Ctrl-Z and fg": {
        "plain": "terminal.JobControl.test_ctrl_z_and_fg "
                 "terminal.JobControl.test_a_command_that_ignores_ctrl_z_goes_on_in_the_foreground",
        "mpirun": "matrix_keys.Keys.test_ctrl_z_and_fg_in_launchers matrix_keys.Keys.test_fg_of_a_stopped_mpirun",
        "hydra": "matrix_keys.Keys.test_ctrl_z_and_fg_in_launchers",
        "torchrun": "matrix_keys.Keys.test_ctrl_z_and_fg_in_torchrun",
        "slurm": f"{SLURM}Keys.test_ctrl_z_and_fg",
    },
    "standard input: a pipe, closed": {
        "plain": "streams.Pipes.test_standard_input_reaches_the_command_whole "
                 "streams.ClosedStreams.test_the_command_sees_the_same_streams_closed",
        "mpirun": "matrix.Streams.test_standard_input_of_launchers",
        "hydra": "matrix.Streams.test_standard_input_of_launchers",
        "torchrun": "matrix_torchrun.Streams.test_standard_input",
        "slurm": f"{SLURM}Surroundings.test_standard_input {SLURM}Surroundings.test_closed_streams",
    },
    "standard output: a pipe, closed, a reader that goes away": {
        "plain": "streams.Pipes.test_a_pipe_ends_with_the_command streams.Pipes.test_a_reader_that_goes_away "
                 "streams.ClosedStreams.test_closed_streams_are_not_taken_by_files_of_toporun",
        "closed, launchers": f"{HERE}test_mpirun {HERE}test_hydra {TORCHRUN}Surroundings.test_statuses",
        "a reader that goes away": "matrix.Streams.test_a_reader_that_goes_away "
                                   f"{TORCHRUN}ReaderOfEachForm.test_it_goes_away",
        "slurm": f"{SLURM}Surroundings.test_a_reader_that_goes_away {SLURM}Surroundings.test_closed_streams",
    },
    "arguments: line end, quote, empty, no UTF-8; 10,000 of them": {
        "plain": "inheritance.Arguments.test_odd_arguments inheritance.Arguments.test_ten_thousand_arguments",
        "launchers": "matrix.Arguments.test_odd_ones matrix.Arguments.test_ten_thousand",
        "torchrun": "matrix_torchrun.Arguments.test_arguments",
        "slurm": f"{SLURM}Surroundings.test_arguments",
    },
    "set -o pipefail": {
        "plain": f"streams.Pipes.test_status_in_a_pipe {HERE}test_plain",
        "launchers": f"{HERE}test_mpirun {HERE}test_hydra {TORCHRUN}Surroundings.test_statuses",
        "slurm": f"{SLURM}Surroundings.test_pipe_and_pipefail",
    },
    "orphans": {
        "plain": "deaths.LeftOvers.test_what_is_left_is_named deaths.LeftOvers.test_reap_ends_what_is_left "
                 "first_process.FirstProcess.test_orphans_do_not_stay_as_zombies",
        "torchrun": "deaths.LeftOvers.test_workers_that_a_dead_torchrun_left "
                    f"{TORCHRUN}OrphansOfEachForm.test_they_stay",
        "process 1": "first_process.Launchers.test_orphans",
        "mpirun": "matrix.Orphans.test_of_a_rank",
        "hydra": "matrix.Orphans.test_of_a_rank",
        "slurm": f"{SLURM}Deaths.test_orphans",
    },
    "the wrapper is killed": {
        "plain": "deaths.SupervisorKilled.test_a_plain_command deaths.SupervisorKilled.test_no_pdeath_leaves_the_"
                 "command_alone",
        "mpirun": "deaths.SupervisorKilled.test_mpirun",
        "torchrun": "deaths.SupervisorKilled.test_torchrun",
        "hydra": "matrix.Killed.test_hydra",
        "slurm": f"{SLURM}Deaths.test_the_wrapper_is_killed",
        "process 1": "first_process.Launchers.test_it_is_killed",
        "launchers in a step": f"{STEP}Deliveries.test_the_wrapper_is_killed",
    },
}

class Table(Case):
    def test_every_cell_names_a_test(self):
        for row, columns in CELLS.items():
            for column, names in columns.items():
                for name in names.split():
                    with self.subTest(row=row, column=column):
                        module, cls, method = name.split(".")
                        source = importlib.import_module(module)
                        self.assertTrue(callable(getattr(getattr(source, cls), method, None)), name)


class SurroundingHelpers:
    """The same statuses and the same bytes wherever the command stands."""

    def shell(self, script, words, **options):
        done = self.run_command(["bash", "-c", script, "bash", *words], **options)
        return done.returncode, done.stdout

    def on_a_terminal(self, words):
        terminal = Terminal(self, words)
        status = terminal.finish()
        lines = [line for line in terminal.output.replace(b"\r", b"").split(b"\n") if line == b"words"]
        return status, lines

    def with_libraries(self, words):
        libraries = os.path.join(self.directory, "libraries")
        os.makedirs(libraries, exist_ok=True)
        for name in ("libstdc++.so.6", "libgcc_s.so.1", "libhwloc.so.15", "libfmt.so.9", "libnvidia-ml.so.1"):
            with open(os.path.join(libraries, name), "wb") as file:
                file.write(b"not a library")
        # Launchers that need one of these are given their own again.
        return self.shell('LD_LIBRARY_PATH="$LIBRARIES" exec "$@"', words,
                          env=self.variables(LIBRARIES=libraries))

    def surroundings(self):
        return {
            "alone": lambda words: self.shell('"$@"', words),
            "pipe": lambda words: self.shell('"$@" | cat; echo "${PIPESTATUS[*]}"', words),
            "pipefail": lambda words: self.shell('set -o pipefail; "$@" | cat', words),
            "pty": self.on_a_terminal,
            "timeout": lambda words: self.shell('timeout 100 "$@"', words),
            "libraries": self.with_libraries,
            "closed output": lambda words: self.shell('"$@" >&-', words),
            "closed input": lambda words: self.shell('"$@" <&-', words),
        }

    def compare_everywhere(self, command, outcomes, leave_out=()):
        for name, run in self.surroundings().items():
            for what, allowed in outcomes:
                if name in leave_out:
                    continue
                with self.subTest(surrounding=name, outcome=what):
                    bare, wrapped = (run([*prefix, *command(what)]) for prefix in PREFIXES)
                    self.assertEqual(bare, wrapped)
                    if name == "alone" and allowed is not None:
                        self.assertEqual(bare[0] if bare[0] >= 0 else 128 - bare[0], allowed)

    def program(self, what):
        """Words that end so; a file that cannot run."""
        plain = os.path.join(self.work, "plain")
        with open(plain, "w", encoding="ascii"):
            pass
        script = os.path.join(self.work, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write("echo words; exit 3\n")
        os.chmod(script, 0o755)
        return {"missing": ["no-such-program-here"], "plain file": [plain], "no #!": [script],
                "directory": [self.work]}.get(what, ["sh", "-c", f"echo words; ulimit -c 0; {what}"])


class Surroundings(SurroundingHelpers, Case):
    def test_plain(self):
        self.compare_everywhere(self.program, [("exit 0", 0), ("exit 3", 3), ("exit 255", 255),
                                               ("kill -TERM $$", 143), ("kill -KILL $$", 137),
                                               ("kill -SEGV $$", 139)])

    def test_mpirun(self):
        def command(what):
            return ["mpirun", "--oversubscribe", "-np", "1", *self.program(what)]
        self.compare_everywhere(command, [("exit 0", 0), ("exit 3", 3), ("exit 255", 255),
                                          ("kill -KILL $$", 137), ("missing", 134),
                                          ("plain file", 132), ("no #!", 131), ("directory", None)])

    @unittest.skipUnless(HYDRA, "MPICH is not installed (mpiexec.hydra)")
    def test_hydra(self):
        def command(what):
            return [HYDRA, "-n", "1", *self.program(what)]
        self.compare_everywhere(command, [("exit 0", 0), ("exit 3", 3), ("exit 255", 255),
                                          ("missing", 255), ("plain file", 255), ("no #!", 3), ("directory", 255)])

class DeliveryHelpers:
    """A signal reaches each rank as often as without toporun, whoever was signalled."""

    def end_recorders(self):
        for pid in self.left_overs():
            if harness.read_file(f"/proc/{pid}/comm").startswith(b"record_signals"):
                os.kill(pid, signal.SIGUSR2)

    def delivered(self, words, name, send):
        """(status, counts) of a recorder that the signal has reached."""
        record = Record(self)
        running = self.start([*words, RECORD_SIGNALS, record.path])
        record.wait_for("ready")
        harness.wait_until_torchrun_watches(self)
        send(running, getattr(signal, f"SIG{name}"))
        record.wait_for(name)
        self.end_recorders()
        status = running.finish().returncode
        return status, record.counts()

    def deliver(self, command, name, send):
        return self.compare_runs(lambda prefix: self.delivered([*prefix, *command], name, send))


class Deliveries(DeliveryHelpers, Case):
    def deliver_all_ways(self, command):
        """mpirun and Hydra hand SIGUSR1 on. A signal for the group reaches them and what they have in it."""
        ways = {"direct": lambda running, number: os.kill(running.pid, number),
                "group": lambda running, number: os.killpg(running.pid, number)}
        for way, send in ways.items():
            with self.subTest(way=way):
                _, counts = self.deliver(command, "USR1", send)
                self.assertEqual(counts["USR1"], 1)

    def test_mpirun(self):
        self.deliver_all_ways(["mpirun", "--oversubscribe", "-np", "1"])

    @unittest.skipUnless(HYDRA, "MPICH is not installed (mpiexec.hydra)")
    def test_hydra(self):
        self.deliver_all_ways([HYDRA, "-n", "1"])

    def test_usr1_of_timeout(self):
        """timeout -s USR1 signals its child and then the group: a bare launcher may take both, and the one behind
        toporun gets the one of the group. timeout itself says 124."""
        for launcher in harness.mpi_launchers(1):
            with self.subTest(launcher=launcher[0]):
                bare, wrapped = (self.delivered(["timeout", "-s", "USR1", "1000", *prefix, *launcher], "USR1",
                                                lambda running, _: os.kill(running.pid, signal.SIGALRM))
                                 for prefix in PREFIXES)
                self.assertEqual((bare[0], wrapped[0]), (124, 124))
                self.assertIn(bare[1]["USR1"], (1, 2))
                self.assertEqual(wrapped[1]["USR1"], 1)

    def test_timeout_around_launchers(self):
        """timeout signals its child and then the group: SIGALRM makes its time run out."""
        for launcher in harness.mpi_launchers(2):
            def run(prefix, launcher=launcher):
                running = self.start(["timeout", "1000", *prefix, *launcher, "sh", "-c",
                                      "echo ready; exec sleep 1000"])
                wait_until(lambda: harness.read_file(running.paths[0]).count(b"ready") == 2, "both ranks")
                os.kill(running.pid, signal.SIGALRM)
                status = running.finish().returncode
                self.end_left_overs()  # the second of timeout's two signals makes a bare mpirun leave its ranks
                return status
            with self.subTest(launcher=launcher[0]):
                self.assertEqual(self.compare_runs(run), 124)

    def test_to_a_rank_alone(self):
        torchrun = [] if harness.torchrun_is_missing() else [harness.torchrun()]
        for launcher in [*torchrun, *harness.mpi_launchers(1)]:
            def send(_running, number):
                for pid in self.left_overs():
                    if harness.read_file(f"/proc/{pid}/comm").startswith(b"record_signals"):
                        os.kill(pid, number)
            with self.subTest(launcher=launcher[0]):
                outcome = self.deliver(launcher, "USR1", send)
                self.assertEqual(outcome, (0, {"USR1": 1}))

    def test_to_the_child_alone(self):
        def run(prefix):
            record = Record(self)
            running = self.start([*prefix, RECORD_SIGNALS, record.path, "3"])
            record.wait_for("ready")
            child = harness.child_named(running.pid, "record_signals") if prefix else running.pid
            for name in ("TERM", "USR1"):
                os.kill(child, getattr(signal, f"SIG{name}"))
                record.wait_for(name)
            os.kill(child, signal.SIGUSR2)
            return running.finish().returncode, record.counts()
        self.assertEqual(self.compare_runs(run), (3, {"TERM": 1, "USR1": 1}))


class Streams(Case):
    def test_standard_input_of_launchers(self):
        """Little of it: MPICH 4.0 gives up on a reader that is slower than its pipe."""
        for launcher in harness.mpi_launchers(1):
            with self.subTest(launcher=launcher[0]):
                outputs = [self.run_command(["bash", "-c", 'seq 500 | "$@" md5sum', "bash", *prefix, *launcher])
                           for prefix in PREFIXES]
                self.assertEqual(outputs[0].stdout, outputs[1].stdout)
                self.assertEqual(outputs[0].stdout.split(), self.run_command(
                    ["bash", "-c", "seq 500 | md5sum"]).stdout.split())

    def test_a_reader_that_goes_away(self):
        """Little of it: what a launcher makes of SIGPIPE is its own affair, and the reader ends first or last."""
        for launcher in harness.mpi_launchers(1):
            with self.subTest(launcher=launcher[0]):
                outputs = [self.run_command(["bash", "-c", '"$@" 2>/dev/null | head -n 1', "bash", *prefix, *launcher,
                                             "seq", "9"]) for prefix in PREFIXES]
                self.assertEqual([output.stdout for output in outputs], [b"1\n", b"1\n"])


class Orphans(Case):
    def test_of_a_rank(self):
        """It keeps no stream of the launcher, which would wait for it. Hydra waits for it all the same."""
        for launcher in harness.mpi_launchers(1):
            def run(prefix, launcher=launcher):
                script = f"sleep {1 if launcher[0] == HYDRA else 1000} </dev/null >/dev/null 2>&1 & echo words; exit 3"
                done = self.run_command([*prefix, *launcher, "sh", "-c", script])
                wait_until(lambda: len(self.left_overs()) <= 1, "the end of all but the orphan")
                left = len(self.left_overs())
                self.end_left_overs()
                return done.returncode, done.stdout, left
            with self.subTest(launcher=launcher[0]):
                outcome = self.compare_runs(run)
                self.assertEqual(outcome[:2], (3, b"words\n"))


class Arguments(Case):
    LAUNCHERS = harness.mpi_launchers(1)

    def test_odd_ones(self):
        odd = ["", " ", "-", "--", "-x", "a b", "quo'te\"", "$HOME", "*", "\\", "\t", "ä", "=", b"\xff\xfe", "new\nline"]
        for launcher in self.LAUNCHERS:
            with self.subTest(launcher=launcher[0]):
                bare, _ = self.compare([*launcher, "/usr/bin/printf", "[%s]", *odd])
                self.assertEqual(bare.returncode, 0, bare)

    def test_ten_thousand(self):
        many = [f"argument-{i}" for i in range(10000)]
        for launcher in self.LAUNCHERS:
            with self.subTest(launcher=launcher[0]):
                self.compare([*launcher, "/usr/bin/printf", "%s ", *many])

@unittest.skipUnless(HYDRA, "MPICH is not installed (mpiexec.hydra)")
class Killed(Case):
    def test_hydra(self):
        running = self.start([harness.TOPORUN, HYDRA, "-n", "2", "sh", "-c", "echo ready; exec sleep 1000"])
        wait_until(lambda: harness.read_file(running.paths[0]).count(b"ready") == 2, "both ranks")
        os.kill(running.pid, signal.SIGKILL)
        self.assertEqual(running.finish().returncode, -signal.SIGKILL)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
