"""Launchers that reach other hosts by themselves: each host decides for its own ranks.

The hosts are this one under other names: in place of ssh a script with an empty environment and a host name
(UTS namespace) of its own runs the launcher's daemon, for one test also a network namespace of its own.
"""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import unittest

import harness
from harness import TOPORUN, Case, wait_until

HYDRA = shutil.which("mpiexec.hydra")
PLACE = """
import os, socket
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
print(socket.gethostname(), *[os.environ.get(name, "-") for name in names], flush=True)
"""
MEET = PLACE + """
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
total = torch.ones(1) * dist.get_rank()
dist.all_reduce(total)
assert int(total) == 6, total
"""
SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do case $1 in -p|-l|-o|-i|-F) shift 2;; *) shift;; esac; done
host=$1; shift
exec env -i HOME="$HOME" USER=root SHELL=/bin/bash PATH=/usr/local/bin:/usr/bin:/bin E2E_MARK="$E2E_MARK" \\
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \\
  ENTER unshare --uts /bin/sh -c "hostname $host; $*"
"""
SHOW = "echo $(hostname) $OMPI_COMM_WORLD_RANK$PMI_RANK ${NCCL_DEBUG-none} ${OMP_NUM_THREADS-none} [$MINE]"


def no_host_names():
    """Why this process cannot give itself another host name, or None."""
    done = subprocess.run(["unshare", "--uts", "hostname", "other"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    return None if done.returncode == 0 else "no right to take another host name (unshare --uts)"


@contextlib.contextmanager
def network_namespaces(names):
    """A bridge with one namespace for each name, 10.77.N.I; yields the network in CIDR form, or None where
    that is refused."""
    number = os.getpid() % 200 + 20
    bridge = f"tr{number}"
    undo = [["ip", "link", "del", bridge]]
    commands = [["ip", "link", "add", bridge, "type", "bridge"],
                ["ip", "addr", "add", f"10.77.{number}.254/24", "dev", bridge], ["ip", "link", "set", bridge, "up"]]
    for i, name in enumerate(names):
        undo.append(["ip", "netns", "del", name])
        outer = f"{bridge}v{i}"
        commands += [["ip", "netns", "add", name],
                     ["ip", "link", "add", outer, "type", "veth", "peer", "name", "eth1", "netns", name],
                     ["ip", "link", "set", outer, "master", bridge, "up"],
                     ["ip", "-n", name, "addr", "add", f"10.77.{number}.{i + 1}/24", "dev", "eth1"],
                     ["ip", "-n", name, "link", "set", "eth1", "up"], ["ip", "-n", name, "link", "set", "lo", "up"]]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
    try:
        made = all(subprocess.run(command, **quiet).returncode == 0 for command in commands)
        yield f"10.77.{number}.0/24" if made else None
    finally:
        for command in undo:
            subprocess.run(command, **quiet)


class HostHelpers:
    def setUp(self):
        super().setUp()
        self.ssh = self.write_shell("")
        self.addCleanup(self.remove_node_directories)

    def write_shell(self, enter):
        path = os.path.join(self.directory, "ssh")
        with open(path, "w", encoding="ascii") as file:
            file.write(SHELL.replace("ENTER", enter))
        os.chmod(path, 0o755)
        return path

    def remove_node_directories(self):
        """A host's observer that a test ended has left them."""
        for path in glob.glob(f"/tmp/toporun-node-{os.geteuid()}-*-{self.name('')}*") + \
                glob.glob(f"/tmp/toporun-node-{os.geteuid()}-*-10.77.{os.getpid() % 200 + 20}.*"):
            shutil.rmtree(path, ignore_errors=True)

    def name(self, letter):
        """Of a host: no other test has it."""
        return f"h{self.mark[-8:]}{letter}"

    def hosts(self):
        return f"{self.name('a')}:2,{self.name('b')}:2"

    def mpirun(self, *words):
        return ["mpirun", "--mca", "plm_rsh_agent", self.ssh, "--host", self.hosts(), "-np", "4", *words]

    def run_directory(self):
        return os.path.realpath(os.path.join(self.work, "toporun", "latest"))

    def node_reports(self, count):
        """The nodes' reports by host, once they are there: the hosts' observers write them after the run. Node 0 is
        this machine, where the launcher runs."""
        pattern = os.path.join(self.run_directory(), "node-[1-9]*.json")
        wait_until(lambda: len(glob.glob(pattern)) >= count, "the nodes' reports")
        reports = {}
        for path in glob.glob(pattern):
            with open(path, encoding="utf-8") as file:
                report = json.load(file)["reports"][0]["report"]
            reports[report["machine"]["hostname"]] = report
        return reports

    def merged_report(self, nodes):
        """The run's one report, once it holds what `nodes` hosts have left."""
        path = os.path.join(self.run_directory(), "report.json")

        def merged():
            with contextlib.suppress(ValueError):
                report = json.loads(harness.read_file(path) or "{}")
                rows = report.get("node_reports", [])
                return report if sum(row["tasks_ended"] for row in rows) == nodes else None
        return wait_until(merged, "one report of all hosts")

    def check_ranks(self, command):
        """Every rank has what its own host chose and the user's variable; the hosts tell of their ranks."""
        done = self.run_command([TOPORUN, *command])
        self.assertEqual(done.returncode, 0, done)
        rows = sorted(line.split(maxsplit=4) for line in done.stdout.decode().splitlines())
        self.assertEqual([row[0] for row in rows], [self.name("a")] * 2 + [self.name("b")] * 2, done)
        self.assertEqual(sorted(row[1] for row in rows), ["0", "1", "2", "3"])
        self.assertEqual({row[2] for row in rows}, {"INFO"}, done)
        self.assertNotIn("none", {row[3] for row in rows})
        reports = self.node_reports(2)
        self.assertEqual(set(reports), {self.name("a"), self.name("b")})
        for report in reports.values():
            self.assertEqual(len(report["ranks"]), 2)
            self.assertEqual({rank["exit_status"] for rank in report["ranks"]} - {0, None}, set())
        merged = self.merged_report(3)
        self.assertEqual([rank["rank"] for rank in merged["ranks"]], [0, 1, 2, 3])
        self.assertEqual(merged["exit"]["status"], 0)
        self.assertEqual(sorted((row["name"], row["ranks"] != []) for row in merged["node_reports"]),
                         sorted([(os.uname().nodename, False), (self.name("a"), True), (self.name("b"), True)]))
        self.assertNotIn("are not in this report", " ".join(merged["notes"]))
        self.assertEqual([name for name in os.listdir(self.run_directory()) if name.endswith(".start")], [])
        wait_until(lambda: not self.left_overs(), "end of the hosts' observers")
        return rows


