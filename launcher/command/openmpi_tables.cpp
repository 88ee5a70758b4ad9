#include "launcher/command/openmpi_tables.hpp"

#include <array>

namespace toporun::launcher {
namespace {

// What both majors know (orterun --help all, 4.1.4; PRRTE's deprecated names).
#define TOPORUN_OPEN_MPI_COMMON                                                                   \
    two("mca", Meaning::parameter), two("gmca", Meaning::parameter),                              \
        one("np", Meaning::total_ranks), one("n", Meaning::total_ranks),                          \
        one("c", Meaning::total_ranks), one("N", Meaning::ranks_per_node),                        \
        one("npernode", Meaning::ranks_per_node), flag("pernode", Meaning::one_rank_per_node),    \
        one("npersocket"), one("H", Meaning::hosts), one("host", Meaning::hosts),                 \
        one("hostfile", Meaning::host_file), one("machinefile", Meaning::host_file),              \
        one("default-hostfile", Meaning::host_file), one("rankfile", Meaning::rank_file),         \
        one("rf", Meaning::rank_file), one("map-by", Meaning::map_policy), one("rank-by"),        \
        one("bind-to", Meaning::bind_policy), one("cpu-set", Meaning::binds),                     \
        one("cpu-list", Meaning::binds), one("cpus-per-proc", Meaning::binds),                    \
        one("cpus-per-rank", Meaning::binds), flag("bind-to-core", Meaning::binds),               \
        flag("bind-to-socket", Meaning::binds), one("ppr", Meaning::map_policy),                  \
        one("x", Meaning::given_variable), one("wd", Meaning::directory),                         \
        one("wdir", Meaning::directory), one("prefix"), one("output-filename"), one("stdin"),     \
        one("timeout"), one("personality"), one("report-uri"), one("launch-agent"),               \
        one("max-restarts"), one("preload-files"), one("max-vm-size"),                            \
        one("path", Meaning::opaque), one("app", Meaning::opaque), one("tune", Meaning::opaque),  \
        one("am", Meaning::opaque), one("hnp", Meaning::opaque), one("dvm-uri", Meaning::opaque), \
        one("xterm", Meaning::opaque), flag("preload-binary", Meaning::opaque),                   \
        flag("s", Meaning::opaque), flag("debug", Meaning::opaque), flag("tv", Meaning::opaque),  \
        flag("do-not-launch", Meaning::opaque), flag("help", Meaning::no_launch),                 \
        flag("h", Meaning::no_launch), flag("version", Meaning::no_launch),                       \
        flag("V", Meaning::no_launch), flag("q"), flag("quiet"), flag("v"), flag("verbose"),      \
        flag("allow-run-as-root"), flag("bycore"), flag("bynode", Meaning::map_policy),           \
        flag("byslot"), flag("nolocal", Meaning::host_file), flag("oversubscribe"),               \
        flag("nooversubscribe"), flag("report-bindings"), flag("tag-output"),                     \
        flag("timestamp-output"), flag("xml"), flag("merge-stderr-to-stdout"),                    \
        flag("display-map"), flag("display-allocation"), flag("display-devel-map"),               \
        flag("display-devel-allocation"), flag("display-topo"), flag("display-diffable-map"),     \
        flag("use-hwthread-cpus"), flag("do-not-resolve"), flag("noprefix"),                      \
        flag("enable-recovery"), flag("disable-recovery"), flag("continuous"),                    \
        flag("leave-session-attached"), flag("novm"), flag("debug-daemons"),                      \
        flag("debug-daemons-file"), flag("get-stack-traces"), flag("index-argv-by-rank"),         \
        flag("report-state-on-timeout"), flag("report-child-jobs-separately"),                    \
        flag("show-progress"), flag("set-cwd-to-session-dir"), flag("enable-instant-on-support"), \
        flag("output-proctable"), flag("d"), flag("debug-devel")

constexpr std::array kOpenMpi4 = {
    TOPORUN_OPEN_MPI_COMMON,
    one("cf"),
    one("cartofile"),
    one("debugger", Meaning::opaque),
    one("ompi-server", Meaning::opaque),
    one("report-events"),
    one("report-pid"),
    one("xml-file"),
    flag("dvm", Meaning::opaque),
    flag("use-regexp"),
    flag("fwd-mpirun-port"),
};

// mpirun(1) of Open MPI 5 and prterun(1) of PRRTE 3.
constexpr std::array kOpenMpi5 = {
    TOPORUN_OPEN_MPI_COMMON,
    two("prtemca", Meaning::parameter),
    two("pmixmca", Meaning::parameter),
    two("omca", Meaning::parameter),
    one("output"),
    one("display"),
    one("runtime-options"),
    one("forward-signals"),
    one("stream-buffering"),
    one("mem-alloc-kind"),
    one("gpu-support"),
    one("with-ft"),
    one("dvm", Meaning::opaque),
    one("pset"),
    one("session"),
    flag("p"),
    flag("parsable"),
    flag("parseable"),
    flag("forward-environment"),
    flag("daemonize"),
    flag("system-server"),
};

// mpiexec.hydra -help (MPICH 4.0) and Intel MPI's reference.
constexpr std::array kHydra = {
    two_or_assignment("genv", Meaning::given_variable),
    two_or_assignment("env", Meaning::given_variable),
    one("n", Meaning::total_ranks),
    one("np", Meaning::total_ranks),
    one("ppn", Meaning::ranks_per_node),
    one("perhost", Meaning::ranks_per_node),
    one("f", Meaning::host_file),
    one("hostfile", Meaning::host_file),
    one("machinefile", Meaning::host_file),
    one("host", Meaning::hosts),
    one("hosts", Meaning::hosts),
    one("hostlist", Meaning::hosts),
    one("wdir", Meaning::directory),
    one("configfile", Meaning::opaque),
    one("genvlist", Meaning::narrows_variables),
    one("envlist", Meaning::narrows_variables),
    one("launcher"),
    one("bootstrap"),
    one("launcher-exec"),
    one("bootstrap-exec"),
    one("bootstrap-exec-args"),
    one("rmk", Meaning::elsewhere),
    one("topolib"),
    one("bind-to", Meaning::bind_policy),
    one("map-by"),
    one("membind"),
    one("demux"),
    one("iface"),
    one("prepend-pattern"),
    one("outfile-pattern"),
    one("errfile-pattern"),
    one("nameserver"),
    one("order-nodes"),
    one("localhost"),
    one("usize"),
    one("rankmap"),
    one("gpus-per-proc"),
    one("g"),
    one("gpu-subdevs-per-proc"),
    one("memory-alloc-kinds"),
    one("genvexcl", Meaning::narrows_variables),
    one("s"),
    flag("genvall"),
    flag("genvnone", Meaning::narrows_variables),
    flag("envall"),
    flag("envnone", Meaning::narrows_variables),
    flag("l"),
    flag("prepend-rank"),
    flag("v"),
    flag("verbose"),
    flag("info", Meaning::no_launch),
    flag("version", Meaning::no_launch),
    flag("V", Meaning::no_launch),
    flag("help", Meaning::no_launch),
    flag("h", Meaning::no_launch),
    flag("print-all-exitcodes"),
    flag("profile"),
    flag("disable-auto-cleanup"),
    flag("disable-hostname-propagation"),
    flag("skip-launch-node"),
    flag("enable-x"),
    flag("disable-x"),
    flag("pmi-port"),
    flag("rr"),
    flag("grr"),
    flag("tune"),
    flag("trace"),
    flag("check_mpi"),
    flag("print-rank-map"),
    flag("silent-abort"),
    flag("nolocal", Meaning::host_file),
    flag("aps"),
};

#undef TOPORUN_OPEN_MPI_COMMON

}  // namespace

// orterun takes no `--np=1`; `--` before the program is accepted (4.1.4).
const OptionTable kOpenMpi4Options = {
    .options = kOpenMpi4, .equals = false, .single_dash_long = true, .glued = false};
const OptionTable kOpenMpi5Options = {
    .options = kOpenMpi5, .single_dash_long = true, .glued = true};
// Hydra refuses `--` (4.0.2): then the command fails by itself.
const OptionTable kHydraOptions = {
    .options = kHydra, .single_dash_long = true, .glued = false, .double_dash = false};

}  // namespace toporun::launcher
