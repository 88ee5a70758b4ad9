"""toporun in front of an srun that starts ranks on several nodes: the first shim on each node decides there, a launcher
in place of the ranks gets a toporun on each node, and all make one report."""

import contextlib
import glob
import json
import os
import shlex
import shutil
import signal
import unittest

import harness
from harness import RECORD_SIGNALS, TOPORUN, Record, read_file, wait_until
from slurm_cluster import CPUS_PER_NODE, MISSING, NODES, SlurmCase

TASKS_PER_NODE = min(2, CPUS_PER_NODE)
RANKS = 2 * TASKS_PER_NODE
# What a rank sees of itself: its place, its CPUs, the threads that were chosen, whether NCCL's log was asked for.
RANK = ("import os; print(os.environ['SLURM_PROCID'], os.environ['SLURMD_NODENAME'], "
        "sorted(os.sched_getaffinity(0)), os.environ.get('OMP_NUM_THREADS'), os.environ.get('NCCL_DEBUG'))")
PLACE = ("import os; print(*[os.environ.get(name) for name in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', "
         "'LOCAL_WORLD_SIZE', 'SLURM_NODEID', 'MASTER_PORT')])")


class LaunchHelpers:
    def setUp(self):
        super().setUp()
        self.addCleanup(self.remove_node_directories)
        self.before = set(glob.glob("/tmp/toporun-node-*"))

    def remove_node_directories(self):
        """An observer that a test ended has left them."""
        for path in set(glob.glob("/tmp/toporun-node-*")) - self.before:
            if path.endswith(tuple(f"-{name}" for name in NODES)):
                shutil.rmtree(path, ignore_errors=True)

    def merged_report(self, ended, name="srun-*"):
        """The run's one report, once the last words of `ended` nodes are in it: observers write them after the run."""
        def merged():
            for path in glob.glob(os.path.join(self.work, "toporun", name, "report.json")):
                with contextlib.suppress(ValueError):
                    report = json.loads(read_file(path) or "{}")
                    if sum(row["tasks_ended"] for row in report.get("node_reports", [])) == ended:
                        return report
            return None
        return wait_until(merged, "one report of all nodes")

    def script(self, line, *options):
        state, out, error = self.wait_for_job(self.submit(line + "\n", *options))
        return state, sorted(out.splitlines()), error


