#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "support.hpp"

/// The list of checks against the sources and the documentation.
namespace toporun::tests {
namespace {

std::string source_root() {
    return std::string(TOPORUN_TEST_DATA) + "/../..";
}

std::string read(const std::string& path) {
    std::ifstream file(path);
    CAPTURE(path);
    REQUIRE(file.good());
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

std::set<std::string> listed() {
    std::set<std::string> known;
    for (const env::CheckInfo& check : env::check_list()) known.insert(std::string(check.id));
    return known;
}

TEST_CASE("identifiers are in kebab case and each is listed once") {
    const std::regex kebab("[a-z][a-z0-9]*(-[a-z0-9]+)+");
    CHECK(listed().size() == env::check_list().size());
    for (const env::CheckInfo& check : env::check_list()) {
        CAPTURE(check.id);
        CHECK(std::regex_match(std::string(check.id), kebab));
        CHECK(check.explanation.size() > 20);
        CHECK_FALSE(check.explanation.ends_with('.'));
    }
}

TEST_CASE("families stand together") {
    std::set<std::string_view> closed;
    std::string_view family;
    for (const env::CheckInfo& check : env::check_list()) {
        if (check.family == family) continue;
        CAPTURE(check.family);
        CHECK(closed.insert(check.family).second);
        family = check.family;
    }
}

TEST_CASE("every identifier has a section of the documentation, and every section a check") {
    const std::string page = read(source_root() + "/docs/doctor.md");
    const auto known = listed();
    for (const std::string& id : known)
        CHECK_MESSAGE(page.find("\n### `" + id + "`\n") != std::string::npos, id);
    const std::regex heading("\n### `([^`]+)`");
    for (auto match = std::sregex_iterator(page.begin(), page.end(), heading);
         match != std::sregex_iterator(); ++match)
        CHECK_MESSAGE(known.contains((*match)[1].str()), (*match)[1].str());
}

TEST_CASE("what the documentation prints as code is a command") {
    const std::string page = read(source_root() + "/docs/doctor.md");
    const std::regex fix("\n\\* fix: `([^`]*)`");
    const std::regex prose("[;,] |: | (if|or|and|then|where) |\n");
    int found = 0;
    for (auto match = std::sregex_iterator(page.begin(), page.end(), fix);
         match != std::sregex_iterator(); ++match) {
        const std::string code = (*match)[1].str();
        CAPTURE(code);
        ++found;
        CHECK_FALSE(std::regex_search(std::regex_replace(code, std::regex("; dmesg"), ""), prose));
    }
    CHECK(found > 40);
    CHECK(page.find("Ibv_") == std::string::npos);
}

TEST_CASE("what decide finds is in the list of the doctor") {
    const auto known = listed();
    const std::regex written("[{(]\"([a-z0-9]+(-[a-z0-9]+)+)\",\\s*(Severity|first|name|for_gpus)");
    const std::regex assigned("\\.id = [^;]*\"([a-z0-9]+(-[a-z0-9]+)+)\"[^;]*;");
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(source_root() + "/env")) {
        if (entry.path().extension() != ".cpp") continue;
        const std::string text = read(entry.path().string());
        for (const std::regex& pattern : {written, assigned})
            for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern);
                 match != std::sregex_iterator(); ++match) {
                ++found;
                CHECK_MESSAGE(known.contains((*match)[1].str()), (*match)[1].str());
            }
    }
    CHECK(found > 12);
}

TEST_CASE("findings are sorted by gravity, and each is told once") {
    Machine machine = healthy_node();
    machine.software.numa_balancing = true;
    machine.gpus[0].row_remap_failed = true;
    machine.gpus[1].row_remap_pending = true;
    const auto diagnosis = examine(machine);
    CHECK(ids(diagnosis) == std::vector<std::string>{"gpu-row-remap-failed",
                                                     "gpu-row-remap-pending", "numa-balancing"});
    CHECK(env::broken_findings(diagnosis).size() == 1);
    CHECK(env::summary_line(diagnosis).starts_with("1 broken, 1 slow, 1 note: "));
}

TEST_CASE("a launch makes only the checks that can find something broken") {
    static const auto knowledge = profiles::builtin_knowledge();
    Machine machine = healthy_node();
    machine.software.numa_balancing = true;
    machine.gpus[0].row_remap_failed = true;
    machine.gpus[1].row_remap_pending = true;
    const env::Job job = doctor_job();
    const auto at_least = [&](env::Severity least) {
        return env::diagnose(job, machine, {}, plan(machine, job), knowledge, least);
    };
    const auto all = at_least(env::Severity::note);
    const auto broken = at_least(env::Severity::broken);
    CHECK(ids(broken) == std::vector<std::string>{"gpu-row-remap-failed"});
    CHECK(env::broken_findings(broken).size() == env::broken_findings(all).size());
    CHECK(broken.checks > 0);
    CHECK(broken.checks * 2 < all.checks);
}

TEST_CASE("a fault that decide told is not told again") {
    Machine machine = healthy_node();
    machine.cpu.allowed = machine.cpu.numa_nodes[0].cpus;
    const auto diagnosis = examine(machine, {}, doctor_job(1, 8));
    CHECK(has(diagnosis, "gpu-cpus-not-allowed"));
    CHECK_FALSE(has(diagnosis, "cpus-one-numa-node"));
}

}  // namespace
}  // namespace toporun::tests
