"""What the command inherits: arguments, environment, descriptors, limits, masks, directories."""

import os
import re
import resource
import unittest
import signal

import harness
from harness import TOPORUN, Case

# The documented names that toporun may add (docs/variables.md).
MAY_BE_ADDED = re.compile(r"^(NCCL_\w+|OMP_NUM_THREADS|TOPORUN_\w+|PYTHON_EXEC|OMPI_MCA_hwloc_\w+)$")
PRINT_ARGUMENTS = ["/usr/bin/printf", "%s\\0"]


class Arguments(Case):
    def test_odd_arguments(self):
        odd = ["", " ", "-", "--", "-x", "--version", "a b", "new\nline", "quo'te\"", "$HOME", "*", "\\", "\t",
               b"\xff\xfe", b"\x1b[31m", "ä", "=", ":"]
        bare, _ = self.compare([*PRINT_ARGUMENTS, *odd])
        self.assertEqual(bare.stdout.count(b"\0"), len(odd))

    def test_ten_thousand_arguments(self):
        many = [f"argument-{i}" for i in range(10000)]
        bare, _ = self.compare([*PRINT_ARGUMENTS, *many])
        self.assertEqual(bare.stdout.count(b"\0"), 10000)

    def test_one_very_long_argument(self):
        self.compare([*PRINT_ARGUMENTS, "x" * 130000])

    def test_name_of_the_program(self):
        """argv[0] is the word that the user typed, not the path found."""
        def run(prefix):
            return self.run_command([*prefix, "sh", "-c", "tr '\\0' '\\n' </proc/$$/cmdline | head -n 1"]).stdout
        self.assertEqual(self.compare_runs(run), b"sh\n")

    def test_options_of_the_command_are_not_toporuns(self):
        self.compare(["sh", "-c", 'echo "$@"', "sh", "--dry-run", "-q", "--help"])

    def test_two_dashes_before_a_command_named_like_a_subcommand(self):
        tools = os.path.join(self.directory, "tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "report"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho my own report\n")
        os.chmod(file.name, 0o755)
        path = f"{tools}:{self.environment['PATH']}"
        done = self.run_command([TOPORUN, "--", "report"], env=self.variables(PATH=path))
        self.assertEqual((done.returncode, done.stdout), (0, b"my own report\n"))


class Environment(Case):
    def environments(self, command, **more):
        """The environment that the command sees, bare and behind toporun."""
        seen = []
        for prefix in harness.PREFIXES:
            done = self.run_command([*prefix, *command], env=self.variables(**more))
            self.assertEqual(done.returncode, 0, done)
            variables = [item.partition(b"=") for item in done.stdout.split(b"\0") if item]
            seen.append({name.decode(): value for name, _, value in variables})
        return seen

    def assert_only_documented_additions(self, bare, wrapped):
        volatile = re.compile(r"^(OMPI_|PMIX_|ORTE_|PMI_|SLURM_|_$|MASTER_PORT$|TORCHELASTIC_)")
        for name, value in bare.items():
            if not volatile.match(name):
                self.assertTrue(value == wrapped.get(name), f"{name} was changed")
        added = set(wrapped) - set(bare)
        self.assertFalse([name for name in added if not MAY_BE_ADDED.match(name)], "undocumented additions")
        return added

    def test_a_plain_command(self):
        bare, wrapped = self.environments(["printenv", "-0"])
        self.assert_only_documented_additions(bare, wrapped)

    def test_odd_values_pass_unchanged(self):
        bare, wrapped = self.environments(["printenv", "-0"], EMPTY="", LINES_="a\nb", BYTES=b"\xff\x1b", A_="=")
        self.assertEqual(bare["BYTES"], b"\xff\x1b")
        self.assert_only_documented_additions(bare, wrapped)

    def test_values_that_the_user_set_stay(self):
        user = {"NCCL_P2P_LEVEL": "NV", "NCCL_SOCKET_IFNAME": "", "NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "3",
                "NCCL_PROFILER_PLUGIN": "mine", "PYTHON_EXEC": "/usr/bin/python3"}
        bare, wrapped = self.environments(["printenv", "-0"], **user)
        self.assert_only_documented_additions(bare, wrapped)
        for name, value in user.items():
            self.assertEqual(wrapped[name], value.encode())

    def test_ranks_of_mpirun(self):
        bare, wrapped = self.environments(["mpirun", "--oversubscribe", "-np", "1", "printenv", "-0"])
        self.assert_only_documented_additions(bare, wrapped)

    def test_leave_keeps_a_variable_out(self):
        _, plain = self.environments(["mpirun", "--oversubscribe", "-np", "1", "printenv", "-0"])
        self.assertIn("OMP_NUM_THREADS", set(plain))
        done = self.run_command([TOPORUN, "--leave", "OMP_NUM_THREADS", "mpirun", "--oversubscribe", "-np", "1",
                                 "env"])
        self.assertNotIn(b"OMP_NUM_THREADS", done.stdout)

    def test_the_users_configuration_file_wins(self):
        """NCCL lets the environment win over its files: what a file sets must not be exported."""
        file = os.path.join(self.directory, "nccl.conf")
        with open(file, "w", encoding="ascii") as text:
            text.write("NCCL_DEBUG=WARN\n")
        _, wrapped = self.environments(["printenv", "-0"], NCCL_CONF_FILE=file)
        for name in ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"):
            self.assertNotIn(name, set(wrapped))


