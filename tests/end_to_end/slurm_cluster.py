"""A real Slurm of two virtual nodes on this machine, for the tests that need one.

Debian's slurmd runs several nodes on one host (`slurmd -N`). Everything lives in a temporary directory: the
munge key and socket, slurm.conf, the state of the controller, the spool directories, and character devices
that stand for GPUs. All addresses are 127.0.0.1, all ports free ones; no cgroups, no accounting, and nothing
below /etc or /run is touched. The daemons run in the foreground as children of the test, so that they are
ended by their process ids, and by the kernel when the test is killed.

Each node has the CPUs of this machine, so the masks of a step are real ones.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile

import harness
from harness import DEADLINE_S, TOPORUN, Case, free_port, read_file, wait_until

PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "sinfo", "scontrol", "scancel")
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
NODES = ("n1", "n2")
GPUS_PER_NODE = 4
CPUS_PER_NODE = os.cpu_count() or 1
KILL_WAIT_S = 2  # between SIGTERM and SIGKILL of a job that is ended
JOB_DEADLINE_S = 3 * DEADLINE_S
ASK_INTERVAL_S = 0.1  # each question starts a program

CONFIGURATION = """\
ClusterName=toporun
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SwitchType=switch/none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
StateSaveLocation={directory}/controller
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
SlurmdParameters=config_overrides
KillWait={kill_wait}
InactiveLimit=0
{nodes}
PartitionName=debug Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""
NODE = ("NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Sockets=1 "
        "CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=1000 {gpus}State=UNKNOWN")


def what_is_missing():
    """Why no Slurm can be started here, or None."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (munge slurmctld slurmd slurm-client)"
    if os.geteuid() != 0:
        return "the daemons of Slurm need root to start jobs"
    return None


def end_with_parent():
    """The child gets SIGTERM when the test's process is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def make_device(path):
    """A character device like /dev/null that stands for a GPU; False where mknod is refused."""
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))
    except OSError:
        return False
    return True


class Cluster:
    """up() starts it and down() ends it, whatever has failed between."""

    def __init__(self):
        self.directory = None
        self.daemons = []
        self.gpus = False

    def path(self, name):
        return os.path.join(self.directory, name)

    def environment(self):
        return {"SLURM_CONF": self.path("slurm.conf"), "PATH": PATH}

    def up(self):
        self.directory = tempfile.mkdtemp(prefix="toporun-slurm-")
        os.mkdir(self.path("controller"))
        self.write_configuration()
        subprocess.run([shutil.which("mungekey", path=PATH), "-c", "-k", self.path("munge.key")], check=True,
                       stdin=subprocess.DEVNULL, timeout=DEADLINE_S)
        # --force: the directory belongs to this test alone, and munged would rather have everybody see it.
        self.start("munged", "--foreground", "--force", f"--socket={self.path('munge.socket')}",
                   f"--key-file={self.path('munge.key')}", f"--pid-file={self.path('munged.pid')}",
                   f"--log-file={self.path('munged.log')}", f"--seed-file={self.path('munged.seed')}")
        wait_until(lambda: os.path.exists(self.path("munge.socket")), "munged")
        self.start("slurmctld", "-D", "-c", "-f", self.path("slurm.conf"))
        for name in NODES:
            self.start("slurmd", "-D", "-N", name, "-f", self.path("slurm.conf"))
        wait_until(lambda: self.ask("sinfo", "-h", "-o", "%D %T") == f"{len(NODES)} idle", "idle nodes",
                   interval=ASK_INTERVAL_S)

    def down(self):
        for daemon in reversed(self.daemons):
            if daemon.poll() is None:
                daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons.clear()
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, program, *words):
        with open(self.path(f"{program}.out"), "ab") as output:
            daemon = subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn
                [shutil.which(program, path=PATH), *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                process_group=0, preexec_fn=end_with_parent, cwd=self.directory,
                env={name: value for name, value in os.environ.items() if not harness.SCRUBBED.match(name)}
                | self.environment())
        self.daemons.append(daemon)

    def write_configuration(self):
        host = socket.gethostname().split(".")[0]
        devices = [self.path(f"gpu{i}") for i in range(len(NODES) * GPUS_PER_NODE)]
        self.gpus = all([make_device(path) for path in devices])
        gpus = f"Gres=gpu:{GPUS_PER_NODE} " if self.gpus else ""
        nodes = [NODE.format(name=name, host=host, port=free_port(), cpus=CPUS_PER_NODE, gpus=gpus) for name in NODES]
        if self.gpus:
            nodes.insert(0, "GresTypes=gpu")
        with open(self.path("slurm.conf"), "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(directory=self.directory, host=host, controller_port=free_port(),
                                            kill_wait=KILL_WAIT_S, nodes="\n".join(nodes), count=len(NODES)))
        with open(self.path("topology.conf"), "w", encoding="ascii") as file:
            for i, name in enumerate(NODES):
                file.write(f"SwitchName=leaf{i + 1} Nodes={name}\n")
            file.write("SwitchName=spine Switches=" + ",".join(f"leaf{i + 1}" for i in range(len(NODES))) + "\n")
        with open(self.path("gres.conf"), "w", encoding="ascii") as file:
            for i, name in enumerate(NODES):
                first, last = i * GPUS_PER_NODE, (i + 1) * GPUS_PER_NODE - 1
                if self.gpus:
                    file.write(f"NodeName={name} Name=gpu File={self.path('gpu')}[{first}-{last}]\n")

    def ask(self, program, *words):
        """What one of Slurm's programs prints; "" when it fails."""
        done = subprocess.run([shutil.which(program, path=PATH), *words], capture_output=True, text=True, check=False,
                              timeout=DEADLINE_S, env={**os.environ, **self.environment()}, stdin=subprocess.DEVNULL)
        return done.stdout.strip() if done.returncode == 0 else ""

    def no_jobs(self):
        return self.ask("sinfo", "-h", "-o", "%D %T") == f"{len(NODES)} idle"


