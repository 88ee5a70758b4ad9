#include "launcher/process/observer_link.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace toporun::launcher {

LinkPair make_link() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        throw Error(std::string("no socket pair for the observer: ") + std::strerror(errno));
    return {ends[0], ends[1]};
}

bool send_message(int link, LinkMessage message) {
    return ::send(link, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
           static_cast<ssize_t>(sizeof message);
}

LinkState receive_message(int link, LinkMessage& message) {
    const ssize_t got = ::recv(link, &message, sizeof message, MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof message)) return LinkState::message;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return LinkState::nothing;
    return LinkState::closed;
}

}  // namespace toporun::launcher
