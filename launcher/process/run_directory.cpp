#include "launcher/process/run_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>

#include "base/text.hpp"
#include "detect/software/account.hpp"
#include "launcher/process/held_directory.hpp"
#include "launcher/process/node_files.hpp"

namespace toporun::launcher {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::size_t kLongestPart = 64;
constexpr int kMostRuns = 1000;  // of a task, one after another

std::string value(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
}

/// `text` as a part of a file name: letters, digits, '.', '_' and '-', not starting with '.'.
std::string file_name_part(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, kLongestPart)) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        out += plain ? c : '_';
    }
    if (out.empty() || out.front() == '.') out.insert(out.begin(), '_');
    return out;
}

/// Makes the directory or accepts one of this user's; a link in its place is refused.
/// Returns "" or what is wrong.
std::string make_directory(const std::string& path, mode_t mode) {
    if (::mkdir(path.c_str(), mode) == 0) return {};
    const int error = errno;
    struct stat info {};
    if (error != EEXIST || ::lstat(path.c_str(), &info) != 0)
        return path + ": " + std::strerror(error);
    if (S_ISLNK(info.st_mode)) return path + " is a link";
    if (!S_ISDIR(info.st_mode)) return path + " is not a directory";
    if (info.st_uid != ::geteuid()) return path + " belongs to another user";
    return {};
}

std::string make_directories(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return error ? path + ": " + error.message() : std::string();
}

/// A directory exists for us only when a file can be made in it.
std::string check_writable(const std::string& path) {
    const std::string probe = path + "/.toporun-" + random_letters();
    const int fd =
        ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return path + ": " + std::strerror(errno);
    ::close(fd);
    ::unlink(probe.c_str());
    return {};
}

std::string make_named(const std::string& parent, const std::string& name) {
    std::string fault = make_directory(parent, 0777);
    if (fault.empty()) fault = make_directory(parent + "/" + name, 0777);
    if (fault.empty()) fault = check_writable(parent + "/" + name);
    return fault;
}

std::string state_directory(const Environment& environment) {
    const std::string state = value(environment, "XDG_STATE_HOME");
    if (!state.empty() && state.front() == '/') return state;
    std::string home = value(environment, "HOME");
    if (home.empty()) home = detect::account_home(detect::Files(""));
    return home.empty() ? std::string() : home + "/.local/state";
}

std::string format_time(std::int64_t seconds, const char* format) {
    const auto time = static_cast<time_t>(seconds);
    std::tm parts{};
    std::array<char, 32> text{};
    if (::gmtime_r(&time, &parts) == nullptr) return {};
    return std::string(text.data(), std::strftime(text.data(), text.size(), format, &parts));
}

std::optional<std::uint64_t> free_bytes(const std::string& path) {
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) return std::nullopt;
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace

std::string random_letters() {
    std::array<unsigned char, 4> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        const auto pid = static_cast<unsigned>(::getpid());
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes.at(i) = static_cast<unsigned char>(pid >> (5 * i));
    }
    std::string letters;
    for (const unsigned char byte : bytes) letters += static_cast<char>('a' + byte % 26);
    return letters;
}

std::string utc_compact(std::int64_t seconds) {
    return format_time(seconds, "%Y%m%d-%H%M%S");
}
std::string utc_iso(std::int64_t seconds) {
    return format_time(seconds, "%Y-%m-%dT%H:%M:%SZ");
}

std::string run_name(const std::string& command, const Environment& environment,
                     const std::string& utc, const std::string& letters) {
    const std::string base = file_name_part(std::filesystem::path(command).filename().string());
    const std::string job = value(environment, "SLURM_JOB_ID");
    if (job.empty()) return base + "-" + utc + "-" + letters;
    // A batch script has no step of its own; Slurm's own tools write it as "batch".
    const std::string step = value(environment, "SLURM_STEP_ID");
    const std::string restart = value(environment, "SLURM_RESTART_COUNT");
    std::string id = job + "." + (step.empty() ? "batch" : step);
    if (!restart.empty() && restart != "0") id += ".r" + restart;
    return base + "-" + file_name_part(id);
}

void point_latest(const std::string& run_directory) {
    const std::filesystem::path path(run_directory);
    const std::string latest = (path.parent_path() / "latest").string();
    struct stat info {};
    if (::lstat(latest.c_str(), &info) == 0 && !S_ISLNK(info.st_mode)) return;
    std::error_code ignored;  // one that cannot be read is replaced
    if (std::filesystem::read_symlink(latest, ignored) == path.filename()) return;
    const std::string temporary = latest + "." + random_letters();
    if (::symlink(path.filename().c_str(), temporary.c_str()) != 0) return;
    if (::rename(temporary.c_str(), latest.c_str()) != 0) ::unlink(temporary.c_str());
}

