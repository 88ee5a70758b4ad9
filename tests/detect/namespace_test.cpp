// What the live kernel says, in a network namespace of the test's own.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "base/text.hpp"
#include "detect/network/netlink.hpp"
#include "detect/network/network.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Machine;
using detect::Nic;

constexpr const char* kNoNamespace = "no namespace";

bool write_text(const char* path, const std::string& text) {
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool done = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    return done;
}

/// Root enters a namespace as it is, a user by way of a user namespace where that is allowed.
bool enter_network_namespace() {
    if (unshare(CLONE_NEWNET) == 0) return true;
    const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    return write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", "0 " + user + " 1") &&
           write_text("/proc/self/gid_map", "0 " + group + " 1");
}

/// The text that `work` gives in a child with a network namespace of its own; kNoNamespace where
/// that is not permitted.
std::string in_network_namespace(const std::function<std::string()>& work) {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const std::string text = enter_network_namespace() ? work() : kNoNamespace;
        const ssize_t done = write(ends[1], text.data(), text.size());
        _exit(done == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    close(ends[1]);
    std::string text;
    char chunk[4096];
    for (ssize_t got; (got = read(ends[0], chunk, sizeof chunk)) > 0;)
        text.append(chunk, static_cast<std::size_t>(got));
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    return text;
}

bool run(const std::string& command) {
    return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
}

bool can_test(const std::string& text) {
    if (text != kNoNamespace && text != "no ip command") return true;
    MESSAGE("skipped: " << text);
    return false;
}

/// The line that starts with `name` and a blank, "" for none.
std::string line_of(const std::string& text, const std::string& name) {
    for (const std::string& line : split(text, '\n'))
        if (line.starts_with(name + " ")) return line;
    return {};
}

std::string machine_text(const std::vector<std::string>& destinations) {
    detect::Sources sources;
    sources.destinations = destinations;
    Machine machine;
    detect::PciTree pci{detect::Files("")};
    detect::detect_network(sources, pci, machine);
    std::string text;
    for (const Nic& nic : machine.nics)
        text += nic.name + " " + std::string(detect::nic_kind_name(nic.kind)) +
                " master=" + nic.master + " parent=" + nic.parent + " state=" + nic.state +
                " mtu=" + std::to_string(nic.mtu.value_or(0)) + "\n";
    for (const detect::Route& route : machine.routes)
        text += "route " + route.destination + " " + route.interface + " " + route.source + "\n";
    for (const std::string& note : machine.notes) text += "note " + note + "\n";
    return text;
}

}  // namespace

TEST_CASE("the live kernel names kinds, masters and parents") {
    struct Row {
        std::string name;
        std::string make;  // not every kernel has every kind
        std::string facts;
    };
    const Row rows[] = {
        {"br0", "ip link add br0 type bridge", "bridge master= parent="},
        {"v0", "ip link add v0 type veth peer name v1 && ip link set v0 master br0",
         "veth master=br0 parent="},
        {"bond0", "ip link add bond0 type bond", "bond master= parent="},
        {"v1.7", "ip link add link v1 name v1.7 type vlan id 7", "vlan master= parent=v1"},
        {"mac0", "ip link add link v1 name mac0 type macvlan", "ethernet master= parent=v1"},
        {"ipv0", "ip link add link v0 name ipv0 type ipvlan", "ethernet master= parent=v0"},
        {"vx1", "ip link add vx1 type vxlan id 6 dstport 4790 dev v1 group 239.1.1.1",
         "tunnel master= parent="},
        {"dum0", "ip link add dum0 type dummy", "other master= parent="},
        {"ifb9", "ip link add ifb9 type ifb", "other master= parent="},
        {"tun0", "ip tuntap add tun0 mode tun", "tunnel master= parent="},
        {"vx0", "ip link add vx0 type vxlan id 5 dstport 4789", "tunnel master= parent="},
        {"gnv0", "ip link add gnv0 type geneve id 5 remote 192.0.2.1", "tunnel master= parent="},
        {"ipip9", "ip link add ipip9 type ipip local 192.0.2.1 remote 192.0.2.2 dev v1",
         "tunnel master= parent=v1"},
        {"wg0", "ip link add wg0 type wireguard", "tunnel master= parent="},
    };
    const std::string text = in_network_namespace([&]() -> std::string {
        if (!run("ip -V")) return "no ip command";
        std::string made;
        for (const Row& row : rows)
            if (run(row.make)) made += "made-" + row.name + " \n";
        run("ip link set lo up && ip link set v0 up && ip link set v1 up mtu 1400");
        return machine_text({}) + made;
    });
    if (!can_test(text)) return;
    CHECK(line_of(text, "lo").starts_with("lo loopback master= parent= state=up mtu=65536"));
    for (const Row& row : rows) {
        if (line_of(text, "made-" + row.name).empty()) {
            MESSAGE("not known here: " << row.make);
            continue;
        }
        CAPTURE(row.name);
        const std::string line = line_of(text, row.name);
        CAPTURE(line);
        CHECK(line.starts_with(row.name + " " + row.facts + " "));
    }
    if (!line_of(text, "made-v0").empty()) {
        const std::string line = line_of(text, "v1");
        CAPTURE(line);
        CHECK(line.ends_with(" mtu=1400"));  // the state follows a little later
        // /sys is that of the namespace that was left: what it has under these names is not ours.
        CHECK(text.find("note /sys shows another network namespace") != std::string::npos);
    }
}

