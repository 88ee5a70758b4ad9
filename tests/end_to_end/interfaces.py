"""The real libnccl.so.2 in network namespaces: its bootstrap takes the interface that toporun chose, or
predicted where the choice is left to NCCL, and the other host reaches it there by TCP.

Two hosts, each a namespace; every wire between them is a pair of macvlan interfaces over a third
namespace, so that nothing of this machine's own network changes. Needs root, `ip` and the library, no GPU.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import PROGRAMS, TOPORUN, Case

BOOTSTRAP = os.path.join(PROGRAMS, "nccl_bootstrap")
PREDICT = os.path.join(PROGRAMS, "predict_interfaces")
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 20).close()"


def nccl_library():
    """A libnccl.so.2 of this machine, or None."""
    named = os.environ.get("TOPORUN_TEST_NCCL")
    if named:
        return named
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    for pattern in (f"{cuda}/lib*/libnccl.so.2", "/usr/local/cuda*/lib*/libnccl.so.2",
                    "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/lib/aarch64-linux-gnu/libnccl.so.2",
                    "/usr/lib64/libnccl.so.2",
                    "/usr/*lib*/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2"):
        for path in sorted(glob.glob(pattern)):
            return path
    return None


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=60)


def what_is_missing():
    """Why no network of namespaces can be made here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the program ip is not installed (iproute2)"
    if nccl_library() is None:
        return "no libnccl.so.2 on this machine (TOPORUN_TEST_NCCL names one)"
    name = f"toporun-try-{os.getpid()}"
    try:
        for words in (("netns", "add", name),
                      ("-n", name, "link", "add", "w0", "type", "veth", "peer", "name", "w1"),
                      ("-n", name, "link", "add", "link", "w0", "name", "m0", "type", "macvlan", "mode",
                       "bridge")):
            done = ip(*words)
            if done.returncode != 0:
                return f"ip {' '.join(words)}: {done.stderr.strip()}"
    finally:
        ip("netns", "del", name)
    return None


MISSING = what_is_missing()


class Network:
    """Hosts a and b, and the namespace that carries their wires."""

    def __init__(self, case):
        self.case = case
        self.wires = 0
        self.names = {part: f"toporun-{os.getpid()}-{part}" for part in ("wires", "a", "b")}
        for name in self.names.values():
            case.addCleanup(ip, "netns", "del", name)
            self.must("netns", "add", name)
        for host in ("a", "b"):
            # A link-local address that is still being looked for elsewhere cannot be listened on.
            self.must("netns", "exec", self.names[host], "sh", "-c",
                      "for of in all default; do echo 0 >/proc/sys/net/ipv6/conf/$of/accept_dad; done")
            self.on(host, "link set lo up")

    def must(self, *words):
        done = ip(*words)
        self.case.assertEqual(done.returncode, 0, f"ip {' '.join(words)}: {done.stderr}")

    def on(self, host, *lines):
        """Lines for ip in the namespace of the host."""
        for line in lines:
            self.must("-n", self.names[host], *line.split())

    def wait_for_carrier(self, host, name):
        """NCCL skips an interface until the kernel has told that it runs."""
        def runs():
            return "state UP" in ip("-n", self.names[host], "link", "show", "dev", name).stdout
        harness.wait_until(runs, f"carrier of {name}")

    def wire(self, name, *networks, hosts="ab"):
        """An interface `name` on both hosts: address .1 or ::1 of each network on a, .2 or ::2 on b."""
        over = f"w{self.wires}"
        self.wires += 1
        self.on("wires", f"link add {over} type veth peer name {over}x", f"link set {over} up",
                f"link set {over}x up")
        for number, host in enumerate("ab", 1):
            if host not in hosts:
                continue
            made = f"m{number}"
            self.on("wires", f"link add link {over} name {made} type macvlan mode bridge",
                    f"link set {made} netns {self.names[host]}")
            self.on(host, f"link set {made} name {name}")
            for network in networks:
                stem, bits = network.split("/")
                self.on(host, f"addr add {stem}{number}/{bits} dev {name}" + (" nodad" if ":" in stem else ""))
            self.on(host, f"link set {name} up")
            self.wait_for_carrier(host, name)

    def bridge(self, host, name, address):
        """A container bridge with a container's interface on it, which gives it carrier."""
        port = f"p{name}"[:14]
        self.on(host, f"link add {name} type bridge", f"addr add {address} dev {name}",
                f"link add {port} type veth peer name {port}x", f"link set {port} addrgenmode none",
                f"link set {port}x addrgenmode none", f"link set {port} master {name}",
                f"link set {port} up", f"link set {port}x up", f"link set {name} up")
        self.wait_for_carrier(host, name)

    def run(self, host, *words):
        return ["ip", "netns", "exec", self.names[host], *words]


