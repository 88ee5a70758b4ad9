#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/explain/annotator.hpp"

namespace toporun::launcher::explain {

/// A log with its explanations, line by line.
enum class PageForm { text, json, markdown };

/// What stands before the first line of all files and behind the last one: of JSON the object
/// toporun.explanation/1 and its end, else nothing.
std::string page_begin(PageForm form);
std::string page_end(PageForm form);

/// The name of a file before its lines, where there are several.
std::string page_file(PageForm form, const std::string& file);

/// One line of `file`, number `number` from 1, printable, and what it means below it, indented:
///
///     node-a:7:7 [0] NCCL INFO Using network IB
///         = rank 0 (node-a, GPU 0): data between nodes goes over RDMA adapters
///         > what to do, where there is something
///
/// `cut`: it was longer and its rest is lost. `first`: of all files.
std::string page_line(PageForm form, const std::string& file, std::uint64_t number,
                      std::string_view line, bool cut, const Annotation& annotation, bool first);

}  // namespace toporun::launcher::explain
