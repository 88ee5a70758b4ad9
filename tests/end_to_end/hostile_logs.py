"""`toporun report` on logs that want to do harm: nothing of them acts on a terminal, breaks JSON or
Markdown, or fills the memory."""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import TOPORUN, Case

# What a terminal, a browser or a reader of UTF-8 could act on.
PAYLOADS = {
    "colour": b"\x1b[31m",
    "unfinished escape": b"\x1b[",
    "title": b"\x1b]0;evil\x07",
    "clear and home": b"\x1b[2J\x1b[H",
    "device control": b"\x1bPq#0\x1b\\",
    "C1 in UTF-8": b"\xc2\x9b31m\xc2\x90",
    "C1 raw": b"\x9b31m",
    "bells and backspaces": b"\x07\x08\x08\x7f",
    "NUL": b"a\x00b",
    "vertical tab": b"\x0b\x0c",
    "carriage return": b"x\rtoporun: error: no",
    "invalid UTF-8": b"\xff\xfe\xc0\xaf\xed\xa0\x80\xf5",
    "unfinished UTF-8": b"\xe2\x82",
    "bidi": "\u202egnp.exe\u2066".encode(),
    "HTML": b"<script>alert(1)</script><img src=x>",
    "Markdown": b"](javascript:x) `a` |b| **c** # d",
    "JSON": b'"},"x":"\\u001b\\',
}

# A `%s` for the payload: every place from which a report takes words.
TEMPLATES = [
    b"node-a:1:1 [0] NCCL INFO NCCL version 2.28.9+%s",
    b"NCCL version 2.28.9+%s",
    b"node-a:1:1 [0] NCCL INFO Bootstrap: Using eth%s:10.0.0.1<0>",
    b"node-a:1:1 [0] NCCL INFO NET/Socket : Using [0]lo%s:127.0.0.1<0>",
    b"node-a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_%s:1/IB [RO]; OOB eth%s:10.0.0.1<0>",
    b"node-a:1:1 [0] NCCL INFO Using network So%scket",
    b"node-a:1:1 [0] NCCL INFO NET/Plugin: Loaded net plugin Fabric%s (v8)",
    b"node-a:1:1 [0] NCCL INFO TUNER/Plugin: Could not find: libx%s.so.",
    b"node-a:1:1 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to P%sIX",
    b"node-a:1:1 [0] NCCL INFO NCCL_IB_HCA set by the user's %s to mlx5",
    b"node-a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x10 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 "
    b"commId 0x7 - Init COMPLETE",
    b"node-b:2:2 [0] NCCL INFO ncclCommInitRank comm 0x20 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 "
    b"commId 0x7 - Init COMPLETE",
    b"node-a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via NET/Net%s/0/GDRDMA",
    b"node-a:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/%s",
    b"node-a:1:1 [0] NCCL INFO NET/OFI Selected Provider is e%sfa (found 4 nics)",
    b"node-a:1:1 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo R%sING proto SI%sMPLE channel{Lo..Hi}={0..1}",
    b"node-a:1:1 [0] NCCL INFO Al%slReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 1 datatype 7 op 0 root 0 "
    b"comm 0x10 [nranks=2] stream 0x1",
    b"node-a:1:1 [0] init%s.cc:904 NCCL WARN Duplicate %s GPU detected",
    b"node-a:1:1 [0] socket.cc:9 NCCL WARN socketStartConnect: Connect to 10.0.0.2<3%s> failed : Refused",
    b"node-a:1:1 [0] NCCL INFO Setting affinity for GPU 0 to ff%s",
    b"node-a:1:1 [0] NCCL INFO  %s | 1.0/ 2.0 | 3.0/ 4.0 |",
    b"no%sde-c:3:3 [0] NCCL INFO Using network IB",
    b"(RayWorker pid=3, ip=10.0.0.%s) RuntimeError: CUDA out of memory. Tried to allocate 1%s GiB",
    b"[rank0]: Traceback (most recent call last):",
    b'[rank0]:   File "/home/u/tr%sain.py", line 3, in main%s',
    b"[rank0]: KeyError: 'labels%s'",
    b"slurmstepd: error: *** STEP 1.%s ON node-%s CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
    b"The client socket has timed out after 3s while trying to connect to (node-%s, 29500)",
    b"#  Rank  0 Group  0 Pid  12 on node-%s device  0 [0000:1a:00] NVIDIA %s",
    b"%s",
]

