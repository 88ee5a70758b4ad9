#include "nccl_interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

namespace ring_allreduce {
namespace {

constexpr std::size_t kMaximum = 16;  // MAX_IFS of NCCL

struct Candidate : Interface {
    int family = 0;
};

bool loopback_v6(const sockaddr& address) {
    return address.sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

/// Every address that NCCL would accept, in kernel order.
std::vector<Candidate> candidates(const std::string& family) {
    std::vector<Candidate> found;
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) return found;
    for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
        if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_RUNNING) == 0) continue;
        const int kind = at->ifa_addr->sa_family;
        if (kind != AF_INET && kind != AF_INET6) continue;
        if (family == "AF_INET" && kind != AF_INET) continue;
        if (family == "AF_INET6" && kind != AF_INET6) continue;
        if (loopback_v6(*at->ifa_addr)) continue;
        char text[NI_MAXHOST] = {};
        const socklen_t size = kind == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        if (getnameinfo(at->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
            continue;
        }
        Candidate candidate;
        candidate.name = at->ifa_name;
        candidate.address = text;
        candidate.family = kind;
        found.push_back(candidate);
    }
    freeifaddrs(first);
    return found;
}

std::vector<Interface> chosen(const std::vector<Candidate>& all, const std::string& list) {
    std::vector<Interface> result;
    for (const Candidate& candidate : all) {
        const bool known = std::any_of(result.begin(), result.end(), [&](const Interface& entry) {
            return entry.name == candidate.name;
        });
        if (known || result.size() >= kMaximum) continue;  // one address per interface
        if (interface_matches(list, candidate.name)) result.push_back(candidate);
    }
    return result;
}

}  // namespace

bool interface_matches(const std::string& list, const std::string& name) {
    std::size_t at = 0;
    const bool excludes = list.starts_with('^');
    if (excludes) ++at;
    const bool exact = list.substr(at).starts_with('=');
    if (exact) ++at;
    bool listed = false;
    while (at <= list.size()) {
        const std::size_t end = std::min(list.find(',', at), list.size());
        std::string entry = list.substr(at, end - at);
        entry = entry.substr(0, entry.find(':'));
        if (!entry.empty()) listed = listed || (exact ? name == entry : name.starts_with(entry));
        at = end + 1;
    }
    return listed != excludes;
}

std::vector<Interface> nccl_interfaces(const std::string& wanted, const std::string& family) {
    const std::vector<Candidate> all = candidates(family);
    if (wanted.size() > 1) return chosen(all, wanted);
    for (const char* group : {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"}) {
        std::vector<Interface> found = chosen(all, group);
        if (!found.empty()) return found;
    }
    return {};
}

}  // namespace ring_allreduce
