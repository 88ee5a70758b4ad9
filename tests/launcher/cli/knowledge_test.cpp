#include "launcher/cli/knowledge.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "files.hpp"

using namespace toporun::launcher;
using toporun::tests::TemporaryDirectory;
namespace profiles = toporun::profiles;

namespace {

std::string profile_text(const std::string& name) {
    return "name = \"" + name + "\"\ntitle = \"t\"\n[match]\ngpu_count = 3\n";
}

/// A directory that nobody else may write, as toporun makes it.
struct Place {
    TemporaryDirectory root;
    std::string path;

    Place() {
        path = root.path() / "toporun" / "profiles";
        std::filesystem::create_directories(path);
        ::chmod((root.path() / "toporun").c_str(), 0755);
        ::chmod(path.c_str(), 0755);
    }
    void write(const std::string& name, const std::string& text, mode_t mode = 0644) const {
        const auto file = root.write("toporun/profiles/" + name, text);
        ::chmod(file.c_str(), mode);
    }
    Loaded read() const {
        Loaded loaded;
        read_profile_directory({path, profiles::Layer::user}, loaded);
        return loaded;
    }
};

std::string names_of(const Loaded& loaded) {
    std::string text;
    for (const auto& profile : loaded.knowledge.profiles) text += profile.name + " ";
    return text;
}

TEST_CASE("the files of a directory are read in the order of their names") {
    const Place place;
    place.write("b.toml", profile_text("two"));
    place.write("a.toml", profile_text("one"));
    place.write(".hidden.toml", "broken");
    place.write("c.toml.bak", "broken");
    const Loaded loaded = place.read();
    CHECK(names_of(loaded) == "one two ");
    CHECK(loaded.problems.empty());
    CHECK(loaded.knowledge.profiles.at(0).layer == profiles::Layer::user);
    CHECK(loaded.knowledge.profiles.at(0).file == place.path + "/a.toml");
}

TEST_CASE("a file with what was measured is no profile of a kind of machine") {
    const Place place;
    const std::string gpus = "[[gpus]]\npci = \"0000:18:00.0\"\n[[gpus]]\npci = \"0000:3b:00.0\"\n";
    place.write("a.toml", "[measured]\nname = \"node-a\"\ndate = \"2026-11-30\"\ntool = \"t\"\n" +
                              gpus +
                              "[[pairs]]\na = \"0000:18:00.0\"\nb = \"0000:3b:00.0\"\n"
                              "p2p_gbytes_per_s = 22.4\nshm_gbytes_per_s = 9.1\nintact = true\n");
    place.write("b.toml", "[measured]\nname = \"node-b\"\nspeed = 3\n" + gpus);
    const Loaded loaded = place.read();
    CHECK(loaded.knowledge.profiles.empty());
    REQUIRE(loaded.knowledge.measured.size() == 1);
    CHECK(loaded.knowledge.measured[0].name == "node-a");
    CHECK(loaded.knowledge.measured[0].pairs.at(0).intact);
    REQUIRE(loaded.problems.size() == 1);
    CHECK(loaded.problems[0].where.starts_with(place.path + "/b.toml:"));
}

TEST_CASE("a directory that is not there is none") {
    Loaded loaded;
    read_profile_directory({"/no/such/place", profiles::Layer::site}, loaded);
    CHECK(loaded.problems.empty());
    CHECK(loaded.knowledge.profiles.empty());
}

TEST_CASE("a broken file is told with its place and the rest is read") {
    const Place place;
    place.write("a.toml", "name = \"one\"\ntitle = \"t\"\n[match]\ngpu_cuont = 3\n");
    place.write("b.toml", profile_text("two"));
    place.write("c.toml", profile_text("two"));
    std::filesystem::create_directory(place.path + "/d.toml");
    std::filesystem::create_symlink("/no/such/file", place.path + "/e.toml");
    REQUIRE(::mkfifo((place.path + "/f.toml").c_str(), 0644) == 0);
    place.write("g.toml", std::string((1u << 20) + 1, ' '));
    place.write("h.toml", profile_text("last"));
    const Loaded loaded = place.read();
    CHECK(names_of(loaded) == "two last ");
    REQUIRE(loaded.problems.size() == 6);
    CHECK(loaded.problems[0].where == place.path + "/a.toml:4:1");
    CHECK(loaded.problems[0].hint.find("gpu_count") != std::string::npos);
    CHECK(loaded.problems[1].what.find("the name 'two' is taken by") != std::string::npos);
    CHECK(loaded.problems[2].what.find("no regular file") != std::string::npos);
    CHECK(loaded.problems[3].what.find("No such file") != std::string::npos);
    CHECK(loaded.problems[4].what.find("no regular file") != std::string::npos);
    CHECK(loaded.problems[5].what.find("larger than 1 MiB") != std::string::npos);
    CHECK(problem_text(loaded.problems[2]).find("/d.toml)") != std::string::npos);
}

TEST_CASE("what others could have written is not read") {
    struct Row {
        std::string name;
        mode_t file, directory, above;
        std::string read;  ///< the names
    };
    for (const Row& row : std::vector<Row>{{"private", 0600, 0700, 0700, "one "},
                                           {"usual", 0644, 0755, 0755, "one "},
                                           {"file of the group", 0664, 0755, 0755, ""},
                                           {"file of everybody", 0646, 0755, 0755, ""},
                                           {"directory of the group", 0644, 0775, 0755, ""},
                                           {"directory of everybody", 0644, 0777, 0755, ""},
                                           {"sticky directory", 0644, 01777, 0755, ""},
                                           {"directory above", 0644, 0755, 0777, ""}}) {
        CAPTURE(row.name);
        const Place place;
        place.write("a.toml", profile_text("one"), row.file);
        ::chmod(place.path.c_str(), row.directory);
        ::chmod((place.root.path() / "toporun").c_str(), row.above);
        const Loaded loaded = place.read();
        CHECK(names_of(loaded) == row.read);
        REQUIRE(loaded.problems.size() == (row.read.empty() ? 1 : 0));
        if (row.read.empty()) CHECK(loaded.problems[0].hint.find("chmod go-w") == 0);
    }
}

TEST_CASE("a file of another user is not read") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: only root can give a file away");
        return;
    }
    const Place place;
    place.write("a.toml", profile_text("one"));
    REQUIRE(::chown((place.path + "/a.toml").c_str(), 12345, 12345) == 0);
    const Loaded loaded = place.read();
    REQUIRE(loaded.problems.size() == 1);
    CHECK(loaded.problems[0].what.find("another user") != std::string::npos);
}

