#pragma once

#include "detect/import/lines.hpp"

namespace toporun::detect {

/// Takes quotation marks of mails, line numbers of `cat -n`, the bars of tables in Markdown and
/// prefixes of job logs off the lines and fills PastedLine::source and Lines::sources. A prefix
/// that could be content (`1: ` is also the start of `ip -o addr`) goes only where every line of a
/// block, without blank lines between, has one and few names stand before many lines.
void strip_prefixes(Lines& lines);

}  // namespace toporun::detect
