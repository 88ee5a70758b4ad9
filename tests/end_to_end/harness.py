"""What the end-to-end tests share: the bare command and the one behind toporun, in equal surroundings.

Each test runs in a directory of its own, with a private HOME, and every process that it starts carries
a mark in its environment. What is left at the end of a test is found by that mark and ended.
Nothing here sleeps for a fixed time: wait_until() polls a condition and fails after a deadline.
"""

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

TOPORUN = os.environ.get("TOPORUN", "toporun")
# `nvidia-smi topo -m` of two GPUs with an adapter beside the first.
MATRIX = """\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV12\tPIX\t0-15\t0
GPU1\tNV12\t X \tSYS\t16-31\t1
NIC0\tPIX\tSYS\t X

NIC Legend:

  NIC0: mlx5_0
"""
PROGRAMS = os.environ.get("TOPORUN_TEST_PROGRAMS", ".")
RECORD_SIGNALS = os.path.join(PROGRAMS, "record_signals")
NVML_WITH_PROCESS = os.path.join(PROGRAMS, "libnvml_with_process.so")
COUNTING_NVML = os.path.join(PROGRAMS, "libnvml_that_counts.so")
HANGING_NVML = os.path.join(PROGRAMS, "libnvml_that_hangs.so")
DEADLINE_S = 60  # generous: two busy cores
ALLOWED_LEFT_OVER_S = 5  # a killed supervisor must not leave a process for longer
OBSERVER_NAME = "toporun-observe"

HYDRA = shutil.which("mpiexec.hydra")  # MPICH's
PREFIXES = ([], [TOPORUN])  # the bare command, and the same behind toporun

# Variables that would change what toporun decides; the tests set those that they mean.
SCRUBBED = re.compile(r"^(TOPORUN|NCCL_|OMP_|OMPI_|PMIX_|PMI_|SLURM_|PET_|XDG_|PYTHON|LD_|TMPDIR$)")


def torchrun_is_missing():
    """Why Debian's torchrun cannot run here, or None."""
    if not os.access("/usr/bin/torchrun", os.X_OK):
        return "python3-torch is not installed (/usr/bin/torchrun)"
    return None


def mpi_launchers(ranks):
    """The MPI launchers that are installed, as words in front of a program."""
    return [["mpirun", "--oversubscribe", "-np", str(ranks)], *([[HYDRA, "-n", str(ranks)]] if HYDRA else [])]


def torchrun(*options):
    """torchrun as words in front of a program: one worker, a port of its own."""
    return ["torchrun", "--nproc_per_node=1", f"--master_port={free_port()}", *options, "--no_python"]


def mounting_is_impossible():
    """Why no private mount can be made here, or None."""
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return None if done.returncode == 0 else "no right to mount (unshare -m)"


PID_NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc"]


def namespace_is_impossible():
    """Why no PID namespace can be made here, or None."""
    done = subprocess.run([*PID_NAMESPACE, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False)
    return None if done.returncode == 0 else "no right to make a PID namespace"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, seconds=DEADLINE_S, interval=0.01):
    """The first true value of condition(), polled; AssertionError after the deadline."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(interval)


def read_file(path, default=b""):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return default


def process_ids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def process_state(pid):
    """(state letter, parent pid) of a process, or None when it is gone."""
    text = read_file(f"/proc/{pid}/stat").decode(errors="replace")
    if ")" not in text:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1])


def is_stopped(pid):
    state = process_state(pid)
    return state is not None and state[0] == "T"


def children(pid):
    return [p for p in process_ids() if (process_state(p) or ("", 0))[1] == pid]


def child_named(parent, name):
    """The pid of the child of `parent` whose process name is `name`, or None."""
    for pid in children(parent):
        if read_file(f"/proc/{pid}/comm").decode(errors="replace").strip() == name:
            return pid
    return None


def signalled_or_exited(wait_status):
    """A wait status the way Popen.returncode tells it."""
    return os.waitstatus_to_exitcode(wait_status)


class Result:
    """One finished command: returncode as Popen's, stdout and stderr as bytes."""

    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr

    def own_lines(self, kind=""):
        """toporun's lines on standard error; kind "warning" or "error" selects."""
        prefix = f"toporun: {kind}: " if kind else "toporun: "
        lines = self.stderr.decode(errors="replace").splitlines()
        return [line for line in lines if line.startswith(prefix)]

    def __str__(self):
        return f"status {self.returncode}\nstdout: {self.stdout!r}\nstderr: {self.stderr!r}"


