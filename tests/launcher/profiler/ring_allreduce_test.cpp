#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "examples/nccl_interfaces.hpp"
#include "examples/nccl_log_templates.hpp"
#include "files.hpp"
#include "launcher/profiler/record.hpp"
#include "launcher/profiler/ring_slots.hpp"
#include "run_command.hpp"

namespace toporun::tests {
namespace {

constexpr char kMpi[] =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 " TOPORUN_MPIRUN
    " --oversubscribe ";

CommandOutput ring_allreduce(int processes, const std::string& environment,
                             const std::string& options) {
    return run_command("env -u NCCL_DEBUG -u NCCL_DEBUG_SUBSYS " + environment + " " + kMpi +
                       "-np " + std::to_string(processes) + " " TOPORUN_RING_ALLREDUCE " " +
                       options);
}

/// The communication share that the program itself counted, 0 to 1.
double own_share(const std::string& text) {
    std::smatch match;
    REQUIRE_MESSAGE(
        std::regex_search(text, match, std::regex(R"(communication ([0-9.]+) % of the time)")),
        text);
    return std::stod(match[1]) / 100;
}

/// The messages of all lines of NCCL's library in the logs of the rig, empty where there are none.
const std::set<std::string>& real_lines() {
    static const std::set<std::string> lines = [] {
        std::set<std::string> found;
        const std::filesystem::path logs = std::filesystem::path(TOPORUN_SHARED) / "logs/rig";
        std::error_code absent;
        for (std::filesystem::recursive_directory_iterator at(logs, absent), end;
             !absent && at != end; at.increment(absent)) {
            const std::string name = at->path().filename().string();
            if (!name.starts_with("rank-") || at->path().extension() != ".log") continue;
            std::istringstream text(read_file(at->path()));
            for (std::string line; std::getline(text, line);) {
                const std::size_t info = line.find(" NCCL INFO ");
                const std::size_t warn = line.find(" NCCL WARN ");
                if (info != std::string::npos) found.insert(line.substr(info + 11));
                if (warn != std::string::npos) found.insert(line.substr(warn + 11));
            }
        }
        return found;
    }();
    return lines;
}

bool no_real_lines() {
    if (!real_lines().empty()) return false;
    MESSAGE("skipped: no logs of the real NCCL in " TOPORUN_SHARED "/logs/rig");
    return true;
}

/// Hexadecimal numbers as H, decimal ones as N.
std::string without_numbers(const std::string& line) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    std::string text;
    for (std::size_t at = 0; at < line.size();) {
        std::size_t end = at;
        if (line.compare(at, 2, "0x") == 0) {
            end = std::min(line.find_first_not_of("0123456789abcdef", at + 2), line.size());
            text += 'H';
        } else if (is_digit(line[at])) {
            while (end < line.size() && is_digit(line[end])) ++end;
            text += 'N';
        } else {
            text += line[end++];
        }
        at = end;
    }
    return text;
}

/// The same text for lines that differ in numbers, addresses and names of this machine only. `line`
/// has no numbers any more.
std::string generalised(std::string line) {
    const std::pair<const char*, const char*> rules[] = {
        {R"(busId [a-fN]+)", "busId H"},
        {R"((\[N\]|Using )[\w.-]+:[a-fN.:%\w]+<N>)", "$1IF"},
        {R"((\[N\]IF)( \[N\]IF)+)", "$1"},
        {R"(set (by environment )?to .*)", "set $1to V"},
        {R"(profiler plugin \S+)", "profiler plugin P"},
        {R"(Loaded \w+ )", "Loaded P "},
        {R"( N( N)+$)", " N"},  // ring order
    };
    for (const auto& [pattern, replacement] : rules) {
        line = std::regex_replace(line, std::regex(pattern), replacement);
    }
    return line;
}

std::string first_word(const std::string& line) {
    return line.substr(0, line.find(' '));
}

/// Whether the real NCCL has written the line but for its numbers.
bool is_real(const std::string& line) {
    static std::map<std::string, std::set<std::string>> known;  // by first word
    std::set<std::string>& same_start = known[first_word(line)];
    if (same_start.empty()) {
        std::set<std::string> texts;
        for (const std::string& real : real_lines()) {
            if (first_word(real) == first_word(line)) texts.insert(without_numbers(real));
        }
        for (const std::string& text : texts) same_start.insert(generalised(text));
    }
    return same_start.contains(generalised(without_numbers(line)));
}

/// A template as an expression that matches exactly the lines it can make.
std::regex expression(std::string text) {
    text = std::regex_replace(text, std::regex(R"([\[\]().+*?^$|\\/])"), R"(\$&)");
    for (const auto& [holder, pattern] :
         {std::pair<std::string, std::string>{R"({\.\.\.})", ".+"}, {"{}", R"(\S+)"}}) {
        for (std::size_t at = 0; (at = text.find(holder)) != std::string::npos;) {
            text.replace(at, holder.size(), pattern);
        }
    }
    return std::regex(text);
}

}  // namespace

