"""`toporun env`: what its formats hold, that shells, TOML and JSON agree, and that a run chooses the same."""

import json
import os
import shutil
import tomllib

import harness
from harness import MATRIX, TOPORUN, Case

ADDRESSES = """1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default
    inet 127.0.0.1/8 scope host lo
2: wg0: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 1420 qdisc noqueue state UNKNOWN group default
    link/none
    inet 10.8.0.2/24 scope global wg0
3: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default
    link/ether 52:54:00:00:00:01 brd ff:ff:ff:ff:ff:ff
    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth0
"""
LO_DOWN = "1: lo: <LOOPBACK> mtu 65536 qdisc noop state DOWN group default\n"
WIDEST = 100


class UnprintableValues(Case):
    """No byte that a terminal acts on is written, and what is pasted gives the words back."""

    VALUE = "a\x1b[31m'%d!\u009b\u202e$b"  # the kernel takes such a name for an interface

    def machine(self):
        path = os.path.join(self.directory, "machine.toml")
        nic = '[[nics]]\nname = {}\nkind = "{}"\nstate = "up"\naddresses = ["{}"]\ndefault_route = {}\n'
        with open(path, "w", encoding="utf-8") as file:
            file.write('hostname = "node-a"\n' + nic.format('"lo"', "loopback", "127.0.0.1/8", "false")
                       + nic.format('"tun0"', "tunnel", "100.64.0.3/32", "false")
                       + nic.format(json.dumps(self.VALUE), "ethernet", "10.0.0.1/24", "true"))
        return path

    def assert_printable(self, done):
        for text in (done.stdout.decode(), done.stderr.decode()):
            self.assertTrue(text.replace("\n", "").isprintable(), text)

    def test_every_form(self):
        for options in (["--format", form] for form in ("sh", "json", "toml", "slurm")):
            for more in ([], ["--explain"]):
                done = self.run_command([TOPORUN, "env", "--machine", self.machine(), "--nodes", "2", *options, *more])
                self.assertEqual(done.returncode, 0, done)
                self.assert_printable(done)
        self.assertIn(b"\\x1b[31m", done.stderr)  # NCCL's own pick is told with it

    def test_the_command_of_a_dry_run(self):
        done = self.run_command([TOPORUN, "--dry-run", "printf", "%s", self.VALUE + "\nc"])
        self.assert_printable(done)
        pasted = self.run_command(["sh", "-c", done.stdout.decode()])
        self.assertEqual(pasted.stdout.decode(), self.VALUE + "\nc")


