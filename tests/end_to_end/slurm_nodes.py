"""Several nodes under a real Slurm: each decides for itself, leaves one file, and all make one report."""

import json
import os
import shlex
import unittest

import harness
from harness import TOPORUN, wait_until
from slurm_cluster import CPUS_PER_NODE, MISSING, NODES, SlurmCase

TASKS_PER_NODE = min(2, CPUS_PER_NODE)
NODE_FILE = r"^node-[01]-[a-z]{4}\.json$"
# Prints what a rank sees of itself: its place, its CPUs and the threads that were chosen.
RANK = ("import os; print(os.environ['SLURM_PROCID'], os.environ['SLURMD_NODENAME'], "
        "sorted(os.sched_getaffinity(0)), os.environ.get('OMP_NUM_THREADS'))")


class NodeHelpers:
    def report(self, *words):
        done = self.run_command([TOPORUN, "report", "--json", *words])
        self.assertEqual(done.returncode, 0, done)
        return json.loads(done.stdout)

    def assert_one_file_a_node(self, directory, nodes=len(NODES)):
        names = self.run_files(directory)
        files = [name for name in names if name.startswith("node-")]
        self.assertEqual(len(files), nodes, names)
        for name in files:
            self.assertRegex(name, NODE_FILE)
        self.assertEqual([name for name in names if not name.startswith(("node-", "nccl."))],
                         ["plan.toml", "report.json", "report.txt"])


