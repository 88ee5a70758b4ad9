#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace toporun::detect {

/// A set of PUs (hardware threads) by their OS index. Text form: "0-7,64-71", "" when empty.
class CpuSet {
  public:
    CpuSet() = default;
    explicit CpuSet(std::vector<int> pu_os_indices);
    /// Reads the list form; blanks around it are ignored. Throws Error for anything else.
    static CpuSet parse(std::string_view list);

    std::string text() const;
    bool empty() const { return indices_.empty(); }
    int count() const { return static_cast<int>(indices_.size()); }
    bool contains(int pu_os_index) const;
    bool contains(const CpuSet& other) const;
    const std::vector<int>& indices() const { return indices_; }  ///< ascending, without repeats

    friend CpuSet operator&(const CpuSet& a, const CpuSet& b);
    friend CpuSet operator|(const CpuSet& a, const CpuSet& b);
    friend CpuSet operator-(const CpuSet& a, const CpuSet& b);
    friend bool operator==(const CpuSet&, const CpuSet&) = default;

  private:
    std::vector<int> indices_;
};

}  // namespace toporun::detect
