#include "launcher/process/rank_ends.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launcher/process/process_tree.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kMostWatched = 512;  // at once: half of the usual limit of descriptors
constexpr std::size_t kMostKept = 1 << 15;
constexpr std::size_t kMostErrorBytes = 64 << 10;

/// struct pidfd_info, its first version, and PIDFD_GET_INFO (linux/pidfd.h, 6.13 and later).
struct PidfdInfo {
    std::uint64_t mask;
    std::uint64_t cgroup_id;
    std::array<std::uint32_t, 11> ids;
    std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t kPidfdInfoExit = 1U << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xff, 11, PidfdInfo);

/// The wait status of a process that nobody waits for any more.
std::optional<int> status_after_wait(int fd) {
    PidfdInfo info{};
    info.mask = kPidfdInfoExit;
    if (::ioctl(fd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0)
        return std::nullopt;
    return info.exit_code;
}

/// Its parent has taken the status: the process is no more.
bool pidfd_waited_for(int fd) {
    return ::syscall(SYS_pidfd_send_signal, fd, 0, nullptr, 0) != 0 && errno == ESRCH;
}

bool pidfd_ended(int fd) {
    pollfd wait{fd, POLLIN, 0};
    return ::poll(&wait, 1, 0) > 0 && (wait.revents & (POLLIN | POLLHUP)) != 0;
}

/// The beginning of a regular file of this user; "" for anything else.
std::string read_error_file(const std::string& path) {
    if (!path.starts_with('/')) return {};
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
        info.st_uid != ::geteuid())
        return {};
    std::string text(kMostErrorBytes, '\0');
    const ssize_t got = ::read(file.get(), text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
}

}  // namespace

RankEnds::RankEnds(const std::string& records_file) {
    if (records_file.empty()) return;
    constexpr int kFlags = O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    file_.reset(::open(records_file.c_str(), kFlags, 0600));
    notify_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (notify_ && ::inotify_add_watch(notify_.get(), records_file.c_str(), IN_MODIFY) < 0)
        notify_.reset();  // then the observer's own interval has to do
}

void RankEnds::start(pid_t supervisor) {
    supervisor_ = supervisor;
    started_ = std::chrono::steady_clock::now();
}

void RankEnds::add_waits(std::vector<pollfd>& waits) const {
    if (notify_) waits.push_back({notify_.get(), POLLIN, 0});
    for (const Rank& rank : ranks_)
        if (rank.fd && !rank.ended_after_s) waits.push_back({rank.fd.get(), POLLIN, 0});
}

void RankEnds::look() {
    if (!file_ || supervisor_ < 0) return;
    std::array<char, 4096> events{};
    while (notify_ && ::read(notify_.get(), events.data(), events.size()) > 0) {
    }
    read_records();
    // One time for all that have ended since the last look: which of them was first is not known.
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    for (Rank& rank : ranks_)
        if (rank.fd && pidfd_ended(rank.fd.get())) note_end(rank, seconds);
}

bool RankEnds::running() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return !rank.ended_after_s; });
}

std::size_t RankEnds::ended() const {
    return static_cast<std::size_t>(
        std::count_if(ranks_.begin(), ranks_.end(),
                      [](const Rank& rank) { return rank.ended_after_s.has_value(); }));
}

void RankEnds::read_records() {
    std::array<char, 16384> buffer{};
    for (ssize_t got; (got = ::read(file_.get(), buffer.data(), buffer.size())) > 0;)
        rest_.append(buffer.data(), static_cast<std::size_t>(got));
    const std::size_t end = rest_.rfind('\n');
    if (end == std::string::npos) return;
    auto watched = static_cast<std::size_t>(std::count_if(
        ranks_.begin(), ranks_.end(), [](const Rank& rank) { return bool(rank.fd); }));
    for (RankRecord& record : parse_rank_records(std::string_view(rest_).substr(0, end + 1))) {
        ++records_;
        if (ranks_.size() >= kMostKept || watched >= kMostWatched || record.pid <= 0) continue;
        Rank rank;
        rank.pid = record.pid;
        rank.restart = record.restart;
        rank.error_file = std::move(record.error_file);
        // The number of another PID namespace means another process, one that is not below.
        rank.fd.reset(static_cast<int>(::syscall(SYS_pidfd_open, rank.pid, 0)));
        const auto ticks = start_ticks_below(rank.pid, supervisor_);
        if (!rank.fd || !ticks) continue;
        rank.start_ticks = *ticks;
        ranks_.push_back(std::move(rank));
        ++watched;
    }
    rest_.erase(0, end + 1);
}

void RankEnds::note_end(Rank& rank, double seconds) {
    const bool was_waited_for = pidfd_waited_for(rank.fd.get());
    rank.wait_status = zombie_status(rank.pid, rank.start_ticks);
    if (!rank.wait_status) rank.wait_status = status_after_wait(rank.fd.get());
    if (rank.wait_status || was_waited_for) rank.fd.reset();  // no more will be known
    if (rank.ended_after_s) return;
    rank.ended_after_s = seconds;
    rank.error = read_error_file(rank.error_file);
}

void RankEnds::fill(std::vector<RankRecord>& records) const {
    for (RankRecord& record : records) {
        const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& known) {
            return known.pid == record.pid && known.restart == record.restart;
        });
        if (rank == ranks_.end()) continue;
        record.wait_status = rank->wait_status;
        record.ended_after_s = rank->ended_after_s;
        record.error = rank->error;
    }
}

}  // namespace toporun::launcher
