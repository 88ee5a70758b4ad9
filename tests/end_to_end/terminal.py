"""Key presses and job control on a pseudo-terminal."""

import fcntl
import os
import re
import signal
import struct
import termios
import unittest

import harness
from harness import RECORD_SIGNALS, TOPORUN, Case, Record, Terminal, wait_until

CTRL_C, CTRL_Z, CTRL_BACKSLASH = b"\x03", b"\x1a", b"\x1c"


class KeyPresses(Case):
    def record_keys(self, prefix, keys):
        """(status, counts) of the recorder after each (key, signal name) was pressed and arrived."""
        record = Record(self)
        terminal = Terminal(self, [*prefix, RECORD_SIGNALS, record.path, "4"])
        record.wait_for("ready", terminal.wait_until)
        for key, name in keys:
            times = record.names().count(name)
            terminal.type(key)
            terminal.wait_until(lambda: record.names().count(name) > times, f"{name} in the record")
        os.kill(terminal.pid, signal.SIGUSR2)
        return terminal.finish(), record.counts()

    def test_one_ctrl_c(self):
        outcome = self.compare_runs(lambda prefix: self.record_keys(prefix, [(CTRL_C, "INT")]))
        self.assertEqual(outcome, (4, {"INT": 1}))

    def test_ctrl_c_twice(self):
        outcome = self.compare_runs(lambda prefix: self.record_keys(prefix, [(CTRL_C, "INT")] * 2))
        self.assertEqual(outcome, (4, {"INT": 2}))

    def test_ctrl_backslash(self):
        outcome = self.compare_runs(lambda prefix: self.record_keys(prefix, [(CTRL_BACKSLASH, "QUIT")]))
        self.assertEqual(outcome, (4, {"QUIT": 1}))

    def test_a_new_window_size(self):
        def run(prefix):
            record = Record(self)
            terminal = Terminal(self, [*prefix, RECORD_SIGNALS, record.path])
            record.wait_for("ready", terminal.wait_until)
            fcntl.ioctl(terminal.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
            record.wait_for("WINCH", terminal.wait_until)
            os.kill(terminal.pid, signal.SIGUSR2)
            return terminal.finish(), record.counts()
        self.assertEqual(self.compare_runs(run), (0, {"WINCH": 1}))

    def test_a_terminal_that_goes_away(self):
        """The kernel tells the leader of the session alone, which toporun is behind `ssh -t`."""
        def run(prefix):
            record = Record(self)
            terminal = Terminal(self, [*prefix, RECORD_SIGNALS, record.path])
            record.wait_for("ready", terminal.wait_until)
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, terminal.terminal)
            os.close(nothing)
            record.wait_for("HUP")
            os.kill(terminal.pid, signal.SIGUSR2)
            return terminal.finish(), record.counts().get("HUP")
        self.assertEqual(self.compare_runs(run)[1], 1)

    def test_ctrl_c_ends_a_command_that_does_not_handle_it(self):
        def run(prefix):
            terminal = Terminal(self, [*prefix, "sh", "-c", "echo started; exec sleep 1000"])
            terminal.wait_for(b"started")
            terminal.type(CTRL_C)
            status = terminal.finish()
            self.assert_nothing_left()
            return status
        self.assertEqual(self.compare_runs(run), -signal.SIGINT)

    def test_ctrl_c_and_a_command_that_ends_with_a_status(self):
        def run(prefix):
            script = "trap 'exit 7' INT; echo started; while :; do sleep 0.1; done"
            terminal = Terminal(self, [*prefix, "sh", "-c", script])
            terminal.wait_for(b"started")
            terminal.type(CTRL_C)
            return terminal.finish()
        self.assertEqual(self.compare_runs(run), 7)


