"""What was left out of a launch: two torchruns on loopback that meet by what toporun fills in, and ranks of MPI
launchers that are told their place."""

import json
import os
import shutil
import subprocess
import unittest

import harness
from harness import TOPORUN, Case

TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "train_ddp.py")
NO_TORCHRUN = harness.torchrun_is_missing()
NO_NETWORK = None if shutil.which("ip") and subprocess.run(
    ["unshare", "-n", "ip", "link", "set", "lo", "up"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    check=False).returncode == 0 else "no network of its own can be made (unshare -n, ip)"
NO_MPIRUN = None if shutil.which("mpirun") else "Open MPI is not installed (mpirun)"
NO_HYDRA = None if shutil.which("mpiexec.hydra") else "MPICH is not installed (mpiexec.hydra)"
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG")
PRINT = "import os, sys\nsys.stdout.write('%%s\\n' %% [os.environ.get(n) for n in %r])" % (NAMES,)
# The worker's place as torchrun tells it, and what toporun must not leave behind.
WORKER = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * dist.get_rank()
dist.all_reduce(total)
left = [n for n in os.environ if n.startswith("PET_") and n not in ("PET_REDIRECTS", "PET_TEE")]
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")
os.write(1, (" ".join([os.environ[n] for n in names] + [str(int(total)), str(left)]) + "\\n").encode())
"""


def step_task(nodes, node, tasks_per_node=1, task=None, **more):
    """Variables of a task of a Slurm step whose virtual nodes n1, n2, ... are this machine."""
    task = node * tasks_per_node if task is None else task
    return {"SLURM_JOB_ID": "99", "SLURM_STEP_ID": "0", "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_STEP_NUM_NODES": str(nodes), "SLURM_STEP_NUM_TASKS": str(nodes * tasks_per_node),
            "SLURM_STEP_TASKS_PER_NODE": f"{tasks_per_node}(x{nodes})", "SLURM_STEP_NODELIST": f"n[1-{nodes}]",
            "SLURM_NODE_ALIASES": ",".join(f"n{i + 1}:127.0.0.1:n{i + 1}" for i in range(nodes)),
            "SLURMD_NODENAME": f"n{node + 1}", "SLURM_NODEID": str(node), "SLURM_PROCID": str(task),
            "SLURM_LOCALID": str(task % tasks_per_node), **more}


class TwoNodes:
    def two_agents(self, words, **more):
        """The results of both agents, each behind toporun as a task of a two-node step."""
        port = str(harness.free_port())
        agents = [self.start([TOPORUN, *words],
                             env=self.variables(GLOO_SOCKET_IFNAME="lo", MASTER_PORT=port,
                                                **step_task(2, node, **more)))
                  for node in (0, 1)]
        return [agent.finish(150) for agent in agents]  # each imports torch three times

    def worker(self):
        path = os.path.join(self.work, "worker.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(WORKER)
        return path


@unittest.skipIf(NO_TORCHRUN, NO_TORCHRUN)
class TwoTorchruns(TwoNodes, Case):
    def test_the_static_rendezvous_is_filled_in(self):
        results = self.two_agents(["torchrun", "--nproc_per_node=2", self.worker()])
        for node, done in enumerate(results):
            self.assertEqual(done.returncode, 0, done)
            # Node ranks and ranks follow Slurm's order; the sum of four ranks; nothing of ours is left.
            self.assertEqual(sorted(done.stdout.splitlines()),
                             [f"{2 * node + i} 4 {i} {node} 6 []".encode() for i in (0, 1)], done)
        self.assertEqual([name for name in os.listdir(os.path.join(self.work, "toporun")) if name != "latest"],
                         ["torchrun-99.0"])

    def test_c10d_is_filled_in_where_workers_may_start_again(self):
        results = self.two_agents(["torchrun", "--nproc_per_node=2", "--max_restarts=1", self.worker()])
        lines = sorted(line for done in results for line in done.stdout.splitlines())
        self.assertEqual([done.returncode for done in results], [0, 0], results)
        self.assertEqual([line.split()[0] for line in lines], [b"0", b"1", b"2", b"3"])
        self.assertEqual({line.split(b" ", 4)[4] for line in lines}, {b"6 []"})

    def test_what_was_given_is_kept(self):
        """The two forms of the reference manual, complete: nothing is filled in."""
        port = harness.free_port()
        for given in (["--rdzv_id=j1", "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}"],
                      ["--master_addr=127.0.0.1", f"--master_port={port}"]):
            with self.subTest(given=given):
                agents = []
                for node in (0, 1):
                    rank = [] if "--rdzv_backend=c10d" in given else [f"--node_rank={node}"]
                    agents.append(self.start(
                        [TOPORUN, "torchrun", "--nnodes=2", "--nproc_per_node=2", *given, *rank, self.worker()],
                        env=self.variables(GLOO_SOCKET_IFNAME="lo")))
                results = [agent.finish(150) for agent in agents]
                self.assertEqual([done.returncode for done in results], [0, 0], results)
                self.assertEqual(sorted(line.split()[0] for done in results for line in done.stdout.splitlines()),
                                 [b"0", b"1", b"2", b"3"])

    def test_the_example_trains_on_both(self):
        results = self.two_agents(["torchrun", "--nproc_per_node=1", TRAIN, "--steps", "4", "--num-workers", "0"])
        for node, done in enumerate(results):
            self.assertEqual(done.returncode, 0, done)
            self.assertRegex(done.stdout, rb"^rank %d of 2 on cpu: loss " % node)

    def test_the_dry_run_shows_it_with_reasons(self):
        done = self.run_command([TOPORUN, "--dry-run", "--json", "torchrun", "t.py"],
                                env=self.variables(**step_task(2, 1)))
        shown = json.loads(done.stdout)
        self.assertEqual(shown["nodes"], 2)
        self.assertEqual({name: value for name, value in shown["exported"].items() if name.startswith("PET_")},
                         {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "127.0.0.1",
                          "PET_MASTER_PORT": "21584"})
        self.assertIn("PET_NODE_RANK=1", shown["filled_in"])
        reasons = {s["name"]: s["reason"] for s in shown["settings"]}
        self.assertIn("SLURM_NODE_ALIASES", reasons["PET_MASTER_ADDR"])
        self.assertNotIn("rendezvous-loopback", [finding["id"] for finding in shown["findings"]])


@unittest.skipIf(NO_TORCHRUN or NO_NETWORK, NO_TORCHRUN or NO_NETWORK)
class PortInUse(Case):
    def test_torchrun_gets_another_port_where_its_own_is_in_use(self):
        """In a network of its own, so that no other test's torchrun meets the listener."""
        script = ("ip link set lo up && python3 -c 'import os, socket, sys\ns = socket.create_server((\"\", 29500))\n"
                  "sys.exit(os.spawnvp(os.P_WAIT, sys.argv[1], sys.argv[1:]))' \"$@\"")
        words = ["torchrun", "--nproc_per_node=1", "--no_python", "echo", "started"]
        bare, wrapped = (self.run_command(["unshare", "-n", "sh", "-c", script, "sh", *prefix, *words])
                         for prefix in ([], [TOPORUN]))
        self.assertEqual((bare.returncode, bare.stdout), (1, b""), bare)
        self.assertEqual((wrapped.returncode, wrapped.stdout), (0, b"started\n"), wrapped)


class RanksOfPython(Case):
    def places(self, words, **variables):
        done = self.run_command(words, env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done)
        return sorted(done.stdout.decode().splitlines())

    def rows(self, ranks, port):
        return [str([str(r), str(ranks), str(r), str(ranks), "127.0.0.1", port, None]) for r in range(ranks)]

    @unittest.skipIf(NO_MPIRUN, NO_MPIRUN)
    def test_mpirun(self):
        python = [shutil.which("python3"), "-c", PRINT]
        words = ["mpirun", "--oversubscribe", "-np", "2"]
        port = str(harness.free_port())
        self.assertEqual(self.places([TOPORUN, *words, *python], MASTER_PORT=port), self.rows(2, port))
        # Another place that somebody has set stays, and so does the absence of the rest.
        odd = self.places([TOPORUN, *words, *python], RANK="7")
        self.assertEqual(odd, [str(["7"] + [None] * 6)] * 2)
        shown = self.run_command([TOPORUN, "--dry-run", *words, *python], env=self.variables(MASTER_PORT=port))
        self.assertIn(b"toporun: filled in: RANK={rank} WORLD_SIZE={world_size} LOCAL_RANK={local_rank} "
                      b"LOCAL_WORLD_SIZE={local_size} MASTER_ADDR=127.0.0.1 (--explain says why)", shown.stderr)
        shell = self.places([TOPORUN, *words, "sh", "-c", "echo ${RANK-unset}"])
        self.assertEqual(shell, ["unset"] * 2)
        config = self.places([TOPORUN, "--export-tf-config", *words, *python], MASTER_PORT=port)
        workers = [f"localhost:{int(port) + 1 + i}" for i in (0, 1)]
        for rank, row in enumerate(config):
            self.assertEqual(json.loads(eval(row)[-1]), {"cluster": {"worker": workers},
                                                         "task": {"type": "worker", "index": rank}})

    @unittest.skipIf(NO_HYDRA, NO_HYDRA)
    def test_hydra(self):
        port = str(harness.free_port())
        words = ["mpiexec.hydra", "-n", "2", shutil.which("python3"), "-c", PRINT]
        self.assertEqual(self.places([TOPORUN, *words], MASTER_PORT=port), self.rows(2, port))

    def test_a_task_of_a_step(self):
        python = [TOPORUN, shutil.which("python3"), "-c", PRINT]
        task = step_task(2, 1, tasks_per_node=2, task=3)
        self.assertEqual(self.places(python, **task),
                         [str(["3", "4", "1", "2", "127.0.0.1", "21584", None])])
        self.assertEqual(self.places([TOPORUN, "--leave", "ranks", *python[1:]], **task), [str([None] * 7)])

    @unittest.skipIf(NO_TORCHRUN or NO_MPIRUN, NO_TORCHRUN or NO_MPIRUN)
    def test_the_example_trains_under_mpirun(self):
        done = self.run_command([TOPORUN, "mpirun", "--oversubscribe", "-np", "2", "/usr/bin/python3", TRAIN,
                                 "--steps", "4", "--num-workers", "0"],
                                env=self.variables(GLOO_SOCKET_IFNAME="lo"))
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(sorted(line.split(b":")[0] for line in done.stdout.splitlines()),
                         [b"rank 0 of 2 on cpu", b"rank 1 of 2 on cpu"])


if __name__ == "__main__":
    harness.main()