@unittest.skipIf(MISSING, MISSING)
class Ranks(NodeHelpers, SlurmCase):
    def test_each_task_decides_within_its_mask(self):
        """srun toporun PROGRAM, several tasks a node: threads by the CPUs that Slurm gave the task."""
        options = ["-N2", f"--ntasks-per-node={TASKS_PER_NODE}"]
        bare = self.run_command(["srun", *options, "python3", "-c", RANK])
        done = self.run_command(["srun", *options, TOPORUN, "python3", "-c", RANK])
        self.assertEqual((bare.returncode, done.returncode), (0, 0), done)
        for before, after in zip(sorted(bare.stdout.splitlines()), sorted(done.stdout.splitlines())):
            before, after = before.decode(), after.decode()
            self.assertTrue(before.endswith(" None"), before)
            mask = before[before.index("["):before.index("]") + 1]
            self.assertEqual(after, f"{before[:-len('None')]}{len(json.loads(mask))}")
        report = self.report()
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(2 * TASKS_PER_NODE)))
        self.assertEqual([node["name"] for node in report["node_reports"]], list(NODES))
        self.assertEqual([node["tasks_ended"] for node in report["node_reports"]], [TASKS_PER_NODE] * 2)
        self.assert_one_file_a_node(self.run_directories()[0])

    def test_one_looks_at_the_machine_of_a_node(self):
        """64 tasks at once, 32 a node, on the few CPUs that there are."""
        calls = os.path.join(self.directory, "calls")
        options = ["-N2", "-n64", "--overcommit"]
        words = ["sh", "-c", "echo $SLURM_PROCID"]
        for form in ([TOPORUN, *words], ["sh", "-c", f"{TOPORUN} {shlex.join(words)}; :"]):
            done = self.run_command(["srun", *options, *form],
                                    env=self.variables(TOPORUN_NVML_LIBRARY=harness.COUNTING_NVML,
                                                       TOPORUN_TEST_NVML_CALLS=calls))
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(sorted(int(number) for number in done.stdout.split()), list(range(64)))
            self.assertEqual(os.path.getsize(calls), 2)
            os.remove(calls)

    def test_one_speaks_for_all(self):
        done = self.run_command(["srun", "-N2", f"--ntasks-per-node={TASKS_PER_NODE}", TOPORUN, "python3", "-c", "1"])
        self.assertLessEqual(len(done.own_lines()), 15, done)
        self.assertEqual(sum(b": ended with 0" in line for line in done.stderr.splitlines()), 1, done)

    def test_the_file_of_hosts_decides_on_the_ranks(self):
        """-m arbitrary: rank 0 on the second node. Its toporun leads, and the nodes keep their numbers."""
        hosts = os.path.join(self.work, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write("n2\nn1\n")
        script = 'echo "$SLURM_PROCID $SLURMD_NODENAME"'
        options = ["-N2", "-n2", "-m", "arbitrary"]
        bare = self.compare_forms(options, ["sh", "-c", script], env=self.variables(SLURM_HOSTFILE=hosts))
        self.assertEqual(sorted(bare.stdout.splitlines()), [b"0 n2", b"1 n1"])
        directory = next(name for name in self.run_directories() if name.startswith("sh-"))
        report = self.report(os.path.join("toporun", directory))
        self.assertEqual([(node["node"], node["name"]) for node in report["node_reports"]], [(0, "n1"), (1, "n2")])

    def test_several_programs(self):
        programs = os.path.join(self.work, "programs")
        with open(programs, "w", encoding="utf-8") as file:
            file.write(f"0 {TOPORUN} sh -c 'echo first'\n1 {TOPORUN} sh -c 'echo second; exit 3'\n")
        done = self.run_command(["srun", "-N2", "-n2", "--multi-prog", programs])
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (3, [b"first", b"second"]), done)
        report = self.report()
        self.assertEqual([node["status"] for node in report["node_reports"]], [0, 3])
        self.assertEqual(report["exit"]["status"], 3)
        with open(programs, "w", encoding="ascii") as file:
            file.write("0 echo first\n1 sh -c 'echo second; exit 3'\n")
        bare, outside = (self.run_command([*prefix, "srun", "-N2", "-n2", "--multi-prog", programs])
                         for prefix in harness.PREFIXES)
        self.assertEqual((bare.returncode, sorted(bare.stdout.split())), (3, [b"first", b"second"]), bare)
        self.assertEqual((outside.returncode, sorted(outside.stdout.split())), (3, [b"first", b"second"]), outside)

    def test_torchrun_on_each_node_binds_within_the_mask(self):
        if harness.torchrun_is_missing():
            self.skipTest(harness.torchrun_is_missing())
        worker = os.path.join(self.work, "worker.py")
        with open(worker, "w", encoding="ascii") as file:
            file.write("import os\nos.write(1, f\"{os.environ['RANK']} {os.environ['SLURMD_NODENAME']} "
                       "{sorted(os.sched_getaffinity(0))}\\n\".encode())\n")
        words = ["torchrun", "--nnodes=2", f"--nproc_per_node={TASKS_PER_NODE}", "--rdzv_id=1", "--rdzv_backend=c10d",
                 f"--rdzv_endpoint=127.0.0.1:{harness.free_port()}", worker]
        for cpus in sorted({1, CPUS_PER_NODE}):  # the last one is reported below
            options = ["-N2", "--ntasks-per-node=1", f"--cpus-per-task={cpus}"]
            variables = self.variables(GLOO_SOCKET_IFNAME="lo")
            masks = {}
            for name, prefix in (("bare", []), ("toporun", [TOPORUN])):
                done = self.run_command(["srun", *options, *prefix, *words], env=variables)
                self.assertEqual(done.returncode, 0, done)
                lines = sorted(line.decode().split(" ", 2) for line in done.stdout.splitlines())
                self.assertEqual([line[0] for line in lines], [str(i) for i in range(2 * TASKS_PER_NODE)])
                masks[name] = [set(json.loads(line[2])) for line in lines]
            for bare, bound in zip(masks["bare"], masks["toporun"]):
                self.assertEqual(len(bare), cpus)
                self.assertLessEqual(bound, bare)
        report = self.report()
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(2 * TASKS_PER_NODE)))
        self.assertEqual([len(node["ranks"]) for node in report["node_reports"]], [TASKS_PER_NODE] * 2)
        self.assertEqual({rank["bind"] for rank in report["ranks"]}, {"bound"} if TASKS_PER_NODE > 1 else {"kept"})
        self.assert_one_file_a_node(self.run_directories()[0])


