"""The command line: wrong usage, help, and what goes to which stream."""

import json
import os
import re
import unittest

import harness
from harness import TOPORUN, Case

SUBCOMMANDS = ("detect", "env", "doctor", "report", "profiles")


class WrongUsage(Case):
    def test_prefix_form_fails_with_125_before_the_start(self):
        for option, suggestion in (("--dryrun", b"--dry-run"), ("--quite", b"--quiet"), ("--zzz", None),
                                   ("-Z", None), ("--measure=sometimes", None), ("--comm-limit=many", None)):
            with self.subTest(option=option):
                done = self.run_command([TOPORUN, option, "sh", "-c", "echo started"])
                self.assertEqual((done.returncode, done.stdout), (125, b""), done)
                self.assertEqual(len(done.own_lines("error")), 1, done)
                self.assertIn(option.partition("=")[0].encode(), done.stderr)
                if suggestion:
                    self.assertIn(b"did you mean '" + suggestion, done.stderr)

    def test_an_option_without_its_value(self):
        self.assertEqual(self.run_command([TOPORUN, "--run-dir"]).returncode, 125)

    def test_subcommands_fail_with_2(self):
        for subcommand in SUBCOMMANDS:
            with self.subTest(subcommand=subcommand):
                done = self.run_command([TOPORUN, subcommand, "--jsn"])
                self.assertEqual((done.returncode, done.stdout), (2, b""), done)
                self.assertIn(b"did you mean '--json'?", done.stderr)

    def test_subcommands_with_input_that_cannot_be_read(self):
        for arguments in (["detect", "--machine", "/no/such/file"], ["env", "--machine", "/etc/passwd"],
                          ["doctor", "--from", "/no/such/file"], ["detect", "--from", "/etc/passwd"],
                          ["env", "--format", "xml"], ["report", "/no/such/directory"], ["report"]):
            with self.subTest(arguments=arguments):
                done = self.run_command([TOPORUN, *arguments])
                self.assertEqual((done.returncode, done.stdout), (2, b""), done)
                self.assertEqual(len(done.own_lines("error")), 1, done)

    def test_escape_sequences_of_the_user_do_not_reach_the_terminal(self):
        for arguments in (["--\x1b[31m"], ["\x1b[31m"], ["detect", "--\x1b]0;x\x07"]):
            with self.subTest(arguments=arguments):
                done = self.run_command([TOPORUN, *arguments])
                self.assertNotIn(b"\x1b", done.stderr)
                self.assertNotEqual(done.returncode, 0)


class NumbersAndOrders(Case):
    def refused(self, *words):
        done = self.run_command([TOPORUN, *words])
        self.assertEqual((done.returncode, done.stdout), (2, b""), done)
        return " ".join(done.own_lines("error"))

    def test_numbers_that_make_no_sense_are_refused(self):
        self.assertIn("--ranks-per-node must be at most 4096", self.refused("env", "--ranks-per-node", "1000000"))
        self.assertIn("--nodes must be at most 65536", self.refused("env", "--nodes", "100000000"))
        for version in ("2.28.9.1.1", "99.99.99", "2", "2.x"):
            with self.subTest(version=version):
                self.assertIn(f"'{version}' is no NCCL version", self.refused("env", "--nccl-version", version))

    def test_a_file_of_hosts_that_cannot_be_read_is_named_with_its_line(self):
        path = os.path.join(self.directory, "hosts")
        with open(path, "w", encoding="ascii") as file:
            file.write("n1\nn[2\n")
        self.assertIn(f"({path}:2)", self.refused("env", "--host-order", path))
        done = self.run_command([TOPORUN, "--host-order", path, "sh", "-c", "exit 7"])
        self.assertEqual(done.returncode, 7, done)
        self.assertIn(f"({path}:2)", done.stderr.decode())

    def test_switches_in_a_circle_are_named(self):
        path = os.path.join(self.directory, "topology.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2 Switches=a\n")
        for words in (["env", "--host-order", path], ["env", "--host-order", path, "--format", "hosts"],
                      ["--host-order", path, "true"]):
            with self.subTest(words=words):
                done = self.run_command([TOPORUN, *words])
                self.assertEqual(done.returncode, 0, done)
                self.assertIn("stand in a circle", done.stderr.decode())


