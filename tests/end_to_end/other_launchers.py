"""deepspeed and horovodrun with other hosts. Neither is installed where the tests run: stand-ins with their command
lines take the same way to the hosts, by their own rules of quoting (deepspeed/launcher/multinode_runner.py, PDSHRunner,
and launch.py; horovod/runner/gloo_run.py)."""

import json
import os
import shutil
import sys
import unittest

import harness
from harness import TOPORUN, Case
from other_hosts import HostHelpers, no_host_names

DEEPSPEED = """import argparse, os, subprocess, sys
parser = argparse.ArgumentParser()
parser.add_argument("-H", "--hostfile")
parser.add_argument("--launcher", default="pdsh")
for name in ("--no_python", "--no_local_rank", "--module"):
    parser.add_argument(name, action="store_true")
parser.add_argument("user_script")
parser.add_argument("user_args", nargs=argparse.REMAINDER)
args = parser.parse_args()
def quoted(word):
    if "QUOTES" == "double":
        return f'"{word}"' if " " in word else word
    return word if word.startswith("-") else f"'{word}'"
with open(args.hostfile) as file:
    hosts = [line.split()[0] for line in file]
running = []
for node, host in enumerate(hosts):
    words = [f"cd {os.path.abspath('.')};", sys.executable, "-u", "NODE", f"--node_rank={node}", f"--nodes={len(hosts)}"]
    words += [name for name in ("--no_python", "--no_local_rank", "--module") if getattr(args, name[2:])]
    words += [args.user_script] + [quoted(word) for word in args.user_args]
    running.append(subprocess.Popen(["SSH", host, *words]))
sys.exit(max(process.wait() for process in running))
"""
NODE = """import argparse, os, subprocess, sys
parser = argparse.ArgumentParser()
parser.add_argument("--node_rank", type=int)
parser.add_argument("--nodes", type=int)
for name in ("--no_python", "--no_local_rank", "--module"):
    parser.add_argument(name, action="store_true")
parser.add_argument("training_script")
parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
args = parser.parse_args()
running = []
for local in range(2):
    words = [] if args.no_python else [sys.executable, "-u"] + (["-m"] if args.module else [])
    words += [args.training_script] + ([] if args.no_local_rank else [f"--local_rank={local}"])
    variables = dict(os.environ, RANK=str(2 * args.node_rank + local), WORLD_SIZE=str(2 * args.nodes),
                     LOCAL_RANK=str(local), LOCAL_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    running.append(subprocess.Popen(words + args.training_script_args, env=variables))
sys.exit(max(process.wait() for process in running))
"""
HOROVODRUN = """import argparse, os, re, shlex, subprocess, sys
parser = argparse.ArgumentParser()
parser.add_argument("-np", type=int)
parser.add_argument("-H")
parser.add_argument("command", nargs=argparse.REMAINDER)
args = parser.parse_args()
export = " ".join(f"{name}={shlex.quote(value)}" for name, value in os.environ.items()
                  if re.fullmatch(r"\\w+", name) and not name.endswith("CUDA_VISIBLE_DEVICES"))
command = " ".join(shlex.quote(word) for word in args.command)
running, rank = [], 0
for part in args.H.split(","):
    host, slots = part.split(":")
    for local in range(int(slots)):
        place = f"HOROVOD_RANK={rank} HOROVOD_SIZE={args.np} HOROVOD_LOCAL_RANK={local} HOROVOD_LOCAL_SIZE={slots}"
        running.append(subprocess.Popen(["SSH", host, f"{place} {export} {command}"]))
        rank += 1
sys.exit(max(process.wait() for process in running))
"""
TRAIN = """import os, socket, sys
rank = os.environ.get("RANK") or os.environ.get("HOROVOD_RANK")
words = (socket.gethostname(), rank, os.environ.get("NCCL_DEBUG"), os.environ.get("OMP_NUM_THREADS"), sys.argv[1:])
sys.stdout.write(" ".join(map(str, words)) + "\\n")  # as a whole, though -u writes pieces
"""
WORDS = ["train.py", "--x", "a b", "--", "-y"]


