#pragma once

#include <string>
#include <string_view>

#include "detect/nccl_log/line.hpp"
#include "launcher/explain/sentences.hpp"

namespace toporun::launcher::explain {

/// Which Sentence says what a line means, and what is filled in.
struct Form {
    std::string name;  ///< "connection.p2p"; "" when nothing is known of the line
    Values values{};
};

/// Of an event. "" for Unknown.
Form form_of(const detect::nccl_log::Event& event);

/// Of a message of the topology (graph.hpp), which form_of() does not know.
Form topology_form(std::string_view message);

}  // namespace toporun::launcher::explain
