#include "nccl_log.hpp"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>

namespace ring_allreduce {
namespace {

enum Level { kNone, kVersionOnly, kWarn, kInfo, kAbort, kTrace };

struct Name {
    const char* name;
    std::uint64_t value;
};

constexpr std::array<Name, 6> kLevels = {{{"NONE", kNone},
                                          {"VERSION", kVersionOnly},
                                          {"WARN", kWarn},
                                          {"INFO", kInfo},
                                          {"ABORT", kAbort},
                                          {"TRACE", kTrace}}};
constexpr std::array<Name, 17> kSubsystems = {{{"INIT", 0x1},
                                               {"COLL", 0x2},
                                               {"P2P", 0x4},
                                               {"SHM", 0x8},
                                               {"NET", 0x10},
                                               {"GRAPH", 0x20},
                                               {"TUNING", 0x40},
                                               {"ENV", 0x80},
                                               {"ALLOC", 0x100},
                                               {"CALL", 0x200},
                                               {"PROXY", 0x400},
                                               {"NVLS", 0x800},
                                               {"BOOTSTRAP", 0x1000},
                                               {"REG", 0x2000},
                                               {"PROFILE", 0x4000},
                                               {"RAS", 0x8000},
                                               {"ALL", ~std::uint64_t{0}}}};
constexpr std::uint64_t kDefaultMask = kInit | kEnv | kBootstrap;

template <std::size_t N>
std::uint64_t value_of(const std::array<Name, N>& names, const std::string& name) {
    for (const Name& entry : names) {
        if (strcasecmp(entry.name, name.c_str()) == 0) return entry.value;
    }
    return 0;
}

std::uint64_t subsystem_mask(std::string list) {
    if (list.empty()) return kDefaultMask;
    const bool inverted = list[0] == '^';
    if (inverted) list.erase(0, 1);
    std::uint64_t mask = 0;
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t end = std::min(list.find(',', at), list.size());
        mask |= value_of(kSubsystems, list.substr(at, end - at));
        at = end + 1;
    }
    return inverted ? ~mask : mask;
}

std::string short_host() {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    const std::string host = name;
    return host.substr(0, host.find('.'));
}

std::string file_name(const std::string& pattern, const std::string& host) {
    std::string name;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
        if (pattern[i] != '%' || (next != 'h' && next != 'p' && next != '%')) {
            name += pattern[i];
            continue;
        }
        name += next == 'h' ? host : next == 'p' ? std::to_string(getpid()) : "%";
        ++i;
    }
    return name;
}

}  // namespace

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::string fill(std::string_view text, std::initializer_list<std::string> values) {
    std::string line;
    auto value = values.begin();
    for (std::size_t at = 0; at < text.size();) {
        const bool word = text.substr(at).starts_with("{}");
        const bool rest = text.substr(at).starts_with("{...}");
        if ((word || rest) && value != values.end()) {
            line += *value++;
            at += word ? 2 : 5;
        } else {
            line += text[at++];
        }
    }
    return line;
}

std::string hex(std::uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

Log::Log(int device)
    : host_(short_host()),
      device_(device),
      level_(static_cast<int>(value_of(kLevels, environment("NCCL_DEBUG")))),
      mask_(subsystem_mask(environment("NCCL_DEBUG_SUBSYS"))) {
    const std::string pattern = environment("NCCL_DEBUG_FILE");
    if (level_ <= kVersionOnly || pattern.empty()) return;
    std::FILE* file = std::fopen(file_name(pattern, host_).c_str(), "w");
    if (file == nullptr) return;
    setvbuf(file, nullptr, _IOLBF, BUFSIZ);
    out_ = file;
    own_file_ = true;
}

Log::~Log() {
    if (own_file_) std::fclose(out_);
}

std::string Log::prefix() const {
    return host_ + ":" + std::to_string(getpid()) + ":" +
           std::to_string(static_cast<long>(syscall(SYS_gettid))) + " [" + std::to_string(device_) +
           "] ";
}

void Log::info(const LogTemplate& line, std::initializer_list<std::string> values) {
    if (level_ < kInfo || (mask_ & line.subsystems) == 0) return;
    std::fprintf(out_, "%sNCCL INFO %s\n", prefix().c_str(), fill(line.text, values).c_str());
}

void Log::warn(const char* source, const LogTemplate& line) {
    if (level_ < kWarn || mask_ == 0) return;
    char stamp[32] = {};
    const std::time_t now = std::time(nullptr);
    std::tm local = {};
    localtime_r(&now, &local);
    std::strftime(stamp, sizeof stamp, "[%F %T] ", &local);
    std::fprintf(out_, "\n%s%s%s NCCL WARN %s\n", stamp, prefix().c_str(), source, line.text);
}

void Log::version(int rank) {
    if (level_ >= kInfo) return info(kVersion);
    if (level_ >= kVersionOnly && rank == 0) std::fprintf(out_, "%s\n", kVersionLine);
}

void Log::variable(const char* name) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') info(kSetByEnvironment, {name, value});
}

}  // namespace ring_allreduce
