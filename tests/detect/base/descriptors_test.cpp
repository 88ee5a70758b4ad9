#include "base/descriptors.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

using namespace toporun;

namespace {

bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

/// From here on this process gets ENOSYS for `number`, as on a kernel without the call.
bool take_away(long number) {
    std::array<sock_filter, 4> program = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog filter = {program.size(), program.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

struct Row {
    const char* name;
    std::vector<long> missing;  ///< system calls that the kernel does not know
    std::vector<int> keep;
    bool full;  ///< no number is left
};

constexpr int kEnd = 64;        ///< numbers below this are looked at
constexpr int kNoFilters = 77;  ///< the kernel here takes no filter

/// In a child: opens some numbers, closes all but `keep`, says whether just those are open.
int status_of_closing(const Row& row) {
    const rlimit limit{kEnd, kEnd};
    setrlimit(RLIMIT_NOFILE, &limit);
    for (const int fd : {3, 4, 5, 9, 17, 62, 63}) dup2(0, fd);
    if (row.full)
        while (dup(0) >= 0) continue;
    for (const long number : row.missing)
        if (!take_away(number)) return kNoFilters;
    std::array<bool, kEnd> wanted{};
    for (const int fd : row.keep)
        if (fd >= 0) wanted[static_cast<std::size_t>(fd)] = is_open(fd);
    close_descriptors_except(row.keep);
    for (int fd = 0; fd < kEnd; ++fd)
        if (is_open(fd) != wanted[static_cast<std::size_t>(fd)]) return 1 + fd;
    return 0;
}

int status_in_child(const Row& row) {
    const pid_t child = fork();
    if (child == 0) _exit(status_of_closing(row));
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("All descriptors but those to keep are closed, whatever the kernel offers") {
    std::vector<Row> rows;
    for (const auto& [keep, full] : {std::pair<std::vector<int>, bool>{{}, false},
                                     {{63}, false},
                                     {{0, 63}, false},
                                     {{17, -1, 4, 17, 5}, false},
                                     {{7, 40}, false},  // not open
                                     {{0, 1, 2, 3, 33}, true}}) {
        rows.push_back({"close_range", {}, keep, full});
        rows.push_back({"no close_range", {SYS_close_range}, keep, full});
        rows.push_back({"neither it nor /proc", {SYS_close_range, SYS_openat}, keep, full});
        rows.push_back({"a list that breaks off", {SYS_close_range, SYS_getdents64}, keep, full});
    }
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CAPTURE(row.keep.size());
        const int status = status_in_child(row);
        if (status == kNoFilters) {
            MESSAGE("skipped, no seccomp filter here: ", row.name);
            continue;
        }
        CHECK(status == 0);
    }
}

TEST_CASE("A descriptor is closed once, by the last that holds it") {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const Descriptor reading(ends[0]);
    {
        Descriptor writing(ends[1]);
        Descriptor moved(std::move(writing));
        CHECK_FALSE(writing);
        CHECK(moved.get() == ends[1]);
        writing = std::move(moved);
        CHECK_FALSE(moved);
        CHECK(is_open(ends[1]));
        errno = EPERM;
        Descriptor none;
        none.reset();
        CHECK(errno == EPERM);
    }
    CHECK_FALSE(is_open(ends[1]));
    CHECK(is_open(ends[0]));
    Descriptor given(dup(ends[0]));
    const int number = given.release();
    CHECK_FALSE(given);
    CHECK(is_open(number));
    given.reset(number);
    given.reset(-1);
    CHECK_FALSE(is_open(number));
}
