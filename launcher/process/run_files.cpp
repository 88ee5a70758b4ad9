#include "launcher/process/run_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "env/settings_text.hpp"
#include "launcher/process/read_bounded.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/report/report.hpp"
#include "launcher/report/write_file.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kKeptLogs = 2;
constexpr std::uintmax_t kLargestKeptLog = 4u << 20;

bool is_nccl_log(const std::filesystem::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    std::error_code error;
    return name.starts_with("nccl.") && name.ends_with(".log") && entry.is_regular_file(error) &&
           !entry.is_symlink(error);
}

}  // namespace

RunFiles::RunFiles(const std::string& run_directory) : path_(run_directory) {
    if (run_directory.empty()) return;
    const std::filesystem::path path(run_directory);
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    directory_.reset(::open(path.c_str(), kFlags));
    if (!directory_) fault_ = run_directory + ": " + std::strerror(errno);
}

std::string RunFiles::take() {
    // Other errors: a file system without such locks.
    if (!directory_ || ::flock(directory_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return {};
    return path_ + ": another run writes its report there too, the last one stays";
}

/// A path to the held directory.
std::string RunFiles::held() const {
    std::string path = "/proc/self/fd/" + std::to_string(directory_.get());
    return ::access(path.c_str(), F_OK) == 0 ? path : path_;  // no /proc
}

/// What `write_to` throws, with the directory's own name.
template <class Write>
std::string RunFiles::guarded(Write&& write_to) {
    if (!directory_) return std::exchange(fault_, {});
    const std::string directory = held();
    try {
        write_to(directory + "/");
        return {};
    } catch (const Error& fault) {
        std::string what = fault.what();
        if (const std::size_t at = what.find(directory); at != std::string::npos)
            what.replace(at, directory.size(), path_);
        return what;
    }
}

std::string RunFiles::write(const std::string& name, const std::string& text) {
    return guarded([&](const std::string& directory) { write_file(directory + name, text); });
}

std::string RunFiles::write_new(const std::string& name, const std::string& text, bool& written) {
    written = false;
    return guarded(
        [&](const std::string& directory) { written = write_new_file(directory + name, text); });
}

std::string RunFiles::read(const std::string& name, std::size_t limit) const {
    return directory_ ? read_bounded(held() + "/" + name, limit) : std::string();
}

bool RunFiles::exists(const std::string& name) const {
    struct stat info {};
    return ::fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

void RunFiles::remove(const std::string& name) const {
    ::unlinkat(directory_.get(), name.c_str(), 0);
}

std::vector<std::string> RunFiles::names() const {
    std::vector<std::string> found;
    if (!directory_) return found;
    std::error_code ignored;  // what cannot be listed is not known
    for (std::filesystem::directory_iterator entry(held() + "/.", ignored), end;
         !ignored && entry != end; entry.increment(ignored))
        found.push_back(entry->path().filename().string());
    return found;
}

std::string RunFiles::write_plan(const RunFacts& facts) {
    return write(kPlanFile, env::settings_toml(facts.plan));
}

std::string RunFiles::keep_logs(const std::string& private_directory) {
    if (!directory_ || private_directory.empty()) return {};
    std::error_code error;
    std::vector<std::filesystem::path> logs;
    for (const auto& entry : std::filesystem::directory_iterator(private_directory, error))
        if (is_nccl_log(entry) && entry.file_size(error) > 0) logs.push_back(entry.path());
    std::sort(logs.begin(), logs.end());
    if (logs.size() > kKeptLogs) logs.resize(kKeptLogs);
    std::string fault;
    for (const std::filesystem::path& log : logs) {
        std::ifstream file(log, std::ios::binary);
        std::string text(std::min(std::filesystem::file_size(log, error), kLargestKeptLog), '\0');
        file.read(text.data(), static_cast<std::streamsize>(text.size()));
        text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
        if (fault.empty()) fault = write(log.filename().string(), text);
    }
    return fault;
}

void RunFiles::choose_name(bool again) {
    if (!directory_ || !report_name_.empty()) return;
    report_name_ = "report";
    if (!again && exists(report_name_ + ".json")) report_name_ += "-" + random_letters();
}

std::string RunFiles::write_report(RunFacts& facts, bool again) {
    if (!directory_) return std::exchange(fault_, {});
    choose_name(again);
    facts.report_path = facts.run_directory + "/" + report_name_ + ".txt";
    std::string fault = write(report_name_ + ".json", report_json(facts));
    if (fault.empty()) fault = write(report_name_ + ".txt", report_text(facts));
    if (!fault.empty()) facts.report_path.clear();
    return fault;
}

}  // namespace toporun::launcher
