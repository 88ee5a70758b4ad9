#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "files.hpp"
#include "launcher/explain/annotator.hpp"
#include "launcher/explain/page.hpp"
#include "launcher/log/kinds.hpp"

using namespace toporun::launcher;
using namespace toporun::launcher::explain;

namespace {

const std::string kRecord = "node-a:4711:4750 [3] NCCL INFO ";

std::string says(const std::string& line) {
    Annotator annotator;
    return annotator.annotate(line).says;
}

/// tests/data/nccl-log/catalogue.txt: the lines as a process prints them.
std::vector<std::string> catalogue_lines() {
    std::istringstream in(toporun::tests::read_file(std::filesystem::path(TOPORUN_TEST_DATA) /
                                                    "nccl-log/catalogue.txt"));
    std::vector<std::string> lines;
    std::string line, level;
    while (std::getline(in, line)) {
        if (line.starts_with("| ")) {
            const std::string warn = level == "WARN" ? "init.cc:904 " : "";
            lines.push_back(level == "bare" ? line.substr(2)
                                            : "node-a:4711:4750 [3] " + warn + "NCCL " + level +
                                                  " " + line.substr(2));
        } else if (!line.empty() && line[0] != '#' && line[0] != '=') {
            level = line.substr(line.rfind(' ') + 1);
        }
    }
    return lines;
}

}  // namespace

TEST_CASE("every kind of line has a sentence with its source") {
    std::set<std::string> kinds;
    for (const auto& [form, sentence] : Sentences::builtin().events()) {
        kinds.insert(form.substr(0, form.find('.')));
        CHECK_FALSE(sentence.source.empty());
        CHECK_FALSE(sentence.says.ends_with('.'));
    }
    for (const std::string_view kind : kLineKinds)
        if (kind != "unknown") CHECK_MESSAGE(kinds.contains(std::string(kind)), kind);
    CHECK(kinds.contains("topology"));
    for (int role = 0; role <= static_cast<int>(failures::Role::noise); ++role)
        CHECK(Sentences::builtin().find(
                  "role." + std::string(failures::role_text(static_cast<failures::Role>(role)))) !=
              nullptr);
}

TEST_CASE("every line of the catalogue is explained, with nothing left to fill in") {
    const std::vector<std::string> lines = catalogue_lines();
    CHECK(lines.size() > 190);
    std::set<std::string> forms;
    for (const std::string& line : lines) {
        CAPTURE(line);
        Annotator annotator;
        const Annotation annotation = annotator.annotate(line);
        CHECK_FALSE(annotation.says.empty());
        CHECK(annotation.says.find("{") == annotation.says.npos);
        CHECK(annotation.kind != "torn");
        forms.insert(annotation.kind);
    }
    for (const std::string_view kind : kLineKinds)
        if (kind != "unknown" && kind != "test_rank" && kind != "warning")
            CHECK_MESSAGE(forms.contains(std::string(kind)), kind);
}

TEST_CASE("a line of no known kind stays without words") {
    CHECK(says(kRecord + "Frobnicating 12 widgets").empty());
    CHECK(says("step 12 loss 2.1").empty());
    CHECK(says("").empty());
}

TEST_CASE("sentences tell what the line says") {
    CHECK(
        says(kRecord + "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct") ==
        "channel 0: rank 0 writes to rank 1 through the host's memory (shared memory), for P2P is "
        "not possible, too far or switched off: SHM/direct/direct");
    CHECK(says(kRecord + "Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA")
              .starts_with("channel 0: rank 7 is received from by rank 8 over IB, straight"));
    CHECK(says(kRecord +
               "AllReduce: opCount 1f sendbuff 0x7f1 recvbuff 0x7f2 count 1048576 datatype 7 op 0 "
               "root 0 comm 0x55d0 [nranks=8] stream 0x56") ==
          "call 31: AllReduce of 4 MiB (1048576 x float32, sum) over 8 ranks");
    CHECK(says(kRecord + "cudaDriverVersion 12040").starts_with("the driver offers CUDA 12.4;"));
    CHECK(says(kRecord + "init.cc:1358 -> 2").find("an error of the system or network") !=
          std::string::npos);
}

