#pragma once

#include <map>
#include <string>
#include <vector>

#include "detect/import/interface_text.hpp"
#include "detect/import/lines.hpp"

/// Interfaces out of one text, which may hold more than one listing: of the same machine (`ip
/// addr`, then `ip -d link`) or, in reports on jobs of several nodes, of others.
namespace toporun::detect {

class PastedInterfaces {
  public:
    /// A name that was there, or a kernel index that is not above the one before, begins a listing.
    void add(PastedInterface pasted);
    bool empty() const { return listings_.empty(); }

    /// The first listing, with what later listings of the same machine add to it. A listing is of
    /// another machine when an interface has another index or other addresses there; it is left out
    /// and told in Machine::notes. What is known of GPUs: nothing.
    Machine machine() const;

  private:
    struct Listing {
        std::vector<PastedInterface> interfaces;
        std::map<std::string, std::size_t, std::less<>> by_name;
    };
    static bool same_machine(const Listing& a, const Listing& b);
    static void merge(const Listing& from, Listing& into, std::vector<std::string>& notes);

    std::vector<Listing> listings_;
};

/// The note on an address that is masked or damaged.
std::string unreadable_address(const PastedLine& line, std::string_view name,
                               std::string_view address);

}  // namespace toporun::detect
