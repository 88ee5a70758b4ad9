#include <span>
#include <utility>

#include "launcher/failures/failure_log.hpp"

namespace toporun::launcher::failures {
namespace {

constexpr std::size_t kMostProcesses = 65536;
constexpr std::size_t kLongestText = 900;

std::string short_text(std::string_view text) {
    return std::string(text.substr(0, kLongestText));
}

constexpr std::string_view kClosed = "Connection closed by remote peer";
constexpr std::array<std::string_view, 5> kEndings = {
    "Destroy COMPLETE", "Abort COMPLETE", "ENV/Plugin: Closing", "commDestroy", "Destroy START"};

Anchors anchors_of(std::span<const std::string_view> texts) {
    Anchors anchors;
    for (const std::string_view text : texts) anchors.add(text);
    anchors.add(kClosed);
    return anchors;
}

}  // namespace

void FailureLog::add_interfaces(const std::vector<detect::nccl_log::Interface>& interfaces) {
    constexpr std::size_t kMostInterfaces = 256;
    for (const detect::nccl_log::Interface& interface : interfaces)
        if (evidence_.interfaces.size() < kMostInterfaces)
            evidence_.interfaces.emplace(interface.name, interface.address);
}

/// `NET : Using interface eth0:10.0.0.1<0>`, up to 2.4.
void FailureLog::add_old_interface(std::string_view message) {
    static const Pattern pattern("NET : Using interface {name}:{address}<");
    if (const auto found = pattern.match(message))
        add_interfaces({{short_text(*found->text("name")), short_text(*found->text("address"))}});
}

NcclProcess* FailureLog::process_of(const detect::nccl_log::Record& record) {
    auto& known = recent_[static_cast<std::size_t>(record.pid) % recent_.size()];
    if (known == nullptr || known->first.second != record.pid ||
        known->first.first != record.host) {
        auto key = std::pair(std::string(record.host), record.pid);
        if (evidence_.nccl.size() >= kMostProcesses && !evidence_.nccl.contains(key))
            return nullptr;
        known = &*evidence_.nccl.try_emplace(std::move(key)).first;
    }
    return &known->second;
}

/// A warning is an error where NCCL gives up right after it: add_trail().
void FailureLog::warn(const detect::nccl_log::Record& record, std::string_view raw) {
    warned_ = event_of({}, raw);
    warned_->origin.host = record.host;
    warned_->origin.pid = record.pid;
    warned_tid_ = record.tid;
}

/// `init.cc:1358 -> 3`, directly after a warning of the same thread. The codes are those of nccl.h.
void FailureLog::add_trail(const detect::nccl_log::Record& record, int code) {
    constexpr std::array<std::string_view, 6> kClasses = {
        "", "nccl-cuda", "nccl-system", "nccl-internal", "nccl-usage", "nccl-usage"};
    if (!warned_ || warned_tid_ != record.tid || warned_->origin.pid != record.pid) return;
    Event event = *std::exchange(warned_, std::nullopt);
    if (code <= 0 || code >= static_cast<int>(kClasses.size())) return;
    event.role = Role::ambiguous;
    event.general = true;
    event.of = catalogue_.find_class(kClasses[static_cast<std::size_t>(code)]);
    event.line_id = "trail";
    const Origin origin = event.origin;
    const std::size_t position = keep(std::move(event));
    if (position != SIZE_MAX) watch(position, true, stream_of(origin));
}

/// The lines that follow are of another start of the ranks.
void FailureLog::begin_run() {
    ++evidence_.attempts;
    closing_ = run_over_ = false;
    ranks_of_run_.clear();
}

/// A rank of a process that is new: a rank that had one before the run was ended has been started
/// again (torchrun tells so at a level that is hidden by default).
void FailureLog::see_rank(int rank) {
    const bool known = ranks_of_run_.contains(rank);
    if (known && (closing_ || run_over_)) begin_run();
    if (ranks_of_run_.size() < kMostProcesses) ranks_of_run_.insert(rank);
}

/// Which process is which rank, and how its log ends.
void FailureLog::add_nccl(const detect::nccl_log::Line& line, NcclProcess& process) {
    const detect::nccl_log::Record& record = line.record;
    process.last = place_;
    if (std::holds_alternative<detect::nccl_log::Collective>(line.event)) return;
    if (const auto* connection = std::get_if<detect::nccl_log::Connection>(&line.event)) {
        evidence_.transports.insert(connection->transport);
        return;
    }
    if (const auto* init = std::get_if<detect::nccl_log::Init>(&line.event);
        init != nullptr && !init->parent.empty() && !process.rank) {
        process.bus_id = init->bus_id;  // a rank of a part is none of the job's
        process.ended = false;
    } else if (init != nullptr) {
        const bool larger = !evidence_.world_size || init->ranks >= *evidence_.world_size;
        if (larger && !process.rank) see_rank(init->rank);
        if (larger) evidence_.world_size = init->ranks;
        if (!process.rank || larger) {
            process.rank = init->rank;
            process.device = init->cuda_device ? init->cuda_device : record.device;
            process.bus_id = init->bus_id;
        }
        process.ended = false;
    }
    if (const auto* bootstrap = std::get_if<detect::nccl_log::Bootstrap>(&line.event))
        add_interfaces(bootstrap->interfaces);
    if (const auto* devices = std::get_if<detect::nccl_log::NetworkDevices>(&line.event))
        add_interfaces(devices->interfaces);
    if (record.message.starts_with("NET : ")) add_old_interface(record.message);
    if (const auto* variable = std::get_if<detect::nccl_log::Variable>(&line.event);
        variable != nullptr && evidence_.variables.size() < 256)
        evidence_.variables.emplace(variable->name, short_text(variable->value));
    static const Anchors endings = anchors_of(kEndings);
    const std::string_view message = record.message;
    if (endings.any_in(message)) {
        for (const std::string_view end : kEndings)
            if (message.find(end) != message.npos) process.ended = true;
        if (message.find(kClosed) != message.npos) process.failed = true;
    }
    constexpr int kRemoteError = 6;  // nccl.h ncclRemoteError
    const auto* trail = std::get_if<detect::nccl_log::ErrorTrail>(&line.event);
    if (trail != nullptr && trail->code == kRemoteError) process.failed = true;
    if (trail != nullptr) add_trail(record, trail->code);
}

}  // namespace toporun::launcher::failures
