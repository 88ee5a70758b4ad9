#include "launcher/failures/first_time_out.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "detect/nccl_log/cursor.hpp"
#include "launcher/failures/digits.hpp"

namespace toporun::launcher::failures {
namespace {

constexpr double kDayS = 86400;

/// Its members disagree, or one of them is missing.
bool names_somebody(const Event& event) {
    return !event.ranks.empty() || (event.of != nullptr && event.of->id == "desync");
}

/// The earliest of these times of a day that is not told: a day has no first moment, so it is the
/// one after the longest time without any.
std::optional<double> earliest_of(std::vector<double> times) {
    if (times.empty()) return std::nullopt;
    std::sort(times.begin(), times.end());
    double earliest = times.front(), longest = times.front() + kDayS - times.back();
    for (std::size_t i = 1; i < times.size(); ++i)
        if (times[i] - times[i - 1] > longest) {
            longest = times[i] - times[i - 1];
            earliest = times[i];
        }
    return earliest;
}

}  // namespace

std::optional<double> clock_of(std::string_view time) {
    const std::size_t blank = time.find_last_of("T ");
    if (blank != time.npos) time.remove_prefix(blank + 1);
    detect::nccl_log::Cursor at(time);
    const auto hour = at.number<int>();
    if (!hour || !at.skip(":")) return std::nullopt;
    const auto minute = at.number<int>();
    if (!minute || !at.skip(":")) return std::nullopt;
    const auto second = at.number<int>();
    if (!second) return std::nullopt;
    double fraction = 0, place = 0.1;
    if (at.skip(".") || at.skip(","))
        for (const char c : at.rest()) {
            if (!is_digit(c)) break;
            fraction += (c - '0') * place;
            place /= 10;
        }
    return *hour * 3600.0 + *minute * 60.0 + *second + fraction;
}

double clock_difference(double a, double b) {
    const double apart = std::fmod(a - b, kDayS);
    return apart > kDayS / 2 ? apart - kDayS : apart < -kDayS / 2 ? apart + kDayS : apart;
}

std::size_t first_time_out(const std::vector<GroupTimeOut>& all) {
    constexpr double kSameTimeS = 2;
    const auto role = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
                          return a.event.role < b.event.role;
                      })->event.role;
    std::vector<double> times;
    for (const GroupTimeOut& one : all) {
        if (one.event.role != role || !one.began_s) continue;
        const double in_day = std::fmod(*one.began_s, kDayS);
        times.push_back(in_day < 0 ? in_day + kDayS : in_day);
    }
    const std::optional<double> earliest = earliest_of(std::move(times));
    const auto key = [&](const GroupTimeOut& one) {
        const bool later = earliest && one.began_s &&
                           std::abs(clock_difference(*one.began_s, *earliest)) > kSameTimeS;
        return std::tuple(one.event.role, later, !names_somebody(one.event), one.event.place.order);
    };
    std::size_t first = 0;
    for (std::size_t i = 1; i < all.size(); ++i)
        if (key(all[i]) < key(all[first])) first = i;
    return first;
}

}  // namespace toporun::launcher::failures
