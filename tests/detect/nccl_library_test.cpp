#include "detect/software/nccl_library.hpp"

#include <elf.h>

#include <cstring>

#include "detect/software/nccl_plugins.hpp"
#include "detect/software/python_paths.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Files;
using detect::NcclLibrary;
using detect::Sources;

/// An ELF file with two sections: names, and .rodata holding `text` after `padding` bytes.
std::string elf_with(const std::string& text, std::size_t padding = 0) {
    const std::string names = std::string("\0.shstrtab\0.rodata\0", 19);
    const std::string data = std::string(padding, 'x') + text;
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 2;
    header.e_shstrndx = 0;
    header.e_shoff = sizeof header + names.size() + data.size();
    Elf64_Shdr sections[2] = {};
    sections[0].sh_name = 1;
    sections[0].sh_type = SHT_STRTAB;
    sections[0].sh_offset = sizeof header;
    sections[0].sh_size = names.size();
    sections[1].sh_name = 11;
    sections[1].sh_type = SHT_PROGBITS;
    sections[1].sh_offset = sizeof header + names.size();
    sections[1].sh_size = data.size();
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + names + data +
           std::string(reinterpret_cast<const char*>(sections), sizeof sections);
}

NcclLibrary find(const Tree& tree, Sources sources = {}) {
    sources.root = tree.root();
    return detect::find_nccl(sources, Files(tree.root()));
}

std::optional<std::string> version_in(const Tree& tree, const std::string& path, bool deep) {
    const Files files(tree.root());
    detect::BoundedReader reader(files);
    return detect::nccl_version_in_elf(reader, path, deep);
}

std::vector<std::string> names_of(const NcclLibrary& nccl) {
    std::vector<std::string> names;
    for (const detect::NcclPlugin& plugin : nccl.plugins) names.push_back(plugin.name);
    return names;
}

Sources with_program(const std::string& program, const std::string& home = "") {
    Sources sources;
    sources.program = program;
    sources.home = home;
    return sources;
}

}  // namespace

