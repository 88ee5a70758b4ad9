"""The transports that toporun predicts against those that the real NCCL connects with.

The rig (../shared/rig) runs NVIDIA's libnccl.so.2 over virtual GPUs of a topology file. Its log names
the transport of every connection; `toporun env --from` the same file must have named the same for every
pair and channel: with nothing set, under each level, and with what toporun itself chooses.
"""

import fcntl
import glob
import json
import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import PROGRAMS, TOPORUN, Case

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "..", "..", "..", "shared")
RIG = os.path.join(SHARED, "rig")
LOGS = os.path.join(SHARED, "logs", "rig")
CUDA = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
RUN_DEADLINE_S = 240  # 8 ranks on two busy cores
LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")
CHOICES = ("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE")
FASTER = ("NONE", "NET", "SHM", "P2P-indirect", "P2P")  # slowest first

CONNECTED = re.compile(r"Channel (\d+)(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\](?: \[\w+\])? via (\S+)")
VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")


def why_no_rig():
    """What is missing for a run of the real library, or None."""
    if not os.access(os.path.join(RIG, "run-nccl"), os.X_OK):
        return f"no rig at {os.path.normpath(RIG)}"
    if not any(os.path.exists(os.path.join(CUDA, name, "libnccl.so.2")) for name in ("lib", "lib64")):
        return f"no libnccl.so.2 below {CUDA}"
    for header in ("nccl.h", "cuda_runtime_api.h"):
        if not os.path.exists(os.path.join(CUDA, "include", header)):
            return f"no {header} below {CUDA}/include"
    return None if shutil.which("g++") else "no g++ to build the rig"


def built_rig():
    """The folder of the rig's build, made once for all test classes."""
    if os.environ.get("RIG_BUILD"):
        return os.environ["RIG_BUILD"]
    folder = os.path.join(os.path.abspath(PROGRAMS), "rig")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(folder, "complete")):
            subprocess.run([os.path.join(RIG, "build.sh"), folder], check=True, stdout=subprocess.DEVNULL,
                           stdin=subprocess.DEVNULL, env={**os.environ, "CUDA_HOME": CUDA}, timeout=300)
            with open(os.path.join(folder, "complete"), "w", encoding="ascii"):
                pass
    return folder


def kind(via):
    """The transport of a log's word: 'P2P/indirect/3[2]', 'SHM/direct/direct', 'NET/Socket/0'."""
    return "P2P-indirect" if via.startswith("P2P/indirect") else via.split("/")[0].rstrip(",")


def read_logs(folder):
    """({(lower, higher): {transport: channels}}, NCCL's version) of the logs of one run of one node."""
    pairs, version = {}, None
    for path in glob.glob(os.path.join(folder, "*.log")):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        version = version or next(iter(VERSION.findall(text)), None)
        for channel, a, b, via in CONNECTED.findall(text):
            pair = (min(int(a), int(b)), max(int(a), int(b)))
            pairs.setdefault(pair, {}).setdefault(kind(via), set()).add(int(channel))
    return pairs, version


def topologies():
    return {os.path.basename(path)[:-4]: path for path in sorted(glob.glob(os.path.join(RIG, "topo", "*.xml")))}