@unittest.skipIf(MISSING, MISSING)
class JobScripts(NodeHelpers, SlurmCase):
    def script(self, line, *options):
        state, out, error = self.wait_for_job(self.submit(line + "\n", *options))
        return state, sorted(out.splitlines()), error

    def test_in_front_of_srun(self):
        """One node: the settings are those of the node, and each rank is bound within the mask of its task."""
        rank = f"python3 -c {shlex.quote(RANK)}"
        options = ["-N1", f"--ntasks-per-node={TASKS_PER_NODE}"]
        bare = self.script(f"srun {rank}", *options)
        state, lines, error = self.script(f"{TOPORUN} srun {rank}", *options)
        self.assertEqual((state, len(lines)), (bare[0], TASKS_PER_NODE), error)
        for before, after in zip(bare[1], lines):
            self.assertEqual(before.split(b"]")[0], after.split(b"]")[0])
            self.assertTrue(after.endswith(b" 1"), after)
        self.assertEqual(len(self.report()["ranks"]), TASKS_PER_NODE)

    def test_a_program_of_the_script_itself(self):
        state, lines, error = self.script(f"{TOPORUN} sh -c 'echo $SLURM_JOB_NUM_NODES'; {TOPORUN} true", "-N2")
        self.assertEqual((state, lines), ("COMPLETED", [b"2"]), error)
        self.assertEqual(len(self.run_directories()), 2)

    def test_two_commands_of_each_task(self):
        line = f"srun bash -c '{TOPORUN} sh -c \"exit 0\"; {TOPORUN} sh -c \"exit 4\"'"
        state, _, error = self.script(line, "-N2")
        self.assertEqual(state, "FAILED", error)
        first, second = self.run_directories()
        self.assertEqual(second, first + "-2")
        for directory, status in ((first, 0), (second, 4)):
            report = self.report(os.path.join("toporun", directory))
            self.assertEqual([node["status"] for node in report["node_reports"]], [status, status])

    def test_nothing_of_the_environment(self):
        """--export=NONE: not even PATH."""
        words = ["/bin/sh", "-c", "echo ${HOME-none} ${E2E_MARK-none}"]
        bare = self.compare_forms(["-N2", "--export=NONE"], words)
        self.assertEqual((bare.returncode, set(bare.stdout.splitlines())), (0, {b"none none"}))

    def test_libraries_that_do_not_fit(self):
        library = os.path.join(self.work, "libstdc++.so.6")
        with open(library, "wb") as file:
            file.write(b"no library")
        bare = self.compare_forms(["-N2", f"--export=ALL,LD_LIBRARY_PATH={self.work}"],
                                  ["sh", "-c", "echo $LD_LIBRARY_PATH; exit 7"])
        self.assertEqual(bare.returncode, 7)


