#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace toporun::tests {

/// An archive made byte by byte, also one that no tar program would make.
class TarWriter {
  public:
    TarWriter& add(char type, const std::string& path, const std::string& data,
                   const std::string& link = "") {
        header(type, path, data.size(), link);
        return block(data);
    }

    TarWriter& header(char type, const std::string& path, unsigned long long size,
                      const std::string& link = "", const std::string& prefix = "") {
        std::string head(512, '\0');
        put(head, 0, path.substr(0, 100));
        put(head, 100, "0000644");
        put(head, 124, octal(size, 11));
        head[156] = type;
        put(head, 157, link.substr(0, 100));
        put(head, 257, "ustar");
        put(head, 263, "00");
        put(head, 345, prefix);
        set_checksum(head);
        bytes_ += head;
        return *this;
    }

    TarWriter& prefixed(const std::string& prefix, const std::string& path,
                        const std::string& data) {
        header('0', path, data.size(), "", prefix);
        return block(data);
    }

    TarWriter& pax(const std::vector<std::pair<std::string, std::string>>& records) {
        std::string data;
        for (const auto& [key, value] : records) {
            std::size_t length = key.size() + value.size() + 4;  // with one digit
            while (length != std::to_string(length).size() + key.size() + value.size() + 3)
                ++length;
            data += std::to_string(length) + " " + key + "=" + value + "\n";
        }
        return add('x', "PaxHeaders/x", data);
    }

    /// Bytes filled up to whole blocks.
    TarWriter& block(const std::string& data) {
        bytes_ += data;
        bytes_.resize((bytes_.size() + 511) / 512 * 512);
        return *this;
    }

    std::string end() const { return bytes_ + std::string(1024, '\0'); }

    static void set_checksum(std::string& head) {
        put(head, 148, "        ");
        unsigned sum = 0;
        for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(head[i]);
        put(head, 148, octal(sum, 6) + std::string("\0 ", 2));
    }

  private:
    static std::string octal(unsigned long long value, int digits) {
        char text[32];
        std::snprintf(text, sizeof text, "%0*llo", digits, value);
        return text;
    }
    static void put(std::string& head, std::size_t at, const std::string& text) {
        head.replace(at, text.size(), text);
    }

    std::string bytes_;
};

}  // namespace toporun::tests
