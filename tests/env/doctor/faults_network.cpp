#include "faults.hpp"

namespace toporun::tests {
namespace {

Machine bonded() {
    Machine machine = sockets_only();
    for (const char* name : {"eno2", "eno3"}) {
        detect::Nic member = nic(name, NicKind::ethernet, {});
        member.master = "bond0";
        member.speed_gbits = 25;
        member.mtu = 1500;
        machine.nics.push_back(member);
    }
    machine.nics.push_back(nic("bond0", NicKind::bond, {"10.9.0.1/24"}));
    return machine;
}

}  // namespace

std::vector<Fault> interface_faults() {
    return {
        {"iface-same-subnet", "two ports in one subnet", slow,
         [](Patient& p) {
             p.machine.nics.push_back(nic("eno2", NicKind::ethernet, {"10.0.0.2/24"}));
         },
         sockets_only},
        {"iface-pick-unreachable", "a veth with an address", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.nics.push_back(nic("veth1", NicKind::veth, {"fe80::1/64"}));
         },
         sockets_only},
        {"iface-mixed-speeds", "1 Gb/s beside 25", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.nics.push_back(nic("eno2", NicKind::ethernet, {"10.7.0.2/24"}));
             p.machine.nics.back().speed_gbits = 1;
         },
         sockets_only},
        {"iface-low-speed", "100 Mb/s", slow,
         [](Patient& p) { p.machine.nics[1].speed_gbits = 0.1; }, sockets_only},
        {"iface-route-differs", "the other port has the route", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.nics.push_back(nic("eno2", NicKind::ethernet, {"10.0.0.2/24"}));
             set(p, "NCCL_SOCKET_IFNAME", "eno2");
             p.machine.routes = {{"10.0.0.9", "eno1", "10.0.0.1"}};
         },
         sockets_only},
        {"bond-member-down", "a member down", slow,
         [](Patient& p) { p.machine.nics[2].state = "down"; }, bonded},
        {"bond-members-differ", "a member with another MTU", slow,
         [](Patient& p) { p.machine.nics[2].mtu = 9000; }, bonded},
        {"network-thin", "25 Gb/s for 8 V100", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.nics.resize(2);
             p.machine.nics[1].speed_gbits = 25;
             connect_adapters(p.machine);
         }},
    };
}