class Rig:
    def predict(self, topology, version, *options, **variables):
        """toporun's own word on a topology: the whole object of `env --format json`."""
        done = self.run_command([TOPORUN, "env", "--from", topology, "--format", "json", "--nccl-version",
                                 version or "2.28.9", *options], env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done)
        return json.loads(done.stdout)

    def pairs(self, predicted, key):
        return {(pair["a"], pair["b"]): pair[key] for pair in predicted["pairs"]}

    def connect(self, topology, *options, **variables):
        """Runs the real library on the topology; what read_logs() finds."""
        self.runs = getattr(self, "runs", 0) + 1
        out = os.path.join(self.directory, f"logs-{self.runs}")
        chosen = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P", **variables}
        sets = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
        done = self.start([os.path.join(RIG, "run-nccl"), "--build", built_rig(), *options, *sets, "--topo",
                           topology, "--coll", "allreduce,alltoall", "--sizes", "1M", "--out", out],
                          env=self.variables(CUDA_HOME=CUDA)).finish(RUN_DEADLINE_S)
        self.assertEqual(done.returncode, 0, done)
        connected, version = read_logs(out)
        self.assertTrue(connected and version, done)
        return connected, version

    def agree(self, connected, predicted, what):
        """Every channel of every pair that connected, and all pairs where all logs are there."""
        for pair, transports in sorted(connected.items()):
            told = predicted.get(pair)
            self.assertEqual(list(transports), [told], f"{what}: pair {pair}: NCCL {transports}, toporun {told}")


@unittest.skipIf(why_no_rig(), why_no_rig())
class RigChoices(Rig, Case):
    def test_nothing_set_and_toporuns_choice(self):
        """The second also gives no pair a slower transport than the first."""
        changed = 0
        for name, topology in topologies().items():
            by_default, version = self.connect(topology)
            predicted = self.predict(topology, version)
            told = self.pairs(predicted, "transport_default")
            self.assertEqual(sorted(by_default), sorted(told), name)
            self.agree(by_default, told, f"{name}, nothing set")
            planned = self.pairs(predicted, "transport")
            for pair, transport in planned.items():
                self.assertGreaterEqual(FASTER.index(transport), FASTER.index(told[pair]), (name, pair))
            chosen = {one["name"]: one["value"] for one in predicted["settings"]
                      if one["name"] in CHOICES and one["value"] is not None}
            if chosen:
                connected, _ = self.connect(topology, **chosen)
                self.assertEqual(sorted(connected), sorted(planned), name)
                self.agree(connected, planned, f"{name}, {chosen}")
                changed += 1
        self.assertGreater(changed, 4)


@unittest.skipIf(why_no_rig(), why_no_rig())
class RigLevels(Rig, Case):
    def test_levels_that_change_a_transport(self):
        """One run for each distinct outcome of a machine; all levels are in the saved logs."""
        runs = 0
        for name, topology in topologies().items():
            seen = [self.pairs(self.predict(topology, None), "transport_default")]
            for level in LEVELS:
                predicted = self.pairs(self.predict(topology, None, NCCL_P2P_LEVEL=level), "transport")
                if predicted in seen:
                    continue
                seen.append(predicted)
                connected, _ = self.connect(topology, NCCL_P2P_LEVEL=level)
                self.assertEqual(sorted(connected), sorted(predicted), f"{name}, {level}")
                self.agree(connected, predicted, f"{name}, {level}")
                runs += 1
        self.assertGreater(runs, 25)

    def test_other_switches(self):
        topology = topologies()["ada6000-4-1s-amd"]
        for variables in ({"NCCL_P2P_DISABLE": "1"}, {"NCCL_SHM_DISABLE": "1"}, {"NCCL_P2P_LEVEL": "phb"},
                          {"NCCL_P2P_LEVEL": "3"}, {"NCCL_P2P_LEVEL": "NVL", "NCCL_P2P_DISABLE": "0"},
                          {"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": "1"}):
            predicted = self.pairs(self.predict(topology, None, **variables), "transport")
            connected, _ = self.connect(topology, **variables)
            self.agree(connected, predicted, variables)


def measured_profile(gpus, pairs):
    """A measured profile of the machine of a topology file: pairs {(a, b): (GB/s by P2P, through memory)}."""
    text = '[measured]\nname = "bench"\ndate = "2026-11-30"\ntool = "by hand"\n'
    text += "".join(f'\n[[gpus]]\npci = "{pci}"\n' for pci in gpus)
    return text + "".join(f'\n[[pairs]]\na = "{gpus[a]}"\nb = "{gpus[b]}"\np2p_gbytes_per_s = {p2p}\n'
                          f"shm_gbytes_per_s = {memory}\nintact = true\n" for (a, b), (p2p, memory) in pairs.items())