TEST_CASE("an interface whose lower one was left in another namespace has no parent") {
    const std::string text = in_network_namespace([]() -> std::string {
        if (!run("ip -V")) return "no ip command";
        // `ip link set netns` wants a process that lives there.
        int ends[2];
        if (pipe(ends) != 0) return "no pipe";
        const pid_t inner = fork();
        if (inner == 0) {
            char byte = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
            if (write(ends[1], &byte, 1) == 1) pause();
            _exit(0);
        }
        char entered = 'n';
        if (read(ends[0], &entered, 1) != 1 || entered != 'y') return kNoNamespace;
        const std::string number = std::to_string(inner);
        std::string told = "no macvlan here";
        if (run("ip link add w0 type veth peer name w1") &&
            run("ip link add link w0 name mac0 netns " + number + " type macvlan") &&
            setns(open(("/proc/" + number + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC), 0) == 0) {
            // The number of w0 is taken here too.
            run("ip link add x0 type veth peer name x1");
            told = machine_text({});
        }
        kill(inner, SIGKILL);
        waitpid(inner, nullptr, 0);
        return told;
    });
    if (!can_test(text)) return;
    if (text == "no macvlan here") {
        MESSAGE("skipped: this kernel has no macvlan");
        return;
    }
    CAPTURE(text);
    CHECK(line_of(text, "mac0").starts_with("mac0 ethernet master= parent= "));
    CHECK(line_of(text, "x0").starts_with("x0 veth master= parent= "));
}

TEST_CASE("the kernel's route tells interface and source address") {
    const std::string text = in_network_namespace([]() -> std::string {
        if (!run("ip -V")) return "no ip command";
        if (!run("ip link add d0 type veth peer name e0 && ip link add d1 type veth peer name e1"))
            return "no veth";
        run("ip link set lo up; for i in d0 d1 e0 e1; do ip link set $i up; done");
        run("ip addr add 10.9.0.1/24 dev d0 && ip addr add 10.8.0.1/24 dev d1");
        run("ip route add 172.20.0.0/16 via 10.8.0.9");
        run("ip route add blackhole 172.21.0.0/16");
        run("ip -6 addr add 2001:db8::1/64 dev d0 nodad");
        return machine_text({"10.9.0.7", "172.20.1.1", "127.0.0.1", "10.9.0.1", "2001:db8::7",
                             "::ffff:10.9.0.7", "fe80::5%d1", "203.0.113.1", "172.21.0.1",
                             "host.example", "10.9.0.7\x1b[31m", "fe80::5%none", ""});
    });
    if (!can_test(text)) return;
    if (text == "no veth") {
        MESSAGE("skipped: this kernel has no veth");
        return;
    }
    CAPTURE(text);
    const auto has = [&](const std::string& line) {
        return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
    };
    CHECK(has("route 10.9.0.7 d0 10.9.0.1"));
    CHECK(has("route 172.20.1.1 d1 10.8.0.1"));
    CHECK(has("route 127.0.0.1 lo 127.0.0.1"));
    CHECK(has("route 10.9.0.1 lo 10.9.0.1"));
    CHECK(has("route 2001:db8::7 d0 2001:db8::1"));
    CHECK(has("route ::ffff:10.9.0.7 d0 10.9.0.1"));
    CHECK(text.find("route fe80::5%d1 d1 ") != std::string::npos);
    CHECK(has("note no route to 203.0.113.1: Network is unreachable"));
    CHECK(has("note no route to 172.21.0.1: a black hole"));
    CHECK(has("note route to host.example unknown: not an address"));
    CHECK(has("note route to 10.9.0.7\\x1b[31m unknown: not an address"));
    CHECK(has("note route to fe80::5%none unknown: not an address"));
    CHECK(has("note route to  unknown: not an address"));
}

TEST_CASE("routes are not asked for on a tree, and no more than 64") {
    const Tree tree;
    detect::Sources sources;
    sources.root = tree.root();
    sources.destinations = {"127.0.0.1"};
    CHECK(detect::detect_machine(sources).routes.empty());
    sources.root.clear();
    sources.destinations.assign(200, "127.0.0.1");
    Machine machine;
    detect::PciTree pci{detect::Files("")};
    detect::detect_network(sources, pci, machine);
    CHECK(machine.routes.size() == 64);
}

TEST_CASE("the interfaces of this machine agree with what the kernel lists") {
    std::vector<std::string> notes;
    detect::PciTree pci{detect::Files("")};
    const std::vector<Nic> nics = detect::detect_nics(pci, true, {}, notes);
    const std::vector<detect::KernelLink> links = detect::kernel_links();
    if (links.empty()) {
        MESSAGE("skipped: rtnetlink is refused here");
        return;
    }
    for (const detect::KernelLink& link : links) {
        CAPTURE(link.name);
        bool found = false;
        for (const Nic& nic : nics)
            found = found || (nic.name == printable(link.name) && nic.os_index == link.index);
        CHECK(found);
    }
}

}  // namespace toporun::tests