class Pipes(Case):
    """A pipe in the place of a file: one that somebody writes into is read, another is refused."""

    def pipe(self):
        path = os.path.join(self.directory, "pipe")
        os.mkfifo(path)
        return path

    def test_a_pipe_that_nobody_writes_into_does_not_hang(self):
        pipe = self.pipe()
        for words in (["--profile", pipe, "true"], ["--dry-run", "--machine", pipe, "true"],
                      ["env", "--machine", pipe], ["env", "--from", pipe], ["env", "--profile", pipe],
                      ["env", "--host-order", pipe], ["profiles", "check", pipe]):
            with self.subTest(words=words):
                done = self.run_command([TOPORUN, *words])
                self.assertIn(done.returncode, (2, 125), done)
                self.assertIn("it is a pipe that nobody writes into", done.stderr.decode())

    def test_the_command_runs_whatever_the_order_of_hosts_is_read_from(self):
        done = self.run_command([TOPORUN, "--host-order", self.pipe(), "sh", "-c", "exit 7"])
        self.assertEqual(done.returncode, 7, done)
        self.assertIn("it is a pipe that nobody writes into", done.stderr.decode())

    @unittest.skipUnless(os.access("/proc/kmsg", os.R_OK), "/proc/kmsg cannot be read")
    def test_a_file_of_the_kernel_that_has_no_end(self):
        done = self.run_command([TOPORUN, "env", "--from", "/proc/kmsg"])
        self.assertEqual(done.returncode, 2, done)

    def test_pipes_that_are_written_into(self):
        capture = os.path.join(self.directory, "matrix")
        with open(capture, "w", encoding="ascii") as file:
            file.write(harness.MATRIX)
        plain = self.run_command([TOPORUN, "detect", "--json", "--from", capture])
        self.assertEqual(plain.returncode, 0, plain)
        pipe = self.pipe()
        for script in ('cat "$1" | "$0" detect --json --from -', '"$0" detect --json --from - <"$1"',
                       'cat "$1" | "$0" detect --json --from /dev/stdin',
                       '"$0" detect --json --from <(cat "$1")',
                       'cat "$1" >"$2" & "$0" detect --json --from "$2"'):
            with self.subTest(script=script):
                done = self.run_command(["bash", "-c", script, TOPORUN, capture, pipe])
                self.assertEqual(done.returncode, 0, done)
                self.assertEqual(json.loads(done.stdout)["gpus"], json.loads(plain.stdout)["gpus"])

    def test_a_writer_that_takes_its_time(self):
        """It has the pipe open before toporun does, and writes when toporun waits for it."""
        pipe = self.pipe()
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(pipe, os.O_WRONLY)
        os.close(reader)
        running = self.start([TOPORUN, "env", "--from", pipe])

        def has_opened():
            folder = f"/proc/{running.pid}/fd"
            return any(os.path.realpath(os.path.join(folder, number)) == pipe for number in os.listdir(folder))
        harness.wait_until(has_opened, "toporun that waits")
        os.write(writer, harness.MATRIX.encode())
        os.close(writer)
        self.assertEqual(running.finish().returncode, 0)


class Help(Case):
    def test_without_arguments(self):
        done = self.run_command([TOPORUN])
        self.assertEqual((done.returncode, done.stdout), (125, b""))
        self.assertIn(b"toporun --help", done.stderr)

    def test_help_goes_to_standard_output(self):
        for arguments in (["--help"], ["-h"], *([name, "--help"] for name in SUBCOMMANDS)):
            with self.subTest(arguments=arguments):
                done = self.run_command([TOPORUN, *arguments])
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                self.assertTrue(done.stdout.startswith(b"usage: toporun"))

    def test_version(self):
        done = self.run_command([TOPORUN, "--version"])
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout.decode(), r"^toporun \d+\.\d+\.\d+\n$")

    def test_every_option_that_the_help_names_is_accepted(self):
        help_text = self.run_command([TOPORUN, "--help"]).stdout.decode()
        options = re.findall(r"^ {2}(?:-\w, | {4})(--[\w-]+)( [A-Z]+)?", help_text, re.MULTILINE)
        self.assertGreater(len(options), 12)
        values = {"PERCENT": "30", "HOW": "auto", "SECONDS": "1", "WHEN": "auto", "V": "2.28.9", "NAME": "NCCL_DEBUG",
                  "DIR": os.path.join(self.directory, "run")}
        files = {"--host-order": "node-a\n", "--profile": "name = \"p\"\ntitle = \"t\"\n[match]\ngpu_count = 99\n"}
        for option, placeholder in options:
            if option in ("--help", "--version", "--machine", "--from", "--dry-run", "--preflight-only"):
                continue
            if option in files:
                values["FILE"] = os.path.join(self.directory, "named")
                with open(values["FILE"], "w", encoding="utf-8") as file:
                    file.write(files[option])
            words = [option] + ([values[placeholder.strip()]] if placeholder else [])
            with self.subTest(option=option):
                done = self.run_command([TOPORUN, *words, "--dry-run", "true"])
                self.assertEqual(done.returncode, 0, done)


