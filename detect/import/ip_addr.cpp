#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"
#include "detect/import/pasted_interfaces.hpp"
#include "detect/network/network.hpp"

/// `ip addr`, `ip -d link`, `ip -o addr`: blocks of one interface each, of iproute2 and BusyBox.
namespace toporun::detect {
namespace {

/// The words of "3: eth0@if7: <UP,LOWER_UP> mtu 1500 ..." and of "3: eth0    inet ...".
struct Header {
    int os_index = 0;
    std::string_view name;
    std::vector<std::string_view> rest;
};

constexpr std::array<std::string_view, 16> kBodyWords = {
    "inet",  "inet6",       "valid_lft", "altname", "vf",   "RX:",   "TX:",       "permaddr",
    "alias", "promiscuity", "RX",        "TX",      "prog", "inet4", "parentdev", "prog/xdp"};

std::optional<Header> read_header(std::string_view text) {
    std::vector<std::string_view> parts = words(text);
    if (parts.size() < 3 || !parts[0].ends_with(':')) return std::nullopt;
    Header header;
    const auto index = number_in(parts[0].substr(0, parts[0].size() - 1), 1, INT32_MAX);
    if (!index) return std::nullopt;
    header.os_index = *index;
    const bool full = parts[1].ends_with(':') && parts[2].starts_with('<');
    header.name = full ? parts[1].substr(0, parts[1].size() - 1) : parts[1];
    const bool one_line = parts.size() > 3 && (parts[2] == "inet" || parts[2] == "inet6");
    if (!full && !one_line) return std::nullopt;
    if (!interface_name(split_at_sign(header.name).first)) return std::nullopt;
    header.rest.assign(parts.begin() + 2, parts.end());
    return header;
}

std::vector<std::string> flag_words(std::string_view word) {
    word.remove_prefix(1);
    return split(word.substr(0, word.find('>')), ',');
}

/// Reads blocks one after the other.
class Blocks {
  public:
    explicit Blocks(const Lines& lines) : lines_(lines), understood_(lines.lines.size(), false) {}

    Reading read() {
        for (std::size_t i = 0; i < lines_.lines.size(); ++i) {
            const PastedLine& line = lines_.lines[i];
            std::size_t begin = 0;
            bool any = false;
            while (begin <= line.text.size()) {
                const std::size_t end = std::min(line.text.find('\\', begin), line.text.size());
                any |= piece(std::string_view(line.text).substr(begin, end - begin), line);
                begin = end + 1;
            }
            understood_[i] = any;
        }
        finish();
        Reading reading{list_.machine(), std::move(understood_)};
        reading.machine.notes.insert(reading.machine.notes.end(), notes_.begin(), notes_.end());
        return reading;
    }

  private:
    bool piece(std::string_view text, const PastedLine& line) {
        if (const auto header = read_header(text)) {
            open(*header, line);
            return true;
        }
        if (!open_) return false;
        const std::vector<std::string_view> parts = words(text);
        if (parts.empty()) return true;
        if (flags_cut_) return more_flags(parts);
        const bool indented = text.front() == ' ' || text.front() == '\t';
        const bool known =
            parts[0].starts_with("link/") ||
            std::find(kBodyWords.begin(), kBodyWords.end(), parts[0]) != kBodyWords.end();
        if (!indented && !known) {
            finish();
            return false;
        }
        body(parts, line);
        return true;
    }

    void open(const Header& header, const PastedLine& line) {
        const auto [name, below] = split_at_sign(header.name);
        const bool block = header.rest[0].starts_with('<');
        // `ip -4 addr` prints no link line of any interface, other forms one before all the rest.
        without_links_ =
            without_links_ || (open_ && block && pasted_.name != name && !pasted_.flags.empty() &&
                               !flags_cut_ && pasted_.link_type.empty());
        // `ip -o addr` has a line per address.
        if (block || pasted_.os_index != header.os_index || pasted_.name != name) finish();
        open_ = true;
        pasted_.name = name;
        pasted_.below = below;
        pasted_.os_index = header.os_index;
        if (!block) return body(header.rest, line);
        pasted_.flags = flag_words(header.rest[0]);
        flags_cut_ = header.rest[0].find('>') == std::string_view::npos;
        settings(header.rest, 1);
    }

    /// The terminal's edge went through the flags.
    bool more_flags(const std::vector<std::string_view>& parts) {
        flags_cut_ = false;
        const std::size_t end = parts[0].find('>');
        if (end == std::string_view::npos) return false;
        std::vector<std::string> rest = split(parts[0].substr(0, end), ',');
        if (!pasted_.flags.empty()) {
            pasted_.flags.back() += rest.front();
            rest.erase(rest.begin());
        }
        pasted_.flags.insert(pasted_.flags.end(), rest.begin(), rest.end());
        settings(parts, 1);
        return true;
    }

    /// Pairs of a word and its value.
    void settings(const std::vector<std::string_view>& parts, std::size_t from) {
        for (std::size_t i = from; i + 1 < parts.size(); ++i) {
            if (parts[i] == "mtu") pasted_.mtu = number_in(parts[i + 1], 1, 1 << 24);
            if (parts[i] == "state") pasted_.operstate = parts[i + 1];
            if (parts[i] == "master") pasted_.master = parts[i + 1];
        }
    }

    /// `ip -d` prints promiscuity, then the kind's own words, then these.
    void details(const std::vector<std::string_view>& parts) {
        for (const std::string_view word : parts) {
            if (word == "promiscuity") pasted_.details_cut = true;
            if (word == "addrgenmode" || word == "numtxqueues") pasted_.details_cut = false;
        }
    }

    void body(const std::vector<std::string_view>& parts, const PastedLine& line) {
        details(parts);
        if (parts[0].starts_with("link/"))
            pasted_.link_type = parts[0].substr(5);
        else if (parts[0] == "inet" || parts[0] == "inet6")
            address(parts, line);
        else if (pasted_.info_kind.empty() && kind_of_driver_word(parts[0]))
            pasted_.info_kind = parts[0];
        else if (parts[0] == "qlen" || parts[0] == "group" || parts[0] == "state" ||
                 parts[0] == "master" || parts[0] == "mtu")
            settings(parts, 0);  // the rest of a wrapped first line
    }

    void address(const std::vector<std::string_view>& parts, const PastedLine& line) {
        if (parts.size() < 2) return;
        std::optional<int> prefix;
        if (parts.size() > 3 && parts[2] == "peer" && parts[1].find('/') == std::string_view::npos)
            prefix = number_in(
                parts[3].substr(std::min(parts[3].find('/'), parts[3].size() - 1) + 1), 0, 128);
        if (const auto text = address_with_prefix(parts[1], prefix))
            pasted_.addresses.push_back(*text);
        else
            notes_.push_back(unreadable_address(line, pasted_.name, parts[1]));
    }

    void finish() {
        if (without_links_ && pasted_.link_type.empty()) pasted_.link_type = kUntoldLink;
        if (open_) list_.add(std::move(pasted_));
        pasted_ = {};
        open_ = flags_cut_ = false;
    }

    const Lines& lines_;
    std::vector<bool> understood_;
    PastedInterfaces list_;
    std::vector<std::string> notes_;
    PastedInterface pasted_;
    bool open_ = false;
    bool flags_cut_ = false;
    bool without_links_ = false;
};

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return read_header(line.text).has_value(); });
}

Reading read(const Lines& lines) {
    return Blocks(lines).read();
}

}  // namespace

Importer ip_addr_importer() {
    return {"ip addr", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
