// toporun-shim under its name toporun-python.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "runner.hpp"

using namespace toporun;
using tests::binary;
using tests::Result;
using tests::run;
using tests::Start;
using tests::TemporaryDirectory;
using tests::Variables;

namespace {

const std::string kPath = "/usr/bin:/bin";

}  // namespace

TEST_CASE("as an interpreter it becomes the one that is recorded") {
    const TemporaryDirectory directory;
    const std::string python =
        directory.write("python", "#!/bin/sh\necho \"$0|$*\"\nenv\n").string();
    ::chmod(python.c_str(), 0755);
    Variables variables = {{"PATH", kPath}};
    variables["PYTHON_EXEC"] = binary("toporun-python");
    variables["TOPORUN_PYTHON"] = python;
    const Start start = {.argv = {binary("toporun-python"), "-u", "train.py", "--x"},
                         .variables = variables};
    const Result result = run(start);
    CHECK(result.out.starts_with(python + "|-u train.py --x\n"));
    CHECK(result.out.find("\nPYTHON_EXEC=") == std::string::npos);
    CHECK(result.out.find("\nTOPORUN_PYTHON=") == std::string::npos);
}

TEST_CASE("as an interpreter it becomes the one that its parent runs with") {
    const TemporaryDirectory directory;
    const std::string python =
        directory.write("bin/python3.11", "#!/bin/sh\necho parent $*\n").string();
    ::chmod(python.c_str(), 0755);
    const std::string command = binary("toporun-python") + " -u t.py; exit $?";
    const auto start = [&](const std::string& name) {
        return run(
            {.argv = {name, "-c", command}, .variables = {{"PATH", kPath}}, .path = "/bin/sh"});
    };
    CHECK(start(python).out == "parent -u t.py\n");
    CHECK(start("sh").out.find("parent") == std::string::npos);
}

TEST_CASE("as an interpreter it falls back to what PATH has") {
    const TemporaryDirectory directory;
    const std::string search = directory.path().string();
    Variables variables = {{"PATH", search}};
    const Start start = {.argv = {binary("toporun-python"), "-u", "t.py"}, .variables = variables};
    const Result none = run(start);
    CHECK(none.status == 127);
    CHECK(none.error == "toporun-shim: error: cannot run 'python': not found\n");
    for (const char* name : {"python", "python3"}) {
        const std::string file =
            directory.write(name, std::string("#!/bin/sh\necho ") + name + " $*\n").string();
        ::chmod(file.c_str(), 0755);
        for (const std::string& recorded :
             {std::string(), std::string("/no/such/python"), binary("toporun-python"), search}) {
            CAPTURE(recorded);
            Start again = start;
            again.variables["TOPORUN_PYTHON"] = recorded;
            CHECK(run(again).out == std::string(name) + " -u t.py\n");
        }
    }
}
