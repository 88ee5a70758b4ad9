#include "launcher/log/source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "launcher/log/reader.hpp"

namespace toporun::launcher {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kBlock = 256 * 1024;
constexpr int kDeepest = 8;  ///< directories of torchrun's --log-dir are five deep

std::string shown(const std::string& file) {
    return file == "-" ? "standard input" : fmt::format("'{}'", printable(file));
}

[[noreturn]] void fail(const std::string& file, const std::string& why, const std::string& hint) {
    throw Error(fmt::format("cannot read {}: {}", shown(file), why), {}, hint);
}

/// Bytes of a file. Not packed ones are handed on as they are.
class Bytes {
  public:
    explicit Bytes(const std::string& file) : file_(file) {
        // Not non-blocking, unlike the logs of a run: who names a FIFO wants it waited for.
        if (file != "-") own_.reset(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
        descriptor_ = file == "-" ? STDIN_FILENO : own_.get();
        struct stat info {};
        if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0)
            fail(file, std::strerror(errno), "name a file that you may read");
        if (S_ISDIR(info.st_mode)) fail(file, "it is a directory", "name the files in it");
    }

    /// The next piece, empty at the end.
    std::string_view next() {
        for (;;) {
            const ssize_t got = ::read(descriptor_, block_.data(), block_.size());
            if (got >= 0) return {block_.data(), static_cast<std::size_t>(got)};
            if (errno != EINTR) fail(file_, std::strerror(errno), "copy the file and try again");
        }
    }

  private:
    std::string file_;
    Descriptor own_;
    int descriptor_ = -1;
    std::vector<char> block_ = std::vector<char>(kBlock);
};

/// Cuts bytes into blocks of whole lines, of bounded length each.
class Lines {
  public:
    explicit Lines(const TakeLines& take) : take_(take) {}

    void add(std::string_view bytes) {
        if (!line_.empty() || cut_) bytes = close_line(bytes);
        const std::size_t last = bytes.rfind('\n');
        const std::size_t whole = last == std::string_view::npos ? 0 : last + 1;
        add_whole(bytes.substr(0, whole));
        add_open(bytes.substr(whole));
    }
    /// The last line may have no line end: its writer was killed.
    void end() {
        if (!line_.empty() || cut_) finish(false);
    }

  private:
    void finish(bool with_end) {
        if (with_end && !cut_) line_ += '\n';
        take_(line_, cut_);
        line_.clear();
        cut_ = false;
    }
    void add_open(std::string_view part) {
        const std::size_t room = kLongestLogLine - line_.size();
        line_.append(part.substr(0, room));
        cut_ |= part.size() > room;
    }
    /// Adds to the line that is open; what stands behind it.
    std::string_view close_line(std::string_view bytes) {
        const std::size_t end = bytes.find('\n');
        add_open(bytes.substr(0, end));
        if (end == std::string_view::npos) return {};
        finish(true);
        return bytes.substr(end + 1);
    }
    void add_whole(std::string_view lines) {
        if (lines.size() <= kLongestLogLine + 1) {  // the usual case of a pipe
            if (!lines.empty()) take_(lines, false);
            return;
        }
        // A line that is too long has no line end in the middle of kLongestLogLine bytes.
        std::size_t begin = 0;
        for (std::size_t at = 0; at < lines.size();) {
            const std::size_t most = std::min(kLongestLogLine + 1, lines.size() - at);
            const std::size_t last = lines.substr(at, most).rfind('\n');
            if (last != std::string_view::npos) {
                at += last + 1;
                continue;
            }
            if (at > begin) take_(lines.substr(begin, at - begin), false);
            const std::size_t end = lines.find('\n', at);
            take_(lines.substr(at, kLongestLogLine), true);
            begin = at = end + 1;
        }
        if (begin < lines.size()) take_(lines.substr(begin), false);
    }

    const TakeLines& take_;
    std::string line_;
    bool cut_ = false;
};

class Unpacker {
  public:
    virtual ~Unpacker() = default;
    /// Unpacks a piece. False: the data are damaged.
    virtual bool add(std::string_view packed, Lines& lines) = 0;
    /// The last member is whole.
    virtual bool complete() const = 0;
};

class Gunzip : public Unpacker {
  public:
    Gunzip() { ready_ = inflateInit2(&stream_, MAX_WBITS + 16) == Z_OK; }  // 16: gzip only
    ~Gunzip() override {
        if (ready_) inflateEnd(&stream_);
    }
    Gunzip(const Gunzip&) = delete;
    Gunzip& operator=(const Gunzip&) = delete;

    bool add(std::string_view packed, Lines& lines) override {
        // zlib takes no const input.
        stream_.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(packed.data()));
        stream_.avail_in = static_cast<uInt>(packed.size());
        while (ready_ && stream_.avail_in > 0) {
            if (ended_) {  // another member, or what pads a tape
                if (stream_.next_in[0] != 0x1f) return true;
                inflateReset(&stream_);
                ended_ = false;
            }
            stream_.next_out = block_.data();
            stream_.avail_out = static_cast<uInt>(block_.size());
            const int status = inflate(&stream_, Z_NO_FLUSH);
            if (status != Z_OK && status != Z_STREAM_END) return false;
            ended_ = status == Z_STREAM_END;
            lines.add(
                {reinterpret_cast<const char*>(block_.data()), block_.size() - stream_.avail_out});
        }
        return ready_;
    }
    bool complete() const override { return ended_; }

