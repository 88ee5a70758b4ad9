#include "launcher/command/node_share.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/descriptors.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "detect/files.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/step.hpp"

namespace toporun::launcher {
namespace {

namespace fs = std::filesystem;
using ShareClock = std::chrono::steady_clock;

/// Longer than detect::Sources::nvml_limit, for whoever looks.
constexpr std::chrono::seconds kSharePatience{12};
constexpr int kSharePauseMs = 10;
constexpr std::int64_t kFreshSeconds = 60;
constexpr std::size_t kMostShared = 16u << 20;
constexpr std::size_t kMostEnvironment = 4u << 20;
constexpr int kMostAncestors = 64;

struct LocalVariables {
    const char* rank;
    const char* ranks;  ///< of the node; nullptr: the launcher has no such variable
};
/// Inner launchers first; Slurm's come from task_of_step(). The same as in launcher/shim/rank.c.
constexpr LocalVariables kLocalVariables[] = {
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"},
    {"JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
    {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"FLUX_TASK_LOCAL_ID", nullptr},
};

std::optional<int> place_number(const Environment& environment, const char* name) {
    const auto number = to_integer(variable(environment, name));
    if (!number || *number < 0 || *number >= 1 << 20) return std::nullopt;
    return static_cast<int>(*number);
}

/// Whether the process was started as the rank itself or by something that the rank started.
bool is_of_rank(pid_t process, const std::string& entry) {
    const auto text =
        detect::Files("").read(fmt::format("/proc/{}/environ", process), kMostEnvironment);
    if (!text) return false;  // another user's: a daemon of the launcher
    const std::vector<std::string> entries = split(*text, '\0');
    return std::find(entries.begin(), entries.end(), entry) != entries.end();
}

struct ProcessPlace {
    pid_t parent = 0;
    std::string start;  ///< in clock ticks since the kernel started; "" = unknown
};

ProcessPlace process_place(pid_t process) {
    const std::string text =
        detect::Files("").read(fmt::format("/proc/{}/stat", process), 4096).value_or("");
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) return {};
    // proc(5): the third field is the state, the fourth the parent, the 22nd the start.
    const std::vector<std::string> fields =
        split(trim(std::string_view(text).substr(name_end + 1)), ' ');
    if (fields.size() < 20) return {};
    return {static_cast<pid_t>(to_integer(fields[1]).value_or(0)), fields[19]};
}

/// "PID-START" of the process that started the ranks; "" where it cannot be seen.
std::string starter_of(const RankOfNode& rank) {
    const std::string entry = fmt::format("{}={}", rank.variable, rank.local_rank);
    pid_t process = ::getppid();
    for (int i = 0; i < kMostAncestors && process > 0; ++i) {
        const ProcessPlace place = process_place(process);
        if (!is_of_rank(process, entry)) return fmt::format("{}-{}", process, place.start);
        process = place.parent;
    }
    return {};
}

/// A directory of this user that nobody else may enter, and no link; made where it is missing.
bool make_own(const std::string& path, bool& made) {
    made = ::mkdir(path.c_str(), 0700) == 0;
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
           info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
}

bool is_fresh(const struct stat& info) {
    const std::int64_t age = std::int64_t{::time(nullptr)} - info.st_mtim.tv_sec;
    return age >= -kFreshSeconds && age <= kFreshSeconds;
}

/// Nobody reads any more what is there.
void remove_old(const std::string& parent) {
    std::error_code error;
    for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
         entry.increment(error)) {
        struct stat info {};
        std::error_code ignored;
        if (::lstat(entry->path().c_str(), &info) == 0 && !is_fresh(info))
            fs::remove_all(entry->path(), ignored);
    }
}

/// The whole file, where it is there and fresh.
std::optional<std::string> read_fresh(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || !is_fresh(info) ||
        info.st_size < 0 || static_cast<std::size_t>(info.st_size) > kMostShared)
        return std::nullopt;
    std::string text(static_cast<std::size_t>(info.st_size), '\0');
    for (std::size_t at = 0; at < text.size();) {
        const ssize_t got = ::read(file.get(), text.data() + at, text.size() - at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return std::nullopt;
        at += static_cast<std::size_t>(got);
    }
    return text;
}

/// Whole under a name of its own, then renamed. What does not fit on the disk is not shared.
void write_whole(const std::string& path, std::string_view text) {
    const std::string temporary = fmt::format("{}.{}", path, ::getpid());
    if (!file_size_allowed(text.size())) return;
    Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    bool whole = static_cast<bool>(file);
    while (whole && !text.empty()) {
        const ssize_t done = ::write(file.get(), text.data(), text.size());
        if (done < 0 && errno == EINTR) continue;
        whole = done > 0;
        if (whole) text.remove_prefix(static_cast<std::size_t>(done));
    }
    if (!whole || ::rename(temporary.c_str(), path.c_str()) != 0) ::unlink(temporary.c_str());
}

enum class Lock { taken, held, impossible };

/// The process's own lock: it ends with the process, whatever helper this has forked lives on.
Lock try_lock(const Descriptor& file) {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (::fcntl(file.get(), F_SETLK, &whole) == 0) return Lock::taken;
    return errno == EAGAIN || errno == EACCES || errno == EINTR ? Lock::held : Lock::impossible;
}

std::string done_name(int local_rank) {
    return fmt::format("done-{}", local_rank);
}

}  // namespace

