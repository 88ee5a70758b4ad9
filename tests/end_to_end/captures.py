"""Captures of other machines: files, standard input, trees and archives, alone and together."""

import io
import json
import os
import signal
import subprocess
import tarfile

import harness
from harness import MATRIX, TOPORUN, Case

ADDRESSES = """1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default
    inet 127.0.0.1/8 scope host lo
2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default
    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth0
"""
LO_DOWN = "1: lo: <LOOPBACK> mtu 65536 qdisc noop state DOWN group default\n"


class CaptureFiles:
    """What the classes below share."""

    def capture(self, name, text):
        path = os.path.join(self.work, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def machine(self, *arguments, **options):
        done = self.run_command([TOPORUN, "detect", "--json", *arguments], **options)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done)
        return json.loads(done.stdout)


class Captures(CaptureFiles, Case):
    def test_several_files_are_one_machine(self):
        machine = self.machine("--from", self.capture("topo.txt", MATRIX), "--from", self.capture("ip.txt", ADDRESSES))
        self.assertEqual(machine["gpu_paths"], [["LOC", "NVL"], ["NVL", "LOC"]])
        self.assertEqual({nic["name"] for nic in machine["nics"]}, {"lo", "eth0", "mlx5_0"})

    def test_standard_input(self):
        with open(self.capture("topo.txt", MATRIX), encoding="utf-8") as file:
            self.assertEqual(len(self.machine("--from", "-", stdin=file)["gpus"]), 2)

    def test_what_a_capture_does_not_tell_is_null(self):
        machine = self.machine("--from", self.capture("ip.txt", ADDRESSES))
        self.assertIsNone(machine["gpus"])
        self.assertIsNone(machine["cpu"]["allowed"])

    def test_the_examples_of_the_readme_are_true(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        with open(os.path.join(root, "README.md"), encoding="utf-8") as file:
            lines = [line[4:].rstrip("\n") if line.startswith("    ") else line.rstrip("\n") for line in file]
        starts = [i for i, line in enumerate(lines) if line.startswith("$ toporun") and " --from tests/" in line]
        self.assertEqual(len(starts), 2)
        for start in starts:
            shown = lines[start + 1:lines.index("...", start)]
            command = [TOPORUN, *lines[start].split()[2:]]
            done = self.run_command(command, cwd=root)
            self.assertEqual(done.stdout.decode().splitlines()[:len(shown)], shown)

    def test_a_capture_that_was_saved_reads_back_equal(self):
        capture = self.capture("topo.txt", MATRIX + ADDRESSES)
        saved = os.path.join(self.work, "node.toml")
        self.assertEqual(self.run_command([TOPORUN, "detect", "--from", capture, "--save", saved]).returncode, 0)
        self.assertEqual(self.machine("--machine", saved), self.machine("--from", capture))
        self.assertEqual(self.machine("--from", saved), self.machine("--from", capture))

    def test_a_tree_and_an_archive_of_it_are_the_same_machine(self):
        tree = os.path.join(self.work, "tree")
        interface = os.path.join(tree, "sys/class/net/eth0")
        os.makedirs(interface)
        for name, text in (("ifindex", "2"), ("mtu", "9000"), ("type", "1"), ("operstate", "up"), ("flags", "0x1003")):
            with open(os.path.join(interface, name), "w", encoding="ascii") as file:
                file.write(text + "\n")
        names = [nic["name"] for nic in self.machine("--from", tree)["nics"]]
        self.assertEqual(names, ["eth0"])
        temporary = os.path.join(self.work, "temporary")
        os.mkdir(temporary)
        for mode, name in (("w", "sys.tar"), ("w:gz", "sys.tar.gz")):
            with self.subTest(name=name):
                archive = os.path.join(self.work, name)
                with tarfile.open(archive, mode) as file:
                    file.add(os.path.join(tree, "sys"), "node-a/sys")
                machine = self.machine("--from", archive, env=self.variables(TMPDIR=temporary))
                self.assertEqual([nic["name"] for nic in machine["nics"]], names)
                self.assertEqual(os.listdir(temporary), [])

    def test_a_signal_while_an_archive_is_unpacked_leaves_nothing(self):
        archive = os.path.join(self.work, "sys.tar")
        with tarfile.open(archive, "w") as file:
            for number in range(500):
                entry = tarfile.TarInfo(f"sys/class/net/eth{number}/ifindex")
                text = f"{number + 1}\n".encode()
                entry.size = len(text)
                file.addfile(entry, io.BytesIO(text))
        temporary = os.path.join(self.work, "temporary")
        os.mkdir(temporary)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                running = self.start([TOPORUN, "detect", "--from", archive],
                                     env=self.variables(TMPDIR=temporary))
                harness.wait_until(lambda: os.listdir(temporary) or running.process.poll() is not None,
                                   "start of the unpacking")
                running.process.send_signal(number)
                self.assertEqual(running.finish().returncode, -number)
                self.assertEqual(os.listdir(temporary), [])

    def test_the_running_machine_is_no_copy(self):
        for directory in ("/sys", "/proc", "/"):
            with self.subTest(directory=directory):
                done = self.run_command([TOPORUN, "detect", "--from", directory])
                self.assertEqual((done.returncode, done.stdout), (2, b""), done)

    def test_standard_input_is_read_once(self):
        for names in (["-", "-"], ["-", "/dev/stdin"]):
            with self.subTest(names=names):
                done = self.run_command([TOPORUN, "detect", "--from", names[0], "--from", names[1]],
                                        stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 2)
                self.assertIn(b"once", done.stderr)

    def test_a_file_that_is_not_understood_is_an_error_with_its_place(self):
        capture = self.capture("notes.txt", "\nhello there\n")
        for arguments, status in ((["detect", "--from", capture], 2), (["env", "--from", capture], 2),
                                  (["doctor", "--from", capture], 2),
                                  (["--dry-run", "--from", capture, "true"], 125)):
            with self.subTest(arguments=arguments):
                done = self.run_command([TOPORUN, *arguments])
                self.assertEqual((done.returncode, done.stdout), (status, b""), done)
                self.assertEqual(len(done.own_lines("error")), 1, done)
                self.assertIn(b"notes.txt:2:1", done.stderr)
                self.assertIn(b"nvidia-smi topo -m", done.stderr)

    def test_captures_belong_to_a_dry_run(self):
        done = self.run_command([TOPORUN, "--from", self.capture("topo.txt", MATRIX), "true"])
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"--dry-run", done.stderr)

    def test_a_dry_run_decides_for_the_capture(self):
        done = self.run_command([TOPORUN, "--dry-run", "--json", "--from", self.capture("topo.txt", MATRIX), "true"])
        settings = {setting["name"]: setting["value"] for setting in json.loads(done.stdout)["settings"]}
        self.assertEqual(settings["NCCL_P2P_LEVEL"], "NVL", done)

    def test_names_in_a_capture_do_not_act_on_the_terminal(self):
        hostile = MATRIX.replace("mlx5_0", "mlx5\x1b]0;x\x07_0")
        for arguments in (["detect"], ["detect", "--graph=dot"], ["detect", "--graph=text"], ["doctor"]):
            with self.subTest(arguments=arguments):
                done = self.run_command([TOPORUN, *arguments, "--from", self.capture("topo.txt", hostile)])
                self.assertNotIn(b"\x1b", done.stdout + done.stderr)
                self.assertNotIn(b"\x07", done.stdout + done.stderr)


