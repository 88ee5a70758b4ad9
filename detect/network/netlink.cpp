#include "detect/network/netlink.hpp"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/descriptors.hpp"
#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostLinks = 4096;
constexpr std::size_t kAnswerBytes = 65536;  ///< the kernel fills at most 32 KiB at a time
constexpr int kLimitSeconds = 1;             ///< the kernel answers at once; a sandbox may not
constexpr std::size_t kScopeBytes = IF_NAMESIZE;

/// A request: netlink header, `Body`, and attributes appended to it.
template <class Body>
class Request {
  public:
    Request(std::uint16_t type, std::uint16_t flags, const Body& body) {
        nlmsghdr header{};
        header.nlmsg_type = type;
        header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
        append(&header, sizeof header);
        append(&body, sizeof body);
    }
    void attribute(std::uint16_t type, const void* value, std::size_t size) {
        const rtattr head{static_cast<std::uint16_t>(RTA_LENGTH(size)), type};
        append(&head, sizeof head);
        append(value, size);
    }
    std::span<const char> bytes() {
        const auto size = static_cast<std::uint32_t>(bytes_.size());
        std::memcpy(bytes_.data() + offsetof(nlmsghdr, nlmsg_len), &size, sizeof size);
        return bytes_;
    }

  private:
    void append(const void* from, std::size_t size) {
        const auto* first = static_cast<const char*>(from);
        bytes_.insert(bytes_.end(), first, first + size);
        bytes_.resize(NLMSG_ALIGN(bytes_.size()));
    }
    std::vector<char> bytes_;
};

template <class Struct>
std::optional<Struct> read_struct(std::span<const char> bytes) {
    if (bytes.size() < sizeof(Struct)) return std::nullopt;
    Struct value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

/// Calls `visit(type, value)` with each attribute; ends at the first that does not fit.
template <class Visit>
void each_attribute(std::span<const char> bytes, const Visit& visit) {
    while (const auto head = read_struct<rtattr>(bytes)) {
        if (head->rta_len < sizeof(rtattr) || head->rta_len > bytes.size()) return;
        visit(head->rta_type & NLA_TYPE_MASK,
              bytes.subspan(sizeof(rtattr), head->rta_len - sizeof(rtattr)));
        bytes = bytes.subspan(std::min<std::size_t>(RTA_ALIGN(head->rta_len), bytes.size()));
    }
}

/// Sends the request and calls `visit(type, body)` with each message of the answer. `whole` = up to
/// the message that ends a list, else one message. Returns an errno, 0 when all went well.
template <class Visit>
int ask(std::span<const char> request, bool whole, const Visit& visit) {
    const Descriptor file(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!file) return errno;
    const timeval limit{kLimitSeconds, 0};
    setsockopt(file.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_nl kernel{};
    kernel.nl_family = AF_NETLINK;
    if (sendto(file.get(), request.data(), request.size(), 0,
               reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) < 0)
        return errno;
    std::vector<char> buffer(kAnswerBytes);
    for (;;) {
        const ssize_t got = recv(file.get(), buffer.data(), buffer.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got == 0 ? EIO : errno;
        std::span<const char> rest(buffer.data(), static_cast<std::size_t>(got));
        while (const auto header = read_struct<nlmsghdr>(rest)) {
            if (header->nlmsg_len < sizeof(nlmsghdr) || header->nlmsg_len > rest.size()) return EIO;
            const auto body = rest.subspan(sizeof(nlmsghdr), header->nlmsg_len - sizeof(nlmsghdr));
            if (header->nlmsg_type == NLMSG_DONE) return 0;
            if (header->nlmsg_type == NLMSG_ERROR) {
                const auto error = read_struct<std::int32_t>(body);
                return error ? -*error : EIO;
            }
            visit(header->nlmsg_type, body);
            if (!whole) return 0;
            rest = rest.subspan(std::min<std::size_t>(NLMSG_ALIGN(header->nlmsg_len), rest.size()));
        }
    }
}

std::string text_of(std::span<const char> value) {
    return std::string(value.data(), strnlen(value.data(), value.size()));
}

int number_of(std::span<const char> value) {
    const auto number = read_struct<std::int32_t>(value);
    return number && *number > 0 ? *number : 0;
}

KernelLink read_link(const ifinfomsg& info, std::span<const char> attributes) {
    KernelLink link;
    link.index = info.ifi_index;
    link.hardware_type = info.ifi_type;
    bool parent_elsewhere = false;  // its number is that of another namespace
    each_attribute(attributes, [&](int type, std::span<const char> value) {
        if (type == IFLA_IFNAME) link.name = text_of(value);
        if (type == IFLA_MTU && number_of(value) > 0) link.mtu = number_of(value);
        if (type == IFLA_MASTER) link.master = number_of(value);
        if (type == IFLA_LINK) link.parent = number_of(value);
        if (type == IFLA_LINK_NETNSID) parent_elsewhere = true;
        if (type == IFLA_LINKINFO)
            each_attribute(value, [&](int inner, std::span<const char> word) {
                if (inner == IFLA_INFO_KIND) link.kind = text_of(word);
            });
    });
    if (parent_elsewhere || link.parent == link.index) link.parent = 0;
    return link;
}

struct Address {
    unsigned char family = AF_UNSPEC;
    std::array<unsigned char, 16> bytes{};
    std::size_t size = 0;
    unsigned scope = 0;
};

std::optional<Address> parse_address(const std::string& text) {
    Address address;
    if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) {
        address.family = AF_INET;
        address.size = 4;
        return address;
    }
    const std::size_t percent = std::min(text.find('%'), text.size());
    if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), address.bytes.data()) != 1)
        return std::nullopt;
    constexpr std::array<unsigned char, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::equal(kMapped.begin(), kMapped.end(), address.bytes.begin())) {  // ::ffff:10.0.0.1
        std::copy(address.bytes.begin() + 12, address.bytes.end(), address.bytes.begin());
        address.family = AF_INET;
        address.size = 4;
        return address;
    }
    address.family = AF_INET6;
    address.size = 16;
    if (percent < text.size()) {
        const std::string scope = text.substr(percent + 1);
        if (scope.empty() || scope.size() >= kScopeBytes) return std::nullopt;
        address.scope = if_nametoindex(scope.c_str());
        if (address.scope == 0) return std::nullopt;
    }
    return address;
}