@unittest.skipIf(MISSING is not None, MISSING)
class RealLibrary(Case):
    def setUp(self):
        super().setUp()
        self.net = Network(self)

    def bootstrap(self, host, reached_from=None, **variables):
        """(interface, address) of NCCL's bootstrap, or (None, its error); the other host connects."""
        running = subprocess.Popen(
            self.net.run(host, "timeout", "120", BOOTSTRAP, nccl_library()), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.variables(NCCL_DEBUG="INFO", **variables))
        self.addCleanup(running.kill)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.stderr.close)
        lines = []
        for line in running.stdout:
            lines.append(line)
            if line.startswith("version "):
                self.version = int(line.split()[1])
            if line.startswith(("listens ", "failed ")):
                break
        log, said = "".join(lines), lines[-1].split() if lines else []
        used = re.search(r"Bootstrap ?: Using ([^\s:]+):", log)
        self.assertTrue(said and said[0] in ("listens", "failed"), log)
        if said[0] == "listens" and reached_from is not None:
            done = subprocess.run(self.net.run(reached_from, "python3", "-c", CONNECT, *said[1:3]),
                                  capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 0, f"{said}: {done.stderr}")
        running.stdin.close()
        running.wait(60)
        if said[0] == "failed":
            return None, " ".join(said[1:])
        self.assertIsNotNone(used, log)
        return used.group(1), said[1]

    def choice(self, host, nodes=2, **variables):
        """toporun's decision on NCCL_SOCKET_IFNAME on this host."""
        done = subprocess.run(
            self.net.run(host, TOPORUN, "env", "--format", "json", "--nodes", str(nodes), "--nccl-version",
                         "2.28.9"),
            capture_output=True, text=True, check=False, timeout=120, env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done.stderr)
        for setting in json.loads(done.stdout)["settings"]:
            if setting["name"] == "NCCL_SOCKET_IFNAME":
                return setting
        self.fail("no word on NCCL_SOCKET_IFNAME")

    def predicted(self, host, **variables):
        done = subprocess.run(self.net.run(host, PREDICT, str(self.version)), capture_output=True, text=True,
                              check=False, timeout=60, env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def check_choice(self, value, interface, nodes=2, **variables):
        """toporun chooses `value`, the real NCCL then takes `interface` and the other host reaches it."""
        setting = self.choice("a", nodes, **variables)
        self.assertEqual(setting["value"], value, setting)
        chosen = {} if value is None else {"NCCL_SOCKET_IFNAME": value}
        used, address = self.bootstrap("a", "a" if nodes == 1 else "b", **variables, **chosen)
        self.assertEqual(used, interface, setting)
        self.assertEqual(self.predicted("a", **variables, **chosen)[0], interface)
        return address

    def test_a_clean_host_is_left_to_nccl(self):
        self.net.wire("eth0", "10.71.0./24")
        self.check_choice(None, "eth0")

    def test_a_docker_bridge_is_no_part_of_the_pick(self):
        self.net.bridge("a", "docker0", "172.17.0.1/16")
        self.net.wire("eth0", "10.71.0./24")
        self.check_choice(None, "eth0")

    def test_bridges_and_veth_of_containers_are_left_out(self):
        self.net.bridge("a", "br-0a1b2c3d4e5f", "172.18.0.1/16")
        self.net.wire("eth0", "10.71.0./24")
        self.assertEqual(self.bootstrap("a")[0], "br-0a1b2c3d4e5f")  # what goes wrong without a choice
        self.check_choice("eth0", "eth0")

    def test_a_veth_with_a_link_local_address_is_left_out(self):
        self.net.on("a", "link add veth9f type veth peer name veth9fx", "link set veth9f up",
                    "link set veth9fx up", "addr add 169.254.9.1/16 dev veth9f")
        self.net.wait_for_carrier("a", "veth9f")
        self.net.wire("eth0", "10.71.0./24")
        self.assertEqual(self.bootstrap("a")[0], "veth9f")
        self.check_choice("eth0", "eth0")

    def test_a_vpn_is_left_out(self):
        for name in ("wg0", "tailscale0", "CloudflareWARP"):
            self.net.wire(name, f"10.8.{len(name)}./24", hosts="a")
        self.net.wire("eth0", "10.71.0./24")
        self.check_choice("eth0", "eth0")

    def test_a_tunnel_without_carrier_is_skipped_by_nccl_itself(self):
        made = ip("-n", self.net.names["a"], "tuntap", "add", "dev", "tun0", "mode", "tun")
        if made.returncode != 0:
            self.skipTest(f"no tun device: {made.stderr.strip()}")
        self.net.on("a", "addr add 10.8.0.1/24 dev tun0", "link set tun0 up")
        self.net.wire("eth0", "10.71.0./24")
        self.check_choice(None, "eth0")

    def test_a_vlan_beside_its_bond(self):
        self.net.wire("bond0", "10.71.0./24")
        self.net.wire("bond0.100", "10.72.0./24")
        self.check_choice("=bond0", "bond0", NCCL_IB_DISABLE="1")
        self.check_choice("bond0.100", "bond0.100", NCCL_IB_DISABLE="1", MASTER_ADDR="10.72.0.2")

    def test_ipv6_only(self):
        self.net.wire("eth0", "fd71::/64")
        self.assertEqual(self.check_choice(None, "eth0"), "fd71::1")

    def test_the_address_family_of_the_user_counts(self):
        self.net.bridge("a", "br-0a1b2c3d4e5f", "172.18.0.1/16")
        self.net.on("a", "addr add fd99::1/64 dev br-0a1b2c3d4e5f nodad")
        self.net.wire("eth0", "10.71.0./24")
        self.net.wire("eth1", "fd71::/64")
        self.check_choice("eth1", "eth1", NCCL_SOCKET_FAMILY="AF_INET6", MASTER_ADDR="fd71::2")

    def test_of_two_the_one_with_the_route_is_named_beside_a_bridge(self):
        self.net.bridge("a", "cni0", "10.244.0.1/24")
        self.net.wire("eth0", "10.71.0./24")
        self.net.wire("eth1", "10.72.0./24")
        self.check_choice("eth1", "eth1", MASTER_ADDR="10.72.0.2")
        self.check_choice("eth0", "eth0", MASTER_ADDR="10.71.0.1")
        self.check_choice("=eth0,eth1", "eth0")

    def test_two_in_one_subnet(self):
        self.net.bridge("a", "cni0", "10.244.0.1/24")
        self.net.wire("eth0", "10.71.0./24")
        self.net.wire("eth1", "10.71.0.10/24", hosts="a")
        self.check_choice("eth0", "eth0", MASTER_ADDR="10.71.0.2")

    def test_names_of_one_and_of_fifteen_characters(self):
        self.net.wire("wg7", "10.8.0./24", hosts="a")
        self.net.wire("e", "10.71.0./24")
        self.check_choice("=e", "e")
        self.net.on("a", "link del e")
        self.net.wire("enp193s0f0np012", "10.73.0./24")
        self.check_choice("enp193s0f0np012", "enp193s0f0np012")

    def test_names_that_start_ib_come_first(self):
        self.net.wire("eth0", "10.71.0./24")
        self.net.wire("ib0", "10.72.0./24")
        for disabled in ("0", "1"):
            self.check_choice(None, "ib0", NCCL_IB_DISABLE=disabled, MASTER_ADDR="10.71.0.2")

    def test_eighteen_interfaces(self):
        for number in range(17):
            self.net.wire(f"cali{number:x}", f"10.8.{number}./24", hosts="a")
        self.net.wire("eth0", "10.71.0./24")
        self.check_choice("eth0", "eth0")

    def test_one_node_with_nothing_but_loopback(self):
        self.check_choice("lo", "lo", nodes=1)

    def test_nothing_is_up(self):
        self.net.on("a", "link set lo down")
        used, error = self.bootstrap("a")
        self.assertIsNone(used)
        self.assertIn("no socket interface found", error)
        self.assertEqual(self.predicted("a"), [])

    def test_twenty_values_are_read_as_the_library_reads_them(self):
        self.net.bridge("a", "docker0", "172.17.0.1/16")
        self.net.wire("eth0", "10.71.0./24", "fd71::/64")
        self.net.wire("eth0.5", "10.75.0./24")
        self.net.wire("ens1f0", "10.72.0./24")
        self.net.wire("e", "10.73.0./24")
        self.net.wire("enp193s0f0np012", "fd73::/64")
        for value in ("", "e", "=e", "eth0", "=eth0", "=eth0.5", "eth", "ens,eth", "=ens1f0,eth0", "eth0, ens1f0",
                      " ens1f0", "^eth", "^=eth0", "^lo,docker,eth", "^ib", "eth0:1", "=ens1f0:7", "docker0", "lo",
                      "nothing", "=nothing", "eth9,ens1f0", ",ens1f0", "enp193s0f0np012", "=enp193s0f0np0",
                      "enp193s0f0np0123", "^=", "="):
            for family in ("", "AF_INET6"):
                variables = {"NCCL_SOCKET_IFNAME": value}
                if family:
                    variables["NCCL_SOCKET_FAMILY"] = family
                with self.subTest(**variables):
                    used, _ = self.bootstrap("a", **variables)
                    predicted = self.predicted("a", **variables)
                    self.assertEqual(predicted[0] if predicted else None, used)

    def test_nccl_comm_id_overrides_the_list(self):
        self.net.wire("ib0", "10.71.0./24")
        self.net.wire("eth0", "10.72.0./24", "fd72::/64")
        for comm_id in ("10.72.0.2:4000", "10.71.0.2:4000", "[fd72::2]:4000", "10.99.0.2:4000"):
            for more in ({}, {"NCCL_SOCKET_IFNAME": "ib0"}):
                with self.subTest(comm_id=comm_id, **more):
                    used, _ = self.bootstrap("a", NCCL_COMM_ID=comm_id, **more)
                    predicted = self.predicted("a", NCCL_COMM_ID=comm_id, **more)
                    self.assertEqual(predicted[0] if predicted else None, used)


if __name__ == "__main__":
    harness.main()