  private:
    z_stream stream_{};
    std::vector<unsigned char> block_ = std::vector<unsigned char>(kBlock);
    bool ready_ = false;
    bool ended_ = false;
};

class Unzstd : public Unpacker {
  public:
    bool add(std::string_view packed, Lines& lines) override {
        ZSTD_inBuffer in{packed.data(), packed.size(), 0};
        while (stream_ && in.pos < in.size) {
            ZSTD_outBuffer out{block_.data(), block_.size(), 0};
            const std::size_t left = ZSTD_decompressStream(stream_.get(), &out, &in);
            if (ZSTD_isError(left) != 0) return false;
            ended_ = left == 0;
            lines.add({block_.data(), out.pos});
            if (out.pos < out.size) continue;
            // What did not fit into the block comes with the next call.
            if (in.pos == in.size && !drain(in, lines)) return false;
        }
        return stream_ != nullptr;
    }
    bool complete() const override { return ended_; }

  private:
    bool drain(ZSTD_inBuffer& in, Lines& lines) {
        for (;;) {
            ZSTD_outBuffer out{block_.data(), block_.size(), 0};
            const std::size_t left = ZSTD_decompressStream(stream_.get(), &out, &in);
            if (ZSTD_isError(left) != 0) return false;
            if (out.pos > 0) ended_ = left == 0;
            lines.add({block_.data(), out.pos});
            if (out.pos < out.size) return true;
        }
    }

    std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream_{ZSTD_createDStream(),
                                                                          ZSTD_freeDStream};
    std::vector<char> block_ = std::vector<char>(kBlock);
    bool ended_ = false;
};

constexpr std::string_view kGzip = "\x1f\x8b"sv;
constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd"sv;

std::unique_ptr<Unpacker> unpacker_for(std::string_view beginning) {
    if (beginning.starts_with(kGzip)) return std::make_unique<Gunzip>();
    if (beginning.starts_with(kZstd)) return std::make_unique<Unzstd>();
    return nullptr;
}

/// Whether the beginning of a file is a log: text, or packed by something that can be unpacked.
bool looks_like_log(const std::filesystem::path& path) {
    const Descriptor file(
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
    char bytes[4096];
    const ssize_t got = file ? ::read(file.get(), bytes, sizeof bytes) : -1;
    if (got < 0) return true;  // reading it will say why not
    const std::string_view beginning(bytes, static_cast<std::size_t>(got));
    if (beginning.starts_with(kGzip) || beginning.starts_with(kZstd)) return true;
    const auto nulls = std::count(beginning.begin(), beginning.end(), '\0');
    return static_cast<std::size_t>(nulls) * 16 <= beginning.size();  // a torn text has a few
}

void add_files_below(const std::filesystem::path& directory, int depth, LogFiles& logs) {
    std::error_code error;
    std::vector<std::filesystem::path> entries;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error))
        entries.push_back(entry->path());
    if (error && depth == 0) fail(directory, error.message(), "name a directory that you may read");
    if (error)
        logs.unlisted.push_back(
            fmt::format("cannot read {}: {}", shown(directory), error.message()));
    std::sort(entries.begin(), entries.end());
    for (const std::filesystem::path& path : entries) {
        if (logs.further >= kMostFurtherFiles) return;
        if (path.filename().native().starts_with('.')) continue;
        const auto status = std::filesystem::symlink_status(path, error);
        if (std::filesystem::is_directory(status) && depth < kDeepest)
            add_files_below(path, depth + 1, logs);
        else if (std::filesystem::is_regular_file(status) && logs.files.size() >= kMostLogFiles)
            ++logs.further;
        else if (std::filesystem::is_regular_file(status) && looks_like_log(path))
            logs.files.push_back({path, true});
    }
}

}  // namespace

LogFiles log_files(std::span<const std::string> names) {
    LogFiles logs;
    for (const std::string& name : names) {
        std::error_code error;
        if (name == "-" || !std::filesystem::is_directory(name, error)) {
            if (name != "-" && !std::filesystem::exists(name, error))
                fail(name, error ? error.message() : "it is not there",
                     "name a log, a directory of logs or a run directory");
            logs.files.push_back({name, false});
            continue;
        }
        const std::size_t before = logs.files.size();
        add_files_below(name, 0, logs);
        if (logs.files.size() == before && logs.further == 0)
            fail(name, "no log in it", "name a log, a directory of logs or a run directory");
    }
    return logs;
}

LogEnd read_log_lines(const std::string& file, const TakeLine& take) {
    return read_log_blocks(file, [&](std::string_view lines, bool cut) {
        if (cut) return take(lines, true);
        while (!lines.empty()) {
            const std::size_t end = lines.find('\n');
            take(lines.substr(0, end), false);
            lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
        }
    });
}

LogEnd read_log_blocks(const std::string& file, const TakeLines& take) {
    Bytes bytes(file);
    Lines lines(take);
    std::string_view piece = bytes.next();
    const std::unique_ptr<Unpacker> unpacker = unpacker_for(piece);
    for (; !piece.empty(); piece = bytes.next()) {
        if (unpacker == nullptr) {
            lines.add(piece);
        } else if (!unpacker->add(piece, lines)) {
            lines.end();
            fail(file, "the packed data are damaged", "copy the file again, in binary form");
        }
    }
    lines.end();
    return unpacker != nullptr && !unpacker->complete() ? LogEnd::cut : LogEnd::whole;
}

}  // namespace toporun::launcher
