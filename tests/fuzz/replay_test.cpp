#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "detect/import/sys_tree.hpp"
#include "files.hpp"
#include "targets.hpp"
#include "tree_text.hpp"

using namespace toporun;
namespace filesystem = std::filesystem;

namespace {

std::vector<filesystem::path> files_below(const filesystem::path& directory) {
    std::vector<filesystem::path> files;
    if (filesystem::is_directory(directory))
        for (const auto& entry : filesystem::recursive_directory_iterator(directory))
            if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

void run(const fuzz::Target& target, const filesystem::path& file) {
    CAPTURE(target.name);
    CAPTURE(file.string());
    CHECK_NOTHROW(target.run(tests::read_file(file)));
}

}  // namespace

TEST_CASE("inputs that once were wrong are read by their target and as a capture") {
    const filesystem::path root = filesystem::path(TOPORUN_FUZZ_FILES) / "regressions";
    int files = 0;
    for (const filesystem::path& file : files_below(root)) {
        const fuzz::Target* target = fuzz::find_target(file.parent_path().filename().string());
        CAPTURE(file.string());
        REQUIRE(target != nullptr);
        run(*target, file);
        run(*fuzz::find_target("captures"), file);
        ++files;
    }
    CHECK(files > 0);
}

TEST_CASE("the corpus belongs to targets and is read by them") {
    const filesystem::path root = filesystem::path(TOPORUN_FUZZ_FILES) / "corpus";
    std::uintmax_t bytes = 0;
    for (const filesystem::path& file : files_below(root)) {
        const fuzz::Target* target = fuzz::find_target(file.parent_path().filename().string());
        CAPTURE(file.string());
        REQUIRE(target != nullptr);
        run(*target, file);
        bytes += filesystem::file_size(file);
    }
    CHECK(bytes > 0);
    CHECK(bytes < 1'000'000);
}

TEST_CASE("trees as text are the machines that they name") {
    const filesystem::path root = filesystem::path(TOPORUN_FUZZ_FILES) / "corpus/sys-tree";
    const auto machine_of = [&](const std::string& name) {
        return detect::machine_from_tar(fuzz::tar_of_tree_text(tests::read_file(root / name)),
                                        name);
    };
    const detect::Machine one = machine_of("switch");
    REQUIRE(one.gpus.size() == 1);
    CHECK(one.gpus[0].pcie_width_now == 8);
    CHECK(one.gpu_nic_paths.at(0).at(0) == detect::PathType::PIX);
    REQUIRE(one.nics.size() == 1);
    CHECK(one.nics[0].gids.size() == 2);
    CHECK(one.software.acs_redirect == true);
    CHECK(machine_of("kfd").gpu_links.at(0).at(1) > 0);
    const detect::Machine limited = machine_of("cgroup-v2");
    CHECK(limited.cpu.allowed.text() == "0-2");
    CHECK(limited.cpu.numa_nodes.size() == 2);
    CHECK(limited.limits.cpu_quota == 1.5);
    CHECK(machine_of("cgroup-v1").limits.cpu_quota == 0.5);
}

TEST_CASE("captures of the tests are no surprise to any target") {
    const filesystem::path root = filesystem::path(TOPORUN_TEST_DATA) / "detect/import";
    const std::vector<filesystem::path> files = files_below(root);
    CHECK_FALSE(files.empty());
    for (const fuzz::Target& target : fuzz::targets())
        for (const filesystem::path& file : files) run(target, file);
}

TEST_CASE("captures that are cut off or lack a line are no surprise either") {
    const filesystem::path root = filesystem::path(TOPORUN_TEST_DATA) / "detect/import";
    const fuzz::Target& captures = *fuzz::find_target("captures");
    for (const filesystem::path& file : files_below(root)) {
        CAPTURE(file.string());
        const std::string text = tests::read_file(file);
        const std::size_t step = std::max<std::size_t>(text.size() / 40, 1);
        for (std::size_t at = 0; at < text.size(); at += step) {
            CAPTURE(at);
            CHECK_NOTHROW(captures.run(text.substr(0, at)));
            CHECK_NOTHROW(captures.run(text.substr(at)));
            CHECK_NOTHROW(
                captures.run(text.substr(0, at) + text.substr(std::min(at + 9, text.size()))));
        }
    }
}
