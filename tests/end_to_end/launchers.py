"""Launchers besides Open MPI and torchrun's scripts: the ranks get the shim, and nothing else changes."""

import json
import os
import shutil
import signal
import unittest

import harness
from harness import TOPORUN, Case

HYDRA = shutil.which("mpiexec.hydra")
NO_HYDRA = None if HYDRA else "MPICH is not installed (mpiexec.hydra)"


class HydraHelpers:
    def hydra(self, *words):
        return [HYDRA, *words]

    def ranks(self):
        """The ranks in the report of the run in the working directory."""
        done = self.run_command([TOPORUN, "report", "--json"])
        return sorted(json.loads(done.stdout)["ranks"], key=lambda rank: rank["rank"])


@unittest.skipIf(NO_HYDRA, NO_HYDRA)
class HydraStatuses(HydraHelpers, Case):
    def test_exit_status(self):
        """One rank: of several Hydra ends the rest, and which status comes out is a race. So it is, now and then,
        for one that a signal ended: MPICH 4.0 itself reports 255 in its place."""
        for script, allowed in (("exit 0", {0}), ("exit 3", {3}), ("exit 255", {255}), ("kill -9 $$", {9, 255})):
            with self.subTest(script=script):
                bare = self.run_command(self.hydra("-n", "1", "sh", "-c", script))
                wrapped = self.run_command([TOPORUN, *self.hydra("-n", "1", "sh", "-c", script)])
                self.assertIn(bare.returncode, allowed, bare)
                self.assertIn(wrapped.returncode, allowed, wrapped)

    def test_a_program_that_cannot_run(self):
        with open(os.path.join(self.work, "plain"), "w", encoding="ascii"):
            pass
        for program in ("no-such-program-here", "./plain", self.directory):
            with self.subTest(program=program):
                bare = self.run_command(self.hydra("-n", "2", program))
                wrapped = self.run_command([TOPORUN, *self.hydra("-n", "2", program)])
                self.assertEqual((bare.returncode, bare.stdout), (wrapped.returncode, wrapped.stdout))
                self.assertEqual(bare.returncode, 255, bare)

    def test_the_launchers_own_usage_error(self):
        for words in (("-no-such-option", "true"), ("-n", "1", "--", "true")):
            with self.subTest(words=words):
                self.compare(self.hydra(*words))


@unittest.skipIf(NO_HYDRA, NO_HYDRA)
class HydraRanks(HydraHelpers, Case):
    def test_arguments_and_standard_output_are_the_same(self):
        self.compare(self.hydra("-n", "1", "printf", "[%s]", "a b", "it's", "", "-x", "--", "$HOME"))

    def test_each_rank_is_recorded(self):
        done = self.run_command([TOPORUN, *self.hydra("-n", "2", "sh", "-c", "echo $PMI_RANK")])
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(sorted(done.stdout.split()), [b"0", b"1"])
        self.assertEqual([rank["rank"] for rank in self.ranks()], [0, 1])
        self.assertEqual([rank["set_on_arrival"] for rank in self.ranks()], [[], []])

    def test_variables_arrive_where_hydra_is_told_which_to_hand_on(self):
        script = "echo ${TOPORUN_NUM_WORKERS-unset} ${TOPORUN_SHIM_PLAN-removed}"
        seen = set()
        for options in ([], ["-genvlist", "PATH"], ["-genvnone"]):
            with self.subTest(options=options):
                done = self.run_command([TOPORUN, *self.hydra(*options, "-n", "2", "/bin/sh", "-c", script)])
                self.assertEqual(done.returncode, 0, done)
                seen.update(done.stdout.splitlines())
        self.assertEqual(len(seen), 1, seen)
        self.assertTrue(seen.pop().endswith(b" removed"))

    def test_two_programs_and_their_variables(self):
        words = self.hydra("-n", "1", "-env", "A", "1", "sh", "-c", "echo first$A", ":",
                           "-n", "1", "sh", "-c", "echo second$A")
        done = self.run_command([TOPORUN, *words])
        self.assertEqual(sorted(done.stdout.split()), [b"first1", b"second"], done)
        self.assertEqual(len(self.ranks()), 2)

    def test_a_signal_reaches_each_rank_as_often_as_without_toporun(self):
        def run(prefix):
            record = harness.Record(self)
            command = [*prefix, *self.hydra("-n", "1", harness.RECORD_SIGNALS, record.path)]
            running = self.start(command)
            record.wait_for("ready")
            os.kill(running.pid, signal.SIGUSR1)
            record.wait_for("USR1")
            for pid in self.left_overs():
                if harness.read_file(f"/proc/{pid}/comm").startswith(b"record_signals"):
                    os.kill(pid, signal.SIGUSR2)
            return running.finish().returncode, record.counts()
        self.compare_runs(run)


@unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
class TorchrunProgram(Case):
    def torchrun(self, *words):
        return ["torchrun", "--nproc_per_node=2", f"--master_port={harness.free_port()}", "--no_python",
                *words]

    def test_exit_status_and_output(self):
        for script in ("exit 3", "echo a; exit 0"):
            with self.subTest(script=script):
                self.compare(self.torchrun("sh", "-c", script))

    def test_a_program_that_cannot_run(self):
        self.compare(self.torchrun("no-such-program-here"))

    def test_each_rank_is_recorded(self):
        done = self.run_command([TOPORUN, *self.torchrun("sh", "-c", "echo $RANK,$TOPORUN_SHIM_PLAN,")])
        self.assertEqual(sorted(done.stdout.split()), [b"0,,", b"1,,"], done)
        report = self.run_command([TOPORUN, "report", "--json"])
        self.assertEqual(sorted(rank["rank"] for rank in json.loads(report.stdout)["ranks"]), [0, 1])


@unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
class FrontEnds(Case):
    """Programs that start torchrun for themselves, as their sources do: by name, with their own environment."""
    FRONT_END = """
import os, subprocess, sys
count = os.environ.get("NPROC_PER_NODE", "2")
words = ["torchrun", "--nproc_per_node", count, "--master_port", os.environ["MASTER_PORT"], "t.py",
         *[word for word in sys.argv[2:] if not word.startswith("-")]]
sys.exit(subprocess.run(words, env=os.environ.copy()).returncode)
"""

    RUNNER = """
import runpy, sys
sys.argv = sys.argv[3:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

    def setUp(self):
        super().setUp()
        with open("/usr/bin/torchrun", encoding="ascii") as file:
            interpreter = file.readline().rstrip()
        for name in ("llamafactory-cli", "swift", "xtuner", "axolotl", "trl", "coverage"):
            path = os.path.join(self.work, "bin", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(interpreter + (self.RUNNER if name == "coverage" else self.FRONT_END))
            os.chmod(path, 0o755)
        with open(os.path.join(self.work, "t.py"), "w", encoding="ascii") as file:
            file.write("import os, sys\nsys.stdout.write(os.environ['RANK'] + sys.argv[1] + '\\n')\n"
                       "sys.exit(len(sys.argv) - 2)\n")

    def run_both(self, words, **variables):
        variables = self.variables(PATH=f"{self.work}/bin:/usr/bin:/bin", **variables)
        return [self.run_command([*prefix, *words], env=variables | {"MASTER_PORT": str(harness.free_port())})
                for prefix in harness.PREFIXES]

    def test_their_ranks_are_recorded(self):
        for words, variables in ((["llamafactory-cli", "train"], {}), (["swift", "sft"], {"NPROC_PER_NODE": "2"}),
                                 (["xtuner", "train"], {"NPROC_PER_NODE": "2"}),
                                 (["axolotl", "train", "--launcher=torchrun"], {}),
                                 (["trl", "sft", "--num_processes=2"], {}),
                                 (["coverage", "run", "-m", "torch.distributed.run", "--nproc_per_node=2",
                                   f"--master_port={harness.free_port()}", "t.py"], {})):
            with self.subTest(words=words):
                bare, done = self.run_both([*words, "x"], **variables)
                self.assertEqual((bare.returncode, sorted(bare.stdout.split())), (0, [b"0x", b"1x"]), bare)
                self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, [b"0x", b"1x"]), done)
                report = json.loads(self.run_command([TOPORUN, "report", "--json"]).stdout)
                self.assertEqual(sorted(rank["rank"] for rank in report["ranks"]), [0, 1], report["ranks"])

    def test_exit_status(self):
        bare, done = self.run_both(["llamafactory-cli", "train", "x", "y"])
        self.assertEqual((bare.returncode, done.returncode), (1, 1), done)


class StepsAside(Case):
    """A toporun that another one has put in front of a launcher on each node, as in `toporun srun torchrun`."""
    REFUSED = (["--profile=/no/such.toml"], ["--no-such-option"], ["--bind=x"], ["--report-wait=-1"])

    def test_a_refusal_does_not_stop_the_command(self):
        for words in self.REFUSED:
            with self.subTest(words=words):
                command = ["--", "sh", "-c", "echo a; exit 3"]
                done = self.run_command([TOPORUN, "--step-aside", *words, *command])
                self.assertEqual((done.returncode, done.stdout), (3, b"a\n"), done)
                self.assertIn(b"the command runs as typed", done.stderr)
                for refused in ([TOPORUN, *words, *command], [TOPORUN, "--step-aside", "--strict", *words, *command]):
                    done = self.run_command(refused)
                    self.assertEqual((done.returncode, done.stdout), (125, b""), done)

    def test_otherwise_it_is_as_any_other(self):
        done = self.run_command([TOPORUN, "--step-aside", "--", "sh", "-c", "echo $NCCL_DEBUG; exit 3"])
        self.assertEqual((done.returncode, done.stdout), (3, b"INFO\n"), done)
        self.assertEqual(self.run_command([TOPORUN, "--step-aside"]).returncode, 0)
        self.assertEqual(self.run_command([TOPORUN, "--step-aside", "--profile=/no/such.toml"]).returncode, 125)

    def test_in_front_of_srun_files_are_read_and_named_by_whole_paths(self):
        programs = os.path.join(self.work, "bin")
        os.mkdir(programs)
        for name in ("srun", "torchrun"):
            path = os.path.join(programs, name)
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
            os.chmod(path, 0o755)
        with open(os.path.join(self.work, "p.toml"), "w", encoding="ascii") as file:
            file.write('name = "mine"\ntitle = "of the test"\n[match]\nvendor = "nobody"\n')
        words = ["srun", "-N2", "--ntasks-per-node=1", "torchrun", "t.py"]
        variables = self.variables(PATH=f"{programs}:/usr/bin:/bin")
        done = self.run_command([TOPORUN, "--profile", "missing.toml", *words], env=variables)
        self.assertEqual((done.returncode, done.stdout), (125, b""), done)
        done = self.run_command([TOPORUN, "--profile", "p.toml", "--run-dir=reports", *words], env=variables)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(done.returncode, 0, done)
        for option in (f"--profile={self.work}/p.toml", f"--run-dir={self.work}/reports"):
            self.assertIn(option, lines)


class Prefixes(Case):
    def test_the_ranks_behind_a_prefix_are_recorded(self):
        for prefix in (["env", "A=1"], ["timeout", "60"], ["nice", "-n", "1"], ["setsid", "-w"]):
            with self.subTest(prefix=prefix):
                words = [*prefix, "mpirun", "--oversubscribe", "-np", "2", "sh", "-c",
                         "echo $OMPI_COMM_WORLD_SIZE$A"]
                bare = self.run_command(words)
                wrapped = self.run_command([TOPORUN, "--", *words])
                self.assertEqual((bare.returncode, bare.stdout), (wrapped.returncode, wrapped.stdout))
                self.assertEqual(bare.returncode, 0, bare)
                report = self.run_command([TOPORUN, "report", "--json"])
                self.assertEqual(len(json.loads(report.stdout)["ranks"]), 2, wrapped)

    def test_a_variable_that_env_gives_is_the_users(self):
        done = self.run_command([TOPORUN, "--dry-run", "--json", "--", "env", "OMP_NUM_THREADS=3", "mpirun", "-np",
                                 "2", "true"])
        settings = {s["name"]: s for s in json.loads(done.stdout)["settings"]}
        self.assertEqual(settings["OMP_NUM_THREADS"]["origin"], "user")

    def test_an_emptied_environment_gets_the_variables_as_words(self):
        done = self.run_command([TOPORUN, "--", "env", "-i", "PATH=/usr/bin:/bin", "sh", "-c", "echo $TOPORUN_ACTIVE"])
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done)


@unittest.skipIf(NO_HYDRA, NO_HYDRA)
class Detections(HydraHelpers, Case):
    """The machine is looked at once for all ranks that one toporun starts, however many there are. By Hydra: Open MPI
    4.1 itself waits forever, now and then, for 64 programs that end at once."""

    def looks(self, ranks):
        calls = os.path.join(self.directory, "calls")
        done = self.run_command([TOPORUN, *self.hydra("-n", str(ranks), "sh", "-c", "echo $PMI_RANK")],
                                env=self.variables(TOPORUN_NVML_LIBRARY=harness.COUNTING_NVML, TOPORUN_TEST_NVML_CALLS=calls))
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(sorted(int(number) for number in done.stdout.split()), list(range(ranks)))
        self.assertEqual(len(self.ranks()), ranks)
        size = os.path.getsize(calls)
        os.remove(calls)
        return size

    def test_sixty_four_ranks_at_once(self):
        one = self.looks(1)
        self.assertGreaterEqual(one, 1)
        self.assertEqual(self.looks(64), one)

    def test_sixty_four_toporuns_at_once(self):
        """toporun in front of each rank, behind a script or not: one looks for all, a later command anew."""
        calls = os.path.join(self.directory, "calls")
        toporun = f"{TOPORUN} -q sh -c 'echo $PMI_RANK'"
        for script, looks in ((toporun, 1), (f"{toporun}; :", 1), (f"{toporun}; [ $PMI_RANK != 1 ] || {toporun}", 2)):
            with self.subTest(script=script):
                done = self.run_command(self.hydra("-n", "64", "sh", "-c", script),
                                        env=self.variables(TOPORUN_NVML_LIBRARY=harness.COUNTING_NVML,
                                                           TOPORUN_TEST_NVML_CALLS=calls))
                self.assertEqual(done.returncode, 0, done)
                self.assertEqual({int(number) for number in done.stdout.split()}, set(range(64)))
                self.assertEqual(os.path.getsize(calls), looks)
                os.remove(calls)


class InFrontOfEachRank(Case):
    def test_one_of_a_node_speaks(self):
        hint = b"one in front of the launcher instead"
        for launcher in harness.mpi_launchers(3):
            with self.subTest(launcher=launcher[0]):
                done = self.run_command([*launcher, TOPORUN, "sh", "-c", "echo words"])
                self.assertEqual((done.returncode, done.stdout), (0, b"words\n" * 3), done)
                self.assertEqual([done.stderr.count(words) for words in (b"ended with 0", hint)], [1, 1], done.stderr)

    def test_variables_that_were_left_in_a_shell_do_not_count(self):
        left = {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        done = self.run_command([TOPORUN, "true"], env=self.variables(**left))
        self.assertIn(b"ended with 0", done.stderr)
        self.assertNotIn(b"a launcher starts", done.stderr)


class DryRun(Case):
    def test_a_launcher_that_is_not_installed_is_recognised(self):
        done = self.run_command([TOPORUN, "--dry-run", "jsrun", "-n", "2", "true"])
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(done.stdout.splitlines()[-1].split()[-4:], [b"jsrun", b"-n", b"2", b"true"])
        self.assertIn(b"recognised: jsrun", done.stderr)

    def test_the_ranks_are_those_of_the_plan(self):
        machine = os.path.join(os.path.dirname(__file__), "..", "data", "machines", "dgx-h100.toml")
        for words in (["--nproc-per-node=gpu"], []):
            done = self.run_command([TOPORUN, "--dry-run", "--machine", machine, "torchrun", *words, "t.py"])
            self.assertIn(b"recognised: torchrun, 1 node x 8 ranks", done.stderr, done)

    def test_launchers_that_count_the_gpus(self):
        """accelerate without a count and LLaMA-Factory start torchrun for two GPUs and more only."""
        for name in ("accelerate", "llamafactory-cli", "torchrun"):
            with open(os.path.join(self.work, name), "w", encoding="ascii") as file:
                file.write("#!/usr/bin/python3\n")
            os.chmod(os.path.join(self.work, name), 0o755)
        machine = os.path.join(os.path.dirname(__file__), "..", "data", "machines", "four-a6000.toml")
        inserted = b"program t.py; shim inserted"
        alone = b"variables only: on a single GPU LLaMA-Factory trains in its own process"
        for gpus, command, count, way in (("0", "accelerate launch t.py", b"1 rank", inserted),
                                          ("0,1", "accelerate launch t.py", b"2 ranks", inserted),
                                          ("0,1", "accelerate launch --multi_gpu t.py", b"2 ranks", b"PYTHON_EXEC"),
                                          ("0", "llamafactory-cli train t.yaml", b"1 rank", alone),
                                          ("0,1", "llamafactory-cli train t.yaml", b"2 ranks", b"PYTHON_EXEC"),
                                          ("0", "env FORCE_TORCHRUN=1 llamafactory-cli train t.yaml", b"1 rank",
                                           b"PYTHON_EXEC")):
            with self.subTest(gpus=gpus, command=command):
                variables = self.variables(PATH=f"{self.work}:/usr/bin:/bin", CUDA_VISIBLE_DEVICES=gpus)
                done = self.run_command([TOPORUN, "--dry-run", "--machine", machine, *command.split()], env=variables)
                line = next(line for line in done.stderr.splitlines() if b"recognised: " in line)
                self.assertIn(b"1 node x " + count + b",", line)
                self.assertIn(way, line)
                self.assertEqual(b"PYTHON_EXEC=" in done.stdout, way == b"PYTHON_EXEC", done.stdout)

    def test_what_each_nodes_toporun_fills_in_is_no_fault_of_the_line(self):
        for name in ("srun", "torchrun", "accelerate"):
            with open(os.path.join(self.work, name), "w", encoding="ascii") as file:
                file.write("#!/usr/bin/python3\n")
            os.chmod(os.path.join(self.work, name), 0o755)
        allocation = {"SLURM_JOB_ID": "5", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "2"}
        alone = b"[launcher-alone-per-node]"
        for command, variables, wanted in (
                ("srun -N2 --ntasks-per-node=1 torchrun t.py", {}, b"nothing found"),
                ("srun -N2 --ntasks-per-node=1 torchrun t.py", allocation, b"nothing found"),
                ("srun torchrun t.py", allocation, b"nothing found"),
                ("srun torchrun --standalone t.py", allocation, alone), ("srun accelerate launch t.py", allocation, alone)):
            with self.subTest(command=command, variables=variables):
                done = self.run_command([TOPORUN, "--preflight-only", *command.split()],
                                        env=self.variables(PATH=f"{self.work}:/usr/bin:/bin", **variables))
                self.assertIn(wanted, done.stdout)

    def test_variables_in_front_get_a_hint(self):
        done = self.run_command([TOPORUN, "--dry-run", "NCCL_DEBUG=INFO", "torchrun", "t.py"])
        self.assertEqual(done.returncode, 127, done)
        self.assertIn(b"toporun -- env NCCL_DEBUG=INFO", done.stderr)

    def test_the_printed_command_does_what_the_run_does(self):
        words = ["mpirun", "--oversubscribe", "-np", "2", "sh", "-c", "echo \"$TOPORUN_ACTIVE it's\""]
        done = self.run_command([TOPORUN, "--dry-run", *words])
        pasted = self.run_command(["sh", "-c", done.stdout.decode()])
        run = self.run_command([TOPORUN, *words])
        self.assertEqual((pasted.returncode, pasted.stdout), (run.returncode, run.stdout), pasted)
        self.assertEqual(run.stdout, b"1 it's\n" * 2)


if __name__ == "__main__":
    harness.main()
