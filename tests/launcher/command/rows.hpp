#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/text.hpp"
#include "fake_host.hpp"
#include "launcher/command/command.hpp"

namespace toporun::tests {

using launcher::Command;
using launcher::Environment;
using launcher::Rewrite;

constexpr Rewrite kEnv = Rewrite::environment;
constexpr Rewrite kIn = Rewrite::inserted;
constexpr Rewrite kNo = Rewrite::export_only;
constexpr int kAny = -1;  ///< unknown

struct Row {
    std::string line;  ///< the command; words are parted by one blank
    Rewrite rewrite;
    std::vector<std::size_t> program;  ///< positions
    int nodes = kAny;
    int ranks = kAny;
    bool binds = false;
    Environment environment = {};
};

inline void check(const Row& row, const std::string& launcher, const FakeHost& host = {}) {
    CAPTURE(row.line);
    const std::vector<std::string> words = split(row.line, ' ');
    const Command command = launcher::recognise(words, row.environment, host);
    CHECK(command.argv == words);
    CHECK(command.job.launcher == launcher);
    CHECK(rewrite_text(command.rewrite) == rewrite_text(row.rewrite));
    CHECK(command.program_at == row.program);
    CHECK(command.job.nodes.value_or(kAny) == row.nodes);
    CHECK(command.job.ranks_per_node.value_or(kAny) == row.ranks);
    CHECK(command.job.user_binds == row.binds);
    CHECK(command.job.shim == (row.rewrite != kNo));
    CHECK(command.export_only_reason.empty() == (row.rewrite != kNo));
    CHECK(command.job.why_not_here == command.export_only_reason);
    CHECK(command.export_only_reason.find('\n') == std::string::npos);
}

inline Command read(const std::string& line, const Environment& environment = {},
                    const FakeHost& host = {}) {
    return launcher::recognise(split(line, ' '), environment, host);
}

}  // namespace toporun::tests