class Running:
    """A command in its own process group whose output goes to files: a process that is left over and
    keeps standard error open does not keep the test waiting."""

    def __init__(self, case, argv, **options):
        case.commands += 1
        self.paths = [os.path.join(case.directory, f"{name}-{case.commands}") for name in ("out", "err")]
        with contextlib.ExitStack() as files:
            streams = [files.enter_context(open(path, "wb")) for path in self.paths]
            options.setdefault("stdin", subprocess.DEVNULL)
            options.setdefault("cwd", case.work)
            options.setdefault("env", case.environment)
            options.setdefault("stdout", streams[0])
            options.setdefault("stderr", streams[1])
            options.setdefault("process_group", 0)
            self.process = subprocess.Popen(argv, **options)
        self.pid = self.process.pid

    def stderr(self):
        return read_file(self.paths[1])

    def end(self):
        """Nothing when it has ended by itself."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def finish(self, seconds=DEADLINE_S):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s; stderr: {self.stderr()!r}") from None
        return Result(self.process.returncode, *(read_file(path) for path in self.paths))


class Terminal:
    """A command as the foreground process group of a pseudo-terminal."""

    def __init__(self, case, argv, environment=None):
        self.output = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(case.work)
                os.execvpe(argv[0], argv, environment or case.environment)
            finally:
                os._exit(126)
        case.addCleanup(self.close)
        self.wait_status = None

    def close(self):
        os.close(self.terminal)
        if self.wait_status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def read(self):
        """Takes what has been written so far; a writer must never wait for us."""
        while select.select([self.terminal], [], [], 0)[0]:
            try:
                data = os.read(self.terminal, 65536)
            except OSError:  # EIO: nobody has the terminal open any more
                return
            if not data:
                return
            self.output += data

    def type(self, keys):
        os.write(self.terminal, keys)

    def wait_until(self, condition, what):
        def read_and_look():
            self.read()
            return condition()
        try:
            return wait_until(read_and_look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; terminal shows {self.output!r}") from None

    def wait_for(self, text):
        self.wait_until(lambda: text in self.output, f"{text!r} on the terminal")

    def finish(self):
        def ended():
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.wait_status = status
            return pid
        self.wait_until(ended, "end of the command")
        self.read()
        return signalled_or_exited(self.wait_status)


def wait_until_torchrun_watches(case, wait=wait_until):
    """Every torchrun of the test has started all its workers and sleeps between two looks at them.

    A signal before that is a race which a bare torchrun 1.13 loses as well, though its workers run already: where it
    comes in start_processes() it is handed on as SIGTERM, or not at all (torch/distributed/elastic/multiprocessing).
    """
    agents = [pid for pid in case.left_overs() if read_file(f"/proc/{pid}/comm") == b"torchrun\n"]
    wait(lambda: all(b"nanosleep" in read_file(f"/proc/{pid}/wchan") for pid in agents), "torchrun at its watch")


def continue_stopped_job(case, shell, go):
    """Brings the shell's stopped job on with fg and lets it end with 5 by the file `go`; the shell's status."""
    shell.type(b"fg; echo ended=$?\n")
    shell.wait_until(lambda: not any(map(is_stopped, case.left_overs())), "continuation")
    with open(go, "w", encoding="ascii"):
        pass
    shell.wait_for(b"ended=5")
    shell.type(b"exit 0\n")
    return shell.finish()


class Record:
    """The file that the program record_signals writes."""

    def __init__(self, case, name="signals"):
        self.path = os.path.join(case.directory, f"{name}-{uuid.uuid4().hex[:8]}")

    def names(self):
        return read_file(self.path).decode().split()

    def wait_for(self, name, wait=wait_until):
        wait(lambda: name in self.names(), f"{name} in the record of signals")

    def counts(self):
        """How often each signal came, without the SIGUSR2 that ends the program."""
        names = [name for name in self.names() if name not in ("ready", "USR2")]
        return {name: names.count(name) for name in sorted(set(names))}


class Case(unittest.TestCase):
    """One test: a directory, an environment and a mark of its own."""

    maxDiff = None

    def setUp(self):
        self.commands = 0
        self.mark = f"toporun-test-{uuid.uuid4().hex}"
        self.directory = tempfile.mkdtemp(prefix="toporun-e2e-")
        self.work = os.path.join(self.directory, "work")
        home = os.path.join(self.directory, "home")
        os.mkdir(self.work)
        os.mkdir(home)
        self.environment = {name: value for name, value in os.environ.items() if not SCRUBBED.match(name)}
        self.environment.update(HOME=home, LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1", E2E_MARK=self.mark,
                                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                                PET_REDIRECTS="2", PET_TEE="2")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.addCleanup(self.end_left_overs)

    def left_overs(self):
        """Processes with this test's mark that still run (zombies do not count)."""
        mark = f"E2E_MARK={self.mark}".encode()
        found = []
        for pid in process_ids():
            if mark in read_file(f"/proc/{pid}/environ").split(b"\0"):
                state = process_state(pid)
                if state is not None and state[0] not in "ZX":
                    found.append(pid)
        return found

    def end_left_overs(self):
        for pid in self.left_overs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.left_overs(), "end of the processes that a test left over", 20)

    def assert_nothing_left(self, seconds=ALLOWED_LEFT_OVER_S):
        def gone():
            return not self.left_overs()
        try:
            wait_until(gone, "end of every process", seconds)
        except AssertionError as error:
            names = [read_file(f"/proc/{pid}/cmdline").replace(b"\0", b" ") for pid in self.left_overs()]
            raise AssertionError(f"{error}; left: {names}") from None

    def variables(self, **more):
        return {**self.environment, **more}

    def write_waiting_worker(self):
        """A Python program that says "ready" and waits for a signal. Returns its name."""
        with open(os.path.join(self.work, "worker.py"), "w", encoding="ascii") as file:
            file.write("import signal\nprint('ready', flush=True)\nsignal.pause()\n")
        return "worker.py"

    def start(self, argv, **options):
        running = Running(self, argv, **options)
        self.addCleanup(running.end)
        return running

    def run_command(self, argv, **options):
        return self.start(argv, **options).finish()

    def compare(self, argv, **options):
        """Runs the command bare and behind toporun: status and standard output must be equal. Returns
        both results."""
        bare, wrapped = (self.run_command([*prefix, *argv], **options) for prefix in PREFIXES)
        self.assertEqual(bare.returncode, wrapped.returncode, f"bare {bare}\nwrapped {wrapped}")
        self.assertEqual(bare.stdout, wrapped.stdout)
        return bare, wrapped

    def compare_runs(self, run):
        """run(prefix) with no prefix and with toporun must return equal values; returns that value."""
        bare, wrapped = (run(prefix) for prefix in PREFIXES)
        self.assertEqual(bare, wrapped)
        return bare


class OutcomeRecorder(unittest.TextTestResult):
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.stream.writeln(f"\nskipped: {test.id().partition('.')[2]}: {reason}")


def main():
    """Status 0 passed, 1 failed, 77 (ctest: skipped) when every test was skipped."""
    program = unittest.main(exit=False, testRunner=unittest.TextTestRunner(
        stream=sys.stdout, verbosity=2, resultclass=OutcomeRecorder))
    result = program.result
    if not result.wasSuccessful() or result.testsRun + len(result.skipped) == 0:
        sys.exit(1)
    sys.exit(77 if len(result.skipped) >= result.testsRun else 0)
