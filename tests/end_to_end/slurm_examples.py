"""The job scripts of examples/slurm under a real Slurm of two virtual nodes, whose names do not resolve. The CPUs and
GPUs that a script asks for are replaced on sbatch's command line by what these nodes have."""

import os
import re
import shutil
import sys
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


class ScriptHelpers:
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
class Submitted(ScriptHelpers, SlurmCase):
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
class Started(ScriptHelpers, SlurmCase):
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


@unittest.skipIf(NO_TORCHRUN, NO_TORCHRUN)
class Training(harness.Case):
    def test_nccl_only_where_each_rank_has_a_gpu(self):
        sys.path.insert(0, EXAMPLES)
        try:
            import train_ddp
        finally:
            sys.path.remove(EXAMPLES)
        two, torchrun = {"LOCAL_WORLD_SIZE": "2"}, {"TORCHELASTIC_RUN_ID": "none"}
        task = {"SLURM_GPUS_PER_TASK": "1"}
        for gpus, environment, expected in ((0, {}, False), (1, {}, True), (1, two, False), (2, two, True),
                                            (1, {**two, **torchrun}, False), (1, {**two, **task}, True),
                                            (1, {**two, **task, **torchrun}, False), (0, {**two, **task}, False)):
            with self.subTest(gpus=gpus, environment=environment):
                self.assertEqual(train_ddp.has_own_gpu(gpus, environment), expected)


PLACE = ("import os\nprint(*[os.environ.get(n) for n in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', "
         "'SLURM_NODEID', 'MASTER_PORT')])")
NODE_RANK = ("import os\nos.write(1, ' '.join([os.environ[n] for n in ('RANK', 'WORLD_SIZE', 'GROUP_RANK', "
             "'SLURMD_NODENAME')]).encode() + b'\\n')\n")


@unittest.skipIf(MISSING, MISSING)
class FilledIn(ScriptHelpers, SlurmCase):
    """What toporun tells the ranks, in every order that srun gives them."""

    def places(self, *words, **variables):
        """The places that Python prints, and the port, which must be the same for all."""
        done = self.run_command(["srun", *words, TOPORUN, "python", "-c", PLACE], env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done)
        rows = [line.split() for line in sorted(done.stdout.decode().splitlines())]
        self.assertEqual(len({row[-1] for row in rows}), 1, done)
        return [" ".join(row[:-1]) for row in rows]

    def host_file(self):
        path = os.path.join(self.work, "hosts")
        with open(path, "w", encoding="ascii") as file:
            file.write("n2\nn1\n")
        return path

    def test_ranks_of_python(self):
        self.assertEqual(self.places("-N2"), ["0 2 0 1 0", "1 2 0 1 1"])
        self.assertEqual(self.places("-N1", "-n2", "--overcommit"), ["0 2 0 2 0", "1 2 1 2 0"])
        self.assertEqual(self.places("-N2", "-n4", "--overcommit"),
                         ["0 4 0 2 0", "1 4 1 2 0", "2 4 0 2 1", "3 4 1 2 1"])
        self.assertEqual(self.places("-N2", "-n4", "--overcommit", "-m", "cyclic"),
                         ["0 4 0 2 0", "1 4 0 2 1", "2 4 1 2 0", "3 4 1 2 1"])
        self.assertEqual(self.places("-n2", "-m", "arbitrary", SLURM_HOSTFILE=self.host_file()),
                         ["0 2 0 1 1", "1 2 0 1 0"])
        self.assertEqual(self.places("-n1"), ["None None None None 0"])

    @unittest.skipIf(NO_TORCHRUN, NO_TORCHRUN)
    def test_in_front_of_srun(self):
        job = self.submit(f"exec {TOPORUN} srun torchrun --nproc_per_node=1 train.py --steps 4\n", "-N2", *SMALL)
        state, out, err = self.wait_for_job(job)
        self.assertEqual(state, "COMPLETED", err)
        self.assertEqual(sorted(re.sub(rb": loss .*", b"", line) for line in out.splitlines()),
                         [b"rank 0 of 2 on cpu", b"rank 1 of 2 on cpu"], err)

    @unittest.skipIf(NO_TORCHRUN, NO_TORCHRUN)
    def test_torchrun_follows_the_order_of_a_host_file(self):
        with open(os.path.join(self.work, "worker.py"), "w", encoding="ascii") as file:
            file.write(NODE_RANK)
        done = self.run_command(["srun", "-n2", "-m", "arbitrary", TOPORUN, "torchrun", "worker.py"],
                                env=self.variables(SLURM_HOSTFILE=self.host_file()))
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(sorted(done.stdout.splitlines()), [b"0 2 0 n2", b"1 2 1 n1"], done)


if __name__ == "__main__":
    harness.main()
