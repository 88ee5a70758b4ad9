#include "detect/import/tar.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tar_writer.hpp"

using namespace toporun;
using namespace toporun::detect;
using tests::TarWriter;

namespace {

Error refused(const std::string& bytes) {
    try {
        read_tar(bytes, "a.tar");
    } catch (const Error& error) {
        return error;
    }
    FAIL("read");
    return Error("");
}

bool noted(const TarContents& contents, const std::string& part) {
    return std::any_of(contents.notes.begin(), contents.notes.end(), [&](const std::string& note) {
        return note.find(part) != std::string::npos;
    });
}

}  // namespace

TEST_CASE("entries of every kind are read") {
    const std::string bytes = TarWriter()
                                  .add('5', "./", "")
                                  .add('5', "sys/", "")
                                  .add('0', "sys/file", "text\n")
                                  .add('\0', "sys/old", std::string(600, 'x'))
                                  .add('2', "sys/link", "", "../file")
                                  .add('1', "sys/hard", "", "sys/file")
                                  .add('1', "sys/to nothing", "", "sys/missing")
                                  .add('3', "dev/infiniband/uverbs0", "")
                                  .add('6', "sys/fifo", "")
                                  .end();
    const TarContents contents = read_tar(bytes, "a.tar");
    REQUIRE(contents.entries.size() == 6);
    CHECK(contents.entries[0].kind == EntryKind::directory);
    CHECK(contents.entries[0].path == "sys");
    CHECK(contents.entries[1].data == "text\n");
    CHECK(contents.entries[2].data.size() == 600);
    CHECK(contents.entries[3].kind == EntryKind::link);
    CHECK(contents.entries[3].target == "../file");
    CHECK(contents.entries[4].data == "text\n");
    CHECK(contents.entries[5].kind == EntryKind::device);
    CHECK(contents.notes.empty());
    CHECK(is_plain_tar(bytes));
}

TEST_CASE("long names come by GNU headers, pax headers and prefixes") {
    const std::string path = "sys/devices/" + std::string(120, 'p') + "/" + std::string(50, 'q');
    const std::string target(150, 't');
    SUBCASE("GNU") {
        const TarContents contents = read_tar(TarWriter()
                                                  .add('L', "././@LongLink", path + '\0')
                                                  .add('K', "././@LongLink", target + '\0')
                                                  .add('2', "sys/cut off", "", "cut off")
                                                  .end(),
                                              "a.tar");
        REQUIRE(contents.entries.size() == 1);
        CHECK(contents.entries[0].path == path);
        CHECK(contents.entries[0].target == target);
    }
    SUBCASE("pax") {
        const TarContents contents =
            read_tar(TarWriter()
                         .add('g', "global", "19 comment=whatever\n")
                         .pax({{"path", path}, {"mtime", "1"}, {"size", "3"}})
                         .header('0', "short", 999)
                         .block("abc")
                         .pax({{"linkpath", target}})
                         .add('2', "sys/link", "", "x")
                         .end(),
                     "a.tar");
        REQUIRE(contents.entries.size() == 2);
        CHECK(contents.entries[0].path == path);
        CHECK(contents.entries[0].data == "abc");
        CHECK(contents.entries[1].path == "sys/link");
        CHECK(contents.entries[1].target == target);
    }
    SUBCASE("prefix") {
        const TarContents contents =
            read_tar(TarWriter().prefixed("sys/devices", "pci/class", "0x03\n").end(), "a.tar");
        REQUIRE(contents.entries.size() == 1);
        CHECK(contents.entries[0].path == "sys/devices/pci/class");
    }
}

TEST_CASE("sparse files and volumes are passed over and said") {
    const TarContents contents = read_tar(TarWriter()
                                              .add('S', "sys/sparse", "x")
                                              .pax({{"GNU.sparse.major", "1"}})
                                              .add('0', "sys/pax sparse", "x")
                                              .add('M', "sys/rest", "x")
                                              .add('0', "sys/file", "x")
                                              .end(),
                                          "a\x1b.tar");
    REQUIRE(contents.entries.size() == 1);
    CHECK(contents.entries[0].path == "sys/file");
    REQUIRE(contents.notes.size() == 3);
    CHECK(contents.notes[0] == "a\\x1b.tar: 'sys/sparse' is sparse, it is passed over");
    CHECK(noted(contents, "volume"));
}

