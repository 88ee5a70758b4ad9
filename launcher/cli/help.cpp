#include "launcher/cli/arguments.hpp"

namespace toporun::launcher {
namespace {

constexpr const char* kRun = R"help(usage: toporun [OPTIONS] COMMAND [ARG...]
       toporun detect | env | doctor | profiles | report [...]

Puts itself in front of a training command that already works: looks at the machine, chooses
NCCL settings, binding and worker counts with a reason for each, runs the command unchanged,
measures its communication and leaves a report.

  toporun torchrun --nproc_per_node=8 train.py
  toporun mpirun -np 16 ./train
  srun toporun torchrun --nnodes=... --rdzv_backend=c10d --rdzv_endpoint=... train.py

Look first:
      --dry-run             print the choices and the command as it would run, start nothing
      --preflight-only      check the launch line, the allocation and this machine, start nothing:
                            status 1 when the job would break, else 0
      --explain             say of each choice why, on what evidence, and what NCCL does without
      --json                with --dry-run or --preflight-only: one JSON object on standard output

Keep toporun out of something:
      --leave NAME          leave the variable NAME alone (repeatable; TOPORUN_LEAVE=A,B); also
                            nproc, rendezvous, ranks: what was left out is not filled in
      --bind HOW            the CPUs of the ranks: auto; numa, those of the GPU's NUMA node shared;
                            core, a share of those for each rank; none
      --no-bind             do not bind ranks to CPUs; the same as --bind=none
      --no-log              do not ask NCCL for its log
      --no-measure          do not measure; the same as --measure=off
      --measure WHEN        off, auto (where known to be safe) or always
      --take-log            take NCCL's log though NCCL_DEBUG is set already

Several nodes:
      --host-order FILE     where the hosts are: a Slurm topology.conf, SLURM_TOPOLOGY_ADDR of each
                            node, or one host a line; says how to start in the order of switches
      --export-tf-config    TF_CONFIG for TensorFlow's MultiWorkerMirroredStrategy, for each task

Profiles, what is known of a kind of machine ('toporun profiles --help'):
      --profile FILE        use this profile where it fits, before all others (repeatable)

The run:
      --comm-limit PERCENT  warn when collectives are in flight for more of the time (default 30)
      --run-dir DIR         where to leave the report (default toporun/COMMAND-ID; TOPORUN_DIR)
      --report-wait SECONDS wait for the report after the command ended, at most (default 2)
      --set-workers         change the number of loader workers that is on the command line to what
                            fits; {workers} in any word of the command stands for that number
      --reap                end what of the command still runs after its end: SIGTERM, five
                            seconds, SIGKILL. Without it, it is listed
      --no-pdeath           do not end the command when toporun is killed
      --strict              fail before the start (status 125) where a part of toporun fails
  -q, --quiet               print errors only

With --dry-run or --preflight-only, another machine:
      --machine FILE        a machine that 'toporun detect --save FILE' wrote
      --from FILE           a capture, as for 'toporun detect' (repeatable)
      --nccl-version V      decide for this NCCL version

  -h, --help                this text; 'toporun detect --help' for a subcommand
  -V, --version             the version

Subcommands ('toporun -- COMMAND' runs a program that is called like one):
  detect    show the machine: GPUs, links, CPUs, interfaces, limits
  env       print the chosen settings for a shell, without running anything
  doctor    look for faults of the machine that break or slow NCCL, with the fix for each
  report    show the newest run's report, or read any NCCL or job log
  profiles  list, show, match, check and save profiles of machines

TOPORUN=off makes toporun run the command at once and do nothing else. A variable that is set
already, in the environment or an NCCL configuration file, is never changed.

Exit status: the command's own (128+n for a signal); 125 when toporun fails before the start,
126 when the command cannot be run, 127 when it is not found.
)help";

constexpr const char* kDetect = R"help(usage: toporun detect [OPTIONS]

Shows this machine as toporun sees it. What could not be found out is said with the reason.

      --json                one JSON object, schema toporun.machine/1 (docs/machine.md)
      --save FILE           write the machine to FILE as TOML; --machine FILE reads it back
      --graph[=FORMAT]      the topology drawn as text, or as Graphviz DOT; without FORMAT text on
                            a terminal, dot elsewhere: toporun detect --graph | dot -Tsvg
      --nccl-version V      replace the detected NCCL version
  -h, --help                this text

Another machine instead of this one:
      --machine FILE        a machine that --save wrote
      --from FILE           what people paste into reports, '-' for standard input. Repeatable:
                            several captures describe one machine together. Known by content:
                            nvidia-smi (alone, -L, -q, --query-gpu=... --format=csv,
                            topo -m, topo -p2p, nvlink -s), dcgmi nvlink, rocm-smi, amd-smi,
                            topology XML of NCCL, RCCL and hwloc, NCCL_DEBUG=INFO logs, ip,
                            ifconfig, route, ethtool, ibstat, ibv_devinfo, ibdev2netdev,
                            show_gids, rdma link, lscpu, numactl -H, ulimit -a, df, mount,
                            lspci -vvv, lsmod, dmesg, /proc/cmdline, a tree or tar of /sys; the
                            whole list: docs/captures.md

Exit status: 0, or 2 for wrong usage and files that cannot be read or written.
)help";

