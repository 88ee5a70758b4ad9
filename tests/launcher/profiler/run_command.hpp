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

/// All rings of a directory added up, in turns as the observer does it.
inline profiler::Measured measure(const std::filesystem::path& directory) {
    profiler::InFlight sum;
    std::vector<profiler::RingReader> readers;
    for (const auto& file : profiler::ring_files(directory)) readers.emplace_back(file);
    for (bool more = true; more;) {
        more = false;
        for (profiler::RingReader& reader : readers) {
            const auto found = reader.poll(profiler::kPollTurn);
            for (const auto& collective : found) sum.add(reader.key(), collective);
            more = more || found.size() >= profiler::kPollTurn;
        }
    }
    for (const profiler::RingReader& reader : readers) {
        for (const auto& communicator : reader.communicators())
            sum.member(reader.key(), communicator);
        sum.lost(reader.key(), reader.lost());
    }
    return sum.measured();
}

}  // namespace toporun::tests
