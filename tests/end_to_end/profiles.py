"""toporun profiles, and profiles of files and directories in env, doctor and runs."""

import json
import os

import harness
from harness import TOPORUN, Case

MACHINE = """
vendor = "Supermicro"
product = "SYS-1"
nics = []
gpu_paths = [["LOC", "SYS"], ["SYS", "LOC"]]

[[gpus]]
name = "NVIDIA L40S"
pci = "0000:18:00.0"

[[gpus]]
name = "NVIDIA L40S"
pci = "0000:19:00.0"

[software]
nccl_version = "2.28.9"
"""

PROFILE = """name = "{name}"
title = "Own box"

[match]
vendor = "Supermicro"
gpu_count = {count}

[[values]]
variable = "NCCL_BUFFSIZE"
value = {value}
reason = "the class that our switches carry"
source = "network team"
"""


class Profiles:
    def setUp(self):
        super().setUp()
        self.config = os.path.join(self.directory, "config")
        self.place = os.path.join(self.config, "toporun", "profiles")
        self.machine = self.write("machine.toml", MACHINE)

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o644)
        return path

    def own(self, name, count=2, value=106):
        os.makedirs(self.place, exist_ok=True)
        for directory in (self.config, os.path.dirname(self.place), self.place):
            os.chmod(directory, 0o755)
        return self.write(f"config/toporun/profiles/{name}.toml",
                          PROFILE.format(name=name, count=count, value=value))

    def toporun(self, *arguments, **more):
        return self.run_command([TOPORUN, *arguments],
                                env=self.variables(XDG_CONFIG_HOME=self.config, **more))

    def json(self, *arguments, **more):
        done = self.toporun(*arguments, "--json", **more)
        self.assertEqual(done.returncode, 0, done)
        return json.loads(done.stdout)

    def setting(self, *arguments, **more):
        found = self.json("env", "--machine", self.machine, *arguments, **more)["settings"]
        return next((one for one in found if one["name"] == "NCCL_BUFFSIZE"), None)