class OtherMachine:
    """What the classes below share: two bridged GPUs, a tunnel that NCCL would take, one good interface."""

    def captures(self, **texts):
        words = []
        for name, text in (texts or {"topo": MATRIX, "ip": ADDRESSES}).items():
            path = os.path.join(self.work, name + ".txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            words += ["--from", path]
        return words

    def settings(self, *arguments, nodes="2", **variables):
        words = [TOPORUN, "env", *self.captures(), "--nodes", nodes, "--ranks-per-node", "2",
                 "--nccl-version", "2.28.9", *arguments]
        return self.run_command(words, env=self.variables(**variables))

    def exported(self, **variables):
        done = self.settings("--json", **variables)
        self.assertEqual(done.returncode, 0, done)
        return {one["name"]: one["value"] for one in json.loads(done.stdout)["settings"] if one["exported"]}


class Formats(OtherMachine, Case):
    def test_json_holds_what_the_choices_are_about(self):
        exported = self.exported()
        self.assertEqual(exported["NCCL_P2P_LEVEL"], "NVL")
        self.assertEqual(exported["NCCL_SOCKET_IFNAME"], "eth0")
        self.assertIn("OMP_NUM_THREADS", exported)

    def test_every_shell_gets_the_exported_settings(self):
        exported = self.exported()
        for shell in ("sh", "dash", "bash", "zsh", "ksh"):
            if shutil.which(shell) is None:
                continue
            for line in ('eval "$("$@")"', 'eval $("$@")'):
                with self.subTest(shell=shell, line=line):
                    words = ["env", *self.captures(), "--nodes", "2", "--ranks-per-node", "2", "--nccl-version", "2.28.9"]
                    done = self.run_command([shell, "-c", line + "; env", shell, TOPORUN, *words])
                    self.assertEqual(done.returncode, 0, done)
                    variables = dict(entry.split("=", 1) for entry in done.stdout.decode().splitlines() if "=" in entry)
                    self.assertEqual({name: variables.get(name) for name in exported}, exported)

    def test_nothing_but_exports_for_a_shell(self):
        done = self.settings()
        self.assertEqual(done.returncode, 0, done)
        for line in done.stdout.decode().splitlines():
            self.assertRegex(line, r"^export [A-Z0-9_]+=[^ ]+;$")

    def test_a_terminal_shows_the_reasons(self):
        words = [TOPORUN, "env", *self.captures(), "--nodes", "2", "--nccl-version", "2.28.9"]
        terminal = harness.Terminal(self, words)
        self.assertEqual(terminal.finish(), 0)
        self.assertIn(b"export NCCL_P2P_LEVEL=NVL;\r\n", terminal.output)
        self.assertIn(b"# NCCL_P2P_LEVEL: ", terminal.output)

    def test_toml_reads_back(self):
        done = self.settings("--format", "toml")
        self.assertEqual(tomllib.loads(done.stdout.decode())["settings"], self.exported())

    def test_slurm_has_one_option_and_says_what_does_not_fit(self):
        # A list with a comma is nothing that --export could hold.
        done = self.settings("--format", "slurm")
        words = done.stdout.decode().split()
        self.assertEqual(len(words), 1, done)
        self.assertTrue(words[0].startswith("--export=ALL,"))
        held = dict(part.split("=", 1) for part in words[0].removeprefix("--export=ALL,").split(","))
        exported = self.exported()
        missing = {name: value for name, value in exported.items() if name not in held}
        self.assertEqual({**missing, **held}, exported)
        for name, value in missing.items():
            self.assertRegex(value, "[, '\"]")
            self.assertIn(f"before srun: export {name}=".encode(), done.stderr)

    def test_json_is_one_object_and_stderr_is_silent(self):
        done = self.settings("--format", "json", NCCL_P2P_LEVEL="nvl")
        self.assertEqual(done.stderr, b"")
        findings = {finding["id"] for finding in json.loads(done.stdout)["findings"]}
        self.assertIn("p2p-level-not-a-level", findings)

    def test_gpus_other_than_meant_are_a_finding(self):
        done = self.settings("--json", CUDA_VISIBLE_DEVICES="MIG-a,MIG-b")
        self.assertIn("mig-several-instances", {one["id"] for one in json.loads(done.stdout)["findings"]})

    def test_findings_go_to_stderr_and_change_neither_text_nor_status(self):
        for form in ("sh", "toml", "slurm"):
            with self.subTest(form=form):
                clean = self.settings("--format", form)
                done = self.settings("--format", form, NCCL_P2P_LEVEL="nvl")
                self.assertEqual((clean.returncode, done.returncode), (0, 0))
                self.assertIn(b"NCCL_P2P_LEVEL=nvl", done.stderr)
                self.assertNotIn(b"nvl", done.stdout.replace(b"NVL", b""))

    def test_nothing_to_set_is_no_text(self):
        done = self.run_command([TOPORUN, "env", *self.captures(ip=LO_DOWN)])
        self.assertEqual((done.returncode, done.stdout), (0, b""), done)


class Explanation(OtherMachine, Case):
    def test_it_is_narrow_and_goes_to_stderr(self):
        done = self.settings("--explain", NCCL_P2P_LEVEL="nvl")
        self.assertEqual(done.returncode, 0)
        lines = done.stderr.decode().splitlines()
        self.assertEqual([line for line in lines if len(line) > WIDEST or not line.startswith("toporun: ")], [])
        for text in ("NCCL_P2P_LEVEL=nvl (user)", "NCCL_SOCKET_IFNAME=eth0 (detected)", "    why      ",
                     "    seen     ", "    without  ", "the pair: 1 P2P", "[p2p-level-not-a-level]"):
            self.assertTrue([line for line in lines if text in line], text)
        self.assertTrue(done.stdout.startswith(b"export "))

    def test_every_setting_is_in_it(self):
        lines = self.settings("--explain").stderr.decode()
        for setting in json.loads(self.settings("--json").stdout)["settings"]:
            self.assertRegex(lines, rf"(?m)^toporun:   {setting['name']}(=| left alone)")


class Examples(Case):
    """The commands of docs/settings.md print what stands below them; UPDATE_GOLDEN=1 writes it there."""

    ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    PAGE = os.path.join(ROOT, "docs/settings.md")

    def printed(self, line):
        done = self.run_command([TOPORUN, *line.split()[2:]], cwd=self.ROOT)
        self.assertEqual(done.returncode, 0, done)
        shown = done.stderr if "--explain" in line else done.stdout
        return ["    " + one for one in shown.decode().splitlines()]

    def test_they_are_true(self):
        with open(self.PAGE, encoding="utf-8") as file:
            lines = file.read().splitlines()
        fresh, at, examples = [], 0, 0
        while at < len(lines):
            fresh.append(lines[at])
            at += 1
            if fresh[-1].startswith("    $ toporun env"):
                fresh += self.printed(fresh[-1].strip())
                examples += 1
                while at < len(lines) and lines[at].startswith("    "):
                    at += 1
        self.assertGreaterEqual(examples, 4)
        if os.environ.get("UPDATE_GOLDEN"):
            with open(self.PAGE, "w", encoding="utf-8") as file:
                file.write("\n".join(fresh) + "\n")
        else:
            self.assertEqual(lines, fresh)


class SameChoice(OtherMachine, Case):
    """A run decides as `toporun env` does, but for what needs a run (its log, its measurement, its launcher)."""

    def test_a_run_and_a_shell_choose_alike(self):
        ours = ("NCCL_DEBUG", "NCCL_PROFILER", "TOPORUN_", "OMPI_MCA_")
        for variables in ({}, {"NCCL_P2P_LEVEL": "PXB"}, {"OMP_NUM_THREADS": "3"}):
            with self.subTest(variables=variables):
                shell = json.loads(self.settings("--json", nodes="1", **variables).stdout)
                done = self.run_command([TOPORUN, *self.captures(), "--nccl-version", "2.28.9", "--dry-run", "--json",
                                         "mpirun", "-np", "2", "true"], env=self.variables(**variables))
                run = json.loads(done.stdout)
                chosen = [{one["name"]: (one["value"], one["origin"], one["reason"]) for one in which["settings"]
                           if not one["name"].startswith(ours)} for which in (shell, run)]
                self.assertEqual(chosen[0], chosen[1])


if __name__ == "__main__":
    harness.main()