@unittest.skipIf(no_host_names(), no_host_names())
@unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
class OpenMpi(HostHelpers, Case):
    def test_each_host_decides_for_its_ranks(self):
        rows = self.check_ranks(self.mpirun("-x", "MINE=a b", "sh", "-c", SHOW))
        self.assertEqual({row[4] for row in rows}, {"[a b]"})

    def test_a_relative_run_directory(self):
        """The hosts' observers stand in another directory."""
        latest = os.path.join(self.work, "toporun", "latest")
        os.mkdir(os.path.dirname(latest))
        for name, words, variables in (("option", ["--run-dir=toporun/option"], {}),
                                       ("variable", [], {"TOPORUN_DIR": "toporun/variable"})):
            with self.subTest(name=name):
                done = self.run_command([TOPORUN, *words, *self.mpirun("true")], env=self.variables(**variables))
                self.assertEqual(done.returncode, 0, done)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(latest)
                os.symlink(name, latest)
                self.assertEqual(set(self.node_reports(2)), {self.name("a"), self.name("b")})
                self.merged_report(3)

    def test_the_users_list_of_variables_stays(self):
        """Open MPI refuses `-x` beside mca_base_env_list: nothing is added."""
        rows = self.check_ranks(self.mpirun("--mca", "mca_base_env_list", "MINE=c;OTHER=1", "sh", "-c", SHOW))
        self.assertEqual({row[4] for row in rows}, {"[c]"})

    def test_a_variable_of_the_users_wins_on_every_host(self):
        done = self.run_command([TOPORUN, *self.mpirun("-x", "NCCL_DEBUG=WARN", "-x", "OMP_NUM_THREADS=7", "sh",
                                                       "-c", SHOW)])
        self.assertEqual({tuple(line.split()[2:4]) for line in done.stdout.decode().splitlines()},
                         {("WARN", "7")}, done)

    def test_statuses_arguments_and_output_are_the_same(self):
        odd = ["printf", "[%s]", "a b", "it's", "", "$HOME", "*", "--", "-x"]
        kill = "[ $OMPI_COMM_WORLD_RANK = 3 ] && kill -9 $$; exec sleep 1000"
        for words in (["sh", "-c", "exit 3"], ["sh", "-c", kill], ["no-such-program-here"],
                      ["sh", "-c", "exit $OMPI_COMM_WORLD_RANK"]):
            with self.subTest(words=words):
                bare, wrapped = (self.run_command([*p, *self.mpirun(*words)]) for p in harness.PREFIXES)
                if words[-1] != kill:  # mpirun tells there how many it has killed, sometimes
                    self.assertEqual(bare.stdout, wrapped.stdout)
                if words[-1] != "exit $OMPI_COMM_WORLD_RANK":  # which of several comes out is a race
                    self.assertEqual(bare.returncode, wrapped.returncode, wrapped)
        self.compare(["mpirun", "--mca", "plm_rsh_agent", self.ssh, "--host", self.name("a"), "-np", "1", *odd])

    def test_a_host_without_toporun_runs_the_program_as_it_is(self):
        """The shim is missing there, or for another processor."""
        tools = os.path.join(self.directory, "tools")
        shutil.copytree(os.path.dirname(TOPORUN), tools, symlinks=True,
                        ignore=lambda _, names: [n for n in names if not n.startswith("toporun")])
        shim = os.path.join(tools, "toporun-shim")
        for content in (None, b"\x7fELF\x02\x01\x01" + bytes(57)):
            def spoil():
                os.remove(shim)
                if content is not None:
                    with open(shim, "wb") as file:
                        file.write(content)
                    os.chmod(shim, 0o755)
            # The launcher's way to the host spoils it: here it is whole, there it is not.
            shutil.copy2(os.path.join(os.path.dirname(TOPORUN), "toporun-shim"), shim)
            with self.subTest(content=content):
                go = os.path.join(self.directory, "go")
                with open(self.ssh, "w", encoding="ascii") as file:
                    file.write(SHELL.replace("ENTER", "").replace("#!/bin/sh\n", f"#!/bin/sh\nread x <{go}\n"))
                with contextlib.suppress(FileExistsError):
                    os.mkfifo(go)
                command = ["mpirun", "--mca", "plm_rsh_agent", self.ssh, "--host", f"{self.name('a')}:1", "-np", "1"]
                running = self.start([os.path.join(tools, "toporun"), *command, "printf", "%s|", "a b", "--", "c"])
                with open(go, "w", encoding="ascii") as file:
                    spoil()
                    file.write("go\n")
                done = running.finish()
                self.assertEqual((done.returncode, done.stdout), (0, b"a b|--|c|"), done)

    def test_hosts_that_start_many_ranks_look_once(self):
        log = os.path.join(self.directory, "looks")
        tools = os.path.join(self.directory, "tools")
        shutil.copytree(os.path.dirname(TOPORUN), tools, symlinks=True,
                        ignore=lambda _, names: [n for n in names if not n.startswith("toporun")])
        os.rename(os.path.join(tools, "toporun"), os.path.join(tools, "toporun.real"))
        with open(os.path.join(tools, "toporun"), "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\necho x >>{log}\nexec {tools}/toporun.real "$@"\n')
        os.chmod(file.name, 0o755)
        done = self.run_command([os.path.join(tools, "toporun.real"), "mpirun", "--mca", "plm_rsh_agent", self.ssh,
                                 "--host", f"{self.name('a')}:8,{self.name('b')}:8", "-np", "16", "true"])
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(harness.read_file(log), b"x\n" * 2)

    def test_the_first_cause_on_another_host(self):
        script = "[ $OMPI_COMM_WORLD_RANK = 3 ] && kill -SEGV $$; exec sleep 1000"
        bare, wrapped = (self.run_command([*p, *self.mpirun("sh", "-c", script)]) for p in harness.PREFIXES)
        self.assertEqual(bare.returncode, wrapped.returncode)
        report = self.node_reports(2)[self.name("b")]
        merged = self.merged_report(3)
        self.assertEqual(merged["exit"]["status"], wrapped.returncode)
        ranks = {rank["rank"]: rank for rank in report["ranks"]}
        if ranks[3]["exit_signal"] is not None:  # not seen where it ends before its host's observer looks
            self.assertEqual(report["exit"]["first_failure"]["rank"], 3, report["exit"])
            self.assertEqual(merged["exit"]["first_failure"]["rank"], 3, merged["exit"])

    def test_ranks_in_two_networks_of_their_own(self):
        names = [self.name("a"), self.name("b")]
        with network_namespaces(names) as network:
            if network is None:
                self.skipTest("no right to make network namespaces")
            self.ssh = self.write_shell("ip netns exec $host")
            command = ["mpirun", "--mca", "plm_rsh_agent", self.ssh, "--mca", "oob_tcp_if_include", network, "--host",
                       self.hosts(), "-np", "4"]
            self.check_ranks([*command, "sh", "-c", SHOW])
            interfaces = [[nic["name"] for nic in report["machine"]["nics"] if nic["name"] != "lo"]
                          for report in self.node_reports(2).values()]
            self.assertEqual(interfaces, [["eth1"], ["eth1"]])


@unittest.skipIf(no_host_names(), no_host_names())
class PlacesOfPython(HostHelpers, Case):
    """RANK, MASTER_ADDR and the like where ranks start on several hosts."""

    def write_program(self, text):
        path = os.path.join(self.work, "place.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return [shutil.which("python3"), path]

    def rows(self, command, **variables):
        done = self.run_command([TOPORUN, *command], env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done)
        return sorted((line.split() for line in done.stdout.decode().splitlines()), key=lambda row: row[1]), done

    def check_places(self, command, hosts):
        """Two ranks on each of the hosts; one address and one port for all, of this machine, the first host."""
        rows, done = self.rows([*command, *self.write_program(PLACE)])
        self.assertEqual([row[:5] for row in rows],
                         [[hosts[i // 2], str(i), "4", str(i % 2), "2"] for i in range(4)], done)
        self.assertEqual(len({tuple(row[5:]) for row in rows}), 1)
        own = subprocess.run(["hostname", "-I"], capture_output=True, check=True).stdout.decode().split()
        self.assertIn(rows[0][5], own)
        merged = self.merged_report(2)
        self.assertEqual([(rank["rank"], rank["node"]) for rank in merged["ranks"]], [(0, 0), (1, 0), (2, 1), (3, 1)])
        self.assertEqual([f for f in merged["findings"] if f["id"].startswith("nodes-differ")], [])
        # What is given stays, and is the same on every host.
        rows, done = self.rows([*command, *self.write_program(PLACE)], MASTER_ADDR="192.0.2.1", MASTER_PORT="7000")
        self.assertEqual({tuple(row[5:]) for row in rows}, {("192.0.2.1", "7000")}, done)

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_open_mpi_starts_on_its_own_host_first(self):
        own = os.uname().nodename
        command = ["mpirun", "--mca", "plm_rsh_agent", self.ssh, "--host", f"{self.name('b')}:2,{own}:2", "-np", "4"]
        self.check_places(command, [own, self.name("b")])

    @unittest.skipUnless(HYDRA, "MPICH is not installed (mpiexec.hydra)")
    def test_hydra(self):
        own = os.uname().nodename
        hosts = f"{own}:2,{self.name('b')}:2"
        command = [HYDRA, "-launcher", "ssh", "-launcher-exec", self.ssh, "-hosts", hosts, "-n", "4"]
        self.check_places(command, [own, self.name("b")])

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_a_first_host_without_an_address_is_named(self):
        command = self.mpirun(*self.write_program(PLACE))
        rows, done = self.rows(command)
        self.assertEqual({tuple(row[1:]) for row in rows}, {("-",) * 6}, done)
        shown = self.run_command([TOPORUN, "--preflight-only", "--json", *command])
        found = {finding["id"]: finding for finding in json.loads(shown.stdout)["findings"]}
        self.assertIn("does not resolve here", found["rank-variables-unknown"]["what"])

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    @unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
    def test_ranks_in_two_networks_meet(self):
        names = [f"10.77.{os.getpid() % 200 + 20}.{i}" for i in (1, 2)]
        with network_namespaces(names) as network:
            if network is None:
                self.skipTest("no right to make network namespaces")
            self.ssh = self.write_shell("ip netns exec $host")
            command = ["mpirun", "--mca", "plm_rsh_agent", self.ssh, "--mca", "oob_tcp_if_include", network, "--host",
                       ",".join(f"{name}:2" for name in names), "-np", "4", "-x", "GLOO_SOCKET_IFNAME=eth1"]
            self.write_program(MEET)
            rows, done = self.rows([*command, "/usr/bin/python3", "place.py"])
            self.assertEqual([row[1] for row in rows], ["0", "1", "2", "3"], done)
            self.assertEqual({row[5] for row in rows}, {names[0]})


@unittest.skipIf(no_host_names(), no_host_names())
@unittest.skipUnless(HYDRA, "MPICH is not installed (mpiexec.hydra)")
class Hydra(HostHelpers, Case):
    def hydra(self, *words):
        return [HYDRA, "-launcher", "ssh", "-launcher-exec", self.ssh, "-hosts", self.hosts(), "-n", "4", *words]

    def test_each_host_decides_for_its_ranks(self):
        rows = self.check_ranks(self.hydra("-genv", "MINE", "a b", "sh", "-c", SHOW))
        self.assertEqual({row[4] for row in rows}, {"[a b]"})

    def test_hydra_that_hands_nothing_on(self):
        rows = self.check_ranks(self.hydra("-genvnone", "/bin/sh", "-c", f"PATH=/usr/bin:/bin; {SHOW}"))
        self.assertEqual({row[4] for row in rows}, {"[]"})

    def test_statuses_and_output_are_the_same(self):
        for words in (["sh", "-c", "exit 3"], ["no-such-program-here"], ["printf", "[%s]", "x"]):
            with self.subTest(words=words):
                self.compare(self.hydra(*words))


if __name__ == "__main__":
    harness.main()