class Doctor(CaptureFiles, Case):
    def test_status_and_text_of_a_fault(self):
        done = self.run_command([TOPORUN, "doctor", "--from", self.capture("ip.txt", LO_DOWN)])
        self.assertEqual((done.returncode, done.stderr), (1, b""), done)
        self.assertIn(b"iface-none", done.stdout)
        self.assertIn(b"ip link set lo up", done.stdout)

    def test_json(self):
        done = self.run_command([TOPORUN, "doctor", "--json", "--from", self.capture("ip.txt", LO_DOWN)])
        found = json.loads(done.stdout)
        self.assertEqual((done.returncode, found["schema"]), (1, "toporun.findings/1"))
        for key in ("id", "severity", "what", "evidence", "effect", "fix", "where"):
            self.assertIn(key, found["findings"][0])
        self.assertEqual(found["findings"][0]["severity"], "broken")

    def test_one_line_where_nothing_is_wrong(self):
        done = self.run_command([TOPORUN, "doctor", "--from", self.capture("ip.txt", ADDRESSES)])
        self.assertEqual((done.returncode, done.stderr), (0, b""), done)
        self.assertEqual(len(done.stdout.splitlines()), 1, done)

    def test_list(self):
        done = self.run_command([TOPORUN, "doctor", "--list"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"shm-too-small", done.stdout)

    def test_a_fault_that_breaks_the_job_is_said_before_it_starts(self):
        done = self.run_command([TOPORUN, "--dry-run", "--from", self.capture("ip.txt", LO_DOWN), "true"])
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"no network interface", done.stderr)


class Graph(CaptureFiles, Case):
    def test_dot_in_a_pipe_is_read_by_graphviz(self):
        done = self.run_command([TOPORUN, "detect", "--graph", "--from", self.capture("topo.txt", MATRIX)])
        self.assertTrue(done.stdout.lstrip().startswith((b"graph", b"digraph", b"//")), done)
        try:
            drawn = subprocess.run(["dot", "-Tsvg"], input=done.stdout, capture_output=True, check=False)
        except FileNotFoundError:
            self.skipTest("graphviz is not installed")
        self.assertEqual((drawn.returncode, drawn.stderr), (0, b""))

    def test_a_drawing_follows_the_locale(self):
        capture = self.capture("topo.txt", MATRIX)
        for locale, box in (("C", False), ("C.UTF-8", True)):
            with self.subTest(locale=locale):
                done = self.run_command([TOPORUN, "detect", "--graph=text", "--from", capture],
                                        env=self.variables(LC_ALL=locale))
                self.assertEqual("\u2500" in done.stdout.decode(), box, done)


if __name__ == "__main__":
    harness.main()