std::optional<RankOfNode> rank_of_node(const Environment& environment) {
    for (const LocalVariables& names : kLocalVariables) {
        const auto rank = place_number(environment, names.rank);
        const auto ranks =
            names.ranks == nullptr ? std::optional(0) : place_number(environment, names.ranks);
        if (!rank || !ranks || *ranks == 1 || (*ranks > 0 && *rank >= *ranks)) continue;
        return RankOfNode{names.rank, *rank, *ranks};
    }
    const auto step = task_of_step(environment);
    if (!step || step->tasks_here.value_or(1) < 2) return std::nullopt;
    return RankOfNode{"SLURM_LOCALID", *step->local_task, *step->tasks_here};
}

std::optional<RankOfNode> rank_of_mpi(const Environment& environment) {
    constexpr std::string_view kStarters[] = {
        "mpirun",        "mpiexec",         "orterun",   "orted",          "prterun", "prted",
        "mpiexec.hydra", "hydra_pmi_proxy", "pmi_proxy", "hydra_bstrap_pr"};  // comm: 15 letters
    auto rank = rank_of_node(environment);
    if (!rank) return std::nullopt;
    const std::string starter = starter_of(*rank);
    const std::string path = fmt::format("/proc/{}/comm", starter.substr(0, starter.find('-')));
    const std::string name(trim(detect::Files("").read(path, 64).value_or("")));
    const bool known = std::any_of(std::begin(kStarters), std::end(kStarters),
                                   [&](std::string_view one) { return name.starts_with(one); });
    return known ? rank : std::nullopt;
}

NodeShare NodeShare::among_ranks(const Environment& environment) {
    NodeShare share;
    const auto rank = rank_of_node(environment);
    utsname host{};
    if (!rank || ::uname(&host) != 0) return share;
    const std::string starter = starter_of(*rank);
    std::string name = host.nodename;
    std::replace(name.begin(), name.end(), '/', '_');
    if (starter.empty() || starter.ends_with('-')) return share;
    const std::string parent = fmt::format("/tmp/toporun-ranks-{}", ::geteuid());
    const std::string directory = fmt::format("{}/{}-{}", parent, starter, name);
    bool made = false;
    // Another launcher's last rank may remove the upper one in between.
    for (int tries = 0; tries < 3 && share.directory_.empty(); ++tries)
        if (make_own(parent, made) && make_own(directory, made)) share.directory_ = directory;
    if (made) remove_old(parent);
    struct stat info {};
    if (::lstat((directory + "/" + done_name(rank->local_rank)).c_str(), &info) == 0)
        share.directory_.clear();  // a later command of this rank
    share.rank_ = *rank;
    return share;
}

NodeShare::NodeShare(NodeShare&& other) noexcept
    : directory_(std::exchange(other.directory_, {})), rank_(std::move(other.rank_)) {}

NodeShare::~NodeShare() {
    if (directory_.empty()) return;
    const std::string mark = directory_ + "/" + done_name(rank_.local_rank);
    const Descriptor marked(
        ::open(mark.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (rank_.ranks == 0) return;
    std::error_code error;
    int done = 0;
    for (fs::directory_iterator entry(directory_, error), end; !error && entry != end;
         entry.increment(error))
        if (entry->path().filename().string().starts_with("done-")) ++done;
    if (error || done < rank_.ranks) return;
    fs::remove_all(directory_, error);
    ::rmdir(directory_.substr(0, directory_.rfind('/')).c_str());  // unless others are there
}

std::string NodeShare::once(std::string_view what, std::string_view key,
                            const std::function<std::string()>& find) const {
    if (directory_.empty()) return find();
    const std::string path = fmt::format("{}/{}-{:016x}", directory_, what, fnv1a(key));
    const Descriptor lock(::open((path + ".lock").c_str(),
                                 O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    const auto until = ShareClock::now() + kSharePatience;
    for (bool mine = false;;) {
        if (auto text = read_fresh(path)) return *text;
        if (mine) break;
        const Lock state = lock ? try_lock(lock) : Lock::impossible;
        if (state == Lock::impossible || (state == Lock::held && ShareClock::now() >= until))
            return find();
        mine = state == Lock::taken;  // and looks once more
        if (!mine) ::poll(nullptr, 0, kSharePauseMs);
    }
    std::string text = find();
    write_whole(path, text);
    return text;
}

}  // namespace toporun::launcher
