#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "profiles/profile.hpp"

namespace toporun::profiles {
namespace {

/// The number at the start of a part of a version: 7 of "7-HEAD:0d2c4fd"; 0 when there is none.
long long leading_number(std::string_view part) {
    long long value = 0;
    std::from_chars(part.data(), part.data() + part.size(), value);
    return value;
}

int compare_parts(const std::vector<std::string>& a, const std::vector<std::string>& b,
                  std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const long long x = i < a.size() ? leading_number(a[i]) : 0;
        const long long y = i < b.size() ? leading_number(b[i]) : 0;
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

}  // namespace

int compare_versions(std::string_view a, std::string_view b) {
    const std::vector<std::string> x = split(a, '.'), y = split(b, '.');
    return compare_parts(x, y, std::max(x.size(), y.size()));
}

bool version_in_range(std::string_view version, std::string_view since, std::string_view until) {
    if (!since.empty() && compare_versions(version, since) < 0) return false;
    if (until.empty()) return true;
    const std::vector<std::string> last = split(until, '.');
    return compare_parts(split(version, '.'), last, last.size()) <= 0;
}

}  // namespace toporun::profiles
