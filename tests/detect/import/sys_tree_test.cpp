#include "detect/import/sys_tree.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../tree.hpp"
#include "base/error.hpp"
#include "tar_writer.hpp"

using namespace toporun;
using namespace toporun::detect;
using tests::TarWriter;

namespace {

constexpr const char* kGpu = "pci0000:00/0000:00:01.0/0000:01:00.0";

/// A bridge with an NVIDIA GPU below it, two cores and an interface.
void make_machine(const tests::Tree& tree) {
    tree.bridge("pci0000:00/0000:00:01.0");
    tree.gpu(kGpu, 0);
    tree.processors(1, 2);
    tree.interface("eth0", 2, 1, {{"address", "02:00:00:00:00:01\n"}});
}

void check_machine(const Machine& machine) {
    REQUIRE(machine.gpus.size() == 1);
    CHECK(machine.gpus[0].pci->text() == "0000:01:00.0");
    CHECK(machine.gpus[0].vendor == "nvidia");
    REQUIRE(machine.nics.size() == 1);
    CHECK(machine.nics[0].name == "eth0");
    CHECK(machine.nics[0].mtu == 1500);
    CHECK(machine.cpu.cores.size() == 2);
}

bool have_tar() {
    static const bool have = std::system("tar --version >/dev/null 2>&1") == 0;
    if (!have) MESSAGE("skipped: no tar program");
    return have;
}

/// Runs `tar OPTIONS`, returns the archive's bytes.
std::string tar(const tests::TemporaryDirectory& directory, const std::string& options) {
    const std::string file = (directory.path() / "out.tar").string();
    REQUIRE(std::system(("tar -c -f '" + file + "' " + options).c_str()) == 0);
    return tests::read_file(file);
}

std::string gzipped(const std::string& bytes) {
    std::string packed(bytes.size() + 1024, '\0');
    z_stream stream{};
    REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<unsigned>(bytes.size());
    stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
    stream.avail_out = static_cast<unsigned>(packed.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    return packed;
}

/// The smallest machine, as an archive; `more` is added to it.
TarWriter small_archive(const std::string& prefix = "sys/") {
    TarWriter writer;
    const std::string at = prefix + "devices/" + kGpu;
    writer.add('0', at + "/class", "0x030200\n")
        .add('0', at + "/vendor", "0x10de\n")
        .add('0', at + "/numa_node", std::string("0\n") + std::string(4094, '\0'))
        .add('2', prefix + "bus/pci/devices/0000:01:00.0", "",
             std::string("../../../devices/") + kGpu)
        .add('0', prefix + "class/net/lo/type", "772\n");
    return writer;
}

Error refused(const std::string& bytes, const std::string& temporary = "/tmp") {
    try {
        machine_from_tar(bytes, "sys.tar", temporary);
    } catch (const Error& error) {
        return error;
    }
    FAIL("read");
    return Error("");
}

}  // namespace

TEST_CASE("a directory with a copy of /sys is a machine") {
    const tests::Tree tree;
    make_machine(tree);
    SUBCASE("above sys") {
        check_machine(machine_from_tree(tree.root()));
    }
    SUBCASE("sys itself") {
        check_machine(machine_from_tree(tree.root() + "/sys"));
    }
    SUBCASE("sys with a slash") {
        check_machine(machine_from_tree(tree.root() + "/sys/"));
    }
    SUBCASE("sys under another name") {
        const tests::TemporaryDirectory temporary;
        std::filesystem::rename(tree.root() + "/sys", tree.root() + "/captured");
        check_machine(machine_from_tree(tree.root() + "/captured", temporary.path().string()));
        CHECK(std::filesystem::is_empty(temporary.path()));
    }
}

TEST_CASE("a directory that is no copy of /sys is refused with what is expected") {
    const tests::Tree tree;
    tree.write("/etc/hostname", "x\n");
    struct Row {
        std::string directory, what;
    };
    for (const Row& row : std::vector<Row>{{tree.root(), "no copy of /sys"},
                                           {tree.root() + "/none", "cannot read"},
                                           {"/", "the running machine"},
                                           {"/sys", "the running machine"}}) {
        CAPTURE(row.directory);
        try {
            machine_from_tree(row.directory);
            FAIL_CHECK("read");
        } catch (const Error& error) {
            CHECK(std::string(error.what()).find(row.what) != std::string::npos);
            CHECK(error.where() == row.directory);
        }
    }
}

TEST_CASE("links whose targets were not packed tell nothing") {
    const tests::Tree tree;
    tree.processors(1, 1);
    for (const char* address : {"0000:01:00.0", "0000:02:00.0"})
        tree.link(std::string("/sys/bus/pci/devices/") + address,
                  std::string("../../../devices/pci0000:00/") + address);
    tree.link("/sys/class/net/eth0", "../../devices/pci0000:00/0000:01:00.0/net/eth0");
    const Machine machine = machine_from_tree(tree.root());
    CHECK(machine.gpus.empty());
    CHECK(machine.nics.empty());
    CHECK_FALSE(machine.gpus_known);
    CHECK_FALSE(machine.nics_known);
    CHECK(tests::has_note(machine, "2 of 2 links in /sys/bus/pci/devices lead to what is not in"));
    CHECK(tests::has_note(machine, "1 of 1 links in /sys/class/net lead to what is not in"));
    tree.interface("lo", 1, 772);
    CHECK(machine_from_tree(tree.root()).nics_known);
}

TEST_CASE("what a tree has no files of is unknown, not absent") {
    const tests::Tree tree;
    tree.processors(1, 1);
    const Machine machine = machine_from_tree(tree.root());
    CHECK_FALSE(machine.gpus_known);
    CHECK_FALSE(machine.nics_known);
    CHECK(tests::has_note(machine, "GPUs are unknown"));
    tests::Tree other;
    make_machine(other);
    CHECK(machine_from_tree(other.root()).gpus_known);
}

TEST_CASE("archives of the tar program are machines") {
    if (!have_tar()) return;
    const tests::Tree tree;
    make_machine(tree);
    const tests::TemporaryDirectory out;
    const tests::TemporaryDirectory temporary;
    struct Row {
        std::string name, options;
    };
    const std::vector<Row> rows = {
        {"ustar", "--format=ustar -C '" + tree.root() + "' sys"},
        {"gnu", "--format=gnu -C '" + tree.root() + "' sys"},
        {"pax", "--format=pax -C '" + tree.root() + "' sys"},
        {"gzip", "-z -C '" + tree.root() + "' sys"},
        {"with a dot", "-C '" + tree.root() + "' ./sys"},
        {"inside sys", "-C '" + tree.root() + "/sys' ."},
        {"below a directory", "-C '" + std::filesystem::path(tree.root()).parent_path().string() +
                                  "' '" + std::filesystem::path(tree.root()).filename().string() +
                                  "'"},
        {"long names", "--format=gnu --transform 's,^,host-" + std::string(90, 'h') +
                           "/,RSH' -C '" + tree.root() + "' sys"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const std::string bytes = tar(out, row.options);
        CHECK(is_tar(bytes));
        check_machine(machine_from_tar(bytes, "sys.tar", temporary.path().string()));
        CHECK(std::filesystem::is_empty(temporary.path()));
    }
}

TEST_CASE("files that tar filled up with zeros have their length again") {
    const Machine machine = machine_from_tar(small_archive().end(), "sys.tar");
    REQUIRE(machine.gpus.size() == 1);
    CHECK(machine.gpus[0].numa_node == 0);
}

TEST_CASE("an archive that is cut off or packed and cut off is read as far as it goes") {
    const std::string bytes = small_archive().add('0', "sys/late", std::string(5000, 'x')).end();
    const Machine cut = machine_from_tar(bytes.substr(0, bytes.size() - 4000), "sys.tar");
    CHECK(cut.gpus.size() == 1);
    CHECK(tests::has_note(cut, "sys.tar: the archive is cut off"));

    const std::string packed = gzipped(bytes);
    CHECK(is_tar(packed));
    CHECK(machine_from_tar(packed, "sys.tgz").gpus.size() == 1);
    CHECK(machine_from_tar(packed + gzipped(std::string(1024, '\0')), "sys.tgz").gpus.size() == 1);
    const Machine cut_packed = machine_from_tar(packed.substr(0, packed.size() - 9), "sys.tgz");
    CHECK(cut_packed.gpus.size() == 1);
    CHECK(tests::has_note(cut_packed, "gzip data are cut off"));
}

TEST_CASE("what cannot be unpacked says how to") {
    struct Row {
        std::string name, bytes, what, hint;
    };
    std::string damaged = gzipped(small_archive().end());
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
    const std::vector<Row> rows = {
        {"xz",
         std::string("\xfd"
                     "7zXZ\0",
                     6) +
             "rest",
         "packed with xz", "xz -dc sys.tar > FILE.tar"},
        {"zstd", "\x28\xb5\x2f\xfdrest", "packed with zstd", "zstd -dc"},
        {"text in gzip", gzipped("GPU0 GPU1\n"), "no tar archive", "gunzip"},
        {"damaged gzip", damaged, "damaged gzip", "binary"},
        {"no system files", TarWriter().add('0', "home/me/file", "x").end(), "no files of /sys",
         "tar -czf"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(is_tar(row.bytes));
        const Error error = refused(row.bytes);
        CAPTURE(error.what());
        CHECK(std::string(error.what()).find(row.what) != std::string::npos);
        CHECK(error.hint().find(row.hint) != std::string::npos);
    }
}

TEST_CASE("nothing outside the temporary directory is written or read, and nothing stays") {
    const tests::TemporaryDirectory temporary;
    const std::filesystem::path victim = temporary.write("victim/file", "untouched");
    const std::string home = temporary.path().string();
    std::filesystem::create_directory(temporary.path() / "unpack");
    const std::string unpack = (temporary.path() / "unpack").string();
    const std::string out = home + "/victim";

    // A link to a directory outside, then a file through it; links that lead out in three ways.
    const Machine machine = machine_from_tar(small_archive()
                                                 .add('2', "sys/out", "", out)
                                                 .add('0', "sys/out/file", "overwritten")
                                                 .add('2', "sys/up", "", "../../../../../../etc")
                                                 .add('2', "sys/in/out", "", "a/../../../../etc")
                                                 .add('2', "sys/loop", "", "loop")
                                                 .add('2', "sys/loop/below", "", "x")
                                                 .end(),
                                             "sys.tar", unpack);
    CHECK(machine.gpus.size() == 1);
    CHECK(tests::has_note(machine, "3 links that lead out of the tree are left out"));
    CHECK(tests::read_file(victim) == "untouched");
    CHECK(std::filesystem::is_empty(unpack));

    // The same after an error.
    CHECK(std::string(refused(small_archive().add('0', "../x", "").end(), unpack).what())
              .find("leads out") != std::string::npos);
    CHECK(std::filesystem::is_empty(unpack));
    CHECK(std::string(refused(small_archive().end(), home + "/none").what())
              .find("cannot make a directory") != std::string::npos);
}

TEST_CASE("facts do not come through links that lead out of the archive") {
    const tests::TemporaryDirectory outside;
    outside.write("net/eth9/type", "1\n");
    outside.write("net/eth9/ifindex", "9\n");
    const Machine machine =
        machine_from_tar(TarWriter()
                             .add('0', "sys/devices/system/cpu/online", "0\n")
                             .add('2', "sys/class/net", "", outside.path().string() + "/net")
                             .end(),
                         "sys.tar");
    CHECK(machine.nics.empty());
}

TEST_CASE("paths of an archive that get in each other's way are no error") {
    const std::string bytes = small_archive()
                                  .add('0', "sys/a", "file")
                                  .add('5', "sys/a", "")
                                  .add('0', "sys/a/b", "below a file")
                                  .add('5', "sys/c", "")
                                  .add('0', "sys/c", "over a directory")
                                  .add('2', "sys/c", "", "a")
                                  .add('0', "sys/class/net/lo/type", "772\n")
                                  .end();
    CHECK(machine_from_tar(bytes, "sys.tar").gpus.size() == 1);
}

TEST_CASE("of several machines in an archive the first is read, and that is said") {
    TarWriter writer = small_archive("node-a/sys/");
    writer.add('0', "node-b/sys/class/net/lo/type", "772\n");
    const Machine machine = machine_from_tar(writer.end(), "sys.tar");
    CHECK(machine.gpus.size() == 1);
    CHECK(tests::has_note(machine, "sys.tar: 2 machines in it, 'node-a/' is read"));
}

TEST_CASE("files of /proc that tar stored as empty are told") {
    const Machine machine =
        machine_from_tar(small_archive().add('0', "proc/cpuinfo", "").end(), "sys.tar");
    CHECK(tests::has_note(machine, "the files of /proc are empty"));
}

TEST_CASE("text is no archive") {
    for (const std::string& text :
         {std::string(), std::string("GPU0\tGPU1\n"), std::string(4096, 'x'),
          std::string(4096, '\0'), std::string("<topology version=\"2.0\">")}) {
        CAPTURE(text.size());
        CHECK_FALSE(is_tar(text));
    }
}
