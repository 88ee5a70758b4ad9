#include "detect/network/port_tables.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/text.hpp"
#include "detect/network/port_counters.hpp"

namespace toporun::detect {
namespace {

constexpr int kMostGids = 256;     ///< size of the largest table, RoCE on mlx5
constexpr int kMostEmptyGids = 8;  ///< in a row, before a short search ends

/// sysfs has one word for InfiniBand and RoCE version 1: "IB/RoCE v1".
std::string gid_type(const std::string& word, bool is_infiniband) {
    if (word == "RoCE v2") return word;
    if (word != "IB/RoCE v1") return {};
    return is_infiniband ? "IB" : "RoCE v1";
}

/// The entries to look at, ascending: those that are there, or all that could be.
std::vector<int> table_indices(const Files& files, const std::string& directory, bool whole) {
    std::vector<int> indices;
    if (whole) {
        for (const std::string& name : files.list(directory))
            if (const auto index = to_integer(name); index && *index >= 0 && *index < kMostGids)
                indices.push_back(static_cast<int>(*index));
        std::sort(indices.begin(), indices.end());
    } else {
        indices.resize(kMostGids);
        std::iota(indices.begin(), indices.end(), 0);
    }
    return indices;
}

/// Nothing for an entry that is empty.
std::optional<Gid> read_gid(const Files& files, const std::string& port_directory, int index,
                            bool is_infiniband) {
    const std::string number = std::to_string(index);
    Gid gid;
    gid.index = index;
    gid.address = canonical_gid(files.line(port_directory + "/gids/" + number).value_or(""));
    if (gid.address.empty()) return std::nullopt;
    const std::string attributes = port_directory + "/gid_attrs";
    gid.type = gid_type(files.line(attributes + "/types/" + number).value_or(""), is_infiniband);
    gid.interface = files.line(attributes + "/ndevs/" + number).value_or("");
    return gid;
}

}  // namespace

std::string canonical_gid(const std::string& text) {
    std::array<unsigned char, 16> bytes{};
    char shortest[INET6_ADDRSTRLEN] = "";
    if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1 ||
        std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0; }) ||
        inet_ntop(AF_INET6, bytes.data(), shortest, sizeof shortest) == nullptr)
        return {};
    return shortest;
}

std::vector<Gid> read_gids(const Files& files, const std::string& port_directory,
                           bool is_infiniband, bool whole, std::optional<int> wanted) {
    std::vector<Gid> gids;
    int empty = 0, last = -1;
    const auto keep = [&](int index) {
        auto gid = read_gid(files, port_directory, index, is_infiniband);
        empty = gid ? 0 : empty + 1;
        last = index;
        if (gid) gids.push_back(*std::move(gid));
    };
    for (const int index : table_indices(files, port_directory + "/gids", whole)) {
        keep(index);
        if (empty == kMostEmptyGids && !whole) break;
    }
    if (wanted && *wanted > last) keep(*wanted);
    return gids;
}

std::vector<PortCounter> read_port_errors(const Files& files, const std::string& port_directory) {
    std::vector<PortCounter> errors;
    for (const ErrorCounter& counter : kErrorCounters) {
        const auto value = files.unsigned_integer(
            fmt::format("{}/{}/{}", port_directory, counter.directory, counter.name));
        if (value && *value > 0) errors.push_back({std::string(counter.name), *value});
    }
    return errors;
}

}  // namespace toporun::detect