class ProcessState(Case):
    STATUS = ("SigBlk", "SigIgn", "SigCgt", "Umask", "Cpus_allowed_list", "Mems_allowed_list", "CapInh",
              "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups")

    def state(self, prefix, **options):
        status = self.run_command([*prefix, "cat", "/proc/self/status"], **options).stdout.decode()
        return [line for line in status.splitlines() if line.split(":")[0] in self.STATUS]

    def test_masks_capabilities_affinity(self):
        lines = self.compare_runs(self.state)
        self.assertEqual(len(lines), len(self.STATUS))

    def test_a_blocked_mask_and_ignored_signals_are_inherited(self):
        def prepare():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGWINCH})
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
                signal.signal(number, signal.SIG_IGN)
        self.compare_runs(lambda prefix: self.state(prefix, preexec_fn=prepare))

    def test_an_ignored_sigchld_does_not_lose_the_status(self):
        def prepare():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        bare, _ = self.compare(["sh", "-c", "exit 4"], preexec_fn=prepare)
        self.assertEqual(bare.returncode, 4)

    def test_affinity(self):
        one = {min(os.sched_getaffinity(0))}
        lines = self.compare_runs(lambda p: self.state(p, preexec_fn=lambda: os.sched_setaffinity(0, one)))
        self.assertTrue([line for line in lines if line.startswith("Cpus_allowed_list")][0].endswith(
            str(min(one))))

    def test_umask_directory_and_priority(self):
        def prepare():
            os.umask(0o027)
            os.nice(3)
        for script in ("umask; pwd -P; cat /proc/self/oom_score_adj; nice; cat /proc/self/cgroup",
                       "ulimit -a", "readlink /proc/self/ns/*"):
            self.compare(["sh", "-c", script], preexec_fn=prepare)

    def test_limits(self):
        def prepare():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 4096))
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
        self.compare(["cat", "/proc/self/limits"], preexec_fn=prepare)

    def test_files_that_may_not_grow(self):
        """`ulimit -f`: standard error is a file that is as long as it may be, or becomes so."""
        for length in (0, 64, 4096):
            def run(prefix, length=length):
                log = os.path.join(self.directory, "log")
                with open(log, "wb") as file:
                    file.truncate(length)
                with open(log, "ab") as file:
                    return self.run_command([*prefix, "sh", "-c", "exit 7"], stderr=file,
                                            preexec_fn=prepare).returncode

            def prepare(length=length):
                resource.setrlimit(resource.RLIMIT_FSIZE, (length, length))
            temporary = os.path.join(self.directory, "temporary")
            os.makedirs(temporary, exist_ok=True)
            self.environment["TMPDIR"] = temporary
            with self.subTest(length=length):
                self.assertEqual(self.compare_runs(run), 7)
                self.assertEqual(os.listdir(temporary), [])
                files = [name for _, _, names in os.walk(self.work) for name in names]
                self.assertEqual([name for name in files if name.endswith(".tmp")], [])

    def test_what_files_that_may_not_grow_cost(self):
        def prepare():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        done = self.run_command([TOPORUN, "sh", "-c", "exit 7"], preexec_fn=prepare)
        self.assertEqual(done.returncode, 7, done)
        self.assertIn("NCCL's log and the measurement are off: files may not grow to 64 MiB here (ulimit -f)",
                      done.stderr.decode())
        self.assertNotIn("report.txt", done.stderr.decode())
        directory = os.path.realpath(os.path.join(self.work, "toporun", "latest"))
        self.assertEqual([name for name in os.listdir(directory) if name.startswith("report")], [])

    def test_a_command_that_a_long_file_ends(self):
        """SIGXFSZ has its effect in the command."""
        def prepare():
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        def run(prefix):
            return self.run_command([*prefix, "sh", "-c", "exec head -c 10 /dev/zero >file"],
                                    preexec_fn=prepare).returncode
        self.assertEqual(self.compare_runs(run), -signal.SIGXFSZ)

    def test_very_few_descriptors(self):
        """Whatever cannot be opened, the command runs, and once."""
        for limit in range(5, 20):
            def prepare(limit=limit):
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            with self.subTest(limit=limit):
                bare, _ = self.compare(["sh", "-c", "echo started; exit 3"], preexec_fn=prepare)
                self.assertEqual((bare.returncode, bare.stdout), (3, b"started\n"))

    @unittest.skipIf(os.geteuid() != 0, "needs root to become another user")
    def test_no_further_process(self):
        for limit in (0, 1, 2, 3):
            def prepare(limit=limit):
                resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
                os.chmod(self.directory, 0o755)
                os.setgid(65534)
                os.setuid(65534)
            with self.subTest(limit=limit):
                bare, _ = self.compare(["/bin/echo", "started"], preexec_fn=prepare)
                self.assertEqual(bare.returncode, 0)

    def test_an_environment_that_is_almost_full(self):
        """The kernel takes a quarter of the stack limit for arguments and environment (execve(2))."""
        def prepare():
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))

        def runs(prefix, size):
            environment = self.variables(**{f"FILL{i}": "x" * 20_000 for i in range(size // 20_000)},
                                         REST="x" * (size % 20_000))
            try:
                return self.run_command([*prefix, "/bin/true"], env=environment, preexec_fn=prepare).returncode
            except OSError:
                return None
        low, high = 0, 1 << 20
        while high - low > 1:  # the largest with which the bare command starts
            middle = (low + high) // 2
            low, high = (middle, high) if runs([], middle) == 0 else (low, middle)
        for size in (low - 4000, low - 2000, low - 1000, low - 300):
            with self.subTest(size=size):
                self.assertEqual(runs([TOPORUN], size), 0)

    def test_process_group_and_session(self):
        script = 'set -- $(cut -d" " -f5,6,7 /proc/$$/stat); [ $1 = $2 ] && echo same $3'
        self.compare(["sh", "-c", script])


class Descriptors(Case):
    def test_the_command_sees_the_same_descriptors(self):
        script = "for f in /proc/$$/fd/*; do echo ${f##*/}; done"
        self.compare(["sh", "-c", script])

    @unittest.skipIf(harness.mounting_is_impossible(), harness.mounting_is_impossible())
    def test_inherited_descriptors_without_proc(self):
        script = 'umount -l /proc; exec 7</etc/passwd; "$@" sh -c "head -c 4 <&7"'
        done = [self.run_command(["unshare", "-m", "sh", "-c", script, "sh", *prefix])
                for prefix in harness.PREFIXES]
        self.assertEqual([d.stdout for d in done], [b"root", b"root"], done[1])

    def test_inherited_descriptors_can_be_used(self):
        for prefix in harness.PREFIXES:
            reader, writer = os.pipe()
            high = os.dup(writer)
            try:
                os.set_inheritable(high, True)
                done = self.run_command([*prefix, "sh", "-c", f"echo words >/proc/self/fd/{high}"],
                                        pass_fds=(high,))
                self.assertEqual(done.returncode, 0, done)
                os.close(writer)
                os.close(high)
                with os.fdopen(os.dup(reader), "rb") as end:
                    self.assertEqual(end.read(), b"words\n")
            finally:
                os.close(reader)

    def test_many_inherited_descriptors(self):
        def run(prefix):
            open_files = [os.open("/dev/null", os.O_RDONLY) for _ in range(50)]
            try:
                return self.run_command([*prefix, "sh", "-c", "set -- /proc/$$/fd/*; echo $#"],
                                        pass_fds=open_files).stdout
            finally:
                for descriptor in open_files:
                    os.close(descriptor)
        self.compare_runs(run)


if __name__ == "__main__":
    harness.main()