class Verbs(Profiles, Case):
    def test_wrong_usage_is_status_2(self):
        for arguments, said in ((["profiles"], b"which?"), (["profiles", "lst"], b"did you mean"),
                                (["profiles", "show"], b"needs a name"), (["profiles", "check"], b"needs a file"),
                                (["profiles", "list", "x"], b"too many words"),
                                (["profiles", "show", "hgx-h10"], b"did you mean 'hgx-h100'?"),
                                (["profiles", "save", "Bad Name"], b"is no profile name"),
                                (["profiles", "save", "../x"], b"is no profile name"),
                                (["profiles", "save", ".x"], b"is no profile name"),
                                (["profiles", "check", "/no/such/file"], b"cannot read")):
            with self.subTest(arguments=arguments):
                machine = ["--machine", self.machine] if "save" in arguments else []
                done = self.toporun(*arguments, *machine)
                self.assertEqual((done.returncode, done.stdout), (2, b""), done)
                self.assertIn(said, done.stderr)
                if "save" in arguments:  # no file of that name is there to look at
                    self.assertNotIn(b".toml", done.stderr)

    def test_list_and_show(self):
        text = self.toporun("profiles", "list").stdout.decode()
        listed = self.json("profiles", "list")
        self.assertEqual(listed["schema"], "toporun.profiles/1")
        self.assertGreater(len(listed["profiles"]), 40)
        for profile in listed["profiles"]:
            self.assertIn(profile["name"], text)
            self.assertEqual(profile["from"], "built-in")
        shown = self.toporun("profiles", "show", "hgx-h100").stdout.decode()
        self.assertIn('name = "hgx-h100"', shown)
        self.assertTrue(shown.startswith("# profiles/hgx-h100.toml\n"))
        self.assertIn(self.json("profiles", "show", "hgx-h100")["profiles"][0]["text"], shown)

    def test_match_shows_what_fits_and_what_nearly_does(self):
        self.own("our-box")
        self.own("their-box", count=4)
        done = self.toporun("profiles", "match", "--machine", self.machine)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"fits: our-box (Own box, ", done.stdout)
        self.assertIn(b"NCCL_BUFFSIZE=106 [profile:our-box]", done.stdout)
        self.assertIn(b"near: their-box", done.stdout)
        self.assertIn(b"differs  gpu_count: wants 4; here 2", done.stdout)
        found = self.json("profiles", "match", "--machine", self.machine)
        self.assertEqual([(one["name"], one["from"], one["used"]) for one in found["matched"]],
                         [("our-box", "user", True)])
        self.assertEqual(found["nearest"][0]["name"], "their-box")
        self.assertEqual([one["value"] for one in found["settings"]], ["106"])

    def test_nothing_fits(self):
        machine = self.write("nothing.toml", "gpus = []\nnics = []\n")
        done = self.toporun("profiles", "match", "--machine", machine)
        self.assertEqual((done.returncode, done.stdout.splitlines()[0]), (0, b"no profile fits this machine"))

    def test_check(self):
        good = self.own("our-box")
        bad = self.write("bad.toml", PROFILE.format(name="bad", count='"x"', value=1))
        done = self.toporun("profiles", "check", good, "--machine", self.machine)
        self.assertEqual((done.returncode, done.stdout), (0, f"{good}: profile our-box, fits this machine\n".encode()))
        done = self.toporun("profiles", "check", good, bad, "--machine", self.machine)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{bad}:6:13: ".encode(), done.stdout)
        done = self.toporun("profiles", "check", bad, "--json", "--machine", self.machine)
        self.assertEqual(done.returncode, 1)
        error = json.loads(done.stdout)["files"][0]["error"]
        self.assertEqual(error["where"], f"{bad}:6:13")

    def test_check_is_for_a_machine_that_is_named(self):
        good = self.own("our-box")
        topo = self.write("topo.txt", "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n")
        for arguments, fits in ((["--machine", self.machine], b", fits"), (["--from", topo], b", does not fit")):
            with self.subTest(arguments=arguments):
                done = self.toporun("profiles", "check", good, *arguments)
                self.assertEqual((done.returncode, done.stderr), (0, b""), done)
                self.assertIn(fits, done.stdout)
        text = self.toporun("profiles", "--help").stdout
        self.assertIn(b"match, check, save: a saved machine", text)

    def test_the_example_is_a_profile(self):
        example = os.path.join(os.path.dirname(harness.__file__), "..", "..", "examples", "profile.toml")
        done = self.toporun("profiles", "check", example)
        self.assertEqual(done.returncode, 0, done)

    def test_escape_sequences_do_not_reach_the_terminal(self):
        bad = self.write("bad\x1b[31m.toml", 'name = "\\u001b[31m"\n')
        for arguments in (["check", bad], ["show", "\x1b[31m"], ["\x1b[31m"], ["save", "\x1b"]):
            done = self.toporun("profiles", *arguments)
            self.assertNotIn(b"\x1b", done.stdout + done.stderr)


class Save(Profiles, Case):
    def save(self, *arguments, **more):
        return self.toporun("profiles", "save", "our-box", "--machine", self.machine, *arguments, **more)

    def test_a_saved_profile_is_found_again(self):
        done = self.save(NCCL_BUFFSIZE="106", NCCL_ALGO="Ring", NCCL_SOCKET_IFNAME="eth7", NCCL_EMPTY="")
        self.assertEqual(done.returncode, 0, done)
        path = os.path.join(self.place, "our-box.toml")
        self.assertIn(path.encode(), done.stderr)
        self.assertEqual(os.stat(self.place).st_mode & 0o777, 0o700)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn('products = ["SYS-1"]', text)
        self.assertIn('gpu_count = 2', text)
        self.assertIn('links = "none"', text)
        self.assertIn('variable = "NCCL_BUFFSIZE"', text)
        self.assertNotIn("NCCL_ALGO", text)  # never set automatically
        self.assertNotIn("eth7", text)  # of one host
        self.assertEqual(self.toporun("profiles", "check", path).returncode, 0)
        self.assertEqual(self.setting()["origin"], "profile:our-box")

    def test_a_file_is_replaced_only_when_asked(self):
        self.assertEqual(self.save().returncode, 0)
        path = os.path.join(self.place, "our-box.toml")
        with open(path, "a", encoding="utf-8") as file:
            file.write("# mine\n")
        done = self.save()
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"is there already", done.stderr)
        with open(path, encoding="utf-8") as file:
            self.assertIn("# mine", file.read())
        self.assertEqual(self.save("--force").returncode, 0)
        with open(path, encoding="utf-8") as file:
            self.assertNotIn("# mine", file.read())

    def test_a_planted_link_is_not_followed(self):
        victim = self.write("victim", "precious")
        self.own("other")
        os.symlink(victim, os.path.join(self.place, "our-box.toml"))
        self.assertEqual(self.save().returncode, 2)
        self.assertEqual(self.save("--force").returncode, 0)
        with open(victim, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        self.assertFalse(os.path.islink(os.path.join(self.place, "our-box.toml")))

    def test_nothing_is_known(self):
        machine = self.write("nothing.toml", "gpus = []\nnics = []\n")
        done = self.toporun("profiles", "save", "x", "--machine", machine)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"nothing is known of this machine", done.stderr)

    def test_no_home(self):
        done = self.run_command([TOPORUN, "profiles", "save", "x", "--machine", self.machine],
                                env=self.variables(HOME="", XDG_CONFIG_HOME=""))
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"no place for your profiles", done.stderr)