class Preflight(Case):
    TWO_NODES = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2"}

    def preflight(self, *words):
        return self.run_command([TOPORUN, "--preflight-only", "--json", *words],
                                env=self.variables(**self.TWO_NODES))

    def test_a_broken_line_is_named_and_not_started(self):
        done = self.preflight("srun", "torchrun", "--nnodes=2", "--node_rank=0", "touch", "started")
        self.assertEqual(done.returncode, 1, done)
        findings = {finding["id"]: finding for finding in json.loads(done.stdout)["findings"]}
        self.assertEqual(findings["node-rank-fixed"]["severity"], "broken")
        self.assertIn("--node-rank=$SLURM_NODEID", findings["node-rank-fixed"]["fix"])
        self.assertEqual(os.listdir(self.work), [])

    def test_a_command_that_is_right_is_not_started_either(self):
        done = self.preflight("touch", "started")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(os.listdir(self.work), [])

    def test_a_command_that_is_not_there(self):
        self.assertEqual(self.preflight("no-such-program").returncode, 127)


class DryRun(Case):
    def test_it_starts_nothing_and_leaves_nothing(self):
        done = self.run_command([TOPORUN, "--dry-run", "sh", "-c", "touch started"])
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(os.listdir(self.work), [])

    def test_the_printed_command_can_be_pasted(self):
        done = self.run_command([TOPORUN, "--dry-run", "printf", "%s|", "a b", "it's", ""])
        pasted = self.run_command(["sh", "-c", done.stdout.decode()])
        self.assertEqual((pasted.returncode, pasted.stdout), (0, b"a b|it's||"))

    def test_json(self):
        done = self.run_command([TOPORUN, "--dry-run", "--json", "mpirun", "-np", "2", "true"])
        run = json.loads(done.stdout)
        self.assertEqual(run["schema"], "toporun.run/1")
        for key in ("launcher", "prefixes", "program", "nodes", "ranks_per_node", "command", "exported",
                    "filled_in", "rewrite", "settings", "findings"):
            self.assertIn(key, run)
        self.assertEqual(run["rewrite"], "inserted")
        self.assertEqual(run["command"][0], "mpirun")

    def test_it_is_short_without_explain(self):
        done = self.run_command([TOPORUN, "--dry-run", "mpirun", "-np", "2", "true"])
        self.assertLessEqual(len(done.own_lines()), 5, done)

    def test_toporun_off_is_named(self):
        done = self.run_command([TOPORUN, "--dry-run", "touch", "started"], env=self.variables(TOPORUN="off"))
        self.assertEqual(os.listdir(self.work), [])
        self.assertEqual(len([line for line in done.own_lines() if "TOPORUN=off" in line]), 1, done)

    def test_explain_names_origin_and_reason(self):
        done = self.run_command([TOPORUN, "--dry-run", "--explain", "mpirun", "-np", "2", "true"])
        for name in (b"NCCL_P2P_LEVEL", b"NCCL_SOCKET_IFNAME", b"OMP_NUM_THREADS"):
            self.assertIn(name, done.stderr)