MISSING = what_is_missing()


class SlurmCase(Case):
    """A test with a Slurm, which all tests of the class share."""

    cluster = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.down)  # also when up() fails
        try:
            cls.cluster.up()
        except AssertionError as error:
            logs = {name: read_file(cls.cluster.path(name))[-1000:]
                    for name in os.listdir(cls.cluster.directory) if name.endswith((".log", ".out"))}
            raise AssertionError(f"{error}; {logs}") from None

    def setUp(self):
        super().setUp()
        self.environment.update(self.cluster.environment())
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        self.cluster.ask("scancel", "--signal=KILL", "--full", "--user=root")
        self.cluster.ask("scancel", "--user=root")
        wait_until(self.cluster.no_jobs, "end of all jobs", JOB_DEADLINE_S, ASK_INTERVAL_S)

    def need_gpus(self):
        if not self.cluster.gpus:
            self.skipTest("no devices can be made here that stand for GPUs (mknod)")

    def submit(self, script, *options, **variables):
        """Submits a job script; returns its id."""
        path = os.path.join(self.work, f"job-{self.commands}.sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + script)
        done = self.run_command(["sbatch", "--parsable", f"--output={self.work}/%j.out", f"--error={self.work}/%j.err",
                                 *options, path], env=self.variables(**variables))
        self.assertEqual(done.returncode, 0, done)
        return done.stdout.decode().strip()

    def job_state(self, job):
        return self.cluster.ask("squeue", "-h", "-j", job, "-o", "%T", "--states=all")

    def wait_for_job(self, job):
        """The last state of a job, and what its script and steps wrote to stdout and stderr."""
        ended = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY")
        state = wait_until(lambda: next((s for s in ended if s == self.job_state(job)), None), f"end of job {job}",
                           JOB_DEADLINE_S, ASK_INTERVAL_S)
        return state, *(read_file(os.path.join(self.work, f"{job}.{kind}")) for kind in ("out", "err"))

    def run_directories(self):
        """Names of the run directories below the working directory, without the link to the newest."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(os.path.join(self.work, "toporun")) if name != "latest")
        return []

    def run_files(self, directory):
        return sorted(os.listdir(os.path.join(self.work, "toporun", directory)))

    def forms(self, options, program):
        """The bare command, and the two places where toporun stands."""
        return {"bare": ["srun", *options, *program],
                "inside": ["srun", *options, TOPORUN, *program],
                "outside": [TOPORUN, "srun", *options, *program]}

    def compare_forms(self, options, program, **more):
        """Status and sorted lines of stdout are those of the bare command; returns its result."""
        results = {name: self.run_command(words, **more) for name, words in self.forms(options, program).items()}
        for name, result in results.items():
            bare = results["bare"]
            self.assertEqual(bare.returncode, result.returncode, f"{name}: bare {bare}\n{name}: {result}")
            self.assertEqual(sorted(bare.stdout.splitlines()), sorted(result.stdout.splitlines()), f"{name}: {result}")
        return results["bare"]
