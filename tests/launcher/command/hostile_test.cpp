// Words that no user means, for launchers whose grammar is short: whatever stands there, the
// program's own words come again as they were.
#include <doctest/doctest.h>

#include "fake_host.hpp"
#include "launcher/command/launch.hpp"
#include "untouched.hpp"

using namespace toporun;

namespace {

const std::vector<std::vector<std::string>> kLaunchers = {
    {"llamafactory-cli", "train"},
    {"swift", "sft"},
    {"megatron", "pt"},
    {"xtuner", "train"},
    {"axolotl", "train"},
    {"axolotl", "train", "--launcher", "torchrun", "--"},
    {"trl", "sft"},
    {"tune", "run"},
    {"composer", "-n", "2"},
    {"fabric", "run", "--devices", "2"},
    {"colossalai", "run", "--nproc_per_node", "2"},
    {"coverage", "run", "-m", "torch.distributed.run", "--nproc_per_node=2"},
    {"choom", "-n", "5", "--"},
    {"./train"},
};

/// The launcher with these words behind it, with its own variables set: what toporun did to them.
std::string touched_with(std::vector<std::string> typed, const std::vector<std::string>& words) {
    typed.insert(typed.end(), words.begin(), words.end());
    const launcher::Environment environment = {{"NPROC_PER_NODE", "2"}};
    const tests::FakeHost host;
    const launcher::Command command = launcher::recognise(typed, environment, host);
    const launcher::Launch launch = prepare_launch(
        command, env::Plan(), {"/T/toporun-shim", "/T/toporun-python", "", "/T/toporun"},
        {"/N", "/N/plan"}, variables_of_ranks(command, environment), host);
    const std::string line = structure_text(command);
    if (line.find('\xff') != std::string::npos || line.find('\n') != std::string::npos)
        return "bytes of a word that are not printable are in the line for the user";
    return tests::touched(typed, command, launch.argv);
}

}  // namespace

TEST_CASE("hostile words behind launchers are neither changed nor lost") {
    const std::vector<std::vector<std::string>> words = {
        {},
        {""},
        {"", "", ""},
        {"--"},
        {"--", "--", "--"},
        {"-"},
        {"=", "--=", "--=x", "-=", "--x="},
        {"\xff\xfe.py", "\xc3\x28"},
        {"--\xff", "\xff"},
        {"a\nb.py", "--c\nd=\x1b[2J"},
        {"-m"},
        {"-m", ""},
        {"--module", "-m", "pkg"},
        {"--nproc_per_node"},
        {"--num_processes"},
        {"--launcher"},
        {"--launcher", "--"},
        {"--accelerate_config"},
        {"--config_file", "--config_file"},
        {"--nproc_per_node=2", "train.py", "-m", "x", "--", "-m"},
        {"train.py", "torchrun", "--no-python", "./train"},
        {"train.py", std::string(100000, 'x')},
        std::vector<std::string>(10000, "x"),
        std::vector<std::string>(10000, "--x=1"),
        std::vector<std::string>(10000, "-m"),
    };
    for (const std::vector<std::string>& launcher : kLaunchers)
        for (const std::vector<std::string>& behind : words) {
            CAPTURE(launcher.front());
            CAPTURE(behind.size());
            CAPTURE(behind.empty() ? std::string() : behind.front());
            CHECK(touched_with(launcher, behind) == "");
        }
}
