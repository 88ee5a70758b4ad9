#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/tests_view.hpp"

/// What a table of nccl-tests means.
namespace toporun::launcher {
namespace {

/// Sizes from which bandwidth and not latency is measured.
constexpr std::uint64_t kLarge = std::uint64_t{16} << 20;
constexpr double kFallen = 0.6;    // of the peak
constexpr double kFarBelow = 0.5;  // of NCCL's own model, whose figures are peaks

bool has_network(const LogSummary& log, std::string_view name) {
    return std::find(log.networks.begin(), log.networks.end(), name) != log.networks.end();
}

std::string test_name(const LogTest& test) {
    return test.function.empty() ? "nccl-tests" : "nccl-tests, " + test.function;
}

void add_wrong(const LogTest& test, std::vector<env::Finding>& found) {
    if (test.wrong == 0) return;
    env::Finding finding;
    finding.id = "test-wrong-data";
    finding.severity = env::Severity::broken;
    finding.what = fmt::format("{}: {} wrong values, from {} on", test_name(test), test.wrong,
                               format_bytes(test.wrong_bytes));
    finding.evidence = "#wrong";
    finding.effect = "training computes with wrong numbers and says nothing";
    finding.fix =
        "find the GPU or pair: the same test on two GPUs at a time (CUDA_VISIBLE_DEVICES), on each "
        "node alone; toporun doctor (ACS and IOMMU can damage what goes by P2P); nvidia-smi -q -d "
        "ECC";
    found.push_back(std::move(finding));
}

void add_fall(const LogSummary& log, const LogTest& test, std::vector<env::Finding>& found) {
    const bool falls = test.peak_bytes < test.most_bytes && test.most_bytes >= kLarge &&
                       test.last_gbytes_per_s < kFallen * test.peak_gbytes_per_s && test.rows >= 4;
    if (!falls) return;
    const bool tcp = log.networks.empty() || has_network(log, "Socket");
    env::Finding finding;
    finding.id = "test-bandwidth-falls";
    finding.severity = env::Severity::slow;
    finding.what =
        fmt::format("{}: bus bandwidth falls from {:.2f} GB/s at {} to {:.2f} GB/s at {}",
                    test_name(test), test.peak_gbytes_per_s, format_bytes(test.peak_bytes),
                    test.last_gbytes_per_s, format_bytes(test.most_bytes));
    finding.evidence = "busbw of the largest two sizes";
    finding.effect = "large gradients take longer than the path allows";
    finding.fix =
        tcp ? "over TCP: measure NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD (product at most 64) "
              "and keep the best, more sockets may also be slower; bind each rank to the NUMA node "
              "of its interface"
            : "look at the counters of the adapters' ports for congestion (pause frames, discards) "
              "while it runs";
    found.push_back(std::move(finding));
}

void add_below_model(const LogSummary& log, const LogTest& test, std::vector<env::Finding>& found) {
    const std::optional<double> model = model_gbytes_per_s(log, test);
    if (!model || test.most_bytes < kLarge || test.peak_gbytes_per_s >= kFarBelow * *model) return;
    env::Finding finding;
    finding.id = "test-below-model";
    finding.severity = env::Severity::slow;
    finding.what = fmt::format(
        "{}: at most {:.2f} GB/s of bus bandwidth, NCCL's own model of these links gives {:g} "
        "(estimated)",
        test_name(test), test.peak_gbytes_per_s, *model);
    finding.evidence = "busbw; the log's Pattern 4, channels x GB/s";
    finding.effect = "the links, the adapters or their settings give less than they should";
    finding.fix =
        "toporun doctor on each node; toporun report names transports that are not direct";
    found.push_back(std::move(finding));
}

}  // namespace

/// The ring pattern's: channels times the bandwidth of one, inside the node up to two nodes,
/// between nodes above (nccl.md 6.2). Lines of one run may tell of several communicators: the best.
std::optional<double> ring_model_gbytes_per_s(const LogSummary& log) {
    constexpr int kRing = 4;
    const bool between = log.node_count.value_or(static_cast<int>(log.nodes.size())) > 2;
    std::optional<double> best;
    for (const LogPattern& row : log.setup.patterns) {
        if (row.pattern.pattern != kRing || row.pattern.channels <= 0) continue;
        const double channel =
            between ? row.pattern.inter_gbytes_per_s : row.pattern.intra_gbytes_per_s;
        const double sum = row.pattern.channels * channel;
        if (sum > 0) best = std::max(best.value_or(0), sum);
    }
    return best;
}

/// Other functions are not told apart, and AlltoAll and sendrecv go other ways than a ring.
std::optional<double> model_gbytes_per_s(const LogSummary& log, const LogTest& test) {
    return test.function == "AllReduce" ? ring_model_gbytes_per_s(log) : std::nullopt;
}

std::vector<env::Finding> test_findings(const RunFacts& facts) {
    std::vector<env::Finding> found;
    for (const LogTest& test : facts.log.tests) {
        add_wrong(test, found);
        add_fall(facts.log, test, found);
        add_below_model(facts.log, test, found);
    }
    return found;
}

std::vector<std::string> test_lines(const LogSummary& log) {
    std::vector<std::string> lines;
    for (const LogTest& test : log.tests) {
        std::string line =
            fmt::format("{}{}{}, {} to {}: peak {:.2f} GB/s of bus bandwidth at {}",
                        test.function.empty() ? "" : test.function + ", ", test.type,
                        test.op.empty() || test.op == "none" ? "" : " " + test.op,
                        format_bytes(test.least_bytes), format_bytes(test.most_bytes),
                        test.peak_gbytes_per_s, format_bytes(test.peak_bytes));
        if (const auto model = model_gbytes_per_s(log, test))
            line += fmt::format(", {:.0f} % of the {:g} GB/s of NCCL's model (estimated)",
                                100 * test.peak_gbytes_per_s / *model, *model);
        if (test.wrong > 0) line += fmt::format("; {} wrong values", test.wrong);
        lines.push_back(line);
    }
    return lines;
}

}  // namespace toporun::launcher
