#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "detect/machine.hpp"
#include "env/plan.hpp"
#include "launcher/report/run_facts.hpp"

/// How facts are spelled in JSON. For the sources that write JSON only: the library's header is
/// heavy.
namespace toporun::launcher {

using Json = nlohmann::ordered_json;

/// Indented by 2, with a last line end; ASCII alone, so that no terminal obeys what a value holds:
/// other characters are escaped, bytes that are no UTF-8 become U+FFFD.
inline std::string dumped(const Json& json) {
    return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

template <typename T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}
inline Json or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}
inline Json or_null(const std::optional<detect::PciAddress>& pci) {
    return pci ? Json(pci->text()) : Json(nullptr);
}
inline Json or_null(const detect::CpuSet& cpus) {
    return or_null(cpus.text());
}

/// A limit; "unlimited" where there is none.
inline Json limit(const std::optional<std::uint64_t>& value) {
    return value == detect::kUnlimited ? Json("unlimited") : or_null(value);
}

/// `findings[]` of every schema (json.cpp).
Json findings_array(const std::vector<env::Finding>& findings);

/// Schema toporun.machine/1 (machine_json.cpp).
Json machine_object(const detect::Machine& machine);

/// toporun.report/1 (json.cpp).
Json report_object(const RunFacts& facts);

/// `nccl` of toporun.report/1 (log_json.cpp).
Json nccl_object(const RunFacts& facts);

}  // namespace toporun::launcher