class Places(Profiles, Case):
    def test_directory_then_command_line_then_the_user(self):
        self.assertIsNone(self.setting())
        self.own("our-box")
        self.assertEqual((self.setting()["value"], self.setting()["origin"]), ("106", "profile:our-box"))
        named = self.write("named.toml", PROFILE.format(name="named", count=2, value=98))
        self.assertEqual(self.setting("--profile", named)["value"], "98")
        own = self.setting("--profile", named, NCCL_BUFFSIZE="1")
        self.assertEqual((own["value"], own["origin"]), ("1", "user"))
        left = self.setting("--leave", "NCCL_BUFFSIZE")
        self.assertEqual((left["value"], left["origin"]), (None, "left-to-nccl"))

    def test_a_broken_file_is_a_warning_with_its_place(self):
        path = self.own("our-box")
        broken = self.own("broken", count='"x"')
        done = self.toporun("env", "--machine", self.machine)
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"({broken}:6:13)".encode(), done.stderr)
        self.assertIn(b"NCCL_BUFFSIZE=106", done.stdout)
        os.chmod(path, 0o666)
        done = self.toporun("env", "--machine", self.machine)
        self.assertIn(b"everybody may write to it", done.stderr)
        self.assertNotIn(b"NCCL_BUFFSIZE", done.stdout)

    def test_a_run_starts_whatever_the_directory_holds(self):
        broken = self.own("broken", count='"x"')
        done = self.toporun("sh", "-c", "echo trained")
        self.assertEqual((done.returncode, done.stdout), (0, b"trained\n"), done)
        self.assertIn(broken.encode(), done.stderr)

    def test_a_named_file_that_cannot_be_read_is_an_error(self):
        for arguments, status in ((["env", "--machine", self.machine], 2), (["doctor", "--machine", self.machine], 2),
                                  (["profiles", "list"], 2)):
            with self.subTest(arguments=arguments):
                done = self.toporun(*arguments, "--profile", "/no/such/file")
                self.assertEqual(done.returncode, status, done)
        done = self.toporun("--profile", "/no/such/file", "sh", "-c", "echo trained")
        self.assertEqual((done.returncode, done.stdout), (125, b""), done)

    def test_a_named_profile_that_does_not_fit_is_told(self):
        named = self.write("named.toml", PROFILE.format(name="named", count=4, value=98))
        done = self.toporun("env", "--machine", self.machine, "--profile", named)
        self.assertIn(b"the profile 'named' does not describe this machine", done.stderr)

    def test_doctor_names_the_profile(self):
        self.own("our-box")
        done = self.toporun("doctor", "--machine", self.machine)
        self.assertIn(b"profile: our-box (Own box), known by vendor Supermicro", done.stdout)
        self.assertEqual(json.loads(self.toporun("doctor", "--json", "--machine", self.machine).stdout)["profile"],
                         "our-box")


if __name__ == "__main__":
    harness.main()
