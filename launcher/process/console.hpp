#pragma once

#include <string>
#include <string_view>

namespace toporun::launcher {

/// toporun's own text: each line on one descriptor with the prefix `toporun: `. Never blocks for
/// long and never fails: what cannot be written (closed, full pipe, stopped terminal) is dropped.
class Console {
  public:
    /// `fd` is used as it is, not closed; `quiet` leaves errors only.
    explicit Console(int fd = 2, bool quiet = false);

    void say(std::string_view line) const;  ///< silent when quiet
    void warn(std::string_view what, std::string_view hint = {}) const;
    void error(std::string_view what, std::string_view where = {},
               std::string_view hint = {}) const;
    bool quiet() const { return quiet_; }
    int fd() const { return fd_; }
    bool colour() const { return colour_; }  ///< a terminal, and the user has nothing against it

  private:
    void write_line(std::string_view label, const char* colour, std::string_view text,
                    std::string_view hint) const;
    int fd_;
    bool quiet_;
    bool colour_;
    mutable bool reader_is_stuck_ = false;
};

}  // namespace toporun::launcher
