#pragma once

namespace toporun::launcher::failures {

/// A decimal digit of ASCII, whatever the locale.
constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

}  // namespace toporun::launcher::failures
