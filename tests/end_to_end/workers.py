"""Where ranks run and what they are told: CPU masks and memory policies inside real workers, loader workers
on the command line, and the number of ranks that was left out."""

import ctypes
import json
import os
import shutil
import sys
import unittest

import harness
from harness import TOPORUN, Case

SHIM = os.path.join(os.path.dirname(TOPORUN), "toporun-shim")
PYTHON_SHIM = os.path.join(os.path.dirname(TOPORUN), "toporun-python")

MACHINE = """
hostname = "node-a"
[cpu]
vendor = "GenuineIntel"
packages = 2
allowed = "0-31"
numa_nodes = [{ id = 0, cpus = "0-15" }, { id = 1, cpus = "16-31" }]
[limits]
shm_bytes = 17179869184
"""
GPU = '[[gpus]]\nindex = {0}\nname = "NVIDIA L40S"\nvendor = "nvidia"\npci = "0000:{0}0:00.0"\nnuma_node = {1}\n'

# Prints local rank, mask and memory policy of a worker, in one write.
LOOK = """
import ctypes, os
policy = ctypes.c_int(-1)
ctypes.CDLL(None).syscall({get_mempolicy}, ctypes.byref(policy), None, 0, None, 0)
rank = os.environ.get("LOCAL_RANK") or os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK")
mask = ",".join(map(str, sorted(os.sched_getaffinity(0))))
os.write(1, f"rank {{rank}} mask {{mask}} policy {{policy.value}}\\n".encode())
"""
GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236}.get(os.uname().machine)
PREFERRED = 1


def memory_policies_are_missing():
    """Why no memory policy can be seen here, or None."""
    if GET_MEMPOLICY is None:
        return "the number of get_mempolicy is not known for this processor"
    policy = ctypes.c_int(-1)
    if ctypes.CDLL(None).syscall(GET_MEMPOLICY, ctypes.byref(policy), None, 0, None, 0) != 0:
        return "the kernel or a container refuses get_mempolicy"
    return None


