#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "detect/cpu_set.hpp"
#include "files.hpp"

namespace toporun::tests {

using Variables = std::map<std::string, std::string>;

struct Result {
    int status = -1;  ///< as a shell has it: 128 + signal
    std::string out;
    std::string error;
};

inline std::string binary(const std::string& name) {
    return std::string(TOPORUN_BIN) + "/" + name;
}

/// The CPUs that this test may use.
inline detect::CpuSet own_mask() {
    std::vector<unsigned long> words(128);
    const int got = sched_getaffinity(0, words.size() * sizeof(unsigned long),
                                      reinterpret_cast<cpu_set_t*>(words.data()));
    std::vector<int> cpus;
    for (int cpu = 0; got == 0 && cpu < 8192; ++cpu)
        if ((words[static_cast<std::size_t>(cpu) / 64] >> (cpu % 64) & 1) != 0) cpus.push_back(cpu);
    return detect::CpuSet(cpus);
}

inline void narrow_to(const detect::CpuSet& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cpus.indices()) CPU_SET(static_cast<std::size_t>(cpu), &set);
    sched_setaffinity(0, sizeof set, &set);
}

struct Start {
    std::vector<std::string> argv;
    Variables variables = {};
    detect::CpuSet mask = {};    ///< empty: as the test
    std::string directory = {};  ///< "": as the test
    std::string path = {};       ///< the file to run; "": argv[0], looked up on PATH
};

/// Runs the program with exactly these variables, output to files, no input.
inline Result run(const Start& start) {
    const TemporaryDirectory files;
    const std::string out = (files.path() / "out").string();
    const std::string error = (files.path() / "error").string();
    std::vector<std::string> entries;
    for (const auto& [name, value] : start.variables) entries.push_back(name + "=" + value);
    std::vector<char*> argv;
    std::vector<char*> environment;
    for (const std::string& word : start.argv) argv.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& entry : entries)
        environment.push_back(const_cast<char*>(entry.c_str()));
    argv.push_back(nullptr);
    environment.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        if (!start.mask.empty()) narrow_to(start.mask);
        if (!start.directory.empty() && chdir(start.directory.c_str()) != 0) _exit(99);
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
        dup2(open(error.c_str(), O_WRONLY | O_CREAT, 0600), 2);
        execvpe(start.path.empty() ? argv[0] : start.path.c_str(), argv.data(), environment.data());
        _exit(98);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), read_file(out),
            read_file(error)};
}

}  // namespace toporun::tests
