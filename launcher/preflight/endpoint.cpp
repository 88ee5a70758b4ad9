#include "launcher/preflight/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "env/interface_model.hpp"
#include "launcher/command/families.hpp"
#include "launcher/preflight/node_launcher.hpp"

namespace toporun::launcher {
namespace {

bool filled(const std::optional<Said>& said) {
    return said && !trim(said->value).empty();
}

MeetingPlace of_node_launcher(const LaunchLine& line) {
    MeetingPlace place;
    place.several = most_nodes(line.nnodes).value_or(1) > 1;
    place.fixed_first = static_backend(line);
    if (place.fixed_first) {
        const auto rank = line.node_rank ? to_integer(trim(line.node_rank->value)) : 0;
        if (rank) place.here = *rank == 0;
    }
    if (filled(line.endpoint)) {
        place.endpoint = parse_endpoint(line.endpoint->value, line.endpoint->words);
        return place;
    }
    if (!place.fixed_first) return place;  // "localhost" on each node
    const auto text = [](const std::optional<Said>& said, std::string_view otherwise) {
        return filled(said) ? std::string(trim(said->value)) : std::string(otherwise);
    };
    const NodeLauncher& launcher = *line.launcher;
    place.endpoint = {text(line.master_address, launcher.default_address),
                      text(line.master_port, launcher.default_port),
                      line.master_port ? line.master_port->words
                      : line.master_address
                          ? line.master_address->words
                          : fmt::format("port {} (default)", launcher.default_port)};
    std::string& host = place.endpoint.host;
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    return place;
}

/// A program that reads MASTER_ADDR and MASTER_PORT itself, in a task of a step.
MeetingPlace of_task(const LaunchLine& line) {
    MeetingPlace place;
    place.several = line.nodes.value_or(1) > 1;
    place.fixed_first = true;
    if (line.task == 0)
        place.here = true;
    else if (line.node && *line.node > 0)
        place.here = false;
    const std::string address(trim(variable(line.environment, "MASTER_ADDR")));
    if (!address.empty())
        place.endpoint = {address, variable(line.environment, "MASTER_PORT"),
                          "MASTER_ADDR=" + printable(address)};
    return place;
}

}  // namespace

std::optional<int> most_nodes(const std::optional<Said>& nnodes) {
    if (!nnodes) return 1;
    return positive_count(nnodes->value.substr(nnodes->value.find(':') + 1));
}

std::optional<int> least_nodes(const std::optional<Said>& nnodes) {
    if (!nnodes) return 1;
    return positive_count(nnodes->value.substr(0, nnodes->value.find(':')));
}

bool static_backend(const LaunchLine& line) {
    if (line.standalone) return false;
    return !line.backend || trim(line.backend->value).empty() ||
           trim(line.backend->value) == "static";
}

Endpoint parse_endpoint(const std::string& text, std::string words) {
    const std::string trimmed(trim(text));
    Endpoint endpoint{trimmed, "", std::move(words)};
    const std::size_t colon = trimmed.rfind(':');
    const bool bracketed = trimmed.starts_with('[') && trimmed.ends_with(']');
    if (!bracketed && colon != std::string::npos) {
        endpoint.host = trimmed.substr(0, colon);
        endpoint.port = trimmed.substr(colon + 1);
    }
    if (endpoint.host.size() > 1 && endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))
        endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    return endpoint;
}

bool all_loopback(const std::vector<std::string>& addresses) {
    return std::all_of(addresses.begin(), addresses.end(), [](const std::string& text) {
        const auto address = env::parse_ip(text);
        return address && env::loopback(*address);
    });
}

bool is_loopback_name(const std::string& host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.") || host == "0.0.0.0" ||
           host == "::";
}

std::optional<MeetingPlace> meeting_place(const LaunchLine& line) {
    MeetingPlace place;
    const bool meets = line.launcher != nullptr && line.srun == nullptr && !line.standalone;
    if (meets && line.starts_whole_job.empty())
        place = of_node_launcher(line);
    else if (line.command.job.launcher == "plain" && line.in_step)
        place = of_task(line);
    if (place.endpoint.host.empty()) return std::nullopt;
    return place;
}

}  // namespace toporun::launcher
