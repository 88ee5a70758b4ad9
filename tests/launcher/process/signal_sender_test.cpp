#include "launcher/process/signal_sender.hpp"

#include <doctest/doctest.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>

namespace toporun::launcher {
namespace {

SignalSender sender(pid_t pid, uid_t uid, const char* name) {
    SignalSender made;
    made.pid = pid;
    made.uid = uid;
    const std::string_view text = name;
    text.copy(made.name, sizeof made.name);
    return made;
}

signalfd_siginfo signal_from(pid_t pid) {
    signalfd_siginfo info{};
    info.ssi_pid = static_cast<std::uint32_t>(pid);
    info.ssi_uid = 1000;
    return info;
}

}  // namespace

TEST_CASE("who sent a signal, in words") {
    CHECK(sender_text(sender(471, 1000, "timeout"), 1000) == "timeout (process 471)");
    CHECK(sender_text(sender(471, 0, "slurmstepd"), 1000) == "slurmstepd (process 471 of root)");
    CHECK(sender_text(sender(471, 1001, ""), 1000) == "process 471 of user 1001, which has ended");
    CHECK(sender_text(sender(0, 1000, ""), 1000) == "a process that is not seen from here");
    CHECK(sender_text(sender(0, 0, ""), 1000) == "a process of root that is not seen from here");
    CHECK(sender_text(sender(5, 1, "a\x1b[31m"), 1) == "a\\x1b[31m (process 5)");
    CHECK(sender_text(sender(5, 1, "sixteen-letters!"), 1) == "sixteen-letters! (process 5)");
}

TEST_CASE("the sender's name is that of its process") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const SignalSender known = sender_of(signal_from(child));
    CHECK(known.pid == child);
    CHECK(known.uid == 1000);
    CHECK(std::string(known.name) == std::string(sender_of(signal_from(::getpid())).name));
    CHECK_FALSE(std::string(known.name).empty());
    CHECK(std::string(known.name).find('\n') == std::string::npos);
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    CHECK(std::string(sender_of(signal_from(child)).name).empty());
    CHECK(std::string(sender_of(signal_from(0)).name).empty());
}

}  // namespace toporun::launcher
