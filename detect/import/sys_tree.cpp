#include "detect/import/sys_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/detect.hpp"
#include "detect/files.hpp"
#include "detect/import/settle_machine.hpp"
#include "detect/import/tar.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostUnpackedBytes = std::size_t{512} << 20;
constexpr std::size_t kMostTreeBytes = std::size_t{256} << 20;
constexpr std::size_t kMostTreeFile = kMostBytes;  ///< detection reads no more of a file
constexpr std::size_t kMostTreeNames = 500'000;
constexpr std::size_t kMostTops = 100;  ///< machines in one archive that are counted

/// Directories that only a sysfs has.
constexpr std::array<std::string_view, 4> kSysfsMarks = {"bus/pci", "class/net", "class/infiniband",
                                                         "devices/system"};
/// Large parts of a sysfs that detection does not look at.
constexpr std::array<std::string_view, 5> kLeftOut = {"sys/kernel/debug/", "sys/kernel/tracing/",
                                                      "sys/kernel/slab/", "sys/kernel/irq/",
                                                      "sys/kernel/btf/"};

/// Whether `path` holds `part` as whole components from `at` on.
bool path_has_components(std::string_view path, std::size_t at, std::string_view part) {
    return path.substr(at).starts_with(part) &&
           (path.size() == at + part.size() || path[at + part.size()] == '/');
}

/// Signals that end the process wait while this lives, so that nothing is left behind.
class SignalsWait {
  public:
    SignalsWait() {
        sigset_t ending;
        sigemptyset(&ending);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGXFSZ})
            sigaddset(&ending, signal);
        sigprocmask(SIG_BLOCK, &ending, &before_);
    }
    ~SignalsWait() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    SignalsWait(const SignalsWait&) = delete;
    SignalsWait& operator=(const SignalsWait&) = delete;

  private:
    sigset_t before_{};
};

/// A directory, private to the user, that ends with the scope.
class PrivateDirectory {
  public:
    explicit PrivateDirectory(const std::string& parent) {
        path_ = (parent.empty() ? "/tmp" : parent) + "/toporun-tree-XXXXXX";
        if (mkdtemp(path_.data()) == nullptr)
            throw Error(fmt::format("cannot make a directory: {}", std::strerror(errno)), parent,
                        "set TMPDIR to a directory that can be written");
    }
    ~PrivateDirectory() {
        std::error_code ignored;  // nothing to be done about it at the end
        std::filesystem::remove_all(path_, ignored);
    }
    PrivateDirectory(const PrivateDirectory&) = delete;
    PrivateDirectory& operator=(const PrivateDirectory&) = delete;

    const std::string& path() const { return path_; }

  private:
    SignalsWait signals_;
    std::string path_;
};

/// What lies before "sys/" in the paths of the machine, and whether "sys/" itself is missing
/// because the copy is one of /sys alone.
struct TreeTop {
    std::string prefix;  ///< "" or "host-a/"
    bool bare = false;
    friend auto operator<=>(const TreeTop&, const TreeTop&) = default;
};

/// The tops of all machines in the archive, the shortest first.
std::vector<TreeTop> find_tops(const std::vector<TreeEntry>& entries) {
    const auto shorter = [](const TreeTop& a, const TreeTop& b) {
        return std::pair(a.prefix.size(), a) < std::pair(b.prefix.size(), b);
    };
    std::set<TreeTop, decltype(shorter)> tops(shorter);
    for (const TreeEntry& entry : entries) {
        for (std::size_t at = 0; at < entry.path.size();) {
            for (const std::string_view mark : kSysfsMarks) {
                if (!path_has_components(entry.path, at, mark)) continue;
                const std::string before = entry.path.substr(0, at);
                const bool in_sys = before == "sys/" || before.ends_with("/sys/");
                tops.insert({in_sys ? before.substr(0, at - 4) : before, !in_sys});
            }
            // /sys holds such names again far below: a top has few directories above it.
            if (std::count(entry.path.begin(), entry.path.begin() + static_cast<std::ptrdiff_t>(at),
                           '/') > 8)
                break;
            at = std::min(entry.path.find('/', at), entry.path.size() - 1) + 1;
        }
    }
    std::vector<TreeTop> found;
    for (const TreeTop& top : tops) {
        if (found.size() == kMostTops) break;
        const bool below_another =
            std::any_of(found.begin(), found.end(),
                        [&](const TreeTop& other) { return top.prefix.starts_with(other.prefix); });
        if (!below_another) found.push_back(top);
    }
    return found;
}

