#include "launcher/log/source.hpp"

#include <doctest/doctest.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>

#include "base/error.hpp"
#include "files.hpp"
#include "launcher/log/reader.hpp"

using namespace toporun;
using namespace toporun::launcher;
using toporun::tests::TemporaryDirectory;

namespace {

std::string gzip(const std::string& text) {
    std::string packed(compressBound(text.size()) + 32, '\0');
    z_stream stream{};
    deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
    stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    return packed;
}

std::string zstd(const std::string& text) {
    std::string packed(ZSTD_compressBound(text.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
    return packed;
}

std::vector<std::string> names_of(const LogFiles& logs) {
    std::vector<std::string> names;
    for (const LogFile& file : logs.files) names.push_back(file.name);
    return names;
}

LogEnd end_of(const std::string& file) {
    return read_log_lines(file, [](std::string_view, bool) {});
}

std::vector<std::string> lines_of(const std::string& file) {
    std::vector<std::string> lines;
    read_log_lines(file, [&](std::string_view line, bool) { lines.emplace_back(line); });
    return lines;
}

/// Many lines, longer than one block of any reader.
std::string long_text() {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += "line " + std::to_string(i) + "\n";
    return text;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

}  // namespace

TEST_CASE("packed and unpacked files give the same lines") {
    const TemporaryDirectory directory;
    const std::string text = long_text();
    for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
             {"plain", text},
             {"gzip", gzip(text)},
             {"two gzip members", gzip(text.substr(0, 1000)) + gzip(text.substr(1000))},
             {"zstd", zstd(text)},
             {"two zstd frames", zstd(text.substr(0, 1000)) + zstd(text.substr(1000))}}) {
        CAPTURE(name);
        CHECK(joined(lines_of(directory.write(name, bytes))) == text);
        CHECK(end_of(directory.path() / name) == LogEnd::whole);
    }
}

TEST_CASE("a packed file that is cut gives what is there") {
    const TemporaryDirectory directory;
    const std::string text = long_text();
    for (const std::string& packed : {gzip(text), zstd(text)}) {
        const auto lines = lines_of(directory.write("cut", packed.substr(0, packed.size() / 2)));
        CHECK(lines.size() > 1000);
        CHECK(lines[1000] == "line 1000");
        CHECK(end_of(directory.path() / "cut") == LogEnd::cut);
        CHECK(end_of(directory.write("last", packed.substr(0, packed.size() - 1))) == LogEnd::cut);
        CHECK(end_of(directory.write("head", packed.substr(0, 5))) == LogEnd::cut);
    }
}

TEST_CASE("damaged packed data are an error that names the file") {
    const TemporaryDirectory directory;
    for (std::string packed : {gzip(long_text()), zstd(long_text())}) {
        for (std::size_t i = 20; i < packed.size(); i += 3) packed[i] = '\x55';
        const std::string file = directory.write("damaged", packed);
        CHECK_THROWS_WITH_AS(lines_of(file), doctest::Contains("damaged"), Error);
    }
}

TEST_CASE("lines without an end, empty ones and long ones") {
    const TemporaryDirectory directory;
    CHECK(lines_of(directory.write("none", "")).empty());
    CHECK(lines_of(directory.write("two", "a\n\nb")) == std::vector<std::string>{"a", "", "b"});
    std::vector<bool> cuts;
    const std::string text = std::string(3 * kLongestLogLine, 'x') + "\nshort";
    read_log_lines(directory.write("long", text), [&](std::string_view line, bool cut) {
        CHECK(line.size() <= kLongestLogLine);
        cuts.push_back(cut);
    });
    CHECK(cuts == std::vector<bool>{true, false});
}

TEST_CASE("a directory stands for the logs below it") {
    const TemporaryDirectory directory;
    const std::string root = directory.path();
    directory.write("10.log", "b\n");
    directory.write("9.log", "a\n");
    directory.write("attempt_0/1/stderr.log", "c\n");
    directory.write("packed.gz", gzip("d\n"));
    directory.write("checkpoint.pt", std::string(5000, '\0'));
    directory.write(".hidden", "e\n");
    std::filesystem::create_symlink("9.log", directory.path() / "link.log");
    const std::vector<std::string> names = {root, "-"};
    const LogFiles logs = log_files(names);
    CHECK(names_of(logs) == std::vector<std::string>{root + "/10.log", root + "/9.log",
                                                     root + "/attempt_0/1/stderr.log",
                                                     root + "/packed.gz", "-"});
    CHECK(logs.files.front().found);
    CHECK_FALSE(logs.files.back().found);
    CHECK(logs.further == 0);
}

TEST_CASE("files beyond the limit are counted") {
    const TemporaryDirectory directory;
    for (std::size_t i = 0; i < kMostLogFiles; ++i) directory.write("a" + std::to_string(i), "x\n");
    directory.write("b/1", "x\n");
    directory.write("b/2", "x\n");
    directory.write("c", "x\n");
    const std::string named = directory.path() / "c";
    const LogFiles logs = log_files(std::vector<std::string>{directory.path(), named});
    CHECK(logs.files.size() == kMostLogFiles + 1);  // what was named is always read
    CHECK(logs.files.back().name == named);
    CHECK(logs.further == 3);
}

TEST_CASE("what is not there is an error with a next step") {
    const TemporaryDirectory directory;
    const std::string missing = directory.path() / "missing";
    const std::vector<std::string> names = {missing};
    CHECK_THROWS_WITH_AS(log_files(names), doctest::Contains("it is not there"), Error);
    CHECK_THROWS_WITH_AS(lines_of(missing), doctest::Contains("cannot read"), Error);
    const std::vector<std::string> empty = {directory.path()};
    CHECK_THROWS_WITH_AS(log_files(empty), doctest::Contains("no log in it"), Error);
}
