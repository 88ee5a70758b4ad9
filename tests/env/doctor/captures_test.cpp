#include <doctest/doctest.h>

#include "detect/import/import.hpp"
#include "support.hpp"

/// What people paste, examined: captures tell a part of the machine, and what they do not tell must
/// not be taken for a fault.
namespace toporun::tests {
namespace {

env::Diagnosis examine_capture(const std::string& text) {
    const detect::Capture capture{"capture.txt", text};
    return examine(detect::import_captures({&capture, 1}));
}

TEST_CASE("a matrix without names of GPUs says what it shows and nothing else") {
    struct Row {
        std::string name;
        std::string text;
        std::vector<std::string> ids;
    };
    const std::vector<Row> rows = {
        {"adapters on the other package",
         "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
         "GPU0\t X \tNODE\tSYS\t0-7\t0\t\tN/A\n"
         "GPU1\tNODE\t X \tSYS\t0-7\t0\t\tN/A\n"
         "NIC0\tSYS\tSYS\t X\n\nNIC Legend:\n\n  NIC0: mlx5_0\n",
         {"gdr-far-adapter"}},
        {"GPU memory is a NUMA node: the C2C way is not shown",
         "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
         "GPU0\t X \tNV18\tSYS\t0-71\t0,3-9\t\t2\n"
         "GPU1\tNV18\t X \tSYS\t0-71\t0,3-9\t\t10\n"
         "NIC0\tSYS\tSYS\t X\n\nNIC Legend:\n\n  NIC0: mlx5_0\n",
         {}},
        {"an adapter beside each GPU",
         "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n"
         "GPU0\t X \tNV12\tPIX\tNODE\t0-7\t0\n"
         "GPU1\tNV12\t X \tNODE\tPIX\t0-7\t0\n"
         "NIC0\tPIX\tNODE\t X \tNODE\nNIC1\tNODE\tPIX\tNODE\t X\n\n"
         "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n",
         {}},
        {"one GPU alone", "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t0\n", {}},
        {"interfaces alone",
         "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 state UNKNOWN\n    inet 127.0.0.1/8 scope host "
         "lo\n"
         "2: eth0: <BROADCAST,UP,LOWER_UP> mtu 9000 state UP\n    inet 192.0.2.7/24 scope global\n",
         {}},
        {"a topology without interfaces",
         "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">\n"
         "  <object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\">\n"
         "    <object type=\"Package\" os_index=\"0\" cpuset=\"0x3\">\n"
         "      <object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-10]\">\n"
         "        <object type=\"PCIDev\" pci_busid=\"0000:04:00.0\" pci_type=\"0302 [10de:1db1] "
         "[10de:1212] a1\" pci_link_speed=\"15.75\"/>\n"
         "      </object>\n    </object>\n  </object>\n</topology>\n",
         {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        SUBCASE(row.name.c_str()) {
            const env::Diagnosis diagnosis = examine_capture(row.text);
            CAPTURE(ids(diagnosis));
            CHECK(ids(diagnosis) == row.ids);
        }
    }
}

}  // namespace
}  // namespace toporun::tests