@unittest.skipIf(why_no_rig(), why_no_rig())
class RigMeasured(Rig, Case):
    FAST, SLOW = (22.5, 9.0), (7.5, 9.0)

    def gpus_of(self, topology):
        done = self.run_command([TOPORUN, "detect", "--from", topology, "--json"])
        self.assertEqual(done.returncode, 0, done)
        return [gpu["pci"] for gpu in json.loads(done.stdout)["gpus"]]

    def with_profile(self, topology, version, pairs):
        """(what is exported of CHOICES, origins, the transport of each pair) with a measured profile."""
        path = os.path.join(self.directory, "measured.toml")
        with open(path, "w", encoding="ascii") as file:
            file.write(measured_profile(self.gpus_of(topology), pairs))
        predicted = self.predict(topology, version, "--profile", path)
        self.assertEqual([one["id"] for one in predicted["findings"] if one["id"].startswith("measured-")], [])
        chosen = {one["name"]: one for one in predicted["settings"]
                  if one["name"] in CHOICES and one["value"] is not None}
        return ({name: one["value"] for name, one in chosen.items()}, {one["origin"] for one in chosen.values()},
                self.pairs(predicted, "transport"))

    def test_pairs_move_to_p2p_where_it_was_measured_faster_and_nowhere_else(self):
        """By levels: P2P is measured faster on the pairs that the level wins, slower on all others."""
        runs = opposites = 0
        for name, topology in topologies().items():
            by_default = self.pairs(self.predict(topology, None), "transport_default")
            seen = [by_default]
            for level in ("PIX", "PXB", "PHB", "SYS"):
                wanted = self.pairs(self.predict(topology, None, NCCL_P2P_LEVEL=level), "transport")
                moved = [pair for pair in wanted if wanted[pair] == "P2P" and by_default[pair] == "SHM"]
                if wanted in seen or any(wanted[pair] != by_default[pair] for pair in set(wanted) - set(moved)):
                    continue
                seen.append(wanted)
                what = f"{name}, faster up to {level}"
                measured = {pair: self.FAST if pair in moved or by_default[pair] == "P2P" else self.SLOW
                            for pair in wanted}
                chosen, origins, planned = self.with_profile(topology, None, measured)
                self.assertEqual(planned, wanted, what)
                self.assertEqual(origins, {"measured"}, what)
                connected, version = self.connect(topology, **chosen)
                self.assertEqual(version, "2.28.9")
                self.assertEqual(sorted(connected), sorted(wanted), what)
                self.agree(connected, wanted, what)
                runs += 1
            if "SHM" not in by_default.values():
                continue
            opposite = {pair: self.FAST if how.startswith("P2P") else self.SLOW for pair, how in by_default.items()}
            self.assertEqual(self.with_profile(topology, None, opposite)[0], {}, f"{name}, the default is best")
            opposites += 1
        self.assertGreater(runs, 9)
        self.assertGreater(opposites, 12)


def adapters_below_switches(between_cpus, gbits, switches):
    """A topology file: two CPUs, each with two switches of two L20, and adapters below some switches."""
    def device(bus, ids, inner):
        return (f'<pci busid="0000:{bus:02x}:00.0" {ids} link_speed="16.0 GT/s PCIe" link_width="16">'
                f"{inner}</pci>")

    plain = 'subsystem_vendor="0x0000" subsystem_device="0x0000"'
    cpus = ""
    for cpu in range(2):
        below = ""
        for switch in (2 * cpu, 2 * cpu + 1):
            bus = 0x10 + 0x10 * switch
            inner = "".join(
                device(bus + 2 + gpu, f'class="0x030200" vendor="0x10de" device="0x26ba" {plain}',
                       f'<gpu dev="{2 * switch + gpu}" sm="89"/>') for gpu in range(2))
            if switch in switches:
                port = switches.index(switch)
                inner += device(bus + 5, f'class="0x020700" vendor="0x15b3" device="0x1021" {plain}',
                                f'<nic><net name="mlx5_{port}" dev="{port}" speed="{gbits * 1000}" port="1" '
                                f'guid="0x{port + 1:x}" maxconn="131072" gdr="1"/></nic>')
            below += device(bus, f'class="0x060400" vendor="0x1000" device="0xc010" {plain}', inner)
        mask = ("00000000,0000ffff", "00000000,ffff0000")[cpu]
        cpus += f'<cpu numaid="{cpu}" affinity="{mask}" arch="x86_64" {between_cpus}>{below}</cpu>'
    return f'<system version="1">{cpus}</system>'


