#include "launcher/process/node_check.hpp"

namespace toporun::launcher {
namespace {

constexpr std::chrono::seconds kFirstCheck{10};
constexpr std::chrono::seconds kLongestInterval{640};
/// The observer answers for signals within 50 ms (launchers.md 3.2).
constexpr std::chrono::milliseconds kTurn{10};
constexpr int kWholeFiles = 256;  // of nodes: above, first lines first
constexpr std::size_t kMostFactsBytes = 64u << 10;

}  // namespace

NodeCheck::NodeCheck(const RunFiles& files, const NodeFiles& nodes, int expected,
                     Clock::time_point start)
    : files_(files),
      nodes_(nodes),
      expected_(expected),
      next_(start + kFirstCheck),
      interval_(kFirstCheck) {}

void NodeCheck::begin() {
    reading_ = true;
    queue_.clear();
    for (std::string& name : nodes_.names()) {
        const auto parsed = parse_node_file_name(name);
        if (parsed && parsed->kind == NodeFileName::Kind::start && !seen_.contains(name))
            queue_.push_back(std::move(name));
    }
}

void NodeCheck::read(const std::string& name) {
    const bool first_lines = expected_ > kWholeFiles;
    const auto head =
        parse_node_head(files_.read(name, first_lines ? kMostHeadBytes : kMostFactsBytes));
    if (!head) return;  // it has ended, or its file is not there yet
    if (!kinds_.contains(head->hash)) {
        auto facts = parse_node_facts(files_.read(name, kMostFactsBytes));
        if (!facts || facts->head != *head) return;
        kinds_.insert(head->hash);
        facts_.push_back(std::move(*facts));
    }
    seen_.insert(name);
    heads_.push_back(*head);
}

void NodeCheck::read_some() {
    const auto until = Clock::now() + kTurn;
    while (!queue_.empty() && Clock::now() < until) {
        const std::string name = std::move(queue_.back());
        queue_.pop_back();
        read(name);
    }
}

std::vector<env::Finding> NodeCheck::compare() {
    std::vector<env::Finding> fresh;
    for (env::Finding& finding : node_differences(group_nodes(heads_, facts_)))
        if (told_.insert(finding.id).second) fresh.push_back(std::move(finding));
    return fresh;
}

std::vector<env::Finding> NodeCheck::poll(Clock::time_point now) {
    if (done_ || (!reading_ && now < next_)) return {};
    if (!reading_) begin();
    read_some();
    if (!queue_.empty()) return {};
    reading_ = false;
    done_ = static_cast<int>(heads_.size()) >= expected_;
    interval_ = std::min<Clock::duration>(interval_ * 2, kLongestInterval);
    next_ = now + interval_;
    return compare();
}

}  // namespace toporun::launcher
