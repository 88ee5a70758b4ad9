#pragma once

#include <string>
#include <vector>

#include "machines.hpp"

/// Machines of the platforms that built-in profiles are about.
namespace toporun::tests {

/// What the adapters of a machine are: `count` of `kind`.
struct Adapters {
    int count = 0;
    NicKind kind = NicKind::infiniband;
    std::string driver = "mlx5_core";
    double speed_gbits = 400;
    std::string name = "mlx5_";  ///< a number follows
};

enum class Wiring { none, mesh, bridge, switches };

/// A machine of a platform, as it looks from inside.
struct Platform {
    std::string profile;  ///< that must be used
    std::string vendor;
    std::string product;
    std::string asset_tag;
    std::string gpu;
    int gpus = 8;
    Wiring wiring = Wiring::switches;
    std::vector<Adapters> adapters = {};
    std::string architecture = "x86_64";
    std::string kernel = "6.8.0";
    bool virtual_machine = false;
    std::string container = "";
};

inline constexpr const char* kAzure = "7783-7084-3265-9085-8269-3286-77";
inline constexpr const char* kOracle = "OracleCloud.com";
inline constexpr const char* kGoogle = "Google Compute Engine";
inline constexpr const char* kAmazon = "Amazon EC2";
inline constexpr const char* kWsl2 = "5.15.153.1-microsoft-standard-WSL2";
inline const char* const kH100 = "NVIDIA H100 80GB HBM3";

Machine made(const Platform& row);

Adapters infiniband(int count);

Adapters roce(int count, double speed_gbits = 400);

Adapters gve(int count);

Adapters ibp(int count);

Adapters hsn(int count);  ///< Slingshot

std::vector<Platform> all_rows();

}  // namespace toporun::tests
