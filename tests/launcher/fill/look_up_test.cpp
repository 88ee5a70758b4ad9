// What name services and Slurm say when they are asked, by programs in their place.
#include "launcher/fill/look_up.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "files.hpp"
#include "steps.hpp"

namespace toporun::launcher {
namespace {

using namespace toporun::tests;

/// A host whose getent and scontrol are shell texts.
class AskedHost {
  public:
    AskedHost(const std::string& getent, const std::string& scontrol) {
        add("getent", getent);
        add("scontrol", scontrol);
    }

    /// Of a task of the second node.
    RendezvousFacts rendezvous() const {
        const Environment environment = step_task(2, 1, 1);
        return look_up_rendezvous(gaps_of("torchrun t.py", environment), environment, host_);
    }
    LineFacts line() const { return look_up_line({{"n1"}, true, false, false}, {}, host_); }

  private:
    class Programs final : public Host {
      public:
        std::map<std::string, std::string> paths;
        std::string find_executable(const std::string& word) const override {
            const auto found = paths.find(word);
            return found == paths.end() ? "" : found->second;
        }
        bool is_executable(const std::string&) const override { return false; }
        std::optional<std::string> read_file(const std::string&, std::size_t) const override {
            return std::nullopt;
        }
        std::string real_path(const std::string& path) const override { return path; }
        std::vector<std::string> names() const override { return {"n2"}; }
        std::string version_text(const std::string&) const override { return {}; }
    };

    void add(const std::string& name, const std::string& text) {
        if (text.empty()) return;
        const std::filesystem::path path = directory_.write(name, "#!/bin/sh\n" + text + "\n");
        std::filesystem::permissions(path, std::filesystem::perms::owner_all);
        host_.paths[name] = path;
    }

    TemporaryDirectory directory_;
    Programs host_;
};

constexpr const char* kAnswer = "echo '10.0.0.1 STREAM n1'";
constexpr const char* kNotFound = "exit 2";
constexpr const char* kLate = "kill -KILL $$";  // as after 2 s
constexpr const char* kNode = "echo NodeName=n1 NodeAddr=10.9.0.1";
using Addresses = std::vector<std::string>;

}  // namespace

TEST_CASE("only a name that was not found does not resolve") {
    const LineFacts known = AskedHost(kAnswer, "").line();
    CHECK(known.addresses.at("n1") == Addresses{"10.0.0.1"});
    CHECK(known.own_name == true);
    const LineFacts none = AskedHost(kNotFound, "").line();
    CHECK(none.addresses.at("n1").empty());
    CHECK(none.own_name == false);
    for (const char* getent : {kLate, "exit 1", ""}) {
        CAPTURE(getent);
        const LineFacts unknown = AskedHost(getent, "").line();
        CHECK(unknown.addresses.empty());
        CHECK_FALSE(unknown.own_name);
    }
}

TEST_CASE("Slurm is asked for a node that no name service knows, not when that is late") {
    struct Row {
        const char* getent;
        const char* scontrol;
        Addresses addresses;
        bool unanswered = false;
        bool resolves = true;  ///< or nobody knows
    };
    const std::vector<Row> rows = {
        {kAnswer, kNode, {"10.0.0.1"}},    {kNotFound, kNode, {"10.9.0.1"}},
        {kNotFound, "", {}, false, false}, {kLate, kNode, {}, true},
        {"", kNode, {"10.9.0.1"}},         {"", "", {}, true},
    };
    for (const Row& row : rows) {
        CAPTURE(row.getent);
        CAPTURE(row.scontrol);
        const RendezvousFacts facts = AskedHost(row.getent, row.scontrol).rendezvous();
        CHECK(facts.addresses == row.addresses);
        CHECK(facts.unanswered == row.unanswered);
        const Environment environment = step_task(2, 1, 1);
        const FilledIn filled = fill_in(gaps_of("torchrun t.py", environment), facts, environment,
                                        node_with_interfaces(2), {}, {});
        CHECK(has_finding(filled, "rendezvous-unresolved") == !row.resolves);
        if (row.addresses.empty())
            CHECK(exported_text(filled).find("PET_MASTER_ADDR=n1 ") != std::string::npos);
    }
}

}  // namespace toporun::launcher