TEST_CASE("Every log template makes lines that the real NCCL wrote") {
    if (no_real_lines()) return;
    for (const ring_allreduce::LogTemplate* line : ring_allreduce::kLogTemplates) {
        CAPTURE(std::string(line->text));
        const std::regex pattern = expression(line->text);
        CHECK(std::any_of(real_lines().begin(), real_lines().end(), [&](const std::string& real) {
            return std::regex_match(real, pattern);
        }));
    }
}

TEST_CASE("Every line that ring_allreduce writes is a line of NCCL but for its numbers") {
    const TemporaryDirectory directory;
    const std::string logs = directory.path().string();
    const CommandOutput output = ring_allreduce(
        2,
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,BOOTSTRAP NCCL_SOCKET_IFNAME=^docker "
        "NCCL_P2P_LEVEL=NVL NCCL_DEBUG_FILE='" +
            logs + "/a.%h.%p.%%.log' NCCL_PROFILER_PLUGIN=" TOPORUN_PLUGIN,
        "--steps 2 --elements 1000");
    CAPTURE(output.text);
    REQUIRE(output.status == 0);
    int files = 0, lines = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
        ++files;
        CHECK(entry.path().filename().string().ends_with(".%.log"));
        std::istringstream text(read_file(entry.path()));
        for (std::string line; std::getline(text, line);) {
            std::smatch match;
            CAPTURE(line);
            REQUIRE(std::regex_match(
                line, match, std::regex(R"(([^\s:.]+):(\d+):(\d+) \[(\d+)\] NCCL INFO (.*))")));
            ++lines;
            if (!real_lines().empty()) CHECK(is_real(match[5]));
        }
    }
    CHECK(files == 2);
    CHECK(lines >= 2 * 18);
    CHECK(output.text.find("NCCL") == output.text.rfind("NCCL"));  // only "no NCCL"
}