constexpr const char* kEnv = R"help(usage: toporun env [OPTIONS]

Prints the settings that toporun would export, for a shell: eval "$(toporun env)". What it has to
say beside them goes to standard error (docs/settings.md).

      --format FORMAT       sh (default): export NAME=VALUE; on a terminal with the reasons
                            json: every decision, pair, rank and finding
                            toml: a table [settings] with the reasons
                            slurm: one option, for srun $(toporun env --format slurm) COMMAND
                            hosts: the job's hosts, one line a task, in the order of the switches
                            (for SLURM_HOSTFILE, or mpirun --hostfile FILE --map-by seq)
      --json                the same as --format json, schema toporun.settings/1
      --explain             say of each choice why, on standard error
      --nodes N             the job has N nodes (default: from SLURM, else unknown: taken as one)
      --ranks-per-node N    and N ranks on each
      --host-order FILE     where the hosts are: topology.conf, SLURM_TOPOLOGY_ADDR of each node, or
                            one host a line (default: topology.conf beside SLURM_CONF)
      --leave NAME          leave the variable NAME alone (repeatable; TOPORUN_LEAVE=A,B)
      --bind HOW --no-bind --no-log --no-measure --measure WHEN --take-log
                            as in 'toporun --help'
      --profile FILE        use this profile where it fits, before all others (repeatable)
      --machine FILE        decide for a saved machine
      --from FILE           decide for a capture, as for 'toporun detect' (repeatable)
      --nccl-version V      decide for this NCCL version
  -h, --help                this text

Exit status: 0, or 2 for wrong usage and files that cannot be read.
)help";

constexpr const char* kDoctor = R"help(usage: toporun doctor [OPTIONS]

Looks for faults that break or slow NCCL, and says of each what was seen, what it does and how to
fix it. Nothing on the machine is changed; versions of NCCL that were read are kept in
~/.cache/toporun.

      --list                say what is checked and why (docs/doctor.md)
      --json                one JSON object, schema toporun.findings/1
      --nodes N             the job has N nodes (default: from SLURM, else unknown)
      --ranks-per-node N    and N ranks on each
      --profile FILE        use this profile where it fits, before all others (repeatable)
      --machine FILE        check a saved machine
      --from FILE           check a capture, as for 'toporun detect' (repeatable)
      --nccl-version V      check for this NCCL version
  -h, --help                this text

Exit status: 1 when something is broken, 0 otherwise, 2 for wrong usage and files that cannot be
read.
)help";

constexpr const char* kReport =
    R"help(usage: toporun report [--explain] [--format FORMAT] [DIR | LOG...]

Prints the report of the newest run (TOPORUN_DIR if set, else toporun/latest), or of the run
directory DIR. Or reads logs that toporun did not make, of one run: what NCCL did there, and, where
the run failed, the first cause (docs/report.md).

  toporun report slurm-4711.out
  toporun report node-*.log dmesg.txt
  toporun report --explain nccl.log | less

A LOG is a file of any size, also packed by gzip or zstd; a directory of logs; '-' for standard
input.

      --explain             the log line by line, each with its meaning below it, who wrote it and,
                            where it tells of a failure, what to do; of a run its logs of NCCL
      --format FORMAT       text (default), json, md
      --json                the same as --format json, schema toporun.report/1; with --explain
                            toporun.explanation/1
  -h, --help                this text

Exit status: 0, or 2 when there is no report or a file cannot be read.
)help";

constexpr const char* kProfiles = R"help(usage: toporun profiles VERB [OPTIONS]

What is known of kinds of machines: which settings they need, which are better left to NCCL or to
the vendor's plugin, and why (docs/profiles.md).

  list            every profile: the built-in ones, those of /etc/toporun/profiles and of
                  ~/.config/toporun/profiles ($XDG_CONFIG_HOME), those of --profile
  show NAME       the file of a profile as it stands
  match           which profiles fit this machine, by what, and what they set; the nearest misses
                  with what differs
  check FILE...   read files as 'list' would, and say what is wrong with them and where, and
                  whether they fit this machine
  save NAME       write a profile of this machine into ~/.config/toporun/profiles, to be completed

      --profile FILE        read this profile too, before all others (repeatable)
      --force               save: replace a file that is there
      --json                one JSON object, schema toporun.profiles/1
      --machine FILE        match, check, save: a saved machine in place of this one
      --from FILE           match, check, save: a capture, as for 'toporun detect' (repeatable)
      --nccl-version V      match, save: for this NCCL version
  -h, --help                this text

Of two profiles that fit, the one of the stronger place is used first: --profile, then the user's,
then the site's, then the built-in one; at one place the one that describes the machine more
closely. A file that others than root and the user could write is not read.

Exit status: 0; 1 when check finds a file that is broken; 2 for wrong usage and files that cannot
be read.
)help";

}  // namespace

std::string help_text(Action action) {
    switch (action) {
        case Action::detect:
            return kDetect;
        case Action::env:
            return kEnv;
        case Action::doctor:
            return kDoctor;
        case Action::report:
            return kReport;
        case Action::profiles:
            return kProfiles;
        default:
            return kRun;
    }
}

}  // namespace toporun::launcher
