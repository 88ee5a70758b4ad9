#include "detect/software/version_cache.hpp"

#include <elf.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "detect/software/nccl_library.hpp"
#include "detect/software/nccl_plugins.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::FileIdentity;
using detect::VersionCache;
namespace fs = std::filesystem;

FileIdentity known(const fs::path& file) {
    const auto identity = detect::identity_of(file.string());
    REQUIRE(identity);
    return *identity;
}

/// An ELF header without sections, padding and a version: only a search of the file finds it.
std::string library(const std::string& version, std::size_t padding) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
           std::string(padding, 'x') + "NCCL version " + version + "+cuda12.4";
}

std::optional<std::string> version_by(const TemporaryDirectory& place, const fs::path& cache,
                                      bool deep) {
    detect::Sources sources;
    sources.library_path = {place.path().string()};
    sources.cache_directory = cache.string();
    sources.deep = deep;
    return detect::find_nccl(sources, detect::Files("")).version;
}

}  // namespace

TEST_CASE("a version is kept until the file changes") {
    const TemporaryDirectory place;
    const std::string cache = (place.path() / "made" / "toporun").string();
    const fs::path file = place.write("lib.so", "12345");
    CHECK_FALSE(VersionCache(cache).find(known(file)));
    VersionCache(cache).keep(known(file), "2.28.9");
    CHECK(VersionCache(cache).find(known(file)) == "2.28.9");
    struct stat status {};
    REQUIRE(stat(cache.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    // Another file of the same size, dressed in the same modification time.
    const auto modified = fs::last_write_time(file);
    const fs::path other = place.write("other.so", "67890");
    fs::rename(other, file);
    fs::last_write_time(file, modified);
    CHECK_FALSE(VersionCache(cache).find(known(file)));
    VersionCache(cache).keep(known(file), "");
    CHECK(VersionCache(cache).find(known(file)) == "");
    // Written in place: the size and time can be the same, the change time cannot.
    const FileIdentity before = known(file);
    std::ofstream(file, std::ios::binary) << "longer than before";
    VersionCache(cache).keep(before, "1.1.1");
    CHECK_FALSE(VersionCache(cache).find(known(file)));
    CHECK(VersionCache(cache).find(before) == "");
}

TEST_CASE("what is no regular file has no identity") {
    const TemporaryDirectory place;
    CHECK_FALSE(detect::identity_of(place.path().string()));
    CHECK_FALSE(detect::identity_of((place.path() / "none").string()));
    REQUIRE(mkfifo((place.path() / "fifo").c_str(), 0600) == 0);
    CHECK_FALSE(detect::identity_of((place.path() / "fifo").string()));
}

TEST_CASE("links that were planted are not followed, for reading or for writing") {
    const TemporaryDirectory place;
    const fs::path file = place.write("lib.so", "x");
    const fs::path victim = place.write("victim", "precious");
    const fs::path cache = place.path() / "cache";
    fs::create_directory(cache);
    fs::permissions(cache, fs::perms::owner_all);
    // In place of the file: replaced by the rename, its target untouched.
    fs::create_symlink(victim, cache / "nccl-versions");
    CHECK_FALSE(VersionCache(cache.string()).find(known(file)));
    VersionCache(cache.string()).keep(known(file), "2.28.9");
    CHECK(read_file(victim) == "precious");
    CHECK_FALSE(fs::is_symlink(cache / "nccl-versions"));
    CHECK(VersionCache(cache.string()).find(known(file)) == "2.28.9");
    // Under the name of the temporary file.
    fs::create_symlink(victim, cache / (".nccl-versions." + std::to_string(getpid())));
    VersionCache(cache.string()).keep(known(file), "2.27.5");
    CHECK(read_file(victim) == "precious");
    CHECK(VersionCache(cache.string()).find(known(file)) == "2.27.5");
    // In place of the directory: not used.
    const fs::path link = place.path() / "link";
    fs::create_directory_symlink(cache, link);
    CHECK_FALSE(VersionCache(link.string()).find(known(file)));
    VersionCache(link.string()).keep(known(file), "1.1.1");
    CHECK(VersionCache(cache.string()).find(known(file)) == "2.27.5");
}

TEST_CASE("a directory or file that others may write to is not used") {
    const TemporaryDirectory place;
    const fs::path file = place.write("lib.so", "x");
    const fs::path cache = place.path() / "cache";
    VersionCache(cache.string()).keep(known(file), "2.28.9");
    const fs::path kept = cache / "nccl-versions";
    fs::permissions(kept, fs::perms::others_write, fs::perm_options::add);
    CHECK_FALSE(VersionCache(cache.string()).find(known(file)));
    fs::permissions(kept, fs::perms::others_write, fs::perm_options::remove);
    CHECK(VersionCache(cache.string()).find(known(file)));
    fs::permissions(cache, fs::perms::group_write, fs::perm_options::add);
    CHECK_FALSE(VersionCache(cache.string()).find(known(file)));
}

TEST_CASE("where nothing can be kept nothing is, and nothing fails") {
    const TemporaryDirectory place;
    const fs::path file = place.write("lib.so", "x");
    const std::string in_file = (place.write("file", "") / "toporun").string();
    const std::string far =
        (place.path() / "a" / "b" / "c").string();  // one level is made, not two
    for (const std::string& cache : {std::string(), std::string("relative"),
                                     std::string("/proc/none/toporun"), in_file, far}) {
        CAPTURE(cache);
        VersionCache(cache).keep(known(file), "2.28.9");
        CHECK_FALSE(VersionCache(cache).find(known(file)));
    }
    CHECK_FALSE(fs::exists("relative"));
    CHECK_FALSE(fs::exists(place.path() / "a"));
}

TEST_CASE("a limit of file sizes keeps nothing and ends nothing") {
    const TemporaryDirectory place;
    const std::string cache = (place.path() / "cache").string();
    const FileIdentity file = known(place.write("lib.so", "12345"));
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit none{0, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
    VersionCache(cache).keep(file, "2.28.9");  // a write would end the test by SIGXFSZ
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_FALSE(VersionCache(cache).find(file));
}

TEST_CASE("damaged entries are passed over and the file stays small") {
    const TemporaryDirectory place;
    const fs::path file = place.write("lib.so", "x");
    const FileIdentity identity = known(file);
    const auto line = [&](const std::string& version) {
        return version + "\t" + std::to_string(identity.inode) + "\t" +
               std::to_string(identity.size_bytes) + "\t" + std::to_string(identity.modified_ns) +
               "\t" + std::to_string(identity.changed_ns) + "\t" + identity.path + "\n";
    };
    struct Row {
        std::string name;
        std::string text;
        std::optional<std::string> expected;
    };
    const std::string first = "toporun nccl-versions 1\n";
    const Row rows[] = {
        {"good", first + line("2.28.9"), "2.28.9"},
        {"another format", "toporun nccl-versions 2\n" + line("2.28.9"), std::nullopt},
        {"no version", first + line("\x1b[31m"), std::nullopt},
        {"cut", first + line("2.28.9").substr(0, 40), std::nullopt},
        {"after garbage", first + "\t\t\t\t\t\n-1\t-1\t-1\t-1\t-1\tx\n\xff\n" + line("2.28.9"),
         "2.28.9"},
        {"long version", first + line(std::string(100, '1')), std::nullopt},
        {"empty", "", std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const TemporaryDirectory cache;
        fs::permissions(cache.path(), fs::perms::owner_all);
        cache.write("nccl-versions", row.text);
        fs::permissions(cache.path() / "nccl-versions", fs::perms::owner_read);
        CHECK(VersionCache(cache.path().string()).find(identity) == row.expected);
    }
    const TemporaryDirectory cache;
    for (int i = 0; i < 100; ++i)
        VersionCache(cache.path().string())
            .keep(known(place.write(std::to_string(i) + ".so", "x")), "2.28.9");
    CHECK(VersionCache(cache.path().string()).find(known(place.path() / "99.so")));
    CHECK_FALSE(VersionCache(cache.path().string()).find(known(place.path() / "9.so")));
    CHECK(fs::file_size(cache.path() / "nccl-versions") <= 65536);
}

TEST_CASE("a deep search is remembered for the next launch, also when it found nothing") {
    const TemporaryDirectory place, cache;
    place.write("libnccl.so.2", library("2.21.5", 2 << 20));
    CHECK_FALSE(version_by(place, cache.path(), false));
    CHECK_FALSE(fs::exists(cache.path() / "nccl-versions"));  // a short search says little
    CHECK(version_by(place, cache.path(), true) == "2.21.5");
    CHECK(version_by(place, cache.path(), false) == "2.21.5");
    CHECK_FALSE(version_by(place, "", false));
    place.write("libnccl.so.2", library("none", 2 << 20));
    CHECK_FALSE(version_by(place, cache.path(), true));
    const auto kept =
        VersionCache(cache.path().string()).find(known(place.path() / "libnccl.so.2"));
    CHECK(kept == "");
}

TEST_CASE("a launch reads no more than its share and ends with its time") {
    const Tree tree;
    tree.write("/a", std::string(100, 'x'));
    const detect::Files files(tree.root());
    detect::BoundedReader small(files, 60, std::chrono::hours(1));
    CHECK(small.read_at("/a", 0, 50)->size() == 50);
    CHECK(small.read_at("/a", 0, 50)->size() == 10);
    CHECK_FALSE(small.read_at("/a", 0, 50));
    CHECK(small.spent());
    CHECK(detect::BoundedReader(files, 60, std::chrono::milliseconds(0)).spent());
    detect::BoundedReader endless(files);
    CHECK(endless.read_at("/a", 90, 50)->size() == 10);
    CHECK_FALSE(endless.spent());
}

TEST_CASE("the maker of a plugin is known by its name and place") {
    const std::pair<std::string, std::string> rows[] = {
        {"/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so", "aws-ofi"},
        {"/opt/aws-ofi-nccl/lib/libnccl-net.so", "aws-ofi"},
        {"/x/libnccl-net-ofi.so", "aws-ofi"},
        {"/x/libnccl-ofi-tuner.so", "aws-ofi"},
        {"/usr/local/gib/lib64/libnccl-net.so", "gib"},
        {"/usr/local/gib/lib64/libnccl-tuner.so", "gib"},
        {"/var/lib/tcpxo/lib64/libnccl-net.so", "tcpxo"},
        {"/usr/local/tcpx/lib64/libnccl-net.so", "tcpx"},
        {"/usr/lib/google-fast-socket/libnccl-net.so", "fastsocket"},
        {"/opt/hpcx-v2.18/nccl_rdma_sharp_plugin/lib/libnccl-net.so", "hpcx"},
        {"/opt/HPCX/lib/libnccl-net.so", "hpcx"},
        {"/usr/lib/libnccl-net.so", ""},
        {"/home/gib/libnccl-net.so", ""},
        {"", ""},
    };
    for (const auto& row : rows) {
        CAPTURE(row.first);
        CHECK(detect::nccl_plugin_maker(row.first) == row.second);
    }
    const Tree tree;  // behind a link in a plain directory
    tree.write("/opt/hpcx/lib/libnccl-net.so", "");
    tree.link("/lib64/libnccl-net.so", "../opt/hpcx/lib/libnccl-net.so");
    detect::Sources sources;
    sources.library_path = {"/lib64", "/lib64"};
    const detect::Files files(tree.root());
    const auto plugins =
        detect::find_nccl_plugins(sources, detect::BoundedReader(files), "").plugins;
    REQUIRE(plugins.size() == 1);
    CHECK(plugins[0] ==
          detect::NcclPlugin{"libnccl-net.so", "/opt/hpcx/lib/libnccl-net.so", "hpcx"});
}

}  // namespace toporun::tests
