#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"
#include "detect/import/pasted_interfaces.hpp"

/// `ifconfig` of net-tools, before and since 2.0: blocks of one interface each.
namespace toporun::detect {
namespace {

struct Word {
    std::string_view tool;
    std::string_view link_type;  ///< `ip`'s word
};

/// "Link encap:" of old ones, the first word of the address line of new ones.
constexpr std::array<Word, 14> kLinkWords = {{
    {"Ethernet", "ether"},
    {"ether", "ether"},
    {"Local", "loopback"},
    {"loop", "loopback"},
    {"InfiniBand", "infiniband"},
    {"infiniband", "infiniband"},
    {"Point-to-Point", "ppp"},
    {"ppp", "ppp"},
    {"UNSPEC", "unspec"},
    {"unspec", "unspec"},
    {"IPIP", "ipip"},
    {"tunnel", "ipip"},
    {"IPv6-in-IPv4", "sit"},
    {"sit", "sit"},
}};

std::string_view link_type(std::string_view word) {
    for (const Word& row : kLinkWords)
        if (row.tool == word) return row.link_type;
    return {};
}

/// What net-tools has no name for is UNSPEC, with the bytes of the hardware address: InfiniBand has
/// a queue pair's number and the port's GID there (RFC 4391 9.1.1: 80-00-02-08-FE-80-...), a tun
/// device nothing. The prefix of the GID, FE-80, proves it; else the name tells.
std::string_view unspecified_link(std::string_view hardware, const PastedInterface& pasted) {
    constexpr std::string_view kPrefix = "FE-80";
    constexpr std::size_t kPrefixAt = 12;  // behind four bytes
    if (hardware.size() > kPrefixAt && hardware.substr(kPrefixAt).starts_with(kPrefix))
        return "infiniband";
    const auto by_name = kind_of_name(pasted.name);
    if (by_name == NicKind::ipoib) return "infiniband";
    return pasted.flag("POINTOPOINT") || by_name == NicKind::tunnel ? "none" : "unspec";
}

/// "255.255.255.192" and "0xffffffc0": 26. Nothing for a mask with holes.
std::optional<int> mask_length(std::string_view mask) {
    std::uint32_t bits = 0;
    if (mask.starts_with("0x")) {
        const auto [end, error] =
            std::from_chars(mask.data() + 2, mask.data() + mask.size(), bits, 16);
        if (error != std::errc() || end != mask.data() + mask.size()) return std::nullopt;
    } else {
        const std::vector<std::string> bytes = split(mask, '.');
        if (bytes.size() != 4) return std::nullopt;
        for (const std::string& byte : bytes) {
            const auto value = number_in(byte, 0, 255);
            if (!value) return std::nullopt;
            bits = bits << 8 | static_cast<std::uint32_t>(*value);
        }
    }
    const int length = std::countl_one(bits);
    return std::popcount(bits) == length ? std::optional(length) : std::nullopt;
}

/// The name of "eth0: flags=4163<UP>" or "eth0      Link encap:Ethernet", "" for other lines.
std::string_view header_name(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.size() < 2) return {};
    const bool new_style = parts[0].ends_with(':') && parts[1].starts_with("flags=");
    const bool old_style = parts.size() > 2 && parts[1] == "Link" && parts[2].starts_with("encap:");
    if (!new_style && !old_style) return {};
    // "eth0:1" is a label on an address of eth0.
    const std::string_view name = parts[0].substr(0, parts[0].find(':'));
    return interface_name(name) ? name : std::string_view();
}

/// Value of "word value", "word:value" and "word: value".
std::string_view value_after(const std::vector<std::string_view>& parts, std::string_view word) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!parts[i].starts_with(word)) continue;
        const std::string_view rest = parts[i].substr(word.size());
        if (rest.size() > 1 && rest[0] == ':') return rest.substr(1);
        if ((rest.empty() || rest == ":") && i + 1 < parts.size()) return parts[i + 1];
    }
    return {};
}

class Blocks {
  public:
    explicit Blocks(const Lines& lines) : lines_(lines) {}