TEST_CASE("NCCL's version is read out of its text") {
    struct Row {
        const char* text;
        std::optional<std::string> version;
    };
    const Row rows[] = {
        {"NCCL version 2.28.9+cuda13.0", "2.28.9"},
        {"xNCCL version 2.28.9 compiled with CUDA 13.0", "2.28.9"},
        {"NCCL version %d.%d NCCL version 2.7.8+cuda10.2", "2.7.8"},
        {"NCCL version %s", std::nullopt},
        {"NCCL version 2.28.9", std::nullopt},
        {"NCCL version 2.28+cuda13.0", std::nullopt},
        {"NCCL version 2.28.99999+cuda13.0", std::nullopt},
        {"NCCL version ", std::nullopt},
        {"", std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        CHECK(detect::nccl_version_in_text(row.text) == row.version);
    }
}

TEST_CASE("without a library the version is unknown until NCCL starts") {
    const Tree tree;
    const NcclLibrary nccl = find(tree);
    CHECK_FALSE(nccl.version);
    CHECK_FALSE(nccl.file);
    CHECK(nccl.note.find("unknown until NCCL starts") != std::string::npos);
}

TEST_CASE("the loader's order decides: preload, library path, then the rest") {
    const Tree tree;
    tree.write("/preload/libnccl.so.2.20.5", "");
    tree.write("/path/libnccl.so.2.21.5", "");
    tree.link("/path/libnccl.so.2", "libnccl.so.2.21.5");
    tree.write("/usr/lib/x86_64-linux-gnu/libnccl.so.2.22.3", "");
    tree.link("/usr/lib/x86_64-linux-gnu/libnccl.so.2", "libnccl.so.2.22.3");
    Sources sources;
    CHECK(find(tree, sources).version == "2.22.3");
    sources.library_path = {"/missing", "/path"};
    CHECK(find(tree, sources).version == "2.21.5");
    CHECK(find(tree, sources).file == "/path/libnccl.so.2.21.5");
    sources.preload = "/none/libnccl.so.2 libc.so:/preload/libnccl.so.2.20.5";
    CHECK(find(tree, sources).version == "2.20.5");
}

TEST_CASE("the loader's cache names the library") {
    const Tree tree;
    tree.write("/opt/nccl/libnccl.so.2.25.1", "");
    tree.link("/opt/nccl/libnccl.so.2", "libnccl.so.2.25.1");
    tree.write("/opt/plugins/libnccl-net.so", "");
    using namespace std::string_literals;
    tree.write("/etc/ld.so.cache",
               "glibc-ld.so.cache1.1\0\0libnccl.so.2\0/gone/libnccl.so.2\0"
               "/opt/nccl/libnccl.so.2\0/opt/plugins/libnccl-net.so\0/x/libnccl-net.so"s);
    const NcclLibrary nccl = find(tree);
    CHECK(nccl.version == "2.25.1");
    CHECK(names_of(nccl) == std::vector<std::string>{"libnccl-net.so"});
}

TEST_CASE("a virtual environment's wheel tells the version by its metadata") {
    const Tree tree;
    const std::string site = "/home/u/venv/lib/python3.11/site-packages";
    tree.write("/usr/bin/python3.11", "");
    tree.link("/home/u/venv/bin/python", "../../../../usr/bin/python3.11");
    tree.write("/home/u/venv/pyvenv.cfg",
               "home = /usr/bin\ninclude-system-site-packages = false\n");
    tree.write(site + "/nvidia/nccl/lib/libnccl.so.2", "not an ELF file");
    tree.directory(site + "/nvidia_nccl_cu12-2.27.5.dist-info");
    tree.directory("/home/u/venv/lib/python3.9/site-packages");
    const NcclLibrary nccl = find(tree, with_program("/home/u/venv/bin/python"));
    CHECK(nccl.version == "2.27.5");
    CHECK(nccl.file == site + "/nvidia/nccl/lib/libnccl.so.2");
    CHECK(nccl.note.empty());
    CHECK(detect::site_packages(Files(tree.root()), "/home/u/venv/bin/python", "/home/u") ==
          std::vector<std::string>{site});
}

TEST_CASE("the system's interpreter looks into the user site and dist-packages") {
    const Tree tree;
    tree.write("/usr/bin/python3.11", "");
    tree.link("/usr/bin/python3", "python3.11");
    tree.directory("/root/.local/lib/python3.11/site-packages");
    tree.directory("/root/.local/lib/python3.8/site-packages");
    tree.directory("/usr/local/lib/python3.11/dist-packages");
    tree.directory("/usr/lib/python3/dist-packages");
    tree.write("/root/venv/bin/python3.11", "");
    tree.write("/root/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\n");
    tree.directory("/root/venv/lib/python3.11/site-packages");
    const Files files(tree.root());
    const std::vector<std::string> system = {"/root/.local/lib/python3.11/site-packages",
                                             "/usr/local/lib/python3.11/dist-packages",
                                             "/usr/lib/python3/dist-packages"};
    CHECK(detect::site_packages(files, "/usr/bin/python3", "/root") == system);
    std::vector<std::string> with_environment = {"/root/venv/lib/python3.11/site-packages"};
    with_environment.insert(with_environment.end(), system.begin(), system.end());
    CHECK(detect::site_packages(files, "/root/venv/bin/python3.11", "/root") == with_environment);
}

TEST_CASE("a look at the machine says where NCCL is not that of the shell's Python") {
    const Tree tree;
    tree.write("/usr/bin/python3.11", "");
    tree.link("/usr/bin/python3", "python3.11");
    tree.write("/usr/lib64/libnccl.so.2.27.5", "");
    tree.link("/usr/lib64/libnccl.so.2", "libnccl.so.2.27.5");
    Sources sources = with_program("/usr/bin/python3");
    CHECK(find(tree, sources).note.empty());  // a launch: this is the program
    sources.deep = true;
    const NcclLibrary system = find(tree, sources);
    CHECK(system.version == "2.27.5");
    CHECK(system.note.find("/usr/bin/python3 has none") != std::string::npos);
    sources.program.clear();
    CHECK(find(tree, sources).note.empty());
    sources.program = "/usr/bin/python3";
    const std::string packages = "/usr/lib/python3/dist-packages";
    tree.write(packages + "/nvidia/nccl/lib/libnccl.so.2", "");
    tree.directory(packages + "/nvidia_nccl_cu12-2.28.9.dist-info");
    const NcclLibrary own = find(tree, sources);
    CHECK(own.version == "2.28.9");
    CHECK(own.note.empty());
}

TEST_CASE("conda's own NCCL and old wheels are found") {
    const Tree tree;
    tree.write("/opt/conda/bin/python3.10", "");
    tree.directory("/opt/conda/lib/python3.10/site-packages");
    tree.write("/opt/conda/lib/libnccl.so.2.19.3", "");
    tree.link("/opt/conda/lib/libnccl.so.2", "libnccl.so.2.19.3");
    CHECK(find(tree, with_program("/opt/conda/bin/python3.10")).version == "2.19.3");
    const std::string torch = "/opt/conda/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so";
    tree.write(torch, elf_with("NCCL version 2.14.3+cuda11.7", detect::kMostBytes));
    Sources sources = with_program("/opt/conda/bin/python3.10");
    const NcclLibrary quick = find(tree, sources);
    CHECK_FALSE(quick.version);
    CHECK(quick.file == torch);
    CHECK(quick.note.find("libtorch_cuda.so does not tell it") != std::string::npos);
    sources.deep = true;
    CHECK(find(tree, sources).version == "2.14.3");
}

TEST_CASE("the interpreter is the program or the one its first line names") {
    const Tree tree;
    tree.write("/bin/script", "#!/opt/venv/bin/python3 -u\nimport x\n");
    tree.write("/bin/env-script", "#!/usr/bin/env python3\n");
    tree.write("/bin/shell", "#!/bin/sh\n");
    tree.write("/bin/odd", "#!");
    const Files files(tree.root());
    CHECK(detect::python_interpreter(files, "/usr/bin/python3") == "/usr/bin/python3");
    CHECK(detect::python_interpreter(files, "/bin/script") == "/opt/venv/bin/python3");
    CHECK_FALSE(detect::python_interpreter(files, "/bin/env-script"));
    CHECK_FALSE(detect::python_interpreter(files, "/bin/shell"));
    CHECK_FALSE(detect::python_interpreter(files, "/bin/odd"));
    CHECK_FALSE(detect::python_interpreter(files, "/bin/none"));
}

TEST_CASE("a program that holds NCCL tells its version") {
    const Tree tree;
    tree.write("/bin/train", elf_with("abc NCCL version 2.28.9+cuda13.0"));
    const NcclLibrary nccl = find(tree, with_program("/bin/train"));
    CHECK(nccl.version == "2.28.9");
    CHECK(nccl.file == "/bin/train");
}

TEST_CASE("only ELF files are searched, and damaged ones end the search") {
    struct Row {
        std::string name;
        std::string bytes;
        std::optional<std::string> version;
    };
    const std::string good = elf_with("NCCL version 2.28.9+cuda13.0");
    std::string far = good;  // a section table beyond the end: the beginning is searched
    reinterpret_cast<Elf64_Ehdr*>(far.data())->e_shoff = UINT64_MAX - 10;
    std::string many = good;
    reinterpret_cast<Elf64_Ehdr*>(many.data())->e_shnum = 65535;
    std::string name = good;
    reinterpret_cast<Elf64_Ehdr*>(name.data())->e_shstrndx = 7;
    const Row rows[] = {
        {"good", good, "2.28.9"},
        {"text", "NCCL version 2.28.9+cuda13.0", std::nullopt},
        {"cut in the header", good.substr(0, 40), std::nullopt},
        {"cut after the header", good.substr(0, sizeof(Elf64_Ehdr)), std::nullopt},
        {"section table elsewhere", far, "2.28.9"},
        {"too many sections", many, "2.28.9"},
        {"no section names", name, "2.28.9"},
        {"empty", "", std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.write("/bin/x", row.bytes);
        CHECK(version_in(tree, "/bin/x", false) == row.version);
    }
}

TEST_CASE("a version across two pieces of a deep search is found") {
    const Tree tree;
    const std::string text = "NCCL version 2.28.9+cuda13.0";
    std::string bytes = elf_with("none");
    bytes.resize(2 * detect::kMostBytes - 10, 'x');
    tree.write("/lib/x.so", bytes + text + std::string(100, 'x'));
    CHECK_FALSE(version_in(tree, "/lib/x.so", false));
    CHECK(version_in(tree, "/lib/x.so", true) == "2.28.9");
}

TEST_CASE("plugins on the library path are listed once") {
    const Tree tree;
    for (const char* name :
         {"libnccl-net.so", "libnccl-net-ofi.so.0", "libnccl-tuner.so", "libnccl-env.so",
          "libnccl-profiler-x.so", "libnccl-netz.txt", "libnccl.so.2", "libfoo.so"})
        tree.write(std::string("/a/") + name, "");
    tree.write("/b/libnccl-net.so", "");
    Sources sources;
    sources.library_path = {"/a", "/b", ""};
    const NcclLibrary nccl = find(tree, sources);
    CHECK(names_of(nccl) == std::vector<std::string>{"libnccl-env.so", "libnccl-net-ofi.so.0",
                                                     "libnccl-net.so", "libnccl-profiler-x.so",
                                                     "libnccl-tuner.so", "libnccl-net.so"});
    CHECK(nccl.plugins[2].file == "/a/libnccl-net.so");
    CHECK(nccl.plugins[5].file == "/b/libnccl-net.so");
    CHECK(nccl.plugins[1].maker == "aws-ofi");
    sources.root = tree.root();
    CHECK(detect::detect_machine(sources).software.nccl_plugins ==
          std::vector<std::string>{"libnccl-env.so", "libnccl-net-ofi.so.0", "libnccl-net.so",
                                   "libnccl-profiler-x.so", "libnccl-tuner.so"});
}

TEST_CASE("plugins are not looked for when the time is over") {
    const Tree tree;
    tree.write("/a/libnccl-net.so", "");
    Sources sources;
    sources.library_path = {"/a"};
    const Files files(tree.root());
    detect::BoundedReader endless(files);
    const auto all = detect::find_nccl_plugins(sources, endless, "");
    CHECK(all.plugins.size() == 1);
    CHECK_FALSE(all.partial);
    detect::BoundedReader spent(files, 1 << 20, std::chrono::milliseconds(0));
    const auto none = detect::find_nccl_plugins(sources, spent, "");
    CHECK(none.plugins.empty());
    CHECK(none.partial);
    sources.library_path.clear();
    CHECK_FALSE(detect::find_nccl_plugins(sources, spent, "").partial);
}

}  // namespace toporun::tests