# Runs a command and prints the most memory that it had resident, in KiB, as its last line. Linux counts
# what the parent had before exec to the child: this one has little.
MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print("\\n%d %d" % (os.waitstatus_to_exitcode(status), usage.ru_maxrss))
"""
MOST_KIB = 32 * 1024


def is_sanitized():
    with open(TOPORUN, "rb") as file:
        return b"__asan_init" in file.read()


class HostileLogs(Case):
    def log(self, name, data):
        path = os.path.join(os.fsencode(self.work), os.fsencode(name))
        with open(path, "wb") as file:
            file.write(data)
        return path

    def report(self, path, kind, *options):
        done = self.run_command([TOPORUN, "report", "--format", kind, *options, path])
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(done.stderr, b"", done)
        return done.stdout

    def assert_harmless(self, output):
        text = output.decode("utf-8")  # fails for invalid UTF-8
        harm = re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
        if harm:
            self.fail(f"{harm[0]!r} in {text[max(0, harm.start() - 100):harm.end() + 100]!r}")

    def check_formats(self, path, *options):
        for kind in ("text", "json", "md"):
            with self.subTest(format=kind, log=path, options=options):
                output = self.report(path, kind, *options)
                self.assert_harmless(output)
                if kind == "json":
                    json.loads(output)
                    self.assertTrue(output.isascii())
                if kind == "md":
                    self.assertNotIn(b"<script", output)
                    self.assertNotIn(b"<img", output)
                    self.assertNotRegex(output, rb"(?<!\\)\]\(javascript")

    def test_words_of_a_log_cannot_act(self):
        for name, payload in PAYLOADS.items():
            lines = [template.replace(b"%s", payload) for template in TEMPLATES]
            path = self.log(name, b"\n".join(lines) + b"\n")
            self.check_formats(path)
            self.check_formats(path, "--explain")
        # What is behind a carriage return or an escape must not be all that is looked at.
        text = self.report(self.log("all", b"\n".join(TEMPLATES).replace(b"%s", b"\xff\x1b[1m") + b"\n"), "text")
        self.assertIn(b"\\xff", text)

    def test_the_name_of_a_log_cannot_act(self):
        for name in ("\x1b[31mred\x1b]0;x\x07", "line\nend", "\udcff\udcfe", "\u202egnp", "<script>", "](javascript:x)"):
            path = self.log(name, b"node-a:1:1 [0] NCCL INFO Using network IB\n")
            self.check_formats(path)
            self.check_formats(path, "--explain")

    def test_lines_without_end_lose_nothing_but_themselves(self):
        long_one = b"node-a:1:1 [0] NCCL INFO Using network " + b"\x1b[31mx\0\xff" * 1_400_000 + b"\n"  # 10 MB
        after = b"node-a:1:1 [0] NCCL INFO Using network IB\n"
        path = self.log("long", long_one + after + b"\xff" * 10_000_000 + b"\n" + after + b"\0" * 10_000_000)
        self.check_formats(path)
        self.check_formats(path, "--explain")
        report = json.loads(self.report(path, "json"))
        self.assertEqual(report["nccl"]["networks"][-1], "IB")


class IncompleteLogs(Case):
    """What could not be read of the logs is said, and the rest is reported."""

    LINE = b"node-a:1:1 [0] NCCL INFO Using network IB\n"

    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.work, "logs"))
        self.write("base.log", self.LINE)

    def write(self, name, data):
        with open(os.path.join(self.work, "logs", name), "wb") as file:
            file.write(data)

    def damage(self, data):
        packed = bytearray(gzip.compress(data))
        packed[12] = 0x07  # a type of block that does not exist
        return bytes(packed)

    def reports(self, name):
        for options in (["--format", "text"], ["--format", "json"], ["--format", "md"], ["--explain"]):
            done = self.run_command([TOPORUN, "report", *options, name])
            self.assertEqual(done.returncode, 0, done)
            where = done.stderr if options == ["--explain"] else done.stdout
            if options[-1] == "json":
                where = "\n".join(json.loads(where)["notes"]).encode()
            yield options, done, where.replace(b"\\", b"")  # as Markdown has them

    def test_a_packed_file_that_is_cut(self):
        text = b"".join(b"step %d of all that is said\n" % (i * i) for i in range(1000))
        for lines, started in ((self.LINE + text, True), (text, False)):
            self.write("cut.gz", gzip.compress(lines)[:-2000])
            for options, done, where in self.reports("logs/cut.gz"):
                with self.subTest(options=options, started=started):
                    self.assertIn(b"'logs/cut.gz' ends early", where)

    def test_a_file_of_a_directory_that_is_damaged(self):
        self.write("bad.gz", self.damage(self.LINE))
        for options, done, where in self.reports("logs"):
            with self.subTest(options=options):
                self.assertIn(b"cannot read 'logs/bad.gz': the packed data are damaged: left out", where)
                self.assertIn(b"IB", done.stdout)
        for name in ("logs/bad.gz", "alone"):  # named itself; nothing else in the directory
            if name == "alone":
                os.mkdir(os.path.join(self.work, name))
                self.write("../alone/bad.gz", self.damage(self.LINE))
            for options in ([], ["--explain"]):
                done = self.run_command([TOPORUN, "report", *options, name])
                self.assertEqual((done.returncode, done.stdout), (2, b""), done)
                self.assertIn(b"the packed data are damaged", done.stderr)

    def test_nowhere_to_print_is_no_fault_of_a_log(self):
        self.write("long.log", self.LINE * 5000)
        done = self.run_command(["bash", "-c", '"$@" >/dev/full', "bash", TOPORUN, "report", "--explain", "logs"])
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(b"cannot write to standard output", done.stderr)
        self.assertNotIn(b"cannot read", done.stderr)

    def test_more_files_than_are_read(self):
        for i in range(4100):
            self.write(f"more-{i}.log", b"")
        for options, done, where in self.reports("logs"):
            with self.subTest(options=options):
                self.assertIn(b"5 further files of directories were not read", where)


class Refusals(Case):
    """What cannot be read or printed ends with status 2 and words that say why."""

    def test_an_empty_name(self):
        with open(os.path.join(self.work, "job.log"), "wb") as file:
            file.write(b"node-a:1:1 [0] NCCL INFO Using network IB\n")
        for names in ([""], ["--explain", ""], ["job.log", ""]):
            done = self.run_command([TOPORUN, "report", *names])
            self.assertEqual((done.returncode, done.stdout), (2, b""), done)
            self.assertIn(b"an empty name", done.stderr)

    def test_nowhere_to_print(self):
        with open(os.path.join(self.work, "job.log"), "wb") as file:
            file.write(b"node-a:1:1 [0] NCCL INFO Using network IB\n")
        for words in (["report", "job.log"], ["report", "--explain", "job.log"], ["report", "--json", "job.log"],
                      ["detect"], ["env", "--json"], ["doctor"], ["doctor", "--list"], ["profiles", "list"], ["--help"],
                      ["--version"]):
            for redirection in (">&-", ">/dev/full"):
                done = self.run_command(["bash", "-c", f'"$@" {redirection}', "bash", TOPORUN, *words])
                with self.subTest(words=words, redirection=redirection):
                    self.assertEqual(done.returncode, 2, done)
                    self.assertIn(b"cannot write to standard output", done.stderr)


class Memory(Case):
    def most_kib(self, lines, *options):
        """`lines`: pieces of a log, which come through a pipe."""
        if is_sanitized():
            self.skipTest("sanitizers take memory of their own")
        command = [sys.executable, "-I", "-S", "-c", MEASURE, TOPORUN, "report", *options, "-"]
        # What is printed goes to a file: a full pipe would end the reading.
        with tempfile.TemporaryFile() as printed, \
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=printed, stderr=subprocess.PIPE,
                                 env=self.environment, cwd=self.work) as process:
            errors = []
            try:
                for piece in lines:
                    process.stdin.write(piece)
                process.stdin.close()
            except BrokenPipeError:
                errors.append("the log was not read to its end")
            errors.append(process.stderr.read().decode(errors="replace"))
            process.wait()
            printed.seek(0)
            output = printed.read()
        status, kib = output.splitlines()[-1].split()
        self.assertEqual((int(status), "".join(errors)), (0, ""))
        return int(kib)

    def assert_bounded(self, lines, *options):
        self.assertLessEqual(self.most_kib(lines, *options), MOST_KIB)

    def test_a_long_line(self):
        self.assert_bounded(b"node-a:1:1 [0] NCCL INFO " * 4000 for _ in range(1000))  # 100 MB, no line end

    def test_a_long_log(self):
        line = (b"node-a:%d:%d [0] NCCL INFO AllReduce: opCount %x sendbuff 0x1 recvbuff 0x2 count 1024 datatype 7 "
                b"op 0 root 0 comm 0x55 [nranks=8] stream 0x7\n")
        self.assert_bounded(b"".join(line % (r, r, i) for r in range(8)) * 50 for i in range(1500))  # 90 MB

    def test_an_explained_log(self):
        line = b"node-%d:%d:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 commId 0x2 - Init COMPLETE\n"
        self.assert_bounded((b"".join(line % (i, i) for i in range(n, n + 1000)) for n in range(0, 60_000, 1000)),
                            "--explain")

    def test_lines_that_are_all_different(self):
        for name, line in {
                "processes": b"node-a:%d:1 [0] NCCL INFO Using network IB\n",
                "hosts": b"node-%d:1:1 [0] NCCL INFO Using network IB\n",
                "variables": b"node-a:1:1 [0] NCCL INFO NCCL_X%d set by environment to 1\n",
                "values": b"node-a:1:1 [0] NCCL INFO NCCL_X set by environment to " + b"v" * 500 + b"%d\n",
                "warnings": b"node-a:1:1 [0] init.cc:1 NCCL WARN " + b"w" * 500 + b"%d\n",
                "connections": b"node-a:1:1 [0] NCCL INFO Channel 00/0 : %d[0] -> 1[1] via P2P/" + b"c" * 500 + b"\n",
                "communicators": b"node-a:1:1 [0] NCCL INFO comm 0x%x rank 0 nranks 2 cudaDev 0 busId 1 "
                                 b"commId 0x%x - Init COMPLETE\n",
                "streams": b"(w pid=%d, ip=10.0.0.1) RuntimeError: CUDA error: unknown error " + b"e" * 500 + b"\n",
                "choices": b"node-a:1:1 [0] NCCL INFO F%d: 1 Bytes -> Algo R proto S\n",
                "rings": b"node-a:%d:1 [0] NCCL INFO Channel 00/02 : 0 1 2 3 4 5 6 7\n",
        }.items():
            with self.subTest(line=name):
                several = line.count(b"%")
                self.assert_bounded(b"".join(line % ((i,) * several) for i in range(n, n + 1000))
                                    for n in range(0, 200_000, 1000))


if __name__ == "__main__":
    harness.main()