/// The path below the root that detection reads, "" for what does not belong to the machine.
std::string tree_place(const TreeEntry& entry, const TreeTop& top) {
    if (!entry.path.starts_with(top.prefix)) return {};
    std::string path = (top.bare ? "sys/" : "") + entry.path.substr(top.prefix.size());
    for (const std::string_view part : kLeftOut)
        if (path.starts_with(part)) return {};
    return path;
}

/// tar stores what sysfs states as the size, 4096, and fills up with zeros. The configuration
/// space is binary: only the first 64 bytes are shown to users that are not root, what follows is
/// then unknown, not zero.
std::string_view without_padding(const std::string& path, std::string_view data) {
    if (!path.starts_with("sys/")) return data;
    const std::size_t end = data.find_last_not_of('\0') + 1;  // npos + 1 is 0
    if (path.ends_with("/config")) return end <= 64 ? data.substr(0, 64) : data;
    return data.substr(0, end);
}

/// A link's target so that it cannot lead out of the root, wherever the links on the way lead: ".."
/// only at its front and no more of them than directories above the link. Nothing for another.
std::optional<std::string> safe_target(const std::string& path, const std::string& target) {
    const auto above = static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
    const bool absolute = target.starts_with('/');
    std::size_t up = absolute ? above : 0;
    std::string names;
    for (const std::string& part : split(target, '/')) {
        if (part.empty() || part == ".") continue;
        if (part == "..") {
            if (absolute || !names.empty() || ++up > above) return std::nullopt;
        } else {
            names += (names.empty() ? "" : "/") + part;
        }
    }
    std::string safe;
    for (; up > 0; --up) safe += "../";
    safe += names;
    if (safe.empty()) safe = ".";
    return safe;
}

/// Writes entries below a new directory. Links are made last, and none below another one, so that
/// no path that is written to leads through a link.
class TreeWriter {
  public:
    TreeWriter(const std::string& root, std::string name) : root_(root), name_(std::move(name)) {}

    void write(const std::vector<TreeEntry>& entries, const TreeTop& top) {
        std::vector<std::pair<std::string, const TreeEntry*>> links;
        for (const TreeEntry& entry : entries) {
            const std::string path = tree_place(entry, top);
            if (path.empty()) continue;
            switch (entry.kind) {
                case EntryKind::directory:
                    make_directories(path);
                    break;
                case EntryKind::link:
                    links.emplace_back(path, &entry);
                    break;
                case EntryKind::device:
                    write_file(path, {});
                    break;
                case EntryKind::file:
                    write_file(path, without_padding(path, entry.data));
                    break;
            }
        }
        for (const auto& [path, entry] : links) make_link(path, *entry);
    }

    int links_left_out() const { return links_left_out_; }

  private:
    [[noreturn]] void fail(const std::string& path) const {
        throw Error(fmt::format("cannot write '{}' to {}: {}", printable(path), root_,
                                std::strerror(errno)),
                    name_, "set TMPDIR to a directory with more room");
    }

    /// False where a file stands in the way.
    bool make_directories(const std::string& path) {
        if (path.empty() || made_.contains(path)) return true;
        const std::size_t slash = path.rfind('/');
        if (slash != std::string::npos && !make_directories(path.substr(0, slash))) return false;
        if (mkdir((root_ + "/" + path).c_str(), 0700) != 0) {
            if (errno == EEXIST) return false;
            fail(path);
        }
        made_.insert(path);
        return true;
    }

    bool make_parents(const std::string& path) {
        const std::size_t slash = path.rfind('/');
        return slash == std::string::npos || make_directories(path.substr(0, slash));
    }

