#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/command/host.hpp"

namespace toporun::tests {

/// The header of an ELF program of 64 bits without program headers.
inline const std::string kElf = std::string("\177ELF\2") + std::string(59, '\0');

/// A host that holds a few programs and files, called node-a.
class FakeHost final : public launcher::Host {
  public:
    std::map<std::string, std::string> programs = {
        {"/bin/sh", kElf},
        {"/bin/bash", kElf},
        {"/usr/bin/env", kElf},
        {"/usr/bin/numactl", kElf},
        {"/usr/bin/singularity", kElf},
        {"/usr/bin/python3", kElf},
        {"/venv/bin/python", kElf},
        {"/venv/bin/torchrun", "#!/venv/bin/python\nimport re\n"},
        {"/usr/bin/orterun", kElf},
        {"/usr/bin/mpirun", kElf},
        {"/usr/bin/mpiexec", kElf},
        {"/usr/bin/mpirun.openmpi", kElf},
        {"/usr/bin/mpiexec.hydra", kElf},
        {"/opt/ompi5/bin/mpirun", kElf},
        {"/opt/odd/bin/mpirun", kElf},
        {"/usr/bin/srun", kElf},
        {"/usr/bin/flux", kElf},
        {"/usr/bin/jsrun", kElf},
        {"/venv/bin/accelerate", "#!/venv/bin/python\n"},
        {"/venv/bin/deepspeed", "#!/venv/bin/python\n"},
        {"/venv/bin/composer", "#!/venv/bin/python\n"},
        {"/venv/bin/colossalai", "#!/venv/bin/python\n"},
        {"/venv/bin/horovodrun", "#!/venv/bin/python\n"},
        {"/venv/bin/fabric", "#!/venv/bin/python\n"},
        {"/venv/bin/vllm", "#!/venv/bin/python\n"},
        {"/venv/bin/llamafactory-cli", "#!/venv/bin/python\n"},
        {"/venv/bin/swift", "#!/venv/bin/python\n"},
        {"/venv/bin/xtuner", "#!/venv/bin/python\n"},
        {"/venv/bin/tune", "#!/venv/bin/python\n"},
        {"/venv/bin/megatron", "#!/venv/bin/python\n"},
        {"/venv/bin/axolotl", "#!/venv/bin/python\n"},
        {"/venv/bin/trl", "#!/venv/bin/python\n"},
        {"/venv/bin/coverage", "#!/venv/bin/python\n"},
        {"/usr/bin/choom", kElf},
        {"/usr/bin/nsys", kElf},
        {"./train", kElf},
        {"./s", kElf},
        {"./w", kElf},
        {"./u", kElf},
        {"/data/run/train", kElf},
        {"data/run/./train", kElf},
        {"./tool.py", "#!/usr/bin/env python3\n"},
        {"./plain.txt", "echo no first line\n"},
        {"./lost.sh", "#!/no/such/interpreter\n"},
        {"./run.sh", "#!/bin/bash\nexec ./train \"$@\"\n"},
        {"./boxed.sh", "#!/bin/bash\nexec singularity exec i.sif ./train\n"},
    };
    std::map<std::string, std::string> files;  ///< not executable
    std::map<std::string, std::string> links = {{"/usr/bin/mpirun", "/usr/bin/orterun"},
                                                {"/usr/bin/mpiexec", "/usr/bin/orterun"},
                                                {"/usr/bin/mpirun.openmpi", "/usr/bin/orterun"}};
    std::map<std::string, std::string> versions = {
        {"/opt/ompi5/bin/mpirun", "mpirun (Open MPI) 5.0.3\n"}};
    mutable int version_calls = 0;

    std::string find_executable(const std::string& word) const override {
        if (word.find('/') != std::string::npos) return programs.contains(word) ? word : "";
        for (const char* directory : {"/venv/bin/", "/usr/bin/", "/bin/"})
            if (programs.contains(directory + word)) return directory + word;
        return {};
    }
    bool is_executable(const std::string& path) const override { return programs.contains(path); }
    std::optional<std::string> read_file(const std::string& path,
                                         std::size_t limit) const override {
        for (const auto* map : {&programs, &files})
            if (const auto found = map->find(path); found != map->end())
                return found->second.substr(0, limit);
        return std::nullopt;
    }
    std::string real_path(const std::string& path) const override {
        const auto found = links.find(path);
        return found == links.end() ? path : found->second;
    }
    std::vector<std::string> names() const override {
        return {"localhost", "node-a.example.org", "10.0.0.1"};
    }
    std::string version_text(const std::string& path) const override {
        ++version_calls;
        const auto found = versions.find(path);
        return found == versions.end() ? "" : found->second;
    }
};

}  // namespace toporun::tests
