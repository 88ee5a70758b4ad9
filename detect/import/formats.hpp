#pragma once

#include "detect/import/importer.hpp"

/// One function per format, each defined in a file of its own.
namespace toporun::detect {

Importer nvidia_topo_importer();
Importer nvidia_p2p_importer();
Importer nvidia_list_importer();
Importer nvidia_smi_importer();
Importer nvidia_query_importer();
Importer nvidia_xml_importer();
Importer nvidia_csv_importer();
Importer dcgm_links_importer();
Importer rocm_smi_importer();
Importer rocm_facts_importer();
Importer rocm_table_importer();
Importer amd_smi_importer();
Importer hwloc_xml_importer();
Importer nccl_topology_xml_importer();
Importer nccl_log_importer();
Importer ip_json_importer();
Importer ip_addr_importer();
Importer ip_brief_importer();
Importer ifconfig_importer();
Importer ibstat_importer();
Importer ibv_devinfo_importer();
Importer ibdev2netdev_importer();
Importer rdma_link_importer();
Importer show_gids_importer();
Importer sys_class_infiniband_importer();
Importer ip_route_importer();
Importer ethtool_importer();
Importer lscpu_importer();
Importer numactl_importer();
Importer ulimit_importer();
Importer df_importer();
Importer kernel_text_importer();
Importer lsmod_importer();
Importer lspci_importer();

}  // namespace toporun::detect
