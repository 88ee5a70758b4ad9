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
              for kind in ("*.log", "*.txt")
              for path in glob.glob(os.path.join(SHARED, folder, "**", kind), recursive=True))

RUN_DEADLINE_S = 240  # some logs are large
# NCCL src/debug.cc; before 2.4 without the word NCCL.
RECORD = re.compile(r"(?<![\w.-])[\w.-]+:\d+:\d+ (?:\[-?\d+\] )?(?:[\d.]+ )?(?:[\w./+-]+:\d+ (?:\([^)]*\) )?)?"
                    r"(?:NCCL )?(INFO|WARN|TRACE|CALL) (.*)$")
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
NUMBER = r"\d+(?:\.\d+)?"
# Messages of INFO records, the first that fits; NCCL's sources of the versions in tests/data/nccl-log/catalogue.txt.
KINDS = {kind: re.compile(form) for kind, form in {
    "collective": r"(AllReduce|Broadcast|Reduce|AllGather|ReduceScatter|Send|Recv|AlltoAll|Gather|Scatter|AllGatherV)"
                  r": opCount [0-9a-f]+ sendbuff \S+ recvbuff \S+ .*count \d+ datatype -?\d+ op -?\d+ root -?\d+ comm \S+",
    "connection": r"(Channel|Ring) \d+(/\d+)? : \d+\[[^]]+\] -> \d+\[[^]]+\]( \[(send|receive)\])? via ",
    "variable": r"[A-Z][A-Z0-9_]+ set (by .* to|to) ",
    "init": r".*comm 0x[0-9a-f]+ rank \d+ nranks \d+( .*- Init (START|COMPLETE))?$",  # before 2.4 without an end
    "shape": r".*comm 0x[0-9a-f]+ rank \d+ nRanks \d+ nNodes \d+ localRanks \d+",
    "bootstrap": r"(Bootstrap ?: Using |NET : Using interface )",
    "network_devices": r"NET/[\w ]+ ?: (Using \[|No device found)",
    "using_network": r"Using (network |internal Network )",
    "version": r"(NCCL|RCCL) version ",
    "communicator_end": r"comm 0x[0-9a-f.]+ rank \d+ nranks \d+ .*- (Destroy|Abort) COMPLETE$",
    "channels": r"\d+ coll channels, ",
    "ring_order": r"Channel \d+/\d+ :( +\d+)+( \.\.\.)?\s*$",
    "ring_link": r"Ring \d+ : -?\d+ -> \d+ -> -?\d+$",
    "trees": r"Trees? (\[\d+\] [-\d/]+->|\d+ : )",
    "pattern": r"Pattern \d+, crossNic \d+, nChannels \d+, (bw|speed) ",
    "affinity": r"(Setting affinity for GPU \d+ to |ncclTopoGetCpuAffinity: Affinity for GPU \d+ is )([0-9a-f]|empty)",
    "init_timings": r"Init timings",
    "nvls_support": r"NVLS multicast support is ",
    "nvls_ready": r"NVLS comm .* nHeads ",
    "gpu_direct": r"GPU Direct RDMA (Enabled|Disabled) for GPU",
    "choice": r"(\w+( \[[\w ]+\])?: )?\d+ Bytes -> (Algo|Kernel|cudaMemcpy)",
    "tuning_columns": r" *(Algorithm|Latency/AlgBw) *\|",
    "tuning_row": rf" *\w+ \|( *{NUMBER}/ *{NUMBER} *\|)+",
    "error_trail": r"\S+:\d+( \([^)]*\))? -> \d+",
    "provider": r"NET/OFI Selected [Pp]rovider is ",
    "cuda_driver": r"cudaDriverVersion \d+$",
    "network_plugin": r"(Initialized|Assigned|Failed to initialize) NET plugin ",
    "queue_pair": r"NET/IB ?: (NCCL )?Dev \d+ (IbDev \d+ )?Port \d+ qpn \d+ mtu [1-5] ",
    "virtual_device": r"NET/IB : Made virtual device ",
    "no_verbs": r"(Failed to|Coun?t?l?d? not) open libibverbs",
    "mnnvl": r"MNNVL [01] +cliqueId ",
    "collnet": r"Coll(Net)? \d+(/\d+)? : \d+ \[(send|receive)\] via COLLNET/",
    "plugin": r"(\w+/Plugin ?: (Loaded|loaded|Could not find: |No plugin found|Plugin load |Using internal )"
              r"|Successfully loaded external \w+ plugin |NET/OFI Initializing aws-ofi-nccl )",
    "topology": r"(=== System : |=+$|(GPU|NET)/[0-9A-Fa-f-]+ ?:|CPU/\S+ \(| *\+ \w+\[[\d.]+\] - "
                r"|NET/[\w ]+ : GPU Direct RDMA (Enabled|Disabled) for HCA \d+ ')",
    "no_graph": r"Could not find a path for pattern ",
}.items()}
VERSION_LINE = re.compile(r"(^|[:>\])| ])\s*(NCCL|RCCL) version ?:? ?\d+\.\d+\.\d+[^ ]*(\+cuda[\d.]+|\+hip[\d.]+| HEAD|-HEAD|$)")


def kind_of(level, message):
    if level == "WARN":
        return "warning"
    if level == "INFO":
        for kind, form in KINDS.items():
            if form.match(message):
                return kind
    return None


def counted(path):
    counts = {}
    with open(path, encoding="latin-1", newline="\n") as file:
        for line in file:
            record = None
            rest = ESCAPES.sub("", line.rstrip("\r\n"))
            while found := RECORD.search(rest):  # of several records in one line the last
                record, rest = found, found[2]
            if record is not None:
                kind = kind_of(*record.groups())
            else:
                kind = "version" if VERSION_LINE.search(rest) else None
            if kind is not None:
                counts[kind] = counts.get(kind, 0) + 1
    return counts


@unittest.skipUnless(LOGS, "../shared is absent")
class LinesOfKnownLogs(Case):
    # Not counted here: what has no form of its own.
    LEFT_OUT = ("unknown", "test_rank")

    def test_counts_of_every_log(self):
        seen = {}
        for path in LOGS:
            with self.subTest(log=os.path.relpath(path, SHARED)):
                done = self.start([TOPORUN, "report", "--format", "json", os.path.realpath(path)]).finish(RUN_DEADLINE_S)
                self.assertEqual(done.returncode, 0, done)
                nccl = json.loads(done.stdout)["nccl"]
                read = {kind: count for kind, count in nccl["log"]["kinds"].items() if kind not in self.LEFT_OUT}
                self.assertEqual(read, counted(path))
                self.assertEqual(nccl["warning_count"], read.get("warning", 0))
                for kind, count in read.items():
                    seen[kind] = seen.get(kind, 0) + count
        self.assertGreater(len(seen), 25, seen)
        for kind in ("collective", "choice", "warning", "connection", "init"):
            self.assertGreater(seen[kind], 20, kind)


if __name__ == "__main__":
    harness.main()