void discard_run_directory(const std::string& run_directory) {
    if (run_directory.empty()) return;
    std::error_code ignored;  // a directory that holds anything else stays
    for (const auto& entry : std::filesystem::directory_iterator(run_directory, ignored))
        if (entry.path().filename().string().starts_with(kPlanFile))  // also half written
            ::unlink(entry.path().c_str());
    ::rmdir(run_directory.c_str());
}

void withdraw_run(const RunDirectory& directory, const JobPlace& place) {
    release_run(directory.path, place, directory.run);
    if (!directory.named) discard_run_directory(directory.path);
}

std::string newest_run(const Environment& environment) {
    struct stat info {};
    if (const std::string named = value(environment, "TOPORUN_DIR"); !named.empty()) return named;
    const std::string here = "toporun/latest";
    if (::stat(here.c_str(), &info) == 0) return here;
    const std::string state = state_directory(environment) + "/toporun/latest";
    return ::stat(state.c_str(), &info) == 0 ? state : std::string();
}

RunDirectory make_run_directory(const std::string& command, const std::string& wanted,
                                const Environment& environment, const JobPlace& place) {
    const auto claimed = [&](const std::string& path, int run) {
        return !place.shared() || run >= kMostRuns || claim_run(path, place, run);
    };
    int run = 1;
    if (!wanted.empty()) {
        std::string fault = make_directories(wanted);
        if (fault.empty()) fault = check_writable(wanted);
        if (!fault.empty()) return {{}, {}, "no run directory: " + fault, true, 1};
        while (!claimed(wanted, run)) ++run;
        std::error_code error;  // those that are told of it have another working directory
        const auto path = std::filesystem::absolute(wanted, error);
        return {error ? wanted : path.string(), wanted, {}, true, run};
    }
    std::string name =
        run_name(command, environment, utc_compact(::time(nullptr)), random_letters());
    // The commands of a batch script, one after another or at once, have no step to tell them
    // apart.
    if (name.ends_with(".batch")) name += "-" + random_letters();
    /// Makes the directory of the first run that this task is not in. Sets `made` to its name.
    std::string made;
    const auto make = [&](const std::string& parent) {
        std::string fault;
        for (run = 1; fault.empty(); ++run) {
            made = run == 1 ? name : name + "-" + std::to_string(run);
            fault = make_named(parent, made);
            if (fault.empty() && claimed(parent + "/" + made, run)) break;
        }
        return fault;
    };
    std::error_code error;
    const std::string here = std::filesystem::current_path(error).string();
    const std::string fault =
        error ? "the working directory: " + error.message() : make(here + "/toporun");
    if (fault.empty()) return {here + "/toporun/" + made, "toporun/" + made, {}, false, run};
    const std::string state = state_directory(environment);
    std::string second = state.empty() ? "no home directory" : make_directories(state);
    if (second.empty()) second = make(state + "/toporun");
    if (second.empty()) {
        const std::string path = state + "/toporun/" + made;
        return {path, path, "run directory is " + path + " (" + fault + ")", false, run};
    }
    return {{}, {}, "no run directory, so no report (" + fault + "; " + second + ")", false, 1};
}

PrivateDirectory make_private_directory(const Environment& environment, std::uint64_t need_bytes) {
    std::vector<std::string> faults;
    const auto attempt = [&](const std::string& parent, std::uint64_t free_needed) -> std::string {
        if (parent.empty() || parent.front() != '/') return {};
        const auto available = free_bytes(parent);
        if (!available || *available < free_needed) {
            faults.push_back(parent + (available ? ": " + format_bytes(*available) + " free"
                                                 : std::string(": ") + std::strerror(errno)));
            return {};
        }
        std::string path = fmt::format("{}/{}XXXXXX", parent, kPrivateStart);
        if (::mkdtemp(path.data()) != nullptr) return path;
        faults.push_back(parent + ": " + std::strerror(errno));
        return {};
    };
    for (const std::string& parent :
         {value(environment, "SLURM_TMPDIR"), value(environment, "TMPDIR"), std::string("/tmp")})
        if (std::string path = attempt(parent, need_bytes); !path.empty()) return {path, {}};
    if (std::string path = attempt("/dev/shm", std::max(kGiB, 20 * need_bytes)); !path.empty())
        return {path, {}};
    return {{}, "no temporary directory (" + join(faults, "; ") + ")"};
}

void remove_private_directory(const std::string& path) {
    if (path.empty()) return;
    std::error_code ignored;  // what cannot be removed stays: nothing depends on it
    std::filesystem::remove_all(path, ignored);
}

}  // namespace toporun::launcher
