"""Every log of ../shared: how many lines of each kind `toporun report` reads, against a count of its own by
regular expressions."""

import glob
import json
import os
import re
import unittest

import harness
from harness import TOPORUN, Case

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared")
LOGS = sorted(path for folder in ("data/nccl-logs", "logs")
              for path in glob.glob(os.path.join(SHARED, folder, "**", "*.log"), recursive=True))

RUN_DEADLINE_S = 240  # some logs are large
# NCCL src/debug.cc; before 2.4 without the word NCCL.
RECORD = re.compile(r"(?<![\w.-])[\w.-]+:\d+:\d+ (?:\[-?\d+\] )?(?:[\d.]+ )?(?:[\w./+-]+:\d+ (?:\([^)]*\) )?)?"
                    r"(?:NCCL )?(INFO|WARN|TRACE|CALL) (.*)$")
CALL = re.compile(r"(AllReduce|Broadcast|Reduce|AllGather|ReduceScatter|Send|Recv|All[Tt]oAll|Gather|Scatter|AllGatherV)"
                  r": opCount [0-9a-f]+ sendbuff \S+ recvbuff \S+ .*count \d+ datatype -?\d+ op -?\d+ root -?\d+ comm \S+")
CHOICE = re.compile(r"(?:\w+: )?\d+ Bytes -> Algo \S+ proto \S+")
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def counted(path):
    counts = {"calls": 0, "choices": 0, "warnings": 0}
    with open(path, encoding="latin-1", newline="\n") as file:
        for line in file:
            record = None
            rest = ESCAPES.sub("", line.rstrip("\r\n"))
            while found := RECORD.search(rest):  # of several records in one line the last
                record, rest = found, found[2]
            if record is None:
                continue
            level, message = record.groups()
            counts["warnings"] += level == "WARN"
            counts["calls"] += level == "INFO" and CALL.match(message) is not None
            counts["choices"] += level == "INFO" and CHOICE.match(message) is not None
    return counts


@unittest.skipUnless(LOGS, "../shared is absent")
class LinesOfKnownLogs(Case):
    def test_counts_of_every_log(self):
        seen = {"calls": 0, "choices": 0, "warnings": 0}
        for path in LOGS:
            with self.subTest(log=os.path.relpath(path, SHARED)):
                done = self.start([TOPORUN, "report", "--format", "json", os.path.realpath(path)]).finish(RUN_DEADLINE_S)
                self.assertEqual(done.returncode, 0, done)
                report = json.loads(done.stdout)
                read = {"calls": sum(row["count"] for row in report["collectives"]),
                        "choices": sum(row["count"] for row in report["nccl"]["setup"]["choices"]),
                        "warnings": report["nccl"]["warning_count"]}
                self.assertEqual(read, counted(path))
                for kind, count in read.items():
                    seen[kind] += count
        for kind, count in seen.items():
            self.assertGreater(count, 0, kind)


if __name__ == "__main__":
    harness.main()