TEST_CASE("the rank is that of the process's largest communicator, known before its line or not") {
    Annotator annotator;
    const std::string network = kRecord + "Using network IB";
    CHECK(annotator.annotate(network).says.starts_with("data between nodes"));
    const std::string init =
        "ncclCommInitRank comm 0x7f rank 5 nranks 8 cudaDev 3 nvmlDev 3 busId ";
    annotator.annotate(kRecord + init + "1a000 commId 0x5b - Init START");
    CHECK(annotator.annotate(network).says.starts_with("rank 5 (node-a, GPU 3): data between"));
    const std::string split = "ncclCommSplit comm 0x8f rank 1 nranks 2 cudaDev 3 nvmlDev 3 busId ";
    annotator.annotate(kRecord + split + "1a000 parent 0x7f color 0 key 0 commId 0x6 - Init START");
    CHECK(annotator.annotate(network).rank == 5);
    Annotator again;
    LogRank rank;
    rank.rank = 2;
    rank.host = "node-a";
    rank.pid = 4711;
    again.know({rank});
    CHECK(again.annotate(network).says.starts_with("rank 2 (node-a): "));
}

TEST_CASE("a line that tells of a failure says so, and what to do once") {
    Annotator annotator;
    const std::string oom =
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
    Annotation first = annotator.annotate(oom);
    CHECK(first.kind == "failure");
    CHECK(first.says.starts_with("rank 3: a failure: a GPU's memory is exhausted"));
    CHECK(first.says.ends_with("[cuda-oom]"));
    CHECK_FALSE(first.todo.empty());
    CHECK(annotator.annotate(oom).todo.empty());
    const Annotation warned = annotator.annotate(
        "node-a:7:9 [0] misc/socket.cc:493 NCCL WARN socketProgress: Connection closed by remote "
        "peer node-b<41234>");
    CHECK(warned.says.find("a consequence, not the cause") != std::string::npos);
    CHECK(warned.todo.empty());
    const Annotation off =
        annotator.annotate(kRecord + "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'");
    CHECK(off.kind == "finding");
    CHECK(off.says.starts_with("GPUDirect RDMA is off for adapter mlx5_0; "));
    CHECK(off.todo.size() == 1);
}

TEST_CASE("the line of the first cause is told as that, a part of another line not at all") {
    Annotator annotator;
    failures::Verdict verdict;
    verdict.cause = "user-exception";
    verdict.what = "ValueError: bad shard";
    verdict.where = "job.log:3";
    verdict.confidence = failures::Confidence::certain;
    verdict.advice = {"look there"};
    annotator.know(verdict);
    CHECK(annotator.annotate("ValueError: bad shard", "job.log:2").says.empty());
    const Annotation first = annotator.annotate("ValueError: bad shard", "job.log:3");
    CHECK(first.says ==
          "the first cause of the failure, as far as the logs tell: ValueError: bad shard "
          "[user-exception, certain]");
    CHECK(first.todo == std::vector<std::string>{"look there"});
    CHECK(says("  Exit code:    7").empty());
}

TEST_CASE("lines into which two processes wrote are not explained as one of them") {
    const std::string torn =
        kRecord + "Channel 00/0 : 0[0] -> node-a:4712:4751 [4] NCCL INFO Using network IB";
    CHECK(Annotator().annotate(torn).kind == "torn");
}

TEST_CASE("the page has the log as it stands, and nothing that a terminal acts on") {
    Annotator annotator;
    const std::string line = kRecord + "NCCL_P2P_LEVEL set by environment to \x1b]0;x\x07";
    const Annotation known = annotator.annotate(line);
    CHECK(page_line(PageForm::text, "a.log", 1, line, false, known, true) ==
          kRecord + "NCCL_P2P_LEVEL set by environment to \\x1b]0;x\\x07\n" +
              "    = NCCL took NCCL_P2P_LEVEL=\\x1b]0;x\\x07, set by the environment\n");
    CHECK(page_line(PageForm::text, "a.log", 2, "step 1", false, {}, false) == "step 1\n");
    CHECK(page_line(PageForm::text, "a.log", 2, "step", true, {}, false) ==
          "step ...\n    = the line is longer: its rest is not shown\n");
    const Annotation marked{"text", "<b>*x*", {"one"}, {}};
    CHECK(page_line(PageForm::markdown, "a.log", 2, "a `b`", false, marked, false) ==
          "- a \\`b\\`\n  - &lt;b\\>\\*x\\*\n  - what to do: one\n");
    CHECK(page_file(PageForm::text, "a\n.log") == "==> a\\x0a.log <==\n");
    std::string json = page_begin(PageForm::json);
    json += page_line(PageForm::json, "a.log", 1, line + "\xff", false, known, true);
    json += page_line(PageForm::json, "a.log", 2, "step 1", false, {}, false);
    const auto parsed = nlohmann::json::parse(json + page_end(PageForm::json));
    CHECK(parsed["schema"] == "toporun.explanation/1");
    CHECK(parsed["lines"].size() == 2);
    CHECK(parsed["lines"][0]["kind"] == "variable");
    CHECK(parsed["lines"][1]["meaning"].is_null());
    CHECK(parsed["lines"][1]["line"] == 2);
}