class CtrlCInLaunchers(Case):
    def interrupted(self, prefix, command, ready):
        terminal = Terminal(self, [*prefix, *command])
        terminal.wait_until(lambda: terminal.output.count(ready) >= 2, "both ranks")
        harness.wait_until_torchrun_watches(self, terminal.wait_until)
        terminal.type(CTRL_C)
        status = terminal.finish()
        self.assert_nothing_left()
        return status

    def test_mpirun(self):
        command = ["mpirun", "--oversubscribe", "-np", "2", "sh", "-c", "echo up-and-running; exec sleep 1000"]
        self.compare_runs(lambda prefix: self.interrupted(prefix, command, b"up-and-running"))

    @unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
    def test_torchrun(self):
        with open(os.path.join(self.work, "worker.py"), "w", encoding="ascii") as file:
            file.write("import time\nprint('up-and-running', flush=True)\ntime.sleep(1000)\n")

        def run(prefix):
            command = ["torchrun", "--nproc_per_node=2", f"--master_port={harness.free_port()}", "worker.py"]
            return self.interrupted(prefix, command, b"up-and-running")
        self.compare_runs(run)


class JobControl(Case):
    def start_shell(self):
        environment = self.variables(PS1="prompt> ", HISTFILE="/dev/null", INPUTRC="/dev/null", TERM="dumb")
        shell = Terminal(self, ["bash", "--norc", "--noprofile", "-i"], environment)
        shell.wait_for(b"prompt> ")
        return shell

    def test_ctrl_z_and_fg(self):
        def run(prefix):
            record = Record(self)
            shell = self.start_shell()
            command = " ".join(f"'{word}'" for word in [*prefix, RECORD_SIGNALS, record.path, "6"])
            shell.type(command.encode() + b"\n")
            record.wait_for("ready", shell.wait_until)
            shell.type(CTRL_Z)
            shell.wait_for(b"Stopped")
            stopped = [p for p in self.left_overs() if harness.is_stopped(p)]
            self.assertTrue(stopped)
            shell.type(b"fg\n")
            record.wait_for("CONT", shell.wait_until)
            shell.wait_until(lambda: not any(map(harness.is_stopped, stopped)), "continuation")
            shell.type(CTRL_C)
            record.wait_for("INT", shell.wait_until)
            job = harness.children(shell.pid)[0]
            os.kill(job, signal.SIGUSR2)
            shell.wait_until(lambda: not harness.children(shell.pid), "end of the job")
            shell.type(b"echo status=$?\n")
            shell.wait_for(b"status=6")
            shell.type(b"exit\n")
            return shell.finish(), record.counts()
        self.assertEqual(self.compare_runs(run), (0, {"CONT": 1, "INT": 1}))

    def test_a_background_job_reads_the_terminal_only_in_the_foreground(self):
        def run(prefix):
            shell = self.start_shell()
            command = " ".join(f"'{word}'" for word in [*prefix, "cat"])
            shell.type(command.encode() + b" &\n")
            shell.wait_until(lambda: any(map(harness.is_stopped, self.left_overs())), "stop of the reader")
            shell.type(b"fg\n")
            shell.wait_until(lambda: not any(map(harness.is_stopped, self.left_overs())), "continuation")
            shell.type(b"words for cat\n\x04")
            shell.wait_until(lambda: shell.output.count(b"words for cat") >= 2, "echo and output")
            shell.wait_until(lambda: not harness.children(shell.pid), "end of the job")
            shell.type(b"exit 0\n")
            return shell.finish()
        self.assertEqual(self.compare_runs(run), 0)


    def shell_line(self, *words):
        return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words).encode()

    def test_a_command_that_stops_itself_gives_the_prompt_back(self):
        for stop in ("kill -TSTP $$", "kill -STOP $$"):
            def run(prefix, stop=stop):
                shell = self.start_shell()
                shell.type(self.shell_line(*prefix, "sh", "-c", f"{stop}; exit 5") + b"\n")
                shell.wait_for(b"Stopped")
                shell.type(b"echo stopped=$?\n")
                shell.wait_for(b"stopped=1")
                shell.type(b"fg; echo ended=$?\n")
                shell.wait_for(b"ended=5")
                shell.type(b"exit 0\n")
                return shell.finish(), re.search(rb"stopped=(\d+)", shell.output).group(1)
            with self.subTest(stop=stop):
                self.compare_runs(run)

    def test_a_command_that_ignores_ctrl_z_goes_on_in_the_foreground(self):
        def run(prefix):
            shell = self.start_shell()
            script = 'trap "" TSTP; echo up-and-running; read line; echo "got $line"; exit 7'
            shell.type(self.shell_line(*prefix, "sh", "-c", script) + b"\n")
            shell.wait_for(b"\nup-and-running")
            shell.type(CTRL_Z)
            shell.type(b"words\n")
            shell.wait_for(b"got words")
            shell.type(b"echo ended=$?\n")
            shell.wait_for(b"ended=7")
            shell.type(b"exit 0\n")
            return shell.finish()
        self.assertEqual(self.compare_runs(run), 0)

    def test_own_lines_do_not_stop_a_background_job(self):
        def run(prefix):
            shell = self.start_shell()
            done = os.path.join(self.directory, f"done-{len(prefix)}")
            shell.type(b"stty tostop\n" + self.shell_line(*prefix, "touch", done) + b" &\n")
            shell.wait_until(lambda: os.path.exists(done), "the job")
            shell.wait_until(lambda: not harness.children(shell.pid), "end of the job")
            shell.type(b"exit 0\n")
            return shell.finish()
        self.assertEqual(self.compare_runs(run), 0)


