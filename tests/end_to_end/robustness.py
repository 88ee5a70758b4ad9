"""Something is missing or broken: the training runs all the same, with its own status, and one line
says what is missing."""

import os
import shutil
import signal
import subprocess
import unittest

import harness
from harness import TOPORUN, Case, wait_until

# Everything that a dynamically linked toporun could have loaded, and what its libraries load.
LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1", "libfmt.so.9", "libhwloc.so.15", "libudev.so.1",
             "libboost_filesystem.so.1.81.0", "libboost_program_options.so.1.81.0",
             "libboost_system.so.1.81.0", "libtomlplusplus.so.3", "libtoporun-nccl.so", "libnvidia-ml.so.1")

BINARIES = os.path.dirname(TOPORUN)
MPIRUN = ["mpirun", "--oversubscribe", "-np", "2"]


class Robust:
    """What the classes below share."""

    def assert_training_runs(self, prefix=(), command=("sh", "-c", "echo training; exit 3"), toporun=TOPORUN,
                             **options):
        """`prefix` prepares the surroundings and then runs its arguments. Returns the result."""
        done = self.run_command([*prefix, toporun, *command], **options)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn(b"training\n", done.stdout)
        self.assertNotIn("error", " ".join(done.own_lines("error")))
        return done

    def assert_one_line(self, done, *words):
        """Exactly one of toporun's lines holds one of the words."""
        lines = [line for line in done.own_lines() if any(word in line for word in words)]
        self.assertEqual(len(lines), 1, done)

    def mounted(self, script):
        """A prefix that runs `script` in a mount namespace of its own, then its arguments in the
        directory that the script left as the current one."""
        return ["unshare", "-m", "sh", "-ec", f'{script}; exec "$@"', "sh"]


class PoorMachine(Robust, Case):
    def test_this_machine(self):
        self.assert_training_runs()

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "this machine has a GPU")
    def test_no_gpu_is_no_fault(self):
        done = self.assert_training_runs()
        self.assertEqual(done.own_lines("warning"), [])
        self.assertLessEqual(len(done.own_lines()), 15)

    def test_no_nvml(self):
        for library in ("/no/such/library.so", "/etc/passwd", "/", ""):
            with self.subTest(library=library):
                self.assert_training_runs(env=self.variables(TOPORUN_NVML_LIBRARY=library))

    @unittest.skipIf(harness.mounting_is_impossible(), harness.mounting_is_impossible())
    def test_no_sys(self):
        self.assert_training_runs(self.mounted("mount -t tmpfs none /sys"))

    @unittest.skipIf(harness.mounting_is_impossible(), harness.mounting_is_impossible())
    def test_no_proc(self):
        bare = self.run_command([*self.mounted("mount -t tmpfs none /proc"), "sh", "-c", "exit 3"])
        self.assertEqual(bare.returncode, 3)
        self.assert_training_runs(self.mounted("mount -t tmpfs none /proc"))


