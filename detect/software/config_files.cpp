#include "detect/software/config_files.hpp"

#include <array>

#include "base/text.hpp"
#include "detect/software/nccl_conf.hpp"

namespace toporun::detect {
namespace {

/// What NCCL reads without being told (NCCL src/graph/topo.cc).
constexpr const char* kOwnTopology = "/var/run/nvidia-topologyd/virtualTopology.xml";

constexpr std::size_t kMostFiles = 64;

/// Directories of images. `marked`: the files lie in directories below it whose name starts so
/// (azhpc-images: /opt/microsoft/ndv5/topo.xml), else in it (aws-ofi-nccl).
struct Shipped {
    const char* directory;
    std::string_view marked;
};
constexpr std::array<Shipped, 4> kShipped = {{{"/opt/microsoft", "nd"},
                                              {"/opt/microsoft", "nc"},
                                              {"/opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml", ""},
                                              {"/opt/aws-ofi-nccl/share/aws-ofi-nccl/xml", ""}}};

void add_xml(const Files& files, const std::string& directory, std::vector<std::string>& found) {
    for (const std::string& name : files.list(directory))
        if (name.ends_with(".xml") && found.size() < kMostFiles)
            found.push_back(printable(directory + "/" + name));
}

}  // namespace

std::vector<std::string> conf_files(const Sources& sources, const Files& files) {
    std::vector<std::string> found;
    for (const std::string& path : nccl_conf_paths(files, sources.conf_file))
        if (files.exists(path)) found.push_back(printable(path));
    return found;
}

std::vector<std::string> topology_files(const Sources& sources, const Files& files) {
    std::vector<std::string> found;
    const std::string& own = sources.topology_file.empty() ? kOwnTopology : sources.topology_file;
    if (files.exists(own)) found.push_back(printable(own));
    for (const auto& [directory, marked] : kShipped) {
        if (marked.empty()) {
            add_xml(files, directory, found);
            continue;
        }
        for (const std::string& name : files.list(directory))
            if (name.starts_with(marked))
                add_xml(files, std::string(directory) + "/" + name, found);
    }
    return found;
}

}  // namespace toporun::detect
