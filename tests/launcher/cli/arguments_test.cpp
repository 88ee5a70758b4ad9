#include "launcher/cli/arguments.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/import/import.hpp"

namespace toporun::launcher {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("own options end at the first word that is none") {
    struct Row {
        std::string name;
        Words words;
        Words command;
    };
    const std::vector<Row> rows = {
        {"plain command",
         {"torchrun", "--nproc-per-node=8", "t.py"},
         {"torchrun", "--nproc-per-node=8", "t.py"}},
        {"flag before", {"-q", "torchrun", "-q"}, {"torchrun", "-q"}},
        {"value in the next word", {"--leave", "NCCL_DEBUG", "ls"}, {"ls"}},
        {"value with equals", {"--leave=NCCL_DEBUG", "ls"}, {"ls"}},
        {"value that looks like a command", {"--run-dir", "torchrun", "ls"}, {"ls"}},
        {"value that looks like an option", {"--run-dir", "--quiet", "ls"}, {"ls"}},
        {"separator", {"--", "-weird"}, {"-weird"}},
        {"separator after options", {"-q", "--", "detect"}, {"detect"}},
        {"second separator belongs to the command", {"--", "a", "--", "b"}, {"a", "--", "b"}},
        {"lone dash is a command", {"-", "x"}, {"-", "x"}},
        {"empty word is a command", {"", "x"}, {"", "x"}},
        {"options of the same name stay with the command",
         {"ls", "--dry-run", "--help"},
         {"ls", "--dry-run", "--help"}},
        {"help of the command", {"torchrun", "--help"}, {"torchrun", "--help"}},
        {"two values", {"--leave", "A", "--leave", "B", "ls"}, {"ls"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        SUBCASE(row.name.c_str()) {
            const Arguments arguments = parse_arguments(row.words, {});
            CHECK(arguments.action == Action::run);
            CHECK(arguments.command == row.command);
        }
    }
}

TEST_CASE("options reach their members") {
    const Arguments a = parse_arguments({"--leave",
                                         "A",
                                         "--leave=B",
                                         "--no-bind",
                                         "--no-log",
                                         "--no-measure",
                                         "--comm-limit=12.5",
                                         "--report-wait",
                                         "0",
                                         "--no-pdeath",
                                         "--strict",
                                         "--explain",
                                         "--dry-run",
                                         "--json",
                                         "--machine",
                                         "m.toml",
                                         "--nccl-version=2.28.9",
                                         "--run-dir",
                                         "d",
                                         "-q",
                                         "x"},
                                        {{"TOPORUN_LEAVE", "C, D,"}, {"TOPORUN_DIR", "e"}});
    CHECK(a.options.leave == Words{"C", "D", "A", "B"});
    CHECK(a.options.bind == env::Bind::none);
    CHECK_FALSE(a.options.log);
    CHECK(a.options.measure == env::Measure::off);
    CHECK(a.comm_limit == doctest::Approx(0.125));
    CHECK(a.report_wait_s == 0);
    CHECK_FALSE(a.parent_death_signal);
    CHECK(a.strict);
    CHECK(a.explain);
    CHECK(a.dry_run);
    CHECK(a.json);
    CHECK(a.quiet);
    CHECK(a.machine_files == Words{"m.toml"});
    CHECK(a.nccl_version == "2.28.9");
    CHECK(a.run_directory == "d");
    CHECK(parse_arguments({"x"}, {{"TOPORUN_DIR", "e"}}).run_directory == "e");
    CHECK(parse_arguments({"--preflight-only", "--json", "--machine=m", "x"}, {}).preflight_only);
    CHECK(parse_arguments({"--measure=always", "x"}, {}).options.measure == env::Measure::always);
    CHECK(parse_arguments({"--measure=auto", "x"}, {}).options.measure == env::Measure::automatic);
}

TEST_CASE("what another toporun is told: no looks, and paths for any directory") {
    const std::string here = std::filesystem::current_path().string();
    const Arguments arguments = parse_arguments(
        {"--dry-run", "--profile", "p.toml", "--profile=/q.toml", "--run-dir", "d/e", "--bind=core",
         "-q", "--machine", "m", "--from=f", "--leave", "--", "srun", "--profile=x"},
        {});
    CHECK(arguments.own_words == Words{"--profile=" + here + "/p.toml", "--profile=/q.toml",
                                       "--run-dir=" + here + "/d/e", "--bind=core", "-q",
                                       "--leave=--"});
    CHECK(arguments.profile_files == Words{"p.toml", "/q.toml"});
    const auto told = [](const Words& words) {
        return parse_arguments(words, {{"TOPORUN_DIR", "d"}}).own_words;
    };
    CHECK(told({"-q", "srun"}) == Words{"-q", "--run-dir=" + here + "/d"});
    CHECK(told({"--run-dir=/e", "srun"}) == Words{"--run-dir=/e"});
}

TEST_CASE("how ranks are bound is one of four words") {
    const auto bind = [](const Words& words) { return parse_arguments(words, {}).options.bind; };
    CHECK(bind({"x"}) == env::Bind::automatic);
    CHECK(bind({"--bind=auto", "x"}) == env::Bind::automatic);
    CHECK(bind({"--bind", "numa", "x"}) == env::Bind::numa);
    CHECK(bind({"--bind=core", "x"}) == env::Bind::core);
    CHECK(bind({"--bind=none", "x"}) == env::Bind::none);
    CHECK(bind({"--bind=none", "--no-bind", "x"}) == env::Bind::none);
    CHECK(bind({"env", "--bind=core"}) == env::Bind::core);
    CHECK_THROWS_WITH(bind({"--bind=socket", "x"}), "--bind=socket is not known");
    CHECK_THROWS_WITH(bind({"--bind=core", "--no-bind", "x"}),
                      "--no-bind and --bind=core contradict each other");
}

TEST_CASE("subcommands take their options before and after their name") {
    CHECK(parse_arguments({"detect"}, {}).action == Action::detect);
    CHECK(parse_arguments({"--json", "detect"}, {}).json);
    CHECK(parse_arguments({"detect", "--json", "--save", "f"}, {}).save == "f");
    CHECK(parse_arguments({"env", "--format", "toml"}, {}).format == "toml");
    CHECK(parse_arguments({"env", "--nodes=2", "--ranks-per-node=8"}, {}).nodes == 2);
    CHECK(parse_arguments({"report", "dir"}, {}).positional == Words{"dir"});
    CHECK(parse_arguments({"report", "--format", "md", "a", "-"}, {}).positional ==
          Words{"a", "-"});
    CHECK(parse_arguments({"detect", "--help"}, {}).action == Action::help);
    CHECK(parse_arguments({"--", "detect"}, {}).action == Action::run);
    CHECK(selects_subcommand({"--json", "detect"}));
    CHECK_FALSE(selects_subcommand({"--", "detect"}));
    CHECK_FALSE(selects_subcommand({"--run-dir", "detect", "ls"}));
    CHECK_FALSE(selects_subcommand({}));
}

TEST_CASE("env with a variable or a command behind it is the program of that name") {
    for (const Words& program : std::vector<Words>{
             {"env", "A=1", "torchrun", "t.py"},
             {"env", "torchrun", "--json", "t.py"},
             {"env", "-i", "A=1", "torchrun"},
             {"env", "-u", "A", "torchrun"},
             {"env", "-uA", "torchrun"},
             {"env", "-", "torchrun"},
             {"env", "--unset=A", "torchrun"},
             {"env", "sh", "train.sh"},
             {"env", "--", "torchrun"},
             {"env", "./json"},
         }) {
        CAPTURE(join(program, " "));
        CHECK_FALSE(selects_subcommand(program));
        CHECK(parse_arguments(program, {}).command == program);
        Words quiet = program;
        quiet.insert(quiet.begin(), "-q");
        CHECK(parse_arguments(quiet, {}).quiet);
    }
    for (const Words& words : std::vector<Words>{{"env"},
                                                 {"env", "--format", "sh"},
                                                 {"env", "--format=sh", "--explain"},
                                                 {"env", "--leave", "A=1"},
                                                 {"env", "-h"},
                                                 {"env", "--help"},
                                                 {"env", "json"},
                                                 {"env", "--no-such-option", "x"},
                                                 {"env", "--"},
                                                 {"env", "--json", "--nodes", "2"}}) {
        CAPTURE(join(words, " "));
        CHECK(selects_subcommand(words));
    }
}

TEST_CASE("wrong usage says what to do") {
    struct Row {
        std::string name;
        Words words;
        std::string what;
        std::string hint;
    };
    const std::vector<Row> rows = {
        {"no command", {}, "no command", "toporun torchrun"},
        {"near miss", {"--dryrun", "ls"}, "unknown option '--dryrun'", "did you mean '--dry-run'?"},
        {"near miss with value", {"--comm-limti=3", "ls"}, "--comm-limti", "'--comm-limit'"},
        {"nothing near", {"--zzz", "ls"}, "unknown option '--zzz'", "--help"},
        {"no guessing", {"--dry", "ls"}, "unknown option '--dry'", ""},
        {"missing value", {"--leave"}, "--leave", "--help"},
        {"limit above 100", {"--comm-limit=101", "ls"}, "between 0 and 100", ""},
        {"limit is no number", {"--comm-limit=nan", "ls"}, "comm-limit", ""},
        {"unknown mode", {"--measure=some", "ls"}, "--measure=some", "off, auto or always"},
        {"contradicting modes", {"--no-measure", "--measure=always", "ls"}, "contradict", ""},
        {"json needs dry run", {"--json", "ls"}, "--dry-run", "report.json"},
        {"machine needs dry run", {"--machine", "f", "ls"}, "--dry-run", "--dry-run"},
        {"two that start nothing",
         {"--dry-run", "--preflight-only", "ls"},
         "contradict each other",
         "findings"},
        {"env with a format", {"env", "json"}, "'json'", "toporun -- env"},
        {"option of another subcommand", {"detect", "--format=sh"}, "--format", ""},
        {"nodes below one", {"env", "--nodes=0"}, "at least 1", ""},
        {"escape sequence", {"--\033[31m", "ls"}, "\\x1b[31m", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        SUBCASE(row.name.c_str()) {
            try {
                parse_arguments(row.words, {});
                FAIL("accepted");
            } catch (const Error& fault) {
                CAPTURE(fault.what());
                CAPTURE(fault.hint());
                CHECK(std::string(fault.what()).find(row.what) != std::string::npos);
                CHECK(fault.hint().find(row.hint) != std::string::npos);
                CHECK(std::string(fault.what()).find('\033') == std::string::npos);
            }
        }
    }
}

TEST_CASE("the help names every option and only those") {
    for (const Action action : {Action::run, Action::detect, Action::env, Action::doctor,
                                Action::report, Action::profiles}) {
        const std::string help = help_text(action);
        for (const std::string& name : option_names(action)) {
            CAPTURE(name);
            CHECK(help.find(name) != std::string::npos);
        }
        for (const char* later : {"plan", "probe", "tune"})
            CHECK(help.find(std::string("toporun ") + later) == std::string::npos);
    }
}

TEST_CASE("help fits a terminal of 100 columns") {
    for (const Action action : {Action::run, Action::detect, Action::env, Action::doctor,
                                Action::report, Action::profiles}) {
        std::size_t column = 0;
        for (const char c : help_text(action)) {
            column = c == '\n' ? 0 : column + 1;
            CHECK(column <= 100);
        }
    }
}

TEST_CASE("the help and the page on captures name every format that is read") {
    const std::filesystem::path page =
        std::filesystem::path(TOPORUN_TEST_DATA) / "../../docs/captures.md";
    std::ifstream file(page);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    REQUIRE_FALSE(text.empty());
    const std::string help = help_text(Action::detect);
    for (const std::string& format : detect::capture_formats()) {
        CAPTURE(format);
        const std::vector<std::string> words = split(format, ' ');
        if (!words.front().starts_with('/') && words.front() != "toporun")
            CHECK(help.find(words.front()) != std::string::npos);
        for (const std::string& word : words) {
            CAPTURE(word);
            if (word != "and" && word != "(TOML)") CHECK(text.find(word) != std::string::npos);
        }
    }
}

}  // namespace
TEST_CASE("profiles takes a verb, files and what replaces this machine") {
    const auto read = [](const std::vector<std::string>& words) {
        return parse_arguments(words, {});
    };
    Arguments made = read({"profiles", "check", "a.toml", "b.toml", "--json"});
    CHECK(made.action == Action::profiles);
    CHECK(made.positional == std::vector<std::string>{"check", "a.toml", "b.toml"});
    CHECK(made.json);
    made = read({"profiles", "save", "box", "--force", "--machine", "m.toml"});
    CHECK(made.force);
    CHECK(made.machine_files == std::vector<std::string>{"m.toml"});
    made = read({"--profile", "x.toml", "profiles", "match", "--profile=y.toml"});
    CHECK(made.profile_files == std::vector<std::string>{"x.toml", "y.toml"});
    made = read({"--profile", "x.toml", "torchrun", "--profile", "z"});
    CHECK(made.profile_files == std::vector<std::string>{"x.toml"});
    CHECK(made.command == std::vector<std::string>{"torchrun", "--profile", "z"});
    CHECK(read({"env", "--profile", "x.toml"}).profile_files.size() == 1);
    CHECK(read({"doctor", "--profile", "x.toml"}).profile_files.size() == 1);
}

}  // namespace toporun::launcher