class StandIns(HostHelpers):
    def setUp(self):
        super().setUp()
        self.tools = os.path.join(self.directory, "tools")
        os.mkdir(self.tools)
        self.environment["PATH"] = f"{self.tools}:{os.environ['PATH']}"
        with open(os.path.join(self.work, "train.py"), "w", encoding="ascii") as file:
            file.write(TRAIN)

    def write_tool(self, name, text, quotes="double"):
        path = os.path.join(self.tools, name)
        text = text.replace("SSH", self.ssh).replace("NODE", os.path.join(self.tools, "node.py"))
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!{sys.executable}\n{text.replace('QUOTES', quotes)}")
        os.chmod(path, 0o755)

    def rows(self, command):
        """host, rank, NCCL_DEBUG, OMP_NUM_THREADS and the script's arguments of each rank."""
        done = self.run_command(command)
        self.assertEqual(done.returncode, 0, done)
        return sorted(tuple(line.split(maxsplit=4)) for line in done.stdout.decode().splitlines())

    def check_hosts(self, command):
        """The same ranks on the same hosts with the same words as without toporun, and what each host chose."""
        bare = self.rows(command)
        rows = self.rows([TOPORUN, *command])
        self.assertEqual([(row[0], row[1], row[4]) for row in rows], [(row[0], row[1], row[4]) for row in bare])
        self.assertEqual([row[0] for row in rows], [self.name("a")] * 2 + [self.name("b")] * 2)
        self.assertEqual({row[2] for row in rows}, {"INFO"}, rows)
        self.assertNotIn("None", {row[3] for row in rows})
        for report in self.node_reports(2).values():
            self.assertEqual(len(report["ranks"]), 2)

    def without_shim(self):
        """toporun whose shim is gone when the launcher reaches a host."""
        copy = os.path.join(self.directory, "copy")
        shutil.copytree(os.path.dirname(TOPORUN), copy, symlinks=True,
                        ignore=lambda _, names: [name for name in names if not name.startswith("toporun")])
        with open(self.ssh, encoding="ascii") as file:
            text = file.read()
        with open(self.ssh, "w", encoding="ascii") as file:
            file.write(text.replace("#!/bin/sh\n", f"#!/bin/sh\nrm -f {copy}/toporun-shim\n"))
        return os.path.join(copy, "toporun")

    def dry_run(self, command):
        done = self.run_command([TOPORUN, "--dry-run", "--json", *command])
        return json.loads(done.stdout)


@unittest.skipIf(no_host_names(), no_host_names())
class Deepspeed(StandIns, Case):
    def setUp(self):
        super().setUp()
        self.write_tool("node.py", NODE)
        with open(os.path.join(self.work, "hosts"), "w", encoding="ascii") as file:
            file.write(f"{self.name('a')} slots=2\n{self.name('b')} slots=2\n")

    def command(self, *words, quotes="double"):
        self.write_tool("deepspeed", DEEPSPEED, quotes)
        return ["deepspeed", "--hostfile", "hosts", *words]

    def test_each_host_decides_whatever_deepspeed_quotes(self):
        for quotes in ("double", "single"):
            with self.subTest(quotes=quotes):
                self.check_hosts(self.command(*WORDS, quotes=quotes))
                shutil.rmtree(os.path.join(self.work, "toporun"))

    def test_the_local_rank_stands_where_deepspeed_puts_it(self):
        for words in (["train.py", "x"], ["--no_local_rank", "train.py", "x"], ["--module", "train", "x"],
                      ["--no_python", "--no_local_rank", sys.executable, "train.py", "x"]):
            with self.subTest(words=words):
                bare, wrapped = (self.rows([*prefix, *self.command(*words)]) for prefix in harness.PREFIXES)
                self.assertEqual([row[4] for row in wrapped], [row[4] for row in bare])

    def test_a_host_without_toporun_runs_the_script_as_it_is(self):
        command = self.command("train.py", "a b")
        bare = self.rows(command)
        self.assertEqual(self.rows([self.without_shim(), *command]), bare)

    def test_no_file_of_the_users_is_written(self):
        for path in (".deepspeed_env", "../home/.deepspeed_env"):
            with open(os.path.join(self.work, path), "w", encoding="ascii") as file:
                file.write("MINE=1\n")
        self.rows([TOPORUN, *self.command("train.py")])
        for path in (".deepspeed_env", "../home/.deepspeed_env"):
            self.assertEqual(harness.read_file(os.path.join(self.work, path)), b"MINE=1\n")

    def test_the_dry_run_says_what_reaches_the_hosts(self):
        shown = self.dry_run(self.command("train.py"))
        self.assertEqual(shown["rewrite"], "inserted")
        self.assertEqual(set(shown["exported"]), {"TOPORUN_ACTIVE"})
        self.assertIn("--no_local_rank", shown["command"])
        shown = self.dry_run(self.command("--launcher", "openmpi", "train.py"))
        self.assertEqual((shown["rewrite"], shown["command"][-1]), ("export-only", "train.py"))


@unittest.skipIf(no_host_names(), no_host_names())
class Horovodrun(StandIns, Case):
    def command(self, *words):
        self.write_tool("horovodrun", HOROVODRUN)
        return ["horovodrun", "-np", "4", "-H", self.hosts(), *words]

    def test_each_host_decides_for_its_ranks(self):
        self.check_hosts(self.command(sys.executable, *WORDS))

    def test_a_host_without_toporun_runs_the_program_as_it_is(self):
        command = self.command(sys.executable, *WORDS)
        bare = self.rows(command)
        self.assertEqual(self.rows([self.without_shim(), *command]), bare)

    def test_statuses_are_the_same(self):
        for words in (["sh", "-c", "exit 3"], ["no-such-program-here"]):
            with self.subTest(words=words):
                self.compare(self.command(*words))


if __name__ == "__main__":
    harness.main()