@unittest.skipIf(MISSING, MISSING)
class Ranks(LaunchHelpers, SlurmCase):
    def check_ranks(self, bare, lines):
        """Masks are those of the bare command, or within them; settings are there on every node."""
        self.assertEqual(len(lines), len(bare))
        for before, after in zip(bare, lines):
            masks = [set(json.loads(line[line.index(b"["):line.index(b"]") + 1])) for line in (before, after)]
            self.assertEqual(before.split()[:2], after.split()[:2])
            self.assertLessEqual(masks[1], masks[0])
            self.assertTrue(before.endswith(b" None None"), before)
            self.assertEqual(after.split()[-1], b"INFO")
            self.assertEqual(int(after.split()[-2]), len(masks[1]))

    def test_in_a_job_script_the_first_node_is_the_launchers(self):
        options = ["-N2", f"--ntasks-per-node={TASKS_PER_NODE}"]
        rank = f"python3 -c {shlex.quote(RANK)}"
        bare = self.script(f"srun {rank}", *options)
        state, lines, error = self.script(f"{TOPORUN} srun {rank}", *options)
        self.assertEqual((bare[0], state), ("COMPLETED", "COMPLETED"), error)
        self.check_ranks(bare[1], lines)
        report = self.merged_report(2)
        self.assertEqual([(rank["rank"], rank["node"]) for rank in report["ranks"]],
                         [(i, i // TASKS_PER_NODE) for i in range(RANKS)])
        self.assertEqual([row["name"] for row in report["node_reports"]], list(NODES))
        self.assertEqual(report["exit"]["status"], 0)
        names = [name for name in self.run_files(self.run_directories()[0]) if name.startswith("node-")]
        self.assertEqual(len(names), 2, names)
        for name in names:
            self.assertRegex(name, r"^node-[01]-[a-z]{4}\.json$")
        self.assertNotIn("are not in this report", " ".join(report["notes"]))
        wait_until(lambda: not self.left_overs(), "end of the nodes' observers")

    def test_without_an_allocation_every_node_decides(self):
        """srun makes the allocation: this host is none of its nodes."""
        words = ["srun", "-N2", f"--ntasks-per-node={TASKS_PER_NODE}", "python3", "-c", RANK]
        bare, done = (self.run_command([*prefix, *words]) for prefix in harness.PREFIXES)
        self.assertEqual((bare.returncode, done.returncode), (0, 0), done)
        self.check_ranks(sorted(bare.stdout.splitlines()), sorted(done.stdout.splitlines()))
        report = self.merged_report(3)
        self.assertEqual([row["name"] for row in report["node_reports"][1:]], list(NODES))
        self.assertEqual([(rank["rank"], rank["node"]) for rank in report["ranks"]],
                         [(i, 1 + i // TASKS_PER_NODE) for i in range(RANKS)])
        self.assertEqual({rank["bind"] for rank in report["ranks"]} - {"not-planned", "kept"}, set())

    def test_ranks_are_bound_where_slurm_did_not(self):
        """--cpu-bind=none: each rank has all CPUs of the step."""
        words = ["srun", "-N2", f"--ntasks-per-node={TASKS_PER_NODE}", "--cpu-bind=none", "python3", "-c", RANK]
        done = self.run_command([TOPORUN, *words])
        self.assertEqual(done.returncode, 0, done)
        masks = {}
        for line in done.stdout.decode().splitlines():
            node = line.split()[1]
            masks.setdefault(node, []).append(set(json.loads(line[line.index("["):line.index("]") + 1])))
        for node in NODES:
            self.assertEqual(len(masks[node]), TASKS_PER_NODE)
            if TASKS_PER_NODE == CPUS_PER_NODE:
                self.assertEqual(sorted(len(mask) for mask in masks[node]), [1] * TASKS_PER_NODE)
                self.assertEqual(set().union(*masks[node]), set(range(CPUS_PER_NODE)))
        self.assertEqual({rank["bind"] for rank in self.merged_report(3)["ranks"]},
                         {"bound"} if TASKS_PER_NODE > 1 else {"not-planned"})

    def test_what_the_user_has_set_wins_on_every_node(self):
        words = ["srun", "-N2", f"--ntasks-per-node={TASKS_PER_NODE}", "sh", "-c", "echo $NCCL_DEBUG $OMP_NUM_THREADS"]
        done = self.run_command([TOPORUN, *words], env=self.variables(NCCL_DEBUG="WARN", OMP_NUM_THREADS="7"))
        self.assertEqual((done.returncode, done.stdout), (0, b"WARN 7\n" * RANKS), done)

    def test_nothing_of_the_environment(self):
        """--export=NONE: the shim has its words as options."""
        words = ["srun", "-N2", f"--ntasks-per-node={TASKS_PER_NODE}", "--export=NONE", "/bin/sh", "-c",
                 "echo ${HOME-none} ${E2E_MARK-none} ${NCCL_DEBUG-none}"]
        bare, done = (self.run_command([*prefix, *words]) for prefix in harness.PREFIXES)
        self.assertEqual((bare.returncode, bare.stdout), (0, b"none none none\n" * RANKS), bare)
        self.assertEqual((done.returncode, done.stdout), (0, b"none none INFO\n" * RANKS), done)

    def test_python_is_told_its_place(self):
        """By the step's variables, in every order of the ranks; one port for all."""
        hosts = os.path.join(self.work, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write("n2\nn1\n")
        for options, variables, expected in (
                (["-N2"], {}, ["0 2 0 1 0", "1 2 0 1 1"]),
                (["-N2", "-n4", "--overcommit"], {}, ["0 4 0 2 0", "1 4 1 2 0", "2 4 0 2 1", "3 4 1 2 1"]),
                (["-N2", "-n4", "--overcommit", "-m", "cyclic"], {},
                 ["0 4 0 2 0", "1 4 0 2 1", "2 4 1 2 0", "3 4 1 2 1"]),
                (["-n2", "-m", "arbitrary"], {"SLURM_HOSTFILE": hosts}, ["0 2 0 1 1", "1 2 0 1 0"])):
            with self.subTest(options=options):
                done = self.run_command([TOPORUN, "srun", *options, "python3", "-c", PLACE],
                                        env=self.variables(**variables))
                rows = [line.split() for line in sorted(done.stdout.decode().splitlines())]
                self.assertEqual([" ".join(row[:-1]) for row in rows], expected, done)
                self.assertEqual(len({row[-1] for row in rows} - {"None"}), 1, done)

    def test_a_relative_run_directory(self):
        """The observers of the nodes stand in another directory."""
        done = self.run_command([TOPORUN, "--run-dir=toporun/srun-own", "srun", "-N2", "true"])
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual([row["name"] for row in self.merged_report(3)["node_reports"][1:]], list(NODES))

    def test_observers_that_are_ended_with_the_step(self):
        """As Slurm does with what is left of a step when its last task ends: what a node knew when its first rank
        ended, here after its last one began, is in the report, and another run there removes what the observer could
        not: this one's own on this host, or the next."""
        go = os.path.join(self.work, "go")
        awaited = f"{self.work}/began-$((SLURM_PROCID + 1))"
        script = (f"if [ $SLURM_LOCALID = 0 ]; then awaited={awaited}; status=0; "
                  f"else : >{self.work}/began-$SLURM_PROCID; awaited={go}; status=3; fi; "
                  "until [ -e $awaited ]; do sleep 0.1; done; exit $status")
        running = self.start([TOPORUN, "srun", "-N2", "-n4", "--overcommit", "sh", "-c", script])

        def known():
            parts = glob.glob(os.path.join(self.work, "toporun", "srun-*", "node-[12]-*.part"))
            tasks = [task for part in parts for task in json.loads(read_file(part))["reports"]]
            return sorted(rank["rank"] for task in tasks for rank in task["report"]["ranks"])
        wait_until(lambda: known() == [0, 1, 2, 3], "what the nodes know")
        left = set(glob.glob("/tmp/toporun-node-*-n[12]")) - self.before
        self.assertEqual(len(left), len(NODES), left)
        for pid in self.left_overs():
            if read_file(f"/proc/{pid}/comm").startswith(b"toporun-observe") and \
                    b"SLURM_NODEID=" in read_file(f"/proc/{pid}/environ"):
                os.kill(pid, signal.SIGKILL)
        with open(go, "w", encoding="ascii"):
            pass
        done = running.finish()
        self.assertEqual(done.returncode, 3, done)
        report = self.merged_report(1)
        self.assertEqual(report["exit"]["status"], 3)
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1, 2, 3])
        self.assertEqual(self.run_command([TOPORUN, "srun", "-N2", "true"]).returncode, 0)
        wait_until(lambda: not any(os.path.exists(path) for path in left), "removal of what was left")

    def test_a_file_of_programs(self):
        """--multi-prog: each program behind the shim, words and %t, %o as they are; on two nodes and on one."""
        programs = os.path.join(self.work, "programs")
        with open(programs, "w", encoding="ascii") as file:
            file.write("# two kinds\n0,2 sh -c 'echo first $SLURMD_NODENAME ${NCCL_DEBUG-none} \"$@\"' sh %t %o it\\'s\n"
                       "*  sh -c 'echo second ${NCCL_DEBUG-none} $1; exit 3' sh a%o\n")
        words = ["srun", "-N2", "-n4", "--overcommit", "--multi-prog", "programs"]
        bare, done = (self.run_command([*prefix, *words]) for prefix in harness.PREFIXES)
        expected = sorted(line.replace(b"none", b"INFO") for line in bare.stdout.splitlines())
        self.assertEqual((bare.returncode, len(expected)), (3, 4), bare)
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (3, expected), done)
        report = self.merged_report(3)
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1, 2, 3])
        self.assertEqual(report["exit"]["status"], 3)
        with open(programs, encoding="ascii") as file:
            text = file.read()
        with open(programs, "w", encoding="ascii") as file:
            file.write(text.replace("0,2 ", "0 "))  # srun refuses a rank that the job does not have
        state, lines, error = self.script(f"{TOPORUN} srun -n2 --multi-prog programs", "-N1", "-n2", "--overcommit")
        self.assertEqual((state, lines), ("FAILED", [b"first n1 INFO 0 0 it's", b"second INFO a1"]), error)

    def test_two_programs_on_a_node_each(self):
        """`srun A : B`: both behind the shim. How many nodes that are is not known before: each writes its own report."""
        line = "srun -N1 -n1 sh -c 'echo A {0}' : -N1 -n1 sh -c 'echo B {0}; exit 3'".format(
            "$SLURMD_NODENAME $SLURM_PROCID ${NCCL_DEBUG-none}")
        bare, done = (self.script(f"{prefix} {line}", "-N2", "--ntasks-per-node=1") for prefix in ("", TOPORUN))
        self.assertEqual(bare[:2], ("FAILED", [b"A n1 0 none", b"B n2 1 none"]), bare)
        self.assertEqual(done[:2], ("FAILED", [b"A n1 0 INFO", b"B n2 1 INFO"]), done)

        def ranks():
            reports = glob.glob(os.path.join(self.work, "toporun", "srun-*", "node-*.json"))
            return sorted(rank["rank"] for path in reports for rank in json.loads(read_file(path))["ranks"])
        wait_until(lambda: ranks() == [0, 1], "the nodes' own reports")

    def test_the_job_has_the_programs_name(self):
        for words in (["srun", "-N2"], ["srun", "-N2", "-J", "mine"]):
            bare, done = (self.run_command([*prefix, *words, "sh", "-c", "echo $SLURM_JOB_NAME"])
                          for prefix in harness.PREFIXES)
            self.assertEqual((bare.returncode, bare.stdout), (done.returncode, done.stdout), done)

    def test_statuses_arguments_and_output(self):
        for words in (["sh", "-c", "exit 3"], ["sh", "-c", "exit $SLURM_PROCID"],
                      ["sh", "-c", "ulimit -c 0; kill -9 $$"], ["no-such-program-here"],
                      ["printf", "[%s]", "a b", "it's", "", "$HOME", "*", "--", "-x"]):
            with self.subTest(words=words):
                bare, done = (self.run_command([*prefix, "srun", "-N2", *words]) for prefix in harness.PREFIXES)
                self.assertEqual((bare.returncode, bare.stdout), (done.returncode, done.stdout), done)

    def after_the_look(self, toporun, words, spoil):
        """Runs toporun srun WORDS; spoil() is called once toporun has looked and before srun starts."""
        hold = os.path.join(self.directory, f"hold-{self.commands}")
        os.mkdir(hold)
        go = os.path.join(hold, "go")
        os.mkfifo(go)
        with open(os.path.join(hold, "srun"), "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nread x <{go}\nexec {shutil.which("srun")} "$@"\n')
        os.chmod(file.name, 0o755)
        running = self.start([toporun, file.name, *words])
        with open(go, "w", encoding="ascii") as file:
            spoil()
            file.write("go\n")
        return running.finish()

    def copy_of_toporun(self):
        tools = os.path.join(self.directory, f"tools-{self.commands}")
        os.mkdir(tools)
        for name in ("toporun", "toporun-shim"):
            shutil.copy2(os.path.join(os.path.dirname(TOPORUN), name), tools)
        return tools

    def test_a_program_that_cannot_run_on_the_nodes(self):
        """The file goes, or its right to run, after toporun has looked: srun's own status, with the shim and without."""
        for status, spoil in ((2, os.remove), (13, lambda path: os.chmod(path, 0o644))):
            for shim in (True, False):
                with self.subTest(status=status, shim=shim):
                    tools = self.copy_of_toporun()
                    program = os.path.join(tools, "program")
                    shutil.copy2("/bin/true", program)

                    def both(program=program, spoil=spoil, shim=shim, tools=tools):
                        spoil(program)
                        if not shim:
                            os.remove(os.path.join(tools, "toporun-shim"))
                    done = self.after_the_look(os.path.join(tools, "toporun"), ["-N2", program], both)
                    self.assertEqual((done.returncode, done.stdout), (status, b""), done)

    def test_a_node_without_the_shim_runs_the_program_as_it_is(self):
        tools = self.copy_of_toporun()
        done = self.after_the_look(os.path.join(tools, "toporun"), ["-N2", "printf", "%s|", "a b", "--", "c"],
                                   lambda: os.remove(os.path.join(tools, "toporun-shim")))
        self.assertEqual((done.returncode, done.stdout), (0, b"a b|--|c|" * 2), done)

    def test_signals_are_counted_once(self):
        """By scancel, on both nodes; and one that toporun gets for srun."""
        records = [Record(self) for _ in NODES]
        paths = " ".join(shlex.quote(record.path) for record in records)
        script = f'set -- {paths}; shift $SLURM_NODEID; exec {RECORD_SIGNALS} "$1" 5'
        running = self.start([TOPORUN, "srun", "-N2", "sh", "-c", script])
        for record in records:
            record.wait_for("ready")
        step = wait_until(lambda: self.cluster.ask("squeue", "-h", "-s", "-o", "%i"), "the step").split()[0]
        for name in ("USR1", "HUP", "TERM"):
            self.cluster.ask("scancel", "-s", name, step)
            for record in records:
                record.wait_for(name)
        self.cluster.ask("scancel", "-s", "USR2", step)
        self.assertEqual(running.finish().returncode, 5)
        for record in records:
            self.assertEqual(record.counts(), {"HUP": 1, "TERM": 1, "USR1": 1})
        report = self.merged_report(3)
        self.assertEqual(report["exit"]["status"], 5)


@unittest.skipIf(MISSING, MISSING)
class NodeLaunchers(LaunchHelpers, SlurmCase):
    def setUp(self):
        if harness.torchrun_is_missing():
            self.skipTest(harness.torchrun_is_missing())
        super().setUp()

    def test_torchrun_gets_a_toporun_on_each_node(self):
        worker = os.path.join(self.work, "worker.py")
        with open(worker, "w", encoding="ascii") as file:
            file.write("import os\nos.write(1, f\"{os.environ['RANK']} {os.environ['SLURMD_NODENAME']} "
                       "{os.environ.get('NCCL_DEBUG')} {sorted(os.sched_getaffinity(0))}\\n\".encode())\n")
        words = ["torchrun", "--nnodes=2", f"--nproc_per_node={TASKS_PER_NODE}", "--rdzv_id=1", "--rdzv_backend=c10d",
                 f"--rdzv_endpoint=127.0.0.1:{harness.free_port()}", worker]
        done = self.run_command([TOPORUN, "--bind=core", "srun", "-N2", "--ntasks-per-node=1",
                                 f"--cpus-per-task={CPUS_PER_NODE}", *words],
                                env=self.variables(GLOO_SOCKET_IFNAME="lo"))
        self.assertEqual(done.returncode, 0, done)
        rows = sorted(line.split(maxsplit=3) for line in done.stdout.decode().splitlines())
        self.assertEqual([row[0] for row in rows], [str(i) for i in range(RANKS)])
        self.assertEqual({row[2] for row in rows}, {"INFO"})
        self.assertLessEqual(len(done.own_lines()), 15, done)
        report = self.merged_report(2, "torchrun-*")
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(RANKS)))
        self.assertEqual([row["name"] for row in report["node_reports"]], list(NODES))
        self.assertEqual({rank["bind"] for rank in report["ranks"]}, {"bound"} if TASKS_PER_NODE > 1 else {"kept"})
        self.assertEqual(len(self.run_directories()), 1)


if __name__ == "__main__":
    harness.main()
