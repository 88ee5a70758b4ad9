#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "detect/nccl_log/cursor.hpp"
#include "launcher/failures/failure_log.hpp"
#include "launcher/failures/python_path.hpp"

/// Blocks of lines that a FailureLog reads as one: tables and tracebacks.
namespace toporun::launcher::failures {
namespace {

/// `KeyError: 'labels'`, `torch.cuda.OutOfMemoryError: ...`, `MemoryError`.
bool is_exception_line(std::string_view message) {
    std::size_t end = 0;
    while (end < message.size() && (std::isalnum(static_cast<unsigned char>(message[end])) != 0 ||
                                    message[end] == '.' || message[end] == '_'))
        ++end;
    if (end == 0 || std::isdigit(static_cast<unsigned char>(message[0])) != 0) return false;
    return end == message.size() || message.substr(end).starts_with(": ") ||
           message.substr(end) == ":";
}

bool is_launcher_file(std::string_view path) {
    for (const char* part :
         {"/bin/torchrun", "torch/distributed/run.py", "torch/distributed/launch",
          "torch/distributed/elastic/agent/", "/bin/accelerate", "accelerate/commands/launch.py",
          "/bin/deepspeed", "deepspeed/launcher/"})
        if (path.find(part) != path.npos) return true;
    return false;
}

bool is_rule(std::string_view message) {
    return message.size() >= 28 && message.find_first_not_of('=') == message.npos;
}

}  // namespace

void FailureLog::open(Stream& stream, Stream::Block block) {
    if (stream.block == Stream::Block::none) ++open_blocks_;
    stream.block = block;
    stream.first_observed = false;
    stream.frame.clear();
    stream.agent = stream.exit_barrier = stream.joining = false;
    stream.framed = stream.main = false;
}

/// True while the line belongs to torchrun's table.
bool FailureLog::in_table(const PrefixedLine& line, std::string_view raw, Stream& stream) {
    const std::string_view message = line.message;
    if (stream.recorded && in_recorded(line, raw, stream)) return true;
    stream.recorded = false;
    const std::string_view text = trim(message);
    if (is_rule(text)) {
        run_over_ |= stream.row.has_value();
        end_row(stream);
        stream.block = Stream::Block::none;
        --open_blocks_;
        return true;
    }
    if (text == "Root Cause (first observed failure):") {
        end_row(stream);
        stream.first_observed = true;
        return true;
    }
    detect::nccl_log::Cursor at(message);
    if (at.skip("[") && at.number<int>() && at.rest() == "]:") {
        end_row(stream);
        stream.row = TableRow{};
        stream.row->place = place_;
        stream.row->attempt = evidence_.attempts;
        stream.row->first_observed = stream.first_observed;
        stream.row->task = line.origin.task;
        return true;
    }
    if (!stream.row || !message.starts_with("  ")) return true;
    const std::size_t colon = text.find(':');
    if (colon == text.npos || message.starts_with("   ")) return true;
    const std::string_view key = trim(text.substr(0, colon));
    detect::nccl_log::Cursor value(trim(text.substr(colon + 1)));
    TableRow& row = *stream.row;
    if (key == "host") {
        row.host = value.rest();
    } else if (key == "time") {
        row.time = log_time(value.rest());
    } else if (key == "rank") {
        row.rank = value.number<int>();
        if (value.until("local_rank: ")) row.local_rank = value.number<int>();
    } else if (key == "exitcode") {
        row.exit_code = value.number<int>();
        if (value.until("pid: ")) row.pid = value.number<std::int64_t>();
    } else if (key == "traceback" && value.rest().starts_with("Traceback (most recent")) {
        stream.recorded = true;
        stream.frame.clear();
    }
    return true;
}

/// True while the line belongs to a Python traceback, its last line included.
bool FailureLog::in_traceback(const PrefixedLine& line, std::string_view raw, Stream& stream) {
    const std::string_view message = line.message;
    if (message.empty()) return true;
    if (message.front() == ' ' || message.front() == '\t') {
        add_frame(message, stream);
        return true;
    }
    stream.block = Stream::Block::none;
    --open_blocks_;
    if (!is_exception_line(message)) return false;
    add_exception(line, raw, stream);
    return true;
}

/// `  File "train.py", line 24, in main`
void FailureLog::add_frame(std::string_view message, Stream& stream) {
    detect::nccl_log::Cursor at(message);
    if (!at.until("File \"")) return;
    const auto path = at.until("\", line ");
    const auto number = path ? at.number<int>() : std::nullopt;
    if (!number) return;
    stream.agent |= is_launcher_file(*path);
    if (!stream.framed)
        stream.main = at.rest().find("<module>") != std::string_view::npos && !is_library(*path);
    stream.framed = true;
    stream.exit_barrier |= at.rest().ends_with("_exit_barrier");
    stream.joining |= at.rest().ends_with("init_process_group");
    if (!is_library(*path))
        stream.frame = shortened(std::string(*path) + " line " + std::to_string(*number));
}

/// The traceback that `@record` has put into a row of torchrun's table.
bool FailureLog::in_recorded(const PrefixedLine& line, std::string_view raw, Stream& stream) {
    if (!line.message.starts_with("  ")) return false;
    if (line.message.find("File \"") != line.message.npos) {
        add_frame(line.message, stream);
        return true;
    }
    const std::string_view text = line.message.substr(2);
    if (text.starts_with(' ') || !is_exception_line(trim(text)) || !stream.row) return true;
    stream.recorded = false;
    PrefixedLine exception{line.origin, trim(text)};
    exception.origin.rank = stream.row->rank;
    exception.origin.local_rank = stream.row->local_rank;
    exception.origin.host = stream.row->host;
    exception.origin.pid = stream.row->pid;
    stream.agent = false;
    add_exception(exception, raw, stream);
    return true;
}

/// Open MPI's stack of a process that a signal ended, innermost first, after its two lines on the
/// signal: `[tray03:02001] [ 1] /usr/lib/libnccl.so.2(+0x9a1b0)[0xf1]`. The first library that is
/// none of the system's is said. True for the frames.
bool FailureLog::in_stack(const PrefixedLine& line, Stream& stream) {
    constexpr std::size_t kMostLines = 40;
    constexpr std::array<std::string_view, 6> kOfTheSystem = {
        "linux-vdso", "linux-gate", "libc.", "libc-", "libpthread", "ld-linux"};
    const std::string_view message = line.message;
    if (stream.lines_since > kMostLines || message.find("*** End of error") != message.npos) {
        stream.block = Stream::Block::none;
        --open_blocks_;
        return false;
    }
    detect::nccl_log::Cursor at(message);
    if (!at.until("] [")) return false;
    at.skip_blanks();
    if (!at.number<int>() || !at.skip("] ")) return false;
    const auto path = at.until("(");
    if (!path) return true;
    const std::string_view name = path->substr(path->rfind('/') + 1);
    const auto is_part = [&](std::string_view system) { return name.starts_with(system); };
    if (name.empty() || std::any_of(kOfTheSystem.begin(), kOfTheSystem.end(), is_part)) return true;
    for (const auto& [id, position] : stream.recent)
        if (id == "mpi-signal" && evidence_.events[position].says.empty())
            evidence_.events[position].says = "the process crashed in " + shortened(name);
    return true;
}

/// The box that rich draws around a traceback, and the exception below it.
bool FailureLog::in_box(const PrefixedLine& line, std::string_view raw, Stream& stream) {
    constexpr std::string_view kSide = "│";
    constexpr std::string_view kBottom = "╰";
    if (line.message.starts_with(kSide)) {
        const std::string_view text = trim(line.message.substr(kSide.size()));
        const std::size_t colon = text.find(':');
        if (colon == text.npos) return true;
        detect::nccl_log::Cursor at(text.substr(colon + 1));
        const auto number = at.number<int>();
        const std::string_view path = text.substr(0, colon);
        if (number && at.rest().starts_with(" in ") && !is_library(path))
            stream.frame = shortened(std::string(path) + " line " + std::to_string(*number));
        return true;
    }
    if (line.message.starts_with(kBottom)) return true;
    stream.block = Stream::Block::none;
    --open_blocks_;
    if (!is_exception_line(line.message)) return false;
    add_exception(line, raw, stream);
    return true;
}

/// A label before the line that no other reader knows, and what stands behind it.
void FailureLog::strip_label(PrefixedLine& line) {
    const std::size_t end = labels_.end_of_label(line.message);
    if (end == 0) return;
    const std::string_view label = line.message.substr(0, end);
    PrefixedLine inner = strip_prefixes(line.message.substr(end), pdsh_hosts_);
    Origin origin = line.origin;
    Labels::tell(label, origin);
    Origin& told = inner.origin;
    if (!told.rank) told.rank = origin.rank;
    if (!told.local_rank) told.local_rank = origin.local_rank;
    if (!told.task) told.task = origin.task;
    if (!told.pid) told.pid = origin.pid;
    if (told.host.empty()) told.host = origin.host;
    if (told.level == 0) told.level = origin.level;
    told.label = origin.label;
    line = inner;
}

/// The first line of a traceback behind some text: a label, if the next line has it too.
void FailureLog::learn_label(const PrefixedLine& line) {
    constexpr std::string_view kHead = "Traceback (most recent call last):";
    if (line.message.size() > kHead.size() && line.message.ends_with(kHead))
        labels_.suspect(line.message.substr(0, line.message.size() - kHead.size()));
}

}  // namespace toporun::launcher::failures
