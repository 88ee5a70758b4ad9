#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "targets.hpp"

/// One program for every target, which it is by its own name: build/fuzz/bin/fuzz-hwloc-xml. Under
/// another name it prints the targets, one a line.

static const toporun::fuzz::Target* target = nullptr;

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
    const std::string_view path = *argc > 0 ? (*argv)[0] : "";
    const std::string_view program = path.substr(path.rfind('/') + 1);
    constexpr std::string_view prefix = "fuzz-";
    if (program.starts_with(prefix))
        target = toporun::fuzz::find_target(program.substr(prefix.size()));
    if (target != nullptr) return 0;
    for (const toporun::fuzz::Target& known : toporun::fuzz::targets())
        std::printf("%s\n", known.name.c_str());
    std::fflush(stdout);
    std::_Exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    target->run(std::string_view(reinterpret_cast<const char*>(data), size));
    return 0;
}