TEST_CASE("the user's directory follows XDG, and only absolute paths count") {
    CHECK(user_profile_directory({{"HOME", "/h"}}) == "/h/.config/toporun/profiles");
    CHECK(user_profile_directory({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/c"}}) ==
          "/c/toporun/profiles");
    CHECK(user_profile_directory({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "c"}}) ==
          "/h/.config/toporun/profiles");
    CHECK(user_profile_directory({{"HOME", "h"}}).empty());
    CHECK(user_profile_directory({}).empty());
    CHECK(profile_directories({}).size() == 1);
    const auto both = profile_directories({{"HOME", "/h"}});
    REQUIRE(both.size() == 2);
    CHECK(both[0].path == "/etc/toporun/profiles");
    CHECK(both[0].layer == profiles::Layer::site);
    CHECK(both[1].layer == profiles::Layer::user);
}

TEST_CASE("a file that is named is an error when it cannot be read") {
    const Place place;
    const auto load = [&](const std::string& file) {
        return load_knowledge({file}, {{"XDG_CONFIG_HOME", place.root.path().string()}},
                              [](const profiles::Profile&) { return false; });
    };
    CHECK_THROWS_AS(load("/no/such/file"), toporun::Error);
    place.write("a.toml", "name = 3\n");
    CHECK_THROWS_AS(load(place.path + "/a.toml"), toporun::Error);
    place.write("a.toml", profile_text("one"), 0666);  // named by the user: whoever may write it
    const Loaded loaded = load(place.path + "/a.toml");
    CHECK(names_of(loaded) == "one ");
    CHECK(loaded.knowledge.profiles[0].layer == profiles::Layer::command_line);
    CHECK(loaded.problems.size() == 1);  // the same file in the directory
    CHECK_FALSE(loaded.knowledge.known_bad.rows.empty());
}

TEST_CASE("of the built-in profiles those are read that fit, all when a variable is left alone") {
    toporun::detect::Machine machine;
    machine.gpus.resize(8);
    for (auto& gpu : machine.gpus) gpu.name = "AMD Instinct MI300X";
    Arguments arguments;
    const Environment nobody;
    const Loaded few = load_knowledge(arguments, nobody, machine);
    CHECK(names_of(few) == "mi300x ");
    arguments.options.leave = {"NCCL_IB_TC"};
    CHECK(load_knowledge(arguments, nobody, machine).knowledge.profiles.size() > 40);
}

}  // namespace