TEST_CASE("an archive that is cut off anywhere gives what came before") {
    const std::string bytes =
        TarWriter().add('0', "sys/a", std::string(700, 'a')).add('0', "sys/b", "b").end();
    for (std::size_t size = 512; size < bytes.size() - 1024; size += 37) {
        CAPTURE(size);
        const TarContents contents = read_tar(bytes.substr(0, size), "a.tar");
        CHECK(contents.entries.size() == (size < 1212 ? 0 : size < 2049 ? 1 : 2));
        // Without what fills its last block, and without the zeros at its end, it is whole.
        const bool whole = (size >= 1212 && size <= 1536) || (size >= 2049 && size <= 2560);
        CHECK(noted(contents, "cut off") == !whole);
    }
}

TEST_CASE("hostile archives are refused") {
    std::string size_not_octal = TarWriter().add('0', "sys/a", "x").end();
    std::string negative = size_not_octal;
    size_not_octal.replace(124, 11, "0000000009x");
    TarWriter::set_checksum(size_not_octal);
    negative.replace(124, 12, std::string(12, '\xff'));
    TarWriter::set_checksum(negative);
    std::string huge = TarWriter().add('0', "sys/a", "x").end();
    huge.replace(124, 12, std::string("\x80\x7f", 2) + std::string(10, '\xff'));
    TarWriter::set_checksum(huge);
    std::string flipped = TarWriter().add('0', "sys/a", "x").add('0', "sys/b", "x").end();
    flipped[1024] = 'z';

    struct Row {
        std::string name, bytes, what, where;
    };
    const std::vector<Row> rows = {
        {"a path upwards", TarWriter().add('0', "sys/../../etc/passwd", "x").end(),
         "'sys/../../etc/passwd' leads out of the archive", "a.tar: byte 0"},
        {"a hard link upwards", TarWriter().add('1', "sys/a", "", "../shadow").end(),
         "leads out of the archive", "a.tar: byte 0"},
        {"a name to a terminal", TarWriter().add('0', "../\x1b[31m", "x").end(), "\\x1b[31m",
         "a.tar: byte 0"},
        {"a damaged second header", flipped, "no header of a tar entry", "a.tar: byte 1024"},
        {"text", std::string(1024, 'x'), "not a tar archive", "a.tar: byte 0"},
        {"a size that is no number", size_not_octal, "no number", "a.tar: byte 0"},
        {"a negative size", negative, "no number", "a.tar: byte 0"},
        {"a size of 2^86", huge, "no number", "a.tar: byte 0"},
        {"a path without end",
         TarWriter().add('L', "x", std::string(5000, 'a')).add('0', "a", "").end(),
         "longer than 4095", "a.tar: byte 5632"},
        {"a deep path",
         TarWriter()
             .add('L', "x",
                  [] {
                      std::string deep;
                      for (int i = 0; i < 100; ++i) deep += "a/";
                      return deep;
                  }())
             .add('0', "a", "")
             .end(),
         "too deep", "a.tar: byte 1024"},
        {"a pax record longer than the header", TarWriter().add('x', "x", "999 path=a\n").end(),
         "damaged extended", "a.tar: byte 0"},
        {"a pax record shorter than its key", TarWriter().add('x', "x", "3 path=a\n").end(),
         "damaged extended", "a.tar: byte 0"},
        {"a pax record of no length", TarWriter().add('x', "x", "path=a\n").end(),
         "damaged extended", "a.tar: byte 0"},
        {"a negative pax size", TarWriter().pax({{"size", "-1"}}).add('0', "a", "").end(),
         "damaged extended", "a.tar: byte 0"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Error error = refused(row.bytes);
        CAPTURE(error.what());
        CHECK(std::string(error.what()).find(row.what) != std::string::npos);
        CHECK(error.where() == row.where);
    }
}

TEST_CASE("a size larger than the archive is a cut, not a read beyond it") {
    const TarContents contents =
        read_tar(TarWriter().header('0', "sys/a", 077777777777).block("x").end(), "a.tar");
    CHECK(contents.entries.empty());
    CHECK(noted(contents, "cut off, 0 entries"));
}

TEST_CASE("what is packed and what is an archive is told by the first bytes") {
    CHECK(packing_of("\x1f\x8b\x08") == "gzip");
    CHECK(packing_of(std::string("\xfd"
                                 "7zXZ\0",
                                 6)) == "xz");
    CHECK(packing_of("\x28\xb5\x2f\xfd") == "zstd");
    CHECK(packing_of("BZh9") == "bzip2");
    CHECK(packing_of("GPU0\tGPU1").empty());
    CHECK(packing_of("").empty());
    CHECK_FALSE(is_plain_tar(""));
    CHECK_FALSE(is_plain_tar(std::string(2048, '\0')));
    CHECK_FALSE(is_plain_tar(std::string(512, ' ')));
}
