#include "launcher/process/signal_sender.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/descriptors.hpp"
#include "base/text.hpp"

namespace toporun::launcher {

SignalSender sender_of(const signalfd_siginfo& info) {
    SignalSender sender;
    sender.pid = static_cast<pid_t>(info.ssi_pid);
    sender.uid = info.ssi_uid;
    if (sender.pid <= 0) return sender;
    const Descriptor file(
        ::open(fmt::format("/proc/{}/comm", sender.pid).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return sender;
    const ssize_t got = ::read(file.get(), sender.name, sizeof sender.name - 1);
    const std::size_t length = got > 0 ? static_cast<std::size_t>(got) : 0;
    std::fill(std::find(sender.name, sender.name + length, '\n'), std::end(sender.name), '\0');
    return sender;
}

std::string sender_text(const SignalSender& sender, uid_t own) {
    const std::string user = sender.uid == own ? ""
                             : sender.uid == 0 ? " of root"
                                               : fmt::format(" of user {}", sender.uid);
    if (sender.pid <= 0) return fmt::format("a process{} that is not seen from here", user);
    const std::string name(sender.name, ::strnlen(sender.name, sizeof sender.name));
    if (name.empty()) return fmt::format("process {}{}, which has ended", sender.pid, user);
    return fmt::format("{} (process {}{})", printable(name), sender.pid, user);
}

}  // namespace toporun::launcher