@unittest.skipIf(why_no_rig(), why_no_rig())
class RigAdapters(Rig, Case):
    INTEL = 'vendor="GenuineIntel" familyid="6" modelid="106"'
    AMD = 'vendor="AuthenticAMD" familyid="175" modelid="17"'

    def test_adapters_that_are_faster_than_the_path(self):
        machines = {
            "400 Gb/s each, Intel": (self.INTEL, 400, (0, 1, 2, 3), 16),
            "100 Gb/s each, Intel": (self.INTEL, 100, (0, 1, 2, 3), 16),
            "50 Gb/s each, Intel": (self.INTEL, 50, (0, 1, 2, 3), 0),
            "200 Gb/s each, AMD": (self.AMD, 200, (0, 1, 2, 3), 16),
            "100 Gb/s each, AMD": (self.AMD, 100, (0, 1, 2, 3), 0),
            "one adapter a CPU": (self.INTEL, 200, (0, 2), 4),
            "one adapter": (self.INTEL, 200, (0,), 0),
        }
        for name, (cpu, gbits, switches, over_network) in machines.items():
            topology = os.path.join(self.directory, "topology.xml")
            with open(topology, "w", encoding="ascii") as file:
                file.write(adapters_below_switches(cpu, gbits, switches))
            connected, version = self.connect(topology, "--nic")
            predicted = self.predict(topology, version)
            told = self.pairs(predicted, "transport_default")
            self.agree(connected, told, name)
            self.assertEqual(list(told.values()).count("NET"), over_network, name)
            if name == "400 Gb/s each, Intel":
                for variables in ({"NCCL_P2P_LEVEL": "SYS"}, {"NCCL_NET_DISABLE_INTRA": "1"}):
                    connected, _ = self.connect(topology, "--nic", **variables)
                    predicted = self.predict(topology, version, **variables)
                    self.agree(connected, self.pairs(predicted, "transport"), (name, variables))


@unittest.skipUnless(os.path.isdir(LOGS), f"no saved logs at {os.path.normpath(LOGS)}")
class RigLogs(Rig, Case):
    USER = ("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
    # As if a patched driver allowed peer access, or the driver refused it over NVLink: not in the topology.
    LEFT_OUT = re.compile(r"RIG_P2P=|--nodes|--gpus|--split")

    def test_every_saved_run_of_one_node(self):
        compared = 0
        for readme in sorted(glob.glob(os.path.join(LOGS, "**", "README"), recursive=True)):
            folder = os.path.dirname(readme)
            with open(readme, encoding="utf-8", errors="replace") as file:
                text = file.read()
            connected, version = read_logs(folder)
            files = glob.glob(os.path.join(folder, "*.xml"))
            if not connected or len(files) != 1 or self.LEFT_OUT.search(text):
                continue
            given = {name: value for name, value in re.findall(r"--set (\w+)=(\S+)", text) if name in self.USER}
            predicted = self.predict(files[0], version, **given)
            self.agree(connected, self.pairs(predicted, "transport" if given else "transport_default"),
                       os.path.relpath(folder, LOGS))
            compared += 1
        self.assertGreater(compared, 200)


if __name__ == "__main__":
    harness.main()