class BeforeTheStart(Case):
    """toporun still looks at the machine: NVML's first call never returns."""

    def setUp(self):
        super().setUp()
        self.environment["TOPORUN_NVML_LIBRARY"] = harness.HANGING_NVML
        self.started = os.path.join(self.directory, "started")

    def looking(self, parent):
        """The helper process that looks has no name of its own."""
        return wait_until(lambda: [p for p in harness.children(parent)
                                   if harness.read_file(f"/proc/{p}/comm").startswith(b"toporun")],
                          "the helper")

    def test_ctrl_c_ends_it_without_a_start(self):
        terminal = Terminal(self, [TOPORUN, "touch", self.started])
        self.looking(terminal.pid)
        terminal.type(CTRL_C)
        self.assertEqual(terminal.finish(), -signal.SIGINT)
        self.assertFalse(os.path.exists(self.started))
        self.assert_nothing_left()

    def test_a_signal_ends_it_without_a_start(self):
        for name in ("TERM", "HUP", "USR1"):
            with self.subTest(signal=name):
                running = self.start([TOPORUN, "touch", self.started])
                self.looking(running.pid)
                number = getattr(signal, f"SIG{name}")
                os.kill(running.pid, number)
                self.assertEqual(running.finish().returncode, -number)
                self.assertFalse(os.path.exists(self.started))
                self.assert_nothing_left()


class IsATerminal(Case):
    def test_the_command_sees_the_terminal(self):
        def run(prefix):
            script = "for i in 0 1 2; do if [ -t $i ]; then echo terminal-$i; fi; done"
            terminal = Terminal(self, [*prefix, "sh", "-c", script])
            status = terminal.finish()
            return status, [line for line in terminal.output.split() if line.startswith(b"terminal-")]
        self.assertEqual(self.compare_runs(run), (0, [b"terminal-0", b"terminal-1", b"terminal-2"]))

    def test_colour_needs_a_terminal_and_respects_no_color(self):
        for environment in (self.variables(NO_COLOR="1", TERM="xterm"), self.variables(TERM="dumb")):
            terminal = Terminal(self, [TOPORUN, "true"], environment)
            self.assertEqual(terminal.finish(), 0)
            self.assertNotIn(b"\x1b", terminal.output)
        done = self.run_command([TOPORUN, "true"], env=self.variables(TERM="xterm"))
        self.assertNotIn(b"\x1b", done.stderr)


if __name__ == "__main__":
    harness.main()
