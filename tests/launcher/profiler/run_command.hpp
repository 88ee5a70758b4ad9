#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "launcher/profiler/in_flight.hpp"
#include "launcher/profiler/ring_reader.hpp"

namespace toporun::tests {

struct CommandOutput {
    int status = -1;   ///< exit status, -1 when it did not exit
    std::string text;  ///< standard output and error
};

/// Runs a shell command with a time limit of a minute and a half.
inline CommandOutput run_command(const std::string& command) {
    CommandOutput output;
    std::FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
    if (pipe == nullptr) return output;
    char part[4096];
    for (std::size_t got = 0; (got = fread(part, 1, sizeof part, pipe)) > 0;) {
        output.text.append(part, got);
    }
    const int status = pclose(pipe);
    if (WIFEXITED(status)) output.status = WEXITSTATUS(status);
    return output;
}

/// All rings of a directory added up, as the observer does at the end of a run.
inline profiler::Measured measure(const std::filesystem::path& directory) {
    profiler::InFlight sum;
    for (const auto& file : profiler::ring_files(directory)) {
        profiler::RingReader reader(file);
        for (const profiler::Collective& collective : reader.poll()) {
            sum.add(reader.key(), collective);
        }
        for (const profiler::Communicator& communicator : reader.communicators()) {
            sum.member(reader.key(), communicator);
        }
        sum.lost(reader.key(), reader.lost());
    }
    return sum.measured();
}

}  // namespace toporun::tests
