#pragma once

#include <sys/types.h>

#include <optional>

#include "launcher/process/signal_sender.hpp"

/// What supervisor and observer say to each other: small fixed messages over one SOCK_SEQPACKET
/// pair. Neither side ever blocks on the other: a message that does not fit is dropped.
namespace toporun::launcher {

enum class LinkKind : int {
    started,      ///< supervisor: the command runs, value = its pid
    ended,        ///< supervisor: the command ended, value = its raw wait status
    not_started,  ///< supervisor: exec failed, value = errno
    stopping,     ///< supervisor: stops itself, because the command has stopped
    continued,    ///< supervisor: runs again after `stopping`
    took_signal,  ///< supervisor: a signal came, value = its number, negative for a key press
    saw_signal,   ///< observer: received signal `value` itself (the witness, see Supervisor)
    done,         ///< observer: report written, nothing more to come
};

struct LinkMessage {
    LinkKind kind = LinkKind::done;
    int value = 0;
    SignalSender sender = {};  ///< of took_signal, but for a key press
};

/// Two connected close-on-exec descriptors. Throws Error when none can be had.
struct LinkPair {
    int supervisor = -1;
    int observer = -1;
};
LinkPair make_link();

/// Sends without waiting; false when the peer is gone or its buffer is full.
bool send_message(int link, LinkMessage message);

enum class LinkState { message, nothing, closed };
/// Receives without waiting.
LinkState receive_message(int link, LinkMessage& message);

}  // namespace toporun::launcher
