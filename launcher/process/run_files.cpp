#include "launcher/process/run_files.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/error.hpp"
#include "env/settings_text.hpp"
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

std::string RunFiles::write(const std::string& name, const std::string& text) {
    if (directory_.empty()) return {};
    try {
        write_file(directory_ + "/" + name, text);
        return {};
    } catch (const Error& fault) {
        return fault.where().empty() ? std::string(fault.what())
                                     : std::string(fault.what()) + " (" + fault.where() + ")";
    }
}

std::string RunFiles::write_plan(const RunFacts& facts) {
    return write("plan.toml", env::settings_toml(facts.plan));
}

std::string RunFiles::keep_logs(const std::string& private_directory) {
    if (directory_.empty() || private_directory.empty()) return {};
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

std::string RunFiles::write_report(RunFacts& facts) {
    if (directory_.empty()) return {};
    facts.report_path = facts.run_directory + "/report.txt";
    std::string fault = write("report.json", report_json(facts));
    if (fault.empty()) fault = write("report.txt", report_text(facts));
    if (!fault.empty()) facts.report_path.clear();
    return fault;
}

void RunFiles::discard() {
    if (directory_.empty()) return;
    std::error_code ignored;  // a directory that holds anything else stays
    std::filesystem::remove(directory_ + "/plan.toml", ignored);
    std::filesystem::remove(directory_, ignored);
}

}  // namespace toporun::launcher
