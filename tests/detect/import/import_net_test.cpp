#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "files.hpp"

// What network tools print, each capture read by its importer alone and compared whole.
namespace toporun::detect {
namespace {

std::string facts(const Nic& nic) {
    std::string out = fmt::format("{} {} {}", nic.name, nic_kind_name(nic.kind), nic.state);
    const auto add = [&](std::string_view key, const std::string& value) {
        if (!value.empty()) out += fmt::format(" {}={}", key, value);
    };
    if (nic.os_index != 0) add("os_index", std::to_string(nic.os_index));
    if (nic.speed_gbits) add("gbits", fmt::format("{}", *nic.speed_gbits));
    if (nic.mtu) add("mtu", std::to_string(*nic.mtu));
    add("master", nic.master);
    add("parent", nic.parent);
    if (nic.pci) add("pci", nic.pci->text());
    if (nic.numa_node) add("numa", std::to_string(*nic.numa_node));
    add("rdma", nic.rdma_device.value_or(""));
    if (nic.port) add("port", std::to_string(*nic.port));
    add("port_state", nic.port_state);
    add("guid", nic.guid);
    if (nic.virtual_function) out += " virtual-function";
    if (nic.default_route) out += " default-route";
    for (const std::string& address : nic.addresses) out += "\n    address " + address;
    for (const Gid& gid : nic.gids)
        out +=
            fmt::format("\n    gid {} {} '{}' {}", gid.index, gid.address, gid.type, gid.interface);
    for (const PortCounter& counter : nic.errors)
        out += fmt::format("\n    {} {}", counter.name, counter.value);
    return out + "\n";
}

std::string facts(const Cpu& cpu) {
    std::string out;
    if (!cpu.model.empty())
        out += fmt::format("cpu {}, {}, {}, family {}, model {}, {} packages\n", cpu.vendor,
                           cpu.model, cpu.architecture, cpu.family.value_or(-1),
                           cpu.model_number.value_or(-1), cpu.packages.value_or(-1));
    for (const NumaNode& node : cpu.numa_nodes)
        out += fmt::format("NUMA node {} cpus={} bytes={}\n", node.os_index, node.cpus.text(),
                           node.memory_bytes.value_or(0));
    for (const std::vector<int>& row : cpu.numa_distances)
        out += fmt::format("distances {}\n", fmt::join(row, " "));
    return out;
}

std::string facts(const Limits& limits) {
    std::string out;
    const auto add = [&](std::string_view key, const std::optional<std::uint64_t>& value) {
        if (value) out += fmt::format("{} {}\n", key, *value);
    };
    add("shm_bytes", limits.shm_bytes);
    add("shm_free_bytes", limits.shm_free_bytes);
    add("memlock_bytes", limits.memlock_bytes);
    add("nofile", limits.nofile);
    add("nproc", limits.nproc);
    return out;
}

/// Everything that these importers fill, notes, and the lines that were not understood.
std::string describe(const Lines& lines, const Reading& reading) {
    std::string out;
    for (const Nic& nic : reading.machine.nics) out += facts(nic);
    for (const Route& route : reading.machine.routes)
        out += fmt::format("route to {} {} from {}\n", route.destination, route.interface,
                           route.source);
    out += facts(reading.machine.cpu) + facts(reading.machine.limits);
    if (reading.machine.virtual_machine)
        out += "virtual machine " + reading.machine.software.hypervisor + "\n";
    for (const std::string& note : reading.machine.notes) out += "note " + note + "\n";
    for (std::size_t i = 0; i < reading.understood.size(); ++i)
        if (!reading.understood[i])
            out += fmt::format("not understood: {}: {}\n", lines.lines[i].number,
                               printable(lines.lines[i].text));
    return out;
}

struct Row {
    std::string capture;
    Importer (*importer)();
};

const std::vector<Row> kRows = {
    {"ip_addr/gpu-node.txt", ip_addr_importer},
    {"ip_addr/details.txt", ip_addr_importer},
    {"ip_addr/one-line.txt", ip_addr_importer},
    {"ip_addr/container.txt", ip_addr_importer},
    {"ip_addr/damaged.txt", ip_addr_importer},
    {"ip_addr/inet-only.txt", ip_addr_importer},
    {"ip_addr/two-hosts.txt", ip_addr_importer},
    {"ip_json/details.json", ip_json_importer},
    {"ip_json/wrapped.txt", ip_json_importer},
    {"ip_json/cut.txt", ip_json_importer},
    {"ip_json/rdma.json", ip_json_importer},
    {"ip_brief/addr.txt", ip_brief_importer},
    {"ip_brief/link.txt", ip_brief_importer},
    {"ifconfig/new.txt", ifconfig_importer},
    {"ifconfig/old.txt", ifconfig_importer},
    {"ifconfig/ipoib-unspec.txt", ifconfig_importer},
    {"ifconfig/ipoib-unspec-old.txt", ifconfig_importer},
    {"ibstat/dual-port.txt", ibstat_importer},
    {"ibstat/ibstatus.txt", ibstat_importer},
    {"ibv_devinfo/verbose.txt", ibv_devinfo_importer},
    {"ibdev2netdev/plain.txt", ibdev2netdev_importer},
    {"ibdev2netdev/remarks.txt", ibdev2netdev_importer},
    {"ibdev2netdev/verbose.txt", ibdev2netdev_importer},
    {"ibdev2netdev/rdma-link.txt", rdma_link_importer},
    {"show_gids/roce.txt", show_gids_importer},
    {"show_gids/blanks.txt", show_gids_importer},
    {"sys_class_infiniband/grep.txt", sys_class_infiniband_importer},
    {"ip_route/routes.txt", ip_route_importer},
    {"ip_route/multipath.txt", ip_route_importer},
    {"ip_route/get.txt", ip_route_importer},
    {"ip_route/table.txt", ip_route_importer},
    {"ethtool/speeds.txt", ethtool_importer},
    {"lscpu/two-packages.txt", lscpu_importer},
    {"numactl/hardware.txt", numactl_importer},
    {"numactl/compress.txt", numactl_importer},
    {"ulimit/bash.txt", ulimit_importer},
    {"ulimit/zsh.txt", ulimit_importer},
    {"ulimit/proc.txt", ulimit_importer},
    {"df/human.txt", df_importer},
    {"df/blocks.txt", df_importer},
    {"df/mount.txt", df_importer},
    {"df/mount-without-size.txt", df_importer},
};

std::string capture(const std::string& name) {
    return tests::read_file(std::string(TOPORUN_TEST_DATA) + "/detect/import/" + name);
}

TEST_CASE("a capture of a network tool is read as its golden file says") {
    for (const Row& row : kRows) {
        CAPTURE(row.capture);
        const std::string text = capture(row.capture);
        const Lines lines = read_lines(text, "capture");
        const Importer importer = row.importer();
        REQUIRE(importer.recognise(lines));
        const Reading reading = importer.read(lines);
        CHECK_FALSE(reading.machine.gpus_known);
        CHECK(reading.machine.nics_known == !reading.machine.nics.empty());
        const std::string golden = row.capture.substr(0, row.capture.rfind('.')) + ".expected";
        tests::check_golden(describe(lines, reading), "detect/import/" + golden);
    }
}

TEST_CASE("no importer of network tools takes the output of another") {
    for (const Row& row : kRows) {
        const std::string text = capture(row.capture);
        const Lines lines = read_lines(text, "capture");
        for (const Row& other : kRows) {
            const Importer importer = other.importer();
            if (importer.format == row.importer().format) continue;
            CAPTURE(row.capture);
            CAPTURE(importer.format);
            CHECK_FALSE(importer.recognise(lines));
        }
    }
}

/// Every importer on every beginning of every capture: what is cut off is an Error or less, never
/// more.
TEST_CASE("a capture that is cut anywhere is read or refused with its place") {
    for (const Row& row : kRows) {
        const std::string text = capture(row.capture);
        for (std::size_t size = 0; size < text.size(); size += 7) {
            const std::string cut = text.substr(0, size);
            const Lines lines = read_lines(cut, "capture");
            const Importer importer = row.importer();
            if (!importer.recognise(lines)) continue;
            CAPTURE(row.capture);
            CAPTURE(size);
            try {
                const Reading reading = importer.read(lines);
                CHECK(reading.understood.size() == lines.lines.size());
            } catch (const Error& error) {
                CHECK(error.where().starts_with("capture:"));
            }
        }
    }
}

struct NameRow {
    std::string name;
    std::optional<NicKind> kind;
};

TEST_CASE("the name of an interface tells its kind") {
    const std::vector<NameRow> rows = {
        {"lo", NicKind::loopback},
        {"lo0x", std::nullopt},
        {"docker0", NicKind::bridge},
        {"br-0a1b2c3d4e5f", NicKind::bridge},
        {"br0", NicKind::bridge},
        {"br0.7", NicKind::vlan},
        {"virbr0", NicKind::bridge},
        {"cni0", NicKind::bridge},
        {"vmbr1", NicKind::bridge},
        {"veth12ab", NicKind::veth},
        {"cali0123456789a", NicKind::veth},
        {"lxc1234", NicKind::veth},
        {"lxcbr0", NicKind::bridge},
        {"flannel.1", NicKind::tunnel},
        {"tun0", NicKind::tunnel},
        {"tailscale0", NicKind::tunnel},
        {"wg0", NicKind::tunnel},
        {"wg-mesh", NicKind::tunnel},
        {"ztabcdefghij", NicKind::tunnel},
        {"CloudflareWARP", NicKind::tunnel},
        {"cilium_host", NicKind::veth},
        {"teamviewer0", std::nullopt},
        {"ibm0", std::nullopt},
        {"bond0", NicKind::bond},
        {"bond-data", NicKind::bond},
        {"bond0.2093", NicKind::vlan},
        {"bond0.2093.1", NicKind::vlan},
        {"eth0", NicKind::ethernet},
        {"eth0.100", NicKind::vlan},
        {"eth0.9999", NicKind::ethernet},
        {"vlan7", NicKind::vlan},
        {"enp24s0f1np1", NicKind::ethernet},
        {"enp24s0f1v3", NicKind::vf},
        {"enP2p1s0", NicKind::ethernet},
        {"ib0", NicKind::ipoib},
        {"ib0.8001", NicKind::ipoib},
        {"ibp24s0", NicKind::ipoib},
        {"ibrahim", std::nullopt},
        {"wlan0", NicKind::ethernet},
        {"front0", std::nullopt},
        {"front0.12", NicKind::vlan},
        {"dummy0", NicKind::other},
        {"kube-ipvs0", NicKind::other},
        {"", std::nullopt},
        {".5", std::nullopt},
    };
    for (const NameRow& row : rows) {
        CAPTURE(row.name);
        CHECK(kind_of_name(row.name) == row.kind);
    }
}

struct StateRow {
    std::vector<std::string> flags;
    std::string operstate;
    std::string state;
};

TEST_CASE("an interface is up where the kernel sets its RUNNING flag") {
    const std::vector<StateRow> rows = {
        {{"BROADCAST", "UP", "LOWER_UP"}, "UP", "up"},
        {{"LOOPBACK", "UP", "LOWER_UP"}, "UNKNOWN", "up"},
        {{"UP", "NO-CARRIER"}, "DOWN", "down"},
        {{"UP", "NO-CARRIER"}, "UNKNOWN", "down"},
        {{"BROADCAST", "MULTICAST"}, "DOWN", "down"},
        {{"LOOPBACK"}, "UNKNOWN", "down"},
        {{"UP", "LOWER_UP"}, "LOWERLAYERDOWN", "down"},
        {{"UP", "LOWER_UP"}, "DORMANT", "down"},
        {{"UP", "BROADCAST", "RUNNING"}, "", "up"},
        {{"UP", "BROADCAST"}, "", "unknown"},
        {{}, "UP", "up"},
        {{}, "UNKNOWN", "up"},
        {{}, "DOWN", "down"},
        {{}, "", "unknown"},
    };
    for (const StateRow& row : rows) {
        PastedInterface pasted;
        pasted.name = "eth0";
        pasted.flags = row.flags;
        pasted.operstate = row.operstate;
        CAPTURE(join(row.flags, ","));
        CAPTURE(row.operstate);
        CHECK(to_nic(pasted).state == row.state);
    }
}

struct AddressRow {
    std::string text;
    std::optional<int> prefix;
    std::optional<std::string> address;
};

TEST_CASE("an address is canonical or nothing") {
    const std::vector<AddressRow> rows = {
        {"10.0.0.1/24", {}, "10.0.0.1/24"},
        {"10.0.0.1", 24, "10.0.0.1/24"},
        {"10.0.0.1", {}, "10.0.0.1"},
        {"10.0.0.1/24", 8, "10.0.0.1/24"},
        {"10.0.0.1", 64, "10.0.0.1"},
        {"10.0.0.1/33", {}, {}},
        {"10.0.0.1/", {}, {}},
        {"10.0.0.1/-1", {}, {}},
        {"10.0.0.256/24", {}, {}},
        {"fe80:0::0:1/64", {}, "fe80::1/64"},
        {"fe80::1%eth0/64", {}, {}},
        {"::ffff:c000:20a", {}, "::ffff:192.0.2.10"},
        {"::1/129", {}, {}},
        {std::string(5000, '1'), {}, {}},
        {"", {}, {}},
    };
    for (const AddressRow& row : rows) {
        CAPTURE(row.text);
        CHECK(address_with_prefix(row.text, row.prefix) == row.address);
    }
}

struct PortRow {
    std::string state;
    std::string port_state;
    std::string nic_state;
};

TEST_CASE("the state of a port is known in the words of every tool") {
    const std::vector<PortRow> rows = {
        {"4: ACTIVE", "active", "up"},
        {"PORT_ACTIVE (4)", "active", "up"},
        {"Active", "active", "up"},
        {"1: DOWN", "down", "down"},
        {"PORT_DOWN (1)", "down", "down"},
        {"Down", "down", "down"},
        {"2: INIT", "init", "down"},
        {"Initializing", "init", "down"},
        {"PORT_ARMED (3)", "armed", "down"},
        {"5: ACTIVE_DEFER", "down", "down"},
        {"ACTIVE_DEFER (5)", "down", "down"},
        {"", "", "unknown"},
        {"NOP", "", "unknown"},
    };
    for (const PortRow& row : rows) {
        PastedPort port;
        port.device = "mlx5_0";
        port.state = row.state;
        port.rate_gbits = 10;
        CAPTURE(row.state);
        const Nic nic = to_nic(port);
        CHECK(nic.port_state == row.port_state);
        CHECK(nic.state == row.nic_state);
        CHECK(nic.speed_gbits.has_value() == (row.port_state != "down"));
    }
}

}  // namespace
}  // namespace toporun::detect