class Subcommands(Case):
    def test_detect(self):
        machine = json.loads(self.run_command([TOPORUN, "detect", "--json"]).stdout)
        self.assertEqual(machine["schema"], "toporun.machine/1")
        for key in ("gpus", "gpu_paths", "gpu_links", "nics", "gpu_nic_paths", "cpu", "limits", "software",
                    "notes"):
            self.assertIn(key, machine)
        self.assertTrue(any(nic["kind"] == "loopback" for nic in machine["nics"]))

    def test_a_saved_machine_reads_back_equal(self):
        saved = os.path.join(self.work, "machine.toml")
        self.assertEqual(self.run_command([TOPORUN, "detect", "--save", saved]).returncode, 0)
        first = self.run_command([TOPORUN, "detect", "--machine", saved, "--json"])
        again = os.path.join(self.work, "again.toml")
        self.run_command([TOPORUN, "detect", "--machine", saved, "--save", again])
        self.assertEqual(harness.read_file(saved), harness.read_file(again))
        self.assertEqual(json.loads(first.stdout)["schema"], "toporun.machine/1")

    def test_env_can_be_evaluated_by_a_shell(self):
        done = self.run_command(["sh", "-ec", 'eval "$("$0" env --ranks-per-node 2)"; echo "$OMP_NUM_THREADS"',
                                 TOPORUN])
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout.decode(), r"^\d+\n$")

    def test_env_formats(self):
        for name in ("sh", "json", "toml", "slurm"):
            with self.subTest(format=name):
                done = self.run_command([TOPORUN, "env", "--ranks-per-node", "1", "--format", name])
                self.assertEqual(done.returncode, 0, done)
                self.assertTrue(done.stdout)
        settings = json.loads(self.run_command([TOPORUN, "env", "--json"]).stdout)
        self.assertEqual(settings["schema"], "toporun.settings/1")
        for key in ("settings", "pairs", "ranks", "workers", "findings"):
            self.assertIn(key, settings)

    def test_report_shows_the_newest_run(self):
        self.run_command([TOPORUN, "sh", "-c", "exit 3"])
        text = self.run_command([TOPORUN, "report"])
        self.assertEqual(text.returncode, 0, text)
        report = json.loads(self.run_command([TOPORUN, "report", "--json"]).stdout)
        self.assertEqual(report["schema"], "toporun.report/1")
        self.assertEqual(report["exit"]["status"], 3)
        newest = os.path.realpath(os.path.join(self.work, "toporun", "latest"))
        self.assertEqual(self.run_command([TOPORUN, "report", newest]).stdout, text.stdout)

    def test_a_mistyped_subcommand_is_suggested(self):
        done = self.run_command([TOPORUN, "detct"])
        self.assertEqual(done.returncode, 127)
        self.assertIn(b"'detect'", done.stderr)

    def test_save_writes_through_what_is_no_file(self):
        fifo = os.path.join(self.directory, "fifo")
        os.mkfifo(fifo)
        reader = self.start(["cat", fifo])
        self.assertEqual(self.run_command([TOPORUN, "detect", "--save", fifo]).returncode, 0)
        self.assertIn(b"toporun.machine/1", reader.finish().stdout)
        target = os.path.join(self.directory, "target")
        link = os.path.join(self.directory, "link")
        os.symlink(target, link)
        with open(target, "w", encoding="ascii"):
            pass
        self.assertEqual(self.run_command([TOPORUN, "detect", "--save", link]).returncode, 0)
        self.assertTrue(os.path.islink(link) and os.path.getsize(target) > 0)

    def test_report_explains_lines_of_a_file_and_of_a_pipe(self):
        line = b"node-a:7:7 [0] NCCL INFO Using network IB\n"
        init = (b"node-a:7:7 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 1a000 "
                b"commId 0x2 - Init COMPLETE\n")
        path = os.path.join(self.work, "nccl.log")
        with open(path, "wb") as file:
            file.write(b"step 1\n" + line + init)
        done = self.run_command([TOPORUN, "report", "--explain", path])
        self.assertEqual((done.returncode, done.stderr), (0, b""), done)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], [b"step 1", line.strip()], done)
        self.assertTrue(lines[2].startswith(b"    = rank 3 (node-a, GPU 3): data between nodes goes over RDMA"), done)
        with open(path, "rb") as file:
            piped = self.run_command([TOPORUN, "report", "--explain", "--json", "-"], stdin=file)
        answer = json.loads(piped.stdout)
        self.assertEqual(answer["schema"], "toporun.explanation/1")
        # A pipe is read once: the rank is not known before its line.
        self.assertEqual([row["rank"] for row in answer["lines"]], [None, None, 3])
        self.assertEqual([row["kind"] for row in answer["lines"]], [None, "using_network", "init"])

    def test_report_takes_the_path_that_a_run_printed(self):
        self.run_command([TOPORUN, "sh", "-c", "exit 3"])
        path = os.path.join(self.work, "toporun", "latest", "report.txt")
        for words in ([path], [os.path.dirname(path)], []):
            done = self.run_command([TOPORUN, "report", *words])
            self.assertIn(b"ended with 3", done.stdout, done)

    def test_a_hostile_report_is_shown_without_its_escapes(self):
        os.mkdir(os.path.join(self.work, "run"))
        with open(os.path.join(self.work, "run", "report.txt"), "wb") as file:
            file.write(b"red \x1b[31m text\n")
        done = self.run_command([TOPORUN, "report", "run"])
        self.assertEqual(done.stdout, b"red \\x1b[31m text\n")
        os.remove(os.path.join(self.work, "run", "report.txt"))
        os.mkfifo(os.path.join(self.work, "run", "report.txt"))
        self.assertEqual(self.run_command([TOPORUN, "report", "run"]).returncode, 2)

    def test_report_reads_logs_of_others(self):
        log = os.path.join(self.directory, "job.log")
        with open(log, "wb") as file:
            file.write(b"0: a:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
                       b"0: a:1:1 [0] NCCL INFO Using network \x1b[31mIB\n")
        done = self.run_command([TOPORUN, "report", log, log, "--json"])
        self.assertEqual(done.returncode, 0, done)
        report = json.loads(done.stdout)
        self.assertEqual(report["nccl"]["versions"], ["2.28.9"])
        self.assertEqual(report["logs"], [log, log])
        text = self.run_command(["sh", "-c", f"{TOPORUN} report - <{log}"])
        self.assertIn(b"standard input", text.stdout)
        self.assertNotIn(b"\x1b", text.stdout)
        self.assertIn(b"## Log", self.run_command([TOPORUN, "report", "--format", "md", log]).stdout)
        for words in (["--format", "xml", log], [log, log + ".missing"]):
            failed = self.run_command([TOPORUN, "report", *words])
            self.assertEqual((failed.returncode, failed.stdout), (2, b""))
            self.assertIn(b"hint: ", failed.stderr)

    def test_a_named_run_directory_holds_the_last_run(self):
        named = os.path.join(self.directory, "named")
        for status in (3, 4):
            self.run_command([TOPORUN, "--run-dir", named, "sh", "-c", f"exit {status}"])
        done = self.run_command([TOPORUN, "report"], env=self.variables(TOPORUN_DIR=named))
        self.assertIn(b"ended with 4", done.stdout, done)