    void write_file(const std::string& path, std::string_view data) {
        if (!make_parents(path)) return;
        data = data.substr(0, kMostTreeFile);
        written_ += data.size();
        if (!file_size_allowed(data.size()))
            throw Error("the limit of file sizes (ulimit -f) is too small", name_,
                        "unpack it and name the directory, or raise the limit");
        if (written_ > kMostTreeBytes)
            throw Error(fmt::format("more than {} of system files", format_bytes(kMostTreeBytes)),
                        name_, "pack less: /sys/bus, /sys/class, /sys/devices suffice");
        const Descriptor file(open((root_ + "/" + path).c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!file && errno == EISDIR) return;
        if (!file) fail(path);
        while (!data.empty()) {
            const ssize_t done = ::write(file.get(), data.data(), data.size());
            if (done < 0 && errno == EINTR) continue;
            if (done <= 0) fail(path);
            data.remove_prefix(static_cast<std::size_t>(done));
        }
    }

    void make_link(const std::string& path, const TreeEntry& entry) {
        const auto target = safe_target(path, entry.target);
        bool below_link = false;
        for (std::size_t slash = path.find('/'); slash != std::string::npos;
             slash = path.find('/', slash + 1))
            below_link = below_link || links_.contains(path.substr(0, slash));
        if (!target || below_link) {
            ++links_left_out_;
            return;
        }
        if (!make_parents(path)) return;
        if (symlink(target->c_str(), (root_ + "/" + path).c_str()) == 0)
            links_.insert(path);
        else if (errno != EEXIST && errno != ENAMETOOLONG)
            fail(path);
    }

    std::string root_;
    std::string name_;
    std::unordered_set<std::string> made_;
    std::unordered_set<std::string> links_;
    std::size_t written_ = 0;
    int links_left_out_ = 0;
};

/// Links of a directory of the tree whose targets are not in it.
struct Dangling {
    std::size_t links = 0;
    std::size_t entries = 0;
    bool nothing_told() const { return links == entries; }
};

Dangling dangling_in(const Files& files, const std::string& directory) {
    Dangling found;
    for (const std::string& name : files.list(directory)) {
        ++found.entries;
        if (!files.exists(directory + "/" + name)) ++found.links;
    }
    return found;
}

/// Says of which devices the tree has the names alone.
void note_dangling(const Dangling& found, const std::string& directory, Machine& machine) {
    if (found.links > 0)
        machine.notes.push_back(
            fmt::format("{} of {} links in {} lead to what is not in the tree: pack /sys/devices "
                        "too",
                        found.links, found.entries, directory));
}

/// Detection below `root`, with what a tree leaves open marked as such.
Machine detect_root(const std::string& root) {
    Sources sources;
    sources.root = root;
    Machine machine = detect_machine(sources);
    const Files files(root);
    const Dangling pci = dangling_in(files, "/sys/bus/pci/devices");
    const Dangling interfaces = dangling_in(files, "/sys/class/net");
    if (machine.gpus.empty() && pci.nothing_told()) {
        machine.gpus_known = false;
        if (pci.entries == 0)
            machine.notes.emplace_back(
                "no PCI devices in the tree (/sys/bus/pci): GPUs are unknown");
    }
    if (machine.nics.empty()) {  // every host has lo
        machine.nics_known = false;
        if (interfaces.entries == 0)
            machine.notes.emplace_back(
                "no interfaces in the tree (/sys/class/net): NICs are unknown");
    }
    note_dangling(pci, "/sys/bus/pci/devices", machine);
    note_dangling(interfaces, "/sys/class/net", machine);
    settle_machine(machine);
    return machine;
}

Machine detect_entries(const std::vector<TreeEntry>& entries, const std::string& name,
                       const std::string& temporary_directory) {
    const std::vector<TreeTop> tops = find_tops(entries);
    if (tops.empty())
        throw Error("no files of /sys in it", name,
                    "pack them so: tar -czf sys.tar.gz /sys/bus /sys/class /sys/devices");
    const PrivateDirectory directory(temporary_directory);
    TreeWriter writer(directory.path(), name);
    writer.write(entries, tops.front());
    Machine machine = detect_root(directory.path());
    if (tops.size() > 1)
        machine.notes.push_back(fmt::format("{}: {} machines in it, '{}' is read", printable(name),
                                            tops.size(), printable(tops.front().prefix)));
    if (writer.links_left_out() > 0)
        machine.notes.push_back(fmt::format("{}: {} links that lead out of the tree are left out",
                                            printable(name), writer.links_left_out()));
    const auto empty_cpuinfo = [&](const TreeEntry& entry) {
        return tree_place(entry, tops.front()) == "proc/cpuinfo" && entry.data.empty();
    };
    if (std::any_of(entries.begin(), entries.end(), empty_cpuinfo))
        machine.notes.push_back(printable(name) +
                                ": the files of /proc are empty (tar goes by their stated size "
                                "of 0; copy them with cp first)");
    return machine;
}

/// The files below a directory that is a copy of /sys under another name.
class DirectoryReader {
  public:
    explicit DirectoryReader(const std::string& directory) : directory_(directory) {}