std::string interface_name(int index) {
    char name[IF_NAMESIZE] = "";
    if (index <= 0 || if_indextoname(static_cast<unsigned>(index), name) == nullptr) return {};
    return printable(name);
}

}  // namespace

std::vector<KernelLink> kernel_links() {
    ifinfomsg body{};
    Request<ifinfomsg> request(RTM_GETLINK, NLM_F_DUMP, body);
    // Without this the answer carries the statistics of each interface, most of its bytes.
    const std::uint32_t mask = RTEXT_FILTER_SKIP_STATS;
    request.attribute(IFLA_EXT_MASK, &mask, sizeof mask);
    std::vector<KernelLink> links;
    const int error = ask(request.bytes(), true, [&](int type, std::span<const char> message) {
        const auto info = read_struct<ifinfomsg>(message);
        if (type != RTM_NEWLINK || !info || links.size() == kMostLinks) return;
        links.push_back(read_link(*info, message.subspan(NLMSG_ALIGN(sizeof *info))));
    });
    if (error != 0) links.clear();
    return links;
}

RouteAnswer kernel_route(const std::string& destination) {
    RouteAnswer answer;
    const auto address = parse_address(destination);
    if (!address) {
        answer.is_address = false;
        return answer;
    }
    rtmsg body{};
    body.rtm_family = address->family;
    body.rtm_dst_len = static_cast<unsigned char>(address->size * 8);
    Request<rtmsg> request(RTM_GETROUTE, 0, body);
    request.attribute(RTA_DST, address->bytes.data(), address->size);
    if (address->scope != 0) request.attribute(RTA_OIF, &address->scope, sizeof address->scope);
    answer.error = ask(request.bytes(), false, [&](int type, std::span<const char> message) {
        if (type != RTM_NEWROUTE || message.size() < sizeof(rtmsg)) return;
        Route route;
        route.destination = printable(destination);
        each_attribute(message.subspan(NLMSG_ALIGN(sizeof(rtmsg))),
                       [&](int attribute, std::span<const char> value) {
                           if (attribute == RTA_OIF)
                               route.interface = interface_name(number_of(value));
                           char text[INET6_ADDRSTRLEN] = "";
                           if (attribute == RTA_PREFSRC && value.size() >= address->size &&
                               inet_ntop(address->family, value.data(), text, sizeof text))
                               route.source = text;
                       });
        if (!route.interface.empty()) answer.route = std::move(route);
    });
    if (answer.error == 0 && !answer.route) answer.error = ENETUNREACH;
    return answer;
}

}  // namespace toporun::detect