TEST_CASE("Levels and subsystems select as in NCCL") {
    const struct {
        const char* name;
        const char* environment;
        int wanted;  ///< lines with the text
        const char* text;
    } rows[] = {
        {"unset", "", 0, "NCCL version"},
        {"version", "NCCL_DEBUG=version", 1, "NCCL version 2.28.9+cuda13.0\n"},
        {"warn", "NCCL_DEBUG=WARN", 1, "NCCL version 2.28.9+cuda13.0\n"},
        {"info", "NCCL_DEBUG=INFO", 1, "Init COMPLETE"},
        {"default subsystems", "NCCL_DEBUG=INFO", 1, "Bootstrap: Using"},
        {"only environment", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ENV", 0, "Init COMPLETE"},
        {"inverted", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=^INIT", 0, "Init COMPLETE"},
        {"inverted keeps", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=^INIT", 1, "NET/Socket : Using"},
        {"variable", "NCCL_DEBUG=INFO NCCL_P2P_LEVEL=SYS", 1,
         "NCCL_P2P_LEVEL set by environment to SYS\n"},
        {"no profiler", "NCCL_DEBUG=INFO NCCL_PROFILER_PLUGIN=/nonexistent.so", 1,
         "Could not find: libnccl-profiler.so"},
        {"profiler none", "NCCL_DEBUG=INFO NCCL_PROFILER_PLUGIN=none", 0, "PROFILER/Plugin"},
    };
    for (const auto& row : rows) {
        SUBCASE(row.name) {
            const CommandOutput output = run_command(
                std::string("env -u NCCL_DEBUG -u NCCL_DEBUG_SUBSYS ") + row.environment +
                " timeout 60 " TOPORUN_RING_ALLREDUCE " --steps 1 --elements 10 --compute-us 0");
            CAPTURE(output.text);
            CHECK(output.status == 0);
            int found = 0;
            for (std::size_t at = 0; (at = output.text.find(row.text, at)) != std::string::npos;
                 ++at) {
                ++found;
            }
            CHECK(found == row.wanted);
        }
    }
}

TEST_CASE("An interface name that matches nothing stops the run as NCCL does") {
    const CommandOutput output =
        ring_allreduce(2, "NCCL_DEBUG=WARN NCCL_SOCKET_IFNAME=nosuch0", "--steps 1");
    CAPTURE(output.text);
    CHECK(output.status == 1);
    CHECK(output.text.find("NCCL WARN Bootstrap : no socket interface found") != std::string::npos);
}

TEST_CASE("The grammar of NCCL_SOCKET_IFNAME") {
    const struct {
        const char* list;
        const char* name;
        bool matches;
    } rows[] = {{"eth", "eth0", true},
                {"eth", "veth0", false},
                {"=eth", "eth0", false},
                {"=eth0", "eth0", true},
                {"=eth0,eth1", "eth1", true},
                {"^docker,lo", "lo", false},
                {"^docker,lo", "docker0", false},
                {"^docker,lo", "eth0", true},
                {"^=docker0", "docker01", true},
                {"eth0:1", "eth0", true},
                {"eth0, eth1", "eth1", false},
                {" eth0", "eth0", false},
                {"ib,eth", "eth7", true}};
    for (const auto& row : rows) {
        CAPTURE(std::string(row.list));
        CAPTURE(std::string(row.name));
        CHECK(ring_allreduce::interface_matches(row.list, row.name) == row.matches);
    }
    const auto loopback = ring_allreduce::nccl_interfaces("lo", "AF_INET");
    REQUIRE(loopback.size() == 1);
    CHECK(loopback[0].address == "127.0.0.1");
    CHECK_FALSE(ring_allreduce::nccl_interfaces("", "").empty());
    CHECK_FALSE(ring_allreduce::nccl_interfaces("x", "").empty());  // one character: ignored
}

TEST_CASE("Options and exit statuses of ring_allreduce") {
    const struct {
        const char* options;
        int status;
        const char* text;
    } rows[] = {
        {"--help", 0, "usage: mpirun -np N ring_allreduce"},
        {"--stepz", 2, "ring_allreduce: unknown option '--stepz'"},
        {"--steps", 2, "--steps needs a number from 1 to 1000000"},
        {"--steps 0", 2, "--steps needs a number"},
        {"--steps 5x", 2, "--steps needs a number"},
        {"--elements 99999999999", 2, "--elements needs a number"},
        {"extra", 2, "unknown option 'extra'"},
        {"--steps 2 --elements 1 --compute-us 0", 0, "one process only"},
    };
    for (const auto& row : rows) {
        CAPTURE(std::string(row.options));
        const CommandOutput output =
            run_command(std::string("timeout 60 " TOPORUN_RING_ALLREDUCE " ") + row.options);
        CAPTURE(output.text);
        CHECK(output.status == row.status);
        CHECK(output.text.find(row.text) != std::string::npos);
    }
}

TEST_CASE("Sums are exact for process counts and sizes that do not divide") {
    const std::pair<int, int> rows[] = {{2, 1}, {3, 1000}, {5, 7}, {16, 4099}};
    for (const auto& row : rows) {
        const int processes = row.first, elements = row.second;
        CAPTURE(processes);
        const CommandOutput output = ring_allreduce(
            processes, "", "--steps 3 --compute-us 0 --elements " + std::to_string(elements));
        CAPTURE(output.text);
        CHECK(output.status == 0);
        CHECK(output.text.find(std::to_string(processes) + " ranks, 3 steps") != std::string::npos);
    }
}

TEST_CASE("The program holds the text from which a launcher reads NCCL's version") {
    CHECK(read_file(TOPORUN_RING_ALLREDUCE).find("NCCL version 2.28.9+cuda13.0") !=
          std::string::npos);
}

TEST_CASE("Rings of the size for two ranks keep 20000 fast operations until somebody looks") {
    const TemporaryDirectory directory;
    const std::string slots = std::to_string(profiler::ring_slots(2, std::nullopt));
    const CommandOutput output = ring_allreduce(
        2,
        "NCCL_PROFILER_PLUGIN=" TOPORUN_PLUGIN " TOPORUN_PROFILE_DIR=" + directory.path().string() +
            " " + profiler::kSlotsVariable + "=" + slots,
        "--steps 20000 --elements 16 --compute-us 0");
    CAPTURE(output.text);
    REQUIRE(output.status == 0);
    const profiler::Measured result = measure(directory.path());
    CHECK(result.lost == 0);
    CHECK(result.label == profiler::Label::measured);
    CHECK(result.parts_label == profiler::Label::measured);  // all of them found their match
    REQUIRE(result.ranks.size() == 2);
    CHECK(result.ranks[0].operations == 20000);
}

/// TOPORUN_SHARE_RUNS=20 repeats the comparison and prints each pair of figures.
TEST_CASE("The measured share agrees with the program's own count within two points") {
    const struct {
        const char* name;
        const char* options;
        bool above_limit;
    } rows[] = {{"little compute", "--compute-us 0 --elements 16384 --steps 5000", true},
                {"much compute", "--compute-us 20000 --elements 65536 --steps 60", false}};
    const char* wanted = std::getenv("TOPORUN_SHARE_RUNS");
    const int runs = wanted != nullptr ? std::max(1, std::atoi(wanted)) : 1;
    for (const auto& row : rows) {
        SUBCASE(row.name) {
            for (int run = 0; run < runs; ++run) {
                const TemporaryDirectory directory;
                const CommandOutput output =
                    ring_allreduce(2,
                                   "NCCL_PROFILER_PLUGIN=" TOPORUN_PLUGIN " TOPORUN_PROFILE_DIR=" +
                                       directory.path().string(),
                                   row.options);
                CAPTURE(output.text);
                REQUIRE(output.status == 0);
                const double own = own_share(output.text);
                const profiler::Measured result = measure(directory.path());
                REQUIRE(result.in_flight);
                if (runs > 1) {
                    std::printf("%s run %d: own %.1f %%, measured %.1f %%, transfer %.1f %%\n",
                                row.name, run + 1, 100 * own, 100 * *result.in_flight,
                                100 * result.transfer.value_or(0));
                }
                CHECK(std::abs(own - *result.in_flight) <= 0.02);
                // Of much compute less, how much less is the machine's load.
                if (row.above_limit) CHECK(own > 0.3);
                CHECK(result.label == profiler::Label::measured);
                CHECK(result.parts_label == profiler::Label::measured);
                CHECK(result.ranks.size() == 2);
            }
        }
    }
}

}  // namespace toporun::tests