@unittest.skipIf(MISSING, MISSING)
class Differences(NodeHelpers, SlurmCase):
    def test_nodes_that_differ_are_named_while_the_job_runs(self):
        """By the first node's toporun, 10 s after the start; the training notices nothing."""
        for name, version in zip(NODES, ("2.28.3", "2.27.5")):
            library = os.path.join(self.work, name, "libnccl.so.2")
            os.mkdir(os.path.join(self.work, name))
            os.symlink(f"libnccl.so.{version}", library)
            with open(library, "wb"):  # the name tells the version
                pass
        words = ("export LD_LIBRARY_PATH=$PWD/$SLURMD_NODENAME; "
                 f"exec {TOPORUN} sh -c 'until [ -e go ]; do sleep 0.1; done'")
        running = self.start(["srun", "-N2", "bash", "-c", words])
        wait_until(lambda: b"nodes differ" in running.stderr(), "the comparison of the nodes")
        with open(os.path.join(self.work, "go"), "w", encoding="ascii"):
            pass
        done = running.finish()
        self.assertEqual(done.returncode, 0, done)
        warnings = [line for line in done.own_lines("warning") if "nodes differ" in line]
        self.assertEqual(len(warnings), 1, done)
        self.assertIn("NCCL's version: 2.28.3 on n1; 2.27.5 on n2", warnings[0])
        finding = next(f for f in self.report()["findings"] if f["id"] == "nodes-differ-nccl")
        self.assertEqual(finding["severity"], "broken")
        self.assert_one_file_a_node(self.run_directories()[0])

    def test_equal_nodes(self):
        library = os.path.join(self.work, "libnccl.so.2")
        os.symlink("libnccl.so.2.28.3", library)
        with open(library, "wb"):  # found at once: a search of Python's places ends after 20 ms on each node
            pass
        done = self.run_command(["srun", "-N2", f"--export=ALL,LD_LIBRARY_PATH={self.work}", TOPORUN, "sh", "-c",
                                 "exit 0"])
        self.assertEqual(done.returncode, 0, done)
        text = self.run_command([TOPORUN, "report"]).stdout
        self.assertIn(b"2 of 2 nodes ended", text)
        self.assertIn(b"2 nodes agree", text)
        self.assertEqual([f for f in self.report()["findings"] if f["id"].startswith("nodes-differ")], [])

    def test_directories_that_are_not_shared(self):
        """Each node has a report of its own, which says that it is not the whole."""
        words = f"mkdir $SLURMD_NODENAME && cd $SLURMD_NODENAME && {TOPORUN} sh -c 'exit $SLURM_NODEID'"
        done = self.run_command(["srun", "-N2", "bash", "-c", words])
        self.assertEqual(done.returncode, 1, done)
        for status, name in enumerate(NODES):
            done = self.run_command([TOPORUN, "report", "--json"], cwd=os.path.join(self.work, name))
            report = json.loads(done.stdout)
            self.assertEqual(report["exit"]["status"], status)
            self.assertEqual([node["name"] for node in report["node_reports"]], [name])
            self.assertIn("1 of 2 nodes are not in this report", report["notes"][-1])

    def test_a_directory_that_cannot_be_written(self):
        """The run goes on as without toporun, on each node."""
        blocked = os.path.join(self.work, "blocked")
        with open(blocked, "w", encoding="ascii"):
            pass
        for words in (["--run-dir", os.path.join(blocked, "x")], []):
            done = self.run_command(["srun", "-N2", f"--export=ALL,HOME={blocked}", TOPORUN, *words, "sh", "-c",
                                     "echo here; exit 6"])
            self.assertEqual((done.returncode, done.stdout), (6, b"here\nhere\n"), done)


@unittest.skipIf(MISSING, MISSING)
class Gpus(NodeHelpers, SlurmCase):
    SCRIPT = ["sh", "-c", 'echo "$SLURM_PROCID $SLURM_LOCALID $CUDA_VISIBLE_DEVICES"']

    def test_one_task_for_each_gpu(self):
        self.need_gpus()
        bare = self.compare_forms(["-N2", f"--ntasks-per-node={TASKS_PER_NODE}", f"--gpus-per-node={TASKS_PER_NODE}"],
                                  self.SCRIPT)
        self.assertEqual(len(bare.stdout.splitlines()), 2 * TASKS_PER_NODE)

    def test_a_gpu_for_each_task(self):
        """--gpus-per-task: every task sees one GPU, which toporun names before the start."""
        self.need_gpus()
        options = ["-N2", f"--ntasks-per-node={TASKS_PER_NODE}", "--gpus-per-task=1"]
        bare = self.compare_forms(options, self.SCRIPT)
        self.assertEqual(len(bare.stdout.splitlines()), 2 * TASKS_PER_NODE)
        for form in ("inside", "outside"):
            done = self.run_command(self.forms(options, self.SCRIPT)[form])
            self.assertEqual(sum("one GPU per task" in line for line in done.own_lines("warning")), 1, done)


if __name__ == "__main__":
    harness.main()
