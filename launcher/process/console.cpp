#include "launcher/process/console.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/text.hpp"

namespace toporun::launcher {
namespace {

/// How long one line may wait for a reader; once one was dropped, no line waits any more.
constexpr int kPatienceMs = 200;
constexpr std::size_t kChunk = 2048;  // a pipe that polls writable takes at least PIPE_BUF bytes

/// Own text on a terminal never stops this process in the background (`stty tostop`).
class BackgroundOutput {
  public:
    BackgroundOutput() {
        sigset_t output;
        sigemptyset(&output);
        sigaddset(&output, SIGTTOU);
        sigprocmask(SIG_BLOCK, &output, &before_);
    }
    ~BackgroundOutput() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    BackgroundOutput(const BackgroundOutput&) = delete;
    BackgroundOutput& operator=(const BackgroundOutput&) = delete;

  private:
    sigset_t before_{};
};

/// False when the reader did not take all of it in time.
bool write_patiently(int fd, std::string_view text, int patience_ms) {
    const BackgroundOutput guard;
    while (!text.empty()) {
        pollfd wait{fd, POLLOUT, 0};
        if (::poll(&wait, 1, patience_ms) <= 0 || (wait.revents & POLLOUT) == 0) return false;
        const ssize_t written = ::write(fd, text.data(), std::min(text.size(), kChunk));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

bool wants_colour(int fd) {
    const char* term = std::getenv("TERM");
    const char* no_colour = std::getenv("NO_COLOR");
    return ::isatty(fd) == 1 && (no_colour == nullptr || *no_colour == '\0') && term != nullptr &&
           std::string_view(term) != "dumb";
}

}  // namespace

Console::Console(int fd, bool quiet)
    : fd_(fd), quiet_(quiet), colour_(fd >= 0 && wants_colour(fd)) {}

void Console::say(std::string_view line) const {
    if (quiet_) return;
    constexpr std::string_view kWarning = "warning: ";
    if (line.starts_with(kWarning))
        write_line(kWarning, "\033[33m", line.substr(kWarning.size()), {});
    else
        write_line({}, nullptr, line, {});
}

void Console::warn(std::string_view what, std::string_view hint) const {
    if (!quiet_) write_line("warning: ", "\033[33m", what, hint);
}

void Console::error(std::string_view what, std::string_view where, std::string_view hint) const {
    std::string text(what);
    if (!where.empty()) text += " (" + std::string(where) + ")";
    write_line("error: ", "\033[31m", text, hint);
}

void Console::write_line(std::string_view label, const char* colour, std::string_view text,
                         std::string_view hint) const {
    if (fd_ < 0) return;
    std::string out = "toporun: ";
    if (!label.empty() && colour_) out += colour;
    out += label;
    if (!label.empty() && colour_) out += "\033[0m";
    out += printable(text);
    out += '\n';
    if (!hint.empty()) out += "toporun:   hint: " + printable(hint) + '\n';
    if (!write_patiently(fd_, out, reader_is_stuck_ ? 0 : kPatienceMs)) reader_is_stuck_ = true;
}

}  // namespace toporun::launcher
