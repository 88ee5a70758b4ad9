#include "launcher/failures/memory_text.hpp"

#include <cstdlib>
#include <optional>
#include <string>

#include "launcher/failures/pattern.hpp"

namespace toporun::launcher::failures {
namespace {

/// "2.00 GiB" in MiB.
std::optional<double> mebibytes(const std::optional<std::string_view>& text) {
    if (!text) return std::nullopt;
    const std::string copy(*text);
    char* end = nullptr;
    const double number = std::strtod(copy.c_str(), &end);
    const std::string unit(end);
    if (end == copy.c_str() || !(number >= 0)) return std::nullopt;
    if (unit == " GiB") return number * 1024;
    if (unit == " MiB") return number;
    if (unit == " KiB") return number / 1024;
    return unit == " bytes" ? std::optional(number / 1048576) : std::nullopt;
}

}  // namespace

bool tells_fragmentation(std::string_view text) {
    static const Pattern newer(
        "Of the allocated memory {used} is allocated by PyTorch, and {idle} is reserved by PyTorch "
        "but unallocated");
    static const Pattern older(
        "total capacity; {used} already allocated; …free; {all} reserved in total by PyTorch");
    const std::size_t at = text.find("Tried to allocate ");
    if (at == text.npos) return false;
    std::string_view size = text.substr(at + 18);
    const std::size_t unit = size.find(' ');
    if (unit == size.npos) return false;
    size = size.substr(0, size.find_first_of(" .(", unit + 1));
    const auto wanted = mebibytes(size);
    std::optional<double> used, idle;
    if (const auto found = newer.match(text)) {
        used = mebibytes(found->text("used"));
        idle = mebibytes(found->text("idle"));
    } else if (const auto former = older.match(text)) {
        used = mebibytes(former->text("used"));
        const auto all = mebibytes(former->text("all"));
        if (used && all) idle = *all - *used;
    }
    if (!wanted || !used || !idle) return false;
    return *idle >= *wanted && *idle >= *used / 4;
}

}  // namespace toporun::launcher::failures
