#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

namespace toporun::tests {

/// The whole file; fails the test when it cannot be read.
inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error("cannot read " + path.string());
    return {std::istreambuf_iterator<char>(in), {}};
}

/// A directory of its own that ends with the test.
class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        std::string name =
            (std::filesystem::temp_directory_path() / "toporun-test-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed: " + name);
        path_ = name;
    }
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    const std::filesystem::path& path() const { return path_; }
    /// Writes `text` to `relative`, making its directories. Returns the full path.
    std::filesystem::path write(const std::filesystem::path& relative,
                                const std::string& text) const {
        const std::filesystem::path file = path_ / relative;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << text;
        return file;
    }

  private:
    std::filesystem::path path_;
};

/// Compares `text` with the golden file tests/data/`name`; UPDATE_GOLDEN=1 rewrites it.
inline void check_golden(const std::string& text, const std::string& name) {
    const std::filesystem::path file = std::filesystem::path(TOPORUN_TEST_DATA) / name;
    if (std::getenv("UPDATE_GOLDEN") != nullptr) {
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << text;
    }
    CAPTURE(name);
    CHECK(text == read_file(file));
}

}  // namespace toporun::tests
