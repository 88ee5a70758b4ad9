/// What env/interface_model predicts of NCCL on this host with the variables of this process: the
/// interfaces of its search, the bootstrap's first.
///
///     predict_interfaces VERSION_CODE
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "detect/network/network.hpp"
#include "env/interface_model.hpp"

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

}  // namespace

int main(int argc, char** argv) {
    using namespace toporun;
    if (argc != 2) return 2;
    detect::Machine machine;
    detect::PciTree pci{detect::Files("")};
    machine.nics = detect::detect_nics(pci, false, {}, machine.notes);
    const env::SearchContext context{std::atoi(argv[1]), variable("NCCL_SOCKET_FAMILY"),
                                     variable("NCCL_COMM_ID")};
    for (const int position :
         env::bootstrap_search(machine, context, env::parse_ifname(variable("NCCL_SOCKET_IFNAME"))))
        std::printf("%s\n", machine.nics[static_cast<std::size_t>(position)].name.c_str());
    return 0;
}