std::vector<Fault> rdma_faults() {
    return {
        {"rdma-port-down", "the adapter of a GPU", slow,
         [](Patient& p) { port(p, 3).state = port(p, 3).port_state = "down"; }},
        {"rdma-none-usable", "no subnet manager", slow,
         [](Patient& p) {
             several_nodes(p);
             for (std::size_t i = 0; i < 8; ++i) port(p, i).port_state = "init";
         }},
        {"iface-mtu-small", "a bond of unknown speed", note,
         [](Patient& p) {
             p.machine.nics[1].kind = NicKind::bond;
             p.machine.nics[1].mtu = 1500;
             p.machine.nics[1].speed_gbits.reset();
         },
         sockets_only},
        {"iface-mtu-small", "100 Gb/s", note,
         [](Patient& p) {
             p.machine.nics[1].mtu = 1500;
             p.machine.nics[1].speed_gbits = 100;
         },
         sockets_only},
        {"rdma-none-usable", "all ports down", slow,
         [](Patient& p) {
             several_nodes(p);
             for (std::size_t i = 0; i < 8; ++i) port(p, i).port_state = "down";
         }},
        {"rdma-port-slow", "one of eight at half the rate", slow,
         [](Patient& p) { port(p, 5).speed_gbits = 200; }},
        {"rdma-port-errors", "damaged packets", note,
         [](Patient& p) {
             port(p, 1).errors = {{"port_rcv_errors", 12}, {"link_downed", 2}};
         }},
        {"verbs-devices-missing", "no device file in a container", slow,
         [](Patient& p) {
             p.machine.container = true;
             p.machine.software.verbs_devices = 0;
         }},
        {"verbs-devices-missing", "EFA without device files", slow,
         [](Patient& p) { p.machine.software.verbs_devices = 0; }, efa_node},
        {"memlock-small", "64 KiB in a container", broken,
         [](Patient& p) {
             p.machine.container = true;
             p.machine.limits.memlock_bytes = 65536;
         }},
        {"memlock-small", "8 MiB on a host", slow,
         [](Patient& p) { p.machine.limits.memlock_bytes = 8 << 20; }},
        {"ib-hca-no-match", "a device that is not there", slow,
         [](Patient& p) { set(p, "NCCL_IB_HCA", "ibp"); }},
        {"ib-hca-prefix", "mlx5_1 and mlx5_10", slow,
         [](Patient& p) {
             p.machine.nics.push_back(rdma_port(10, NicKind::infiniband, 400));
             connect_adapters(p.machine);
             set(p, "NCCL_IB_HCA", "mlx5_1");
         }},
        {"ib-disabled", "with ports up", slow, [](Patient& p) { set(p, "NCCL_IB_DISABLE", "1"); }},
        {"ib-disabled", "by NCCL_NET", slow, [](Patient& p) { set(p, "NCCL_NET", "socket"); }},
        {"iwarp-ports", "all ports", broken,
         [](Patient& p) {
             for (detect::Nic& nic : p.machine.nics) nic.iwarp = nic.rdma_device.has_value();
             several_nodes(p);
         }},
        {"roce-gid-link-local", "index 1", slow,
         [](Patient& p) { set(p, "NCCL_IB_GID_INDEX", "1"); }, healthy_roce_node},
        {"roce-gid-link-local", "index 0 of old versions", slow,
         [](Patient& p) { p.machine.software.nccl_version = "2.20.5"; }, healthy_roce_node},
        {"roce-gid-v1", "index 2", slow, [](Patient& p) { set(p, "NCCL_IB_GID_INDEX", "2"); },
         healthy_roce_node},
        {"roce-gid-absent", "index 9", broken, [](Patient& p) { set(p, "NCCL_IB_GID_INDEX", "9"); },
         healthy_roce_node},
        {"roce-no-routable-gid", "RoCE v1 only", slow,
         [](Patient& p) { port(p, 0).gids = {gid(0, "::ffff:10.1.0.5", "RoCE v1")}; },
         healthy_roce_node},
        {"roce-mtu-small", "1500", note,
         [](Patient& p) {
             for (std::size_t i = 0; i < 8; ++i) port(p, i).mtu = 1500;
         },
         healthy_roce_node},
        {"roce-mtu-differs", "one with 4200", slow, [](Patient& p) { port(p, 0).mtu = 4200; },
         healthy_roce_node},
        {"gdr-no-peermem", "closed driver without the module", slow,
         [](Patient& p) {
             p.machine.software.modules = std::vector<std::string>{};
             p.machine.software.driver_open = false;
         }},
        {"gdr-peermem-unregistered", "loaded, no client", slow,
         [](Patient& p) {
             p.machine.software.peer_memory_clients = std::vector<std::string>{};
             p.machine.software.driver_open = false;
         }},
        {"gdr-peermem-unseen", "NCCL 2.22", slow,
         [](Patient& p) {
             p.machine.software.nccl_version = "2.22.3";
             p.machine.software.driver_open = false;
         }},
        {"gdr-far-adapter", "SYS to every adapter", note,
         [](Patient& p) {
             connect(p.machine, 0, 1, PathType::SYS);
             for (std::size_t other = 1; other < 8; ++other)
                 connect(p.machine, 0, static_cast<int>(other), PathType::SYS);
             p.machine.gpu_nic_paths[0][2] = PathType::SYS;
         }},
        {"gdr-acs-redirect", "ACS below the switch", slow,
         [](Patient& p) { p.machine.gpu_nic_acs_redirect[0][2] = AcsRedirect::on; }},
    };
}

}  // namespace toporun::tests
