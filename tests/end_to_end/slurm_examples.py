"""The job scripts of examples/slurm under a real Slurm of two virtual nodes, whose names do not resolve. The CPUs and
GPUs that a script asks for are replaced on sbatch's command line by what these nodes have."""

import os
import re
import shutil
import unittest

import harness
from harness import TOPORUN
from slurm_cluster import MISSING, SlurmCase

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
SCRIPTS = os.path.join(EXAMPLES, "slurm")
NO_TORCHRUN = harness.torchrun_is_missing()
SMALL = ["--gpus-per-node=1", "--cpus-per-task=1"]
# Writes its own words, one task a line.
STUB = '#!/bin/sh\nprintf "%s\\n" "node $SLURM_NODEID: $*"\n'


class ScriptCase(SlurmCase):
    def setUp(self):
        super().setUp()
        self.need_gpus()
        self.programs = os.path.join(self.directory, "bin")
        os.mkdir(self.programs)
        os.symlink(TOPORUN, os.path.join(self.programs, "toporun"))
        os.symlink("/usr/bin/python3", os.path.join(self.programs, "python"))
        shutil.copy(os.path.join(EXAMPLES, "train_ddp.py"), os.path.join(self.work, "train.py"))
        path = os.pathsep.join((self.programs, os.path.dirname(TOPORUN), self.environment["PATH"]))
        self.environment.update(PATH=path, GLOO_SOCKET_IFNAME="lo", TOPORUN_NUM_WORKERS="0")

    def write_program(self, directory, name, text):
        path = os.path.join(directory, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_script(self, name, *options, **variables):
        """Submits a script of the folder and returns what its job wrote, after it has ended well."""
        done = self.run_command(["sbatch", "--parsable", f"--output={self.work}/%j.out", f"--error={self.work}/%j.err",
                                 *SMALL, *options, os.path.join(SCRIPTS, name)], env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done)
        state, out, err = self.wait_for_job(done.stdout.decode().strip())
        self.assertEqual(state, "COMPLETED", err)
        return sorted(out.splitlines()), err


@unittest.skipIf(MISSING, MISSING)
class Submitted(ScriptCase):
    def test_every_script_fits_an_allocation(self):
        names = sorted(os.listdir(SCRIPTS))
        self.assertGreaterEqual(len(names), 7)
        for name in names:
            with self.subTest(script=name):
                done = self.run_command(["sbatch", "--test-only", *SMALL, "--ntasks-per-node=1",
                                         os.path.join(SCRIPTS, name)])
                self.assertEqual(done.returncode, 0, done)
                self.assertRegex(done.stderr, rb"to start at .* on nodes n\[1-2\]")


@unittest.skipIf(MISSING, MISSING)
class Started(ScriptCase):
    @unittest.skipIf(NO_TORCHRUN, NO_TORCHRUN)
    def test_torchrun(self):
        lines, err = self.run_script("torchrun.sbatch")
        self.assertEqual([re.sub(rb": loss .*", b"", line) for line in lines],
                         [b"rank 0 of 2 on cpu", b"rank 1 of 2 on cpu"], err)
        self.assertNotIn(b"toporun: warning", err)

    @unittest.skipIf(NO_TORCHRUN, NO_TORCHRUN)
    def test_a_task_for_each_gpu(self):
        lines, err = self.run_script("task-per-gpu.sbatch", "--ntasks-per-node=1")
        self.assertEqual([re.sub(rb": loss .*", b"", line) for line in lines],
                         [b"rank 0 of 2 on cpu", b"rank 1 of 2 on cpu"], err)

    def test_mpi(self):
        self.write_program(self.work, "train", "#!/bin/sh\necho task $SLURM_PROCID ${RANK-unset}\n")
        lines, err = self.run_script("mpi.sbatch", "--ntasks-per-node=1", MPI="none")
        self.assertEqual(lines, [b"task 0 unset", b"task 1 unset"], err)

    def test_accelerate(self):
        self.write_program(self.programs, "accelerate", STUB)
        lines, err = self.run_script("accelerate.sbatch")
        self.assertEqual(len(lines), 2, err)
        for node, line in enumerate(lines):
            self.assertRegex(line, rb"^node %d: launch --multi_gpu --num_machines 2 --num_processes 2 --machine_rank %d "
                                   rb"--main_process_ip n1 --main_process_port 2\d{4} train.py$" % (node, node))

    def test_deepspeed(self):
        self.write_program(self.programs, "deepspeed", STUB)
        lines, err = self.run_script("deepspeed.sbatch")
        self.assertEqual(len(lines), 2, err)
        for node, line in enumerate(lines):
            self.assertRegex(line, rb"^node %d: --hostfile hosts-\d+ --no_ssh --node_rank %d --master_addr n1 "
                                   rb"--master_port 2\d{4} train.py --deepspeed_config ds.json$" % (node, node))
        hosts = [name for name in os.listdir(self.work) if name.startswith("hosts-")]
        with open(os.path.join(self.work, hosts[0]), encoding="ascii") as file:
            self.assertEqual(file.read(), "n1 slots=1\nn2 slots=1\n")


if __name__ == "__main__":
    harness.main()