class TasksOfAStep(Case):
    """Tasks of a Slurm step of this machine's making."""

    def task(self, task, nodes, tasks, words):
        """`tasks` on each of the nodes; the place is told as Slurm does."""
        return self.start(words, env=self.variables(
            SLURM_JOB_ID="99", SLURM_STEP_ID="0", SLURM_STEP_NUM_NODES=str(nodes),
            SLURM_STEP_NUM_TASKS=str(nodes * tasks), SLURM_STEP_TASKS_PER_NODE=f"{tasks}(x{nodes})",
            SLURM_NODEID=str(task // tasks), SLURM_PROCID=str(task), SLURM_LOCALID=str(task % tasks),
            SLURMD_NODENAME=f"n{task // tasks}", TMPDIR=self.directory))

    def test_commands_beside_each_other_have_a_report_each_of_all_tasks(self):
        script = f"{TOPORUN} true; {TOPORUN} sh -c 'exit 3' & {TOPORUN} true; {TOPORUN} true; wait"
        tasks = [self.task(task, 1, 2, ["sh", "-c", script]) for task in (0, 1)]
        for task in tasks:
            task.finish(60)
        runs = {}
        for name in sorted(os.listdir(os.path.join(self.work, "toporun"))):
            if name != "latest":
                with open(os.path.join(self.work, "toporun", name, "report.json"), encoding="utf-8") as file:
                    report = json.load(file)
                runs[name] = (report["exit"]["status"], report["node_reports"][0]["tasks_ended"])
        self.assertEqual(runs, {"true-99.0": (0, 2), "true-99.0-2": (0, 2), "true-99.0-3": (0, 2),
                                "sh-99.0": (3, 2)})
        self.assertEqual([n for n in os.listdir(self.directory) if n.startswith("toporun-")], [])

    def test_slurm_is_not_asked_for_what_is_left_out(self):
        asked = os.path.join(self.directory, "asked")
        for name, script in (("getent", "exit 2"), ("scontrol", f"echo >>{asked}"), ("torchrun", "exit 0")):
            path = os.path.join(self.directory, name)
            with open(path, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(path, 0o755)
        self.environment.update(PATH=f"{self.directory}:/usr/bin:/bin", SLURM_STEP_NODELIST="n[0-1]")
        for options, expected in (([], True), (["--leave", "rendezvous"], False)):
            self.task(1, 2, 1, [TOPORUN, *options, "torchrun", "train.py"]).finish(60)
            self.assertEqual(os.path.exists(asked), expected)
            if expected:
                os.remove(asked)

    def test_a_node_without_a_run_directory_says_so_once(self):
        file = os.path.join(self.directory, "file")
        with open(file, "w", encoding="ascii"):
            pass
        for task, told in ((0, True), (1, False), (2, True), (3, False)):
            running = self.task(task, 2, 2, [TOPORUN, "--run-dir", file + "/below", "true"])
            done = running.finish(60)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(done.stderr.count(b"no run directory"), 1 if told else 0, done)
            self.assertEqual(b"n1: no run directory" in done.stderr, task == 2, done)


if __name__ == "__main__":
    harness.main()
