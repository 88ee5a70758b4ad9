#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/import/tar.hpp"

namespace toporun::detect {
namespace {

constexpr int kGzipOnly = 16;  ///< added to the window size (zlib.h, inflateInit2)

/// zlib's state, released with the scope.
class Inflater {
  public:
    Inflater() { ready_ = inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK; }
    ~Inflater() {
        if (ready_) inflateEnd(&stream_);
    }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    bool ready() const { return ready_; }
    z_stream& stream() { return stream_; }

  private:
    z_stream stream_{};
    bool ready_ = false;
};

}  // namespace

std::string_view packing_of(std::string_view bytes) {
    using namespace std::string_view_literals;
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kMagic = {
        {{"\x1f\x8b"sv, "gzip"},
         {"\xfd"
          "7zXZ\0"sv,
          "xz"},
         {"\x28\xb5\x2f\xfd"sv, "zstd"},
         {"BZh"sv, "bzip2"},
         {"\x04\x22\x4d\x18"sv, "lz4"}}};
    for (const auto& [magic, packing] : kMagic)
        if (bytes.starts_with(magic)) return packing;
    return {};
}

Unpacked gunzip(std::string_view packed, std::size_t most_bytes, const std::string& name) {
    Inflater inflater;
    if (!inflater.ready()) throw Error("zlib cannot start", name);
    z_stream& stream = inflater.stream();
    Unpacked unpacked;
    std::array<unsigned char, 65536> block{};
    for (;;) {
        // zlib takes no const input, and counts in 32 bits.
        const std::size_t part = std::min<std::size_t>(packed.size(), 1u << 30);
        stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(packed.data()));
        stream.avail_in = static_cast<uInt>(part);
        stream.next_out = block.data();
        stream.avail_out = static_cast<uInt>(block.size());
        const int status = inflate(&stream, Z_NO_FLUSH);
        const std::size_t used = part - stream.avail_in;
        const std::size_t got = block.size() - stream.avail_out;
        packed.remove_prefix(used);
        if (unpacked.bytes.size() + got > most_bytes)
            throw Error(fmt::format("more than {} when unpacked", format_bytes(most_bytes)), name,
                        "pack less: /sys/bus, /sys/class, /sys/devices and /sys/module suffice");
        unpacked.bytes.append(reinterpret_cast<const char*>(block.data()), got);
        if (status == Z_STREAM_END) {
            // Another member may follow; what pads a tape is none.
            if (!packed.starts_with("\x1f\x8b")) return unpacked;
            inflateReset(&stream);
        } else if ((status != Z_OK && status != Z_BUF_ERROR) ||
                   (used + got == 0 && !packed.empty())) {
            throw Error(
                fmt::format("damaged gzip data after {} unpacked bytes", unpacked.bytes.size()),
                name, "copy the file again, in binary form");
        } else if (used + got == 0) {
            unpacked.cut = true;
            return unpacked;
        }
    }
}

}  // namespace toporun::detect