@unittest.skipIf(harness.mounting_is_impossible(), harness.mounting_is_impossible())
class Directories(Robust, Case):
    def test_a_working_directory_that_cannot_be_written(self):
        read_only = f"mount --bind {self.work} {self.work}; mount -o remount,ro,bind {self.work}; cd {self.work}"
        done = self.assert_training_runs(self.mounted(read_only))
        state = os.path.join(self.environment["HOME"], ".local/state/toporun")
        self.assertTrue(os.listdir(state), "the report lies in the state directory")
        self.assertIn(b"/.local/state/toporun/", done.stderr)

    def test_no_directory_can_be_written(self):
        for command in (("sh", "-c", "echo training; exit 3"),
                        (*MPIRUN, "sh", "-c", "echo training; exit 3")):
            with self.subTest(command=command):
                places = [self.work, self.environment["HOME"]]
                script = "; ".join(f"mount --bind {p} {p}; mount -o remount,ro,bind {p}" for p in places)
                done = self.assert_training_runs(self.mounted(f"{script}; cd {self.work}"), command)
                self.assert_one_line(done, "run directory", "report")

    def test_a_full_run_directory(self):
        full = (f"mount -t tmpfs -o size=16k none {self.work}; cd {self.work}; mkdir toporun; "
                "dd if=/dev/zero of=filler bs=1k 2>/dev/null || true")
        for command in (("sh", "-c", "echo training; exit 3"),
                        (*MPIRUN, "sh", "-c", "echo training; exit 3")):
            with self.subTest(command=command):
                done = self.assert_training_runs(self.mounted(full), command)
                self.assert_one_line(done, "No space left")

    def test_temporary_directories_that_cannot_be_used(self):
        self.assert_training_runs(env=self.variables(TMPDIR="/no/such/directory"))
        read_only = "; ".join(f"mount -t tmpfs -o ro none {p}" for p in ("/tmp", "/dev/shm"))
        work = os.path.join("/var/tmp", self.mark)
        os.mkdir(work)
        self.addCleanup(shutil.rmtree, work, ignore_errors=True)
        copy = shutil.copytree(BINARIES, os.path.join(work, "bin"), symlinks=True,  # may lie below /tmp
                               ignore=lambda _, names: [n for n in names if not n.startswith(("toporun", "libtoporun"))])
        done = self.assert_training_runs(self.mounted(f"cd {work}; {read_only}"), env=self.variables(HOME=work),
                                         toporun=os.path.join(copy, "toporun"))
        self.assert_one_line(done, "measurement")

    def test_what_a_killed_run_has_left_is_removed_by_a_later_one(self):
        """As mpirun ends what is left of a job: toporun, its observer and the command at once."""
        temporary = os.path.join(self.work, "tmp")
        os.mkdir(temporary)
        variables = self.variables(TMPDIR=temporary)
        killed, lives = (self.start([TOPORUN, "sh", "-c", "echo ready; exec sleep 60"], env=variables)
                         for _ in range(2))
        for running in (killed, lives):
            wait_until(lambda running=running: b"ready" in harness.read_file(running.paths[0]), "the command")
        os.killpg(killed.pid, signal.SIGKILL)
        killed.finish()
        self.assertEqual(len(os.listdir(temporary)), 2)
        self.assertEqual(self.run_command([TOPORUN, "true"], env=variables).returncode, 0)
        wait_until(lambda: len(os.listdir(temporary)) == 1, "removal")
        os.kill(lives.pid, signal.SIGTERM)
        lives.finish()
        self.assertEqual(os.listdir(temporary), [])

    def test_a_working_directory_that_is_gone(self):
        prefix = ["sh", "-ec", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh"]
        self.assert_training_runs(prefix)

    def test_a_file_where_the_run_directory_should_be(self):
        with open(os.path.join(self.work, "toporun"), "w", encoding="ascii"):
            pass
        self.assert_training_runs()


class Surroundings(Robust, Case):
    def test_no_home(self):
        environment = self.variables()
        del environment["HOME"]
        self.assert_training_runs(env=environment)

    def test_an_empty_environment(self):
        self.assert_training_runs(command=("/bin/sh", "-c", "echo training; exit 3"), env={"E2E_MARK": self.mark})

    def test_toporun_off(self):
        """The command takes toporun's own place: the same process, nothing added, nothing said."""
        environment = self.variables(TOPORUN="off")
        running = self.start([TOPORUN, "sh", "-c", "echo $$; env | sort; exit 3"], env=environment)
        done = running.finish()
        bare = self.run_command(["sh", "-c", "echo $$; env | sort; exit 3"], env=environment)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(int(done.stdout.split()[0]), running.pid)
        self.assertEqual(done.stdout.splitlines()[1:], bare.stdout.splitlines()[1:])
        self.assertEqual(done.stderr, b"")
        self.assertEqual(os.listdir(self.work), [])

    def test_quiet(self):
        done = self.run_command([TOPORUN, "-q", "sh", "-c", "echo out; echo err >&2; exit 3"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, b"out\n", b"err\n"))

    def test_foreign_libraries_first_on_the_library_path(self):
        for content in (b"", b"not a library", b"\x7fELF\x02\x01\x01" + bytes(200)):
            with self.subTest(content=content[:13]):
                libraries = os.path.join(self.directory, "libraries")
                os.makedirs(libraries, exist_ok=True)
                for name in LIBRARIES:
                    with open(os.path.join(libraries, name), "wb") as file:
                        file.write(content)
                environment = self.variables(LD_LIBRARY_PATH=libraries)
                bare = self.run_command(["sh", "-c", "echo training; exit 3"], env=environment)
                self.assertEqual(bare.returncode, 3, "sh itself needs one of the libraries")
                self.assert_training_runs(env=environment)
                done = self.run_command([TOPORUN, "detect", "--json"], env=environment)
                self.assertEqual(done.returncode, 0, done)

    def test_a_nested_toporun(self):
        done = self.assert_training_runs(command=(TOPORUN, "sh", "-c", "echo training; exit 3"))
        self.assertEqual(done.stdout, b"training\n")

    def test_a_refusal_to_start_leaves_nothing(self):
        temporary = os.path.join(self.directory, "temporary")
        os.mkdir(temporary)
        for words in (["--profile", "missing.toml", "true"], ["--host-order", "missing", "--strict", "true"],
                      ["--profile", "missing.toml", "--strict", "true"], ["--run-dir", "/proc/x", "--strict", "true"],
                      ["no-such-program-here"]):
            with self.subTest(words=words):
                done = self.run_command([TOPORUN, *words], env=self.variables(TMPDIR=temporary))
                self.assertIn(done.returncode, (125, 127), done)
                self.assertEqual(os.listdir(temporary), [])

    def test_strict_fails_before_the_start(self):
        binaries = copy_of_binaries(self, without="toporun-shim")
        command = [*MPIRUN, "sh", "-c", "echo training; exit 3"]
        done = self.run_command([os.path.join(binaries, "toporun"), "--strict", *command])
        self.assertEqual((done.returncode, done.stdout), (125, b""), done)
        self.assertEqual(len(done.own_lines("error")), 1, done)


def copy_of_binaries(case, without):
    copy = os.path.join(case.directory, "bin")
    os.makedirs(copy, exist_ok=True)
    for name in ("toporun", "toporun-shim", "toporun-python", "libtoporun-nccl.so"):
        if name != without and os.path.exists(os.path.join(BINARIES, name)):
            shutil.copy2(os.path.join(BINARIES, name), copy, follow_symlinks=False)
    return copy


class MissingParts(Robust, Case):
    def test_mpirun_without_the_shim(self):
        binaries = copy_of_binaries(self, without="toporun-shim")
        done = self.assert_training_runs(command=(*MPIRUN, "sh", "-c", "echo training; exit 3"),
                                         toporun=os.path.join(binaries, "toporun"))
        self.assertEqual(done.stdout, b"training\ntraining\n")
        self.assert_one_line(done, "toporun-shim")

    def test_no_plugin(self):
        binaries = copy_of_binaries(self, without="libtoporun-nccl.so")
        self.assert_training_runs(command=(*MPIRUN, "sh", "-c", "echo training; exit 3"),
                                  toporun=os.path.join(binaries, "toporun"))

    def test_toporun_through_a_link(self):
        link = os.path.join(self.directory, "tr")
        os.symlink(TOPORUN, link)
        done = self.assert_training_runs(command=(*MPIRUN, "sh", "-c", "echo training; exit 3"), toporun=link)
        self.assertNotIn(b"toporun-shim", done.stderr)


@unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
class MissingPartsOfTorchrun(Robust, Case):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.work, "worker.py"), "w", encoding="ascii") as file:
            file.write("import os\nos.write(1, b'training\\n')  # one write: lines of ranks do not mix\n")
        self.torchrun = ["torchrun", "--nproc_per_node=2", f"--master_port={harness.free_port()}", "worker.py"]

    def test_without_the_shim_that_stands_in_for_python(self):
        for missing in ("toporun-python", "toporun-shim"):
            with self.subTest(missing=missing):
                shutil.rmtree(os.path.join(self.directory, "bin"), ignore_errors=True)
                binaries = copy_of_binaries(self, without=missing)
                done = self.run_command([os.path.join(binaries, "toporun"), *self.torchrun])
                self.assertEqual((done.returncode, done.stdout), (0, b"training\ntraining\n"), done)
                self.assert_one_line(done, missing, "toporun-shim")

    def test_a_python_exec_of_the_user_that_does_not_exist(self):
        environment = self.variables(PYTHON_EXEC="/no/such/python")
        bare, wrapped = self.compare(self.torchrun, env=environment)
        self.assertNotEqual(bare.returncode, 0)
        self.assertIn(b"/no/such/python", wrapped.stderr)

    def test_a_python_exec_of_the_user_that_works(self):
        python = subprocess.run(["sed", "-n", "1s/^#!//p", "/usr/bin/torchrun"], check=True,
                                capture_output=True, text=True).stdout.strip()
        wrapper = os.path.join(self.work, "my-python")
        with open(wrapper, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\necho mine\nexec {python} "$@"\n')
        os.chmod(wrapper, 0o755)
        bare, _ = self.compare_sorted(self.torchrun, self.variables(PYTHON_EXEC=wrapper))
        self.assertEqual(bare.count(b"mine\n"), 2)

    def compare_sorted(self, command, environment):
        """Lines of two workers come in any order."""
        outputs = []
        for prefix in harness.PREFIXES:
            done = self.run_command([*prefix, *command], env=environment)
            self.assertEqual(done.returncode, 0, done)
            outputs.append(sorted(done.stdout.splitlines(keepends=True)))
        self.assertEqual(*outputs)
        return outputs


if __name__ == "__main__":
    harness.main()