    std::vector<TreeEntry> read() {
        read_below("", 0);
        // Only now: data_ no longer moves.
        for (std::size_t i = 0, file = 0; i < entries_.size(); ++i)
            if (entries_[i].kind == EntryKind::file) entries_[i].data = data_[file++];
        return std::move(entries_);
    }

  private:
    void read_below(const std::string& prefix, int depth) {
        if (depth > 64) return;
        const Files files(directory_);
        for (const std::string& name : files.list("/" + prefix)) {
            if (entries_.size() == kMostTreeNames || bytes_ > kMostTreeBytes)
                throw Error("too many files for a copy of /sys", directory_);
            TreeEntry entry;
            entry.path = prefix + name;
            const std::string full = directory_ + "/" + entry.path;
            struct stat status {};
            if (lstat(full.c_str(), &status) != 0) continue;
            if (S_ISLNK(status.st_mode)) {
                entry.kind = EntryKind::link;
                std::error_code missing;
                entry.target = std::filesystem::read_symlink(full, missing).string();
                if (!missing) entries_.push_back(std::move(entry));
            } else if (S_ISDIR(status.st_mode)) {
                entry.kind = EntryKind::directory;
                entries_.push_back(entry);
                read_below(entry.path + "/", depth + 1);
            } else if (auto data = files.read("/" + entry.path)) {
                bytes_ += data->size();
                data_.push_back(std::move(*data));
                entries_.push_back(std::move(entry));
            }
        }
    }

    std::string directory_;
    std::vector<TreeEntry> entries_;
    std::vector<std::string> data_;
    std::size_t bytes_ = 0;
};

bool is_sysfs(const std::string& directory) {
    const Files files(directory);
    return std::any_of(kSysfsMarks.begin(), kSysfsMarks.end(), [&](std::string_view mark) {
        return files.exists(fmt::format("/{}", mark));
    });
}

}  // namespace

bool is_tar(std::string_view bytes) {
    return !packing_of(bytes).empty() || is_plain_tar(bytes);
}

Machine machine_from_tree(const std::string& directory, const std::string& temporary_directory) {
    std::error_code missing;
    const std::filesystem::path path = std::filesystem::canonical(directory, missing);
    if (missing) throw Error(fmt::format("cannot read: {}", missing.message()), directory);
    struct statfs system {};
    const bool running = ::statfs(path.c_str(), &system) == 0 &&
                         (system.f_type == SYSFS_MAGIC || system.f_type == PROC_SUPER_MAGIC);
    if (path == "/" || running)
        throw Error("this is the running machine, not a copy", directory,
                    "run toporun detect without --from");
    if (is_sysfs((path / "sys").string())) return detect_root(path.string());
    if (!is_sysfs(path.string()))
        throw Error("no copy of /sys in this directory", directory,
                    "it must hold sys/, or bus/pci, class/net and devices/system");
    // A directory named sys is found from the one above it, unless that is the real root.
    if (path.filename() == "sys" && path.parent_path() != "/")
        return detect_root(path.parent_path().string());
    DirectoryReader reader(path.string());
    return detect_entries(reader.read(), directory, temporary_directory);
}

Machine machine_from_tar(std::string_view bytes, const std::string& name,
                         const std::string& temporary_directory) {
    const std::string_view packing = packing_of(bytes);
    if (!packing.empty() && packing != "gzip")
        throw Error(
            fmt::format("the archive is packed with {}, which toporun does not unpack", packing),
            name, fmt::format("unpack it first: {} -dc {} > FILE.tar", packing, shell_word(name)));
    Unpacked unpacked;
    if (packing == "gzip") {
        unpacked = gunzip(bytes, kMostUnpackedBytes, name);
        bytes = unpacked.bytes;
        if (!is_plain_tar(bytes))
            throw Error("the packed file is no tar archive", name,
                        fmt::format("unpack it first: gunzip {}", shell_word(name)));
    }
    TarContents contents = read_tar(bytes, name);
    Machine machine = detect_entries(contents.entries, name, temporary_directory);
    machine.notes.insert(machine.notes.end(), contents.notes.begin(), contents.notes.end());
    if (unpacked.cut) machine.notes.push_back(printable(name) + ": the gzip data are cut off");
    return machine;
}

}  // namespace toporun::detect