class Workers(Case):
    """--dry-run on a machine of two NUMA nodes with two GPUs each: 8 cores a rank."""

    def setUp(self):
        super().setUp()
        self.machine = os.path.join(self.directory, "machine.toml")
        with open(self.machine, "w", encoding="utf-8") as file:
            file.write(MACHINE + "".join(GPU.format(i, i // 2) for i in range(4)))
        self.torchrun = os.path.join(self.directory, "torchrun")
        with open(self.torchrun, "w", encoding="utf-8") as file:
            file.write(f"#!{sys.executable}\n")
        os.chmod(self.torchrun, 0o755)

    def dry_run(self, options, words, **variables):
        done = self.run_command([TOPORUN, "--dry-run", "--json", "--machine", self.machine, *options, *words],
                                env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done)
        return json.loads(done.stdout)

    def test_the_placeholder_is_the_only_thing_that_changes(self):
        words = [self.torchrun, "--nproc_per_node=4", "train.py", "--j={workers}", "", "a b", "${workers}",
                 "{{workers}}", "'\"$`\\", "-x{workers}y"]
        run = self.dry_run([], words)
        expected = [word.replace("--j={workers}", "--j=7").replace("-x{workers}y", "-x7y") for word in words]
        self.assertEqual(run["command"], expected)
        self.assertEqual(run["filled_in"], ["--j=7", "-x7y"])
        self.assertEqual(run["exported"]["TOPORUN_NUM_WORKERS"], "7")
        run = self.dry_run([], words, TOPORUN_NUM_WORKERS="3")
        self.assertEqual(run["filled_in"], ["--j=3", "-x3y"])

    def test_set_workers_changes_a_number_that_is_there_and_adds_none(self):
        words = [self.torchrun, "--nproc_per_node=4", "train.py", "--num-workers", "2", "--seed", "2"]
        self.assertEqual(self.dry_run([], words)["command"], words)
        changed = words[:4] + ["7"] + words[5:]
        run = self.dry_run(["--set-workers"], words)
        self.assertEqual(run["command"], changed)
        self.assertTrue(any("--num-workers 2: 7 in its place" in note for note in run["notes"]), run["notes"])
        without = words[:3] + words[5:]
        run = self.dry_run(["--set-workers"], without)
        self.assertEqual(run["command"], without)
        self.assertTrue(any("no number of loader workers" in note for note in run["notes"]), run["notes"])

    def test_few_and_many_loader_workers_are_said(self):
        def findings(number):
            run = self.dry_run([], [self.torchrun, "--nproc_per_node=4", "t.py", f"--num-workers={number}"])
            return {finding["id"]: finding["what"] for finding in run["findings"]}
        self.assertEqual(findings(2)["loader-workers-few"], "--num-workers=2 given: up to 7 possible")
        self.assertIn("9 loader workers a rank on 8 cores", findings(9)["loader-workers-exceed-cores"])
        self.assertFalse(any(name.startswith("loader") for name in findings(6)))

    def test_ranks_that_were_left_out_are_one_for_each_gpu(self):
        run = self.dry_run([], [self.torchrun, "train.py"])
        self.assertEqual(run["exported"]["PET_NPROC_PER_NODE"], "4")
        self.assertEqual(run["ranks_per_node"], 4)
        self.assertEqual(len(run["ranks"]), 4)
        for options, words, variables in (
                (["--leave", "nproc"], ["train.py"], {}),
                ([], ["--nproc_per_node=1", "train.py"], {}),
                ([], ["train.py"], {"PET_NPROC_PER_NODE": "1"}),
                ([], ["train.py", "--device", "cpu"], {}),
                ([], ["train.py", "--backend=gloo"], {}),
                ([], ["train.py"], {"CUDA_VISIBLE_DEVICES": "0"})):
            run = self.dry_run(options, [self.torchrun, *words], **variables)
            self.assertNotIn("PET_NPROC_PER_NODE", run["exported"], words)
            self.assertEqual(run["ranks_per_node"], 1, words)

    def test_a_number_that_is_not_known_is_a_safe_one(self):
        with open(self.machine, "w", encoding="utf-8") as file:
            file.write('hostname = "node-a"\n')
        command = [TOPORUN, "--dry-run", "--machine", self.machine]
        done = self.run_command([*command, "echo", "{workers}"])
        self.assertEqual(done.returncode, 0, done)
        self.assertTrue(done.stdout.endswith(b"echo 2\n"), done)
        self.assertTrue(any("is not known" in line for line in done.own_lines("warning")), done)
        self.assertEqual(self.run_command([*command, "--strict", "echo", "{workers}"]).returncode, 125)

    def test_a_real_run_gets_the_number(self):
        done = self.run_command([TOPORUN, "printf", "%s|", "a{workers}b", "${workers}", ""])
        self.assertRegex(done.stdout, rb"^a[0-9]+b\|\$\{workers\}\|\|$", done)
        off = self.run_command([TOPORUN, "printf", "%s|", "{workers}"], env=self.variables(TOPORUN="off"))
        self.assertEqual(off.stdout, b"2|")


class InsideWorkers(Case):
    """The shim in real launchers, with a plan of its own: what a worker sees."""

    def plan(self, launcher):
        cpus = sorted(os.sched_getaffinity(0))
        lines = ["toporun-shim 1", f"launcher {launcher}", "allowed " + ",".join(map(str, cpus)), "local_size 2",
                 f"cpus 0 {cpus[0]}", f"cpus 1 {cpus[-1]}", "memory 0 0", "unset PET_NPROC_PER_NODE 2"]
        path = os.path.join(self.directory, "plan")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return path, [f"rank 0 mask {cpus[0]} policy {PREFERRED}", f"rank 1 mask {cpus[-1]} policy 0"]

    def script(self):
        path = os.path.join(self.work, "look.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(LOOK.format(get_mempolicy=GET_MEMPOLICY))
        return path

    @unittest.skipIf(memory_policies_are_missing(), memory_policies_are_missing())
    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_masks_and_memory_policies_under_mpirun(self):
        plan, expected = self.plan("openmpi")
        done = self.run_command(
            ["mpirun", "--oversubscribe", "-np", "2", SHIM, sys.executable, self.script()],
            env=self.variables(TOPORUN_SHIM_PLAN=plan, OMPI_MCA_hwloc_base_binding_policy="none"))
        self.assertEqual(sorted(done.stdout.decode().splitlines()), expected, done)

    @unittest.skipIf(memory_policies_are_missing(), memory_policies_are_missing())
    @unittest.skipIf(harness.torchrun_is_missing(), harness.torchrun_is_missing())
    def test_masks_and_memory_policies_under_torchrun_with_ranks_from_the_environment(self):
        plan, expected = self.plan("torchrun")
        done = self.run_command(
            ["/usr/bin/torchrun", "--master_port", str(harness.free_port()), self.script()],
            env=self.variables(TOPORUN_SHIM_PLAN=plan, PYTHON_EXEC=PYTHON_SHIM, PET_NPROC_PER_NODE="2"))
        lines = [line for line in done.stdout.decode().splitlines() if line.startswith("rank ")]
        self.assertEqual(sorted(lines), expected, done)


if __name__ == "__main__":
    harness.main()