    Reading read() {
        std::vector<bool> understood;
        for (const PastedLine& line : lines_.lines) understood.push_back(read_line(line));
        finish();
        Reading reading{list_.machine(), std::move(understood)};
        reading.machine.notes.insert(reading.machine.notes.end(), notes_.begin(), notes_.end());
        if (reading.machine.nics.size() > 1)
            reading.machine.notes.push_back(
                "ifconfig sorts by name: the kernel's order of the interfaces is unknown");
        return reading;
    }

  private:
    bool read_line(const PastedLine& line) {
        const std::vector<std::string_view> parts = words(line.text);
        const std::string_view name = header_name(line.text);
        if (!name.empty()) {
            open(name, parts);
            return true;
        }
        if (!open_) return false;
        if (parts.empty()) return true;
        if (line.text[0] != ' ' && line.text[0] != '\t' && !body_word(parts[0])) {
            finish();
            return false;
        }
        body(parts, line);
        return true;
    }

    static bool body_word(std::string_view word) {
        return word == "inet" || word == "inet6" || word == "RX" || word == "TX" || word == "UP" ||
               !link_type(word).empty();
    }

    void open(std::string_view name, const std::vector<std::string_view>& parts) {
        if (!open_ || pasted_.name != name) finish();
        open_ = true;
        pasted_.name = name;
        if (parts[1] == "Link") {
            pasted_.link_type = link_type(parts[2].substr(6));
            hardware_ = value_after(parts, "HWaddr");
            return;
        }
        const std::size_t begin = parts[1].find('<');
        if (begin != std::string_view::npos)
            pasted_.flags = split(parts[1].substr(begin + 1, parts[1].find('>') - begin - 1), ',');
        set_mtu(value_after(parts, "mtu"));
    }

    void set_mtu(std::string_view word) {
        if (const auto mtu = number_in(word, 1, 1 << 24)) pasted_.mtu = mtu;
    }

    void body(const std::vector<std::string_view>& parts, const PastedLine& line) {
        if (parts[0] == "inet" || parts[0] == "inet6") return address(parts, line);
        if (const std::string_view type = link_type(parts[0]); !type.empty()) {
            pasted_.link_type = type;
            hardware_ = parts.size() > 1 ? parts[1] : std::string_view();
        }
        const std::string_view mtu = value_after(parts, "MTU");
        if (mtu.empty()) return;
        set_mtu(mtu);
        // "UP BROADCAST RUNNING MULTICAST  MTU:1500  Metric:1"; a down interface lacks the UP.
        for (const std::string_view word : parts)
            if (word.find(':') == std::string_view::npos) pasted_.flags.emplace_back(word);
        if (pasted_.flags.empty()) pasted_.flags.emplace_back("DOWN");
    }

    void address(const std::vector<std::string_view>& parts, const PastedLine& line) {
        std::string_view text = value_after(parts, "addr");
        if (text.empty() && parts.size() > 1) text = parts[1];
        const std::string_view mask = value_after(parts, "netmask");
        std::optional<int> prefix = mask_length(mask.empty() ? value_after(parts, "Mask") : mask);
        if (parts[0] == "inet6") prefix = number_in(value_after(parts, "prefixlen"), 0, 128);
        if (const auto address = address_with_prefix(text, prefix))
            pasted_.addresses.push_back(*address);
        else
            notes_.push_back(unreadable_address(line, pasted_.name, text));
    }

    void finish() {
        // iproute2's word for an interface that is switched on but not RUNNING.
        if (pasted_.flag("UP") && !pasted_.flag("RUNNING"))
            pasted_.flags.emplace_back("NO-CARRIER");
        // A block without its link line is cut.
        const bool open_end = pasted_.link_type.empty() && !kind_of_name(pasted_.name);
        if (pasted_.link_type == "unspec" || open_end)
            pasted_.link_type = unspecified_link(hardware_, pasted_);
        if (open_) list_.add(std::move(pasted_));
        pasted_ = {};
        hardware_ = {};
        open_ = false;
    }

    const Lines& lines_;
    PastedInterfaces list_;
    std::vector<std::string> notes_;
    PastedInterface pasted_;
    std::string_view hardware_;  ///< the hardware address, of the line it stands in
    bool open_ = false;
};

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return !header_name(line.text).empty(); });
}

Reading read(const Lines& lines) {
    return Blocks(lines).read();
}

}  // namespace

Importer ifconfig_importer() {
    return {"ifconfig", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
