/// ring_allreduce: a training loop that stands in for a GPU node. 2 to 16 MPI processes compute for
/// a while, then sum a buffer by a real ring all-reduce (reduce-scatter, then all-gather, over
/// MPI_Sendrecv), and again.
///
/// Towards the outside it behaves as NCCL 2.28.9 does: it reads NCCL's variables, writes NCCL's log
/// lines (nccl_log_templates.hpp) and loads and calls a profiler plugin. What it says about its own
/// communication share comes from its own clock around its own calls, so that it can be compared
/// with what the plugin measured.
#include <mpi.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "nccl_interfaces.hpp"
#include "nccl_log.hpp"
#include "nccl_profiler_host.hpp"

namespace ring_allreduce {
namespace {

constexpr char kHelp[] =
    "usage: mpirun -np N ring_allreduce [OPTION]...\n"
    "\n"
    "Computes, sums a buffer over the processes by a ring all-reduce, and again. Stands in for a "
    "GPU node:\n"
    "NCCL's variables are read, NCCL's log lines are written, NCCL_PROFILER_PLUGIN is loaded and "
    "called.\n"
    "\n"
    "  --steps N        steps of the loop, 1 to 1000000 (600)\n"
    "  --elements N     floats in the buffer, 1 to 268435456 (131072)\n"
    "  --compute-us U   CPU time of each step's arithmetic in microseconds, 0 to 10000000 (400)\n"
    "  --help           this text\n"
    "\n"
    "The last lines say which share of the time was spent in the all-reduce, by the program's own "
    "clock, mean\n"
    "over the processes. Of more than 40 steps the first 10 are a warm-up and do not count.\n";

constexpr int kChannels = 2;  // halves of the buffer, each its own ring
constexpr int kConnectRounds = 64;
constexpr long long kWarmUpSteps = 10;
constexpr long long kStepsWithoutWarmUp = 40;
constexpr int kTag = 1;

struct Options {
    long long steps = 600;
    long long elements = 1 << 17;
    long long compute_us = 400;
    bool help = false;
    std::string fault;  ///< what is wrong with the command line, "" when nothing is
};

bool number_between(std::string_view text, long long low, long long high, long long& value) {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    return fault == std::errc{} && end == text.data() + text.size() && value >= low &&
           value <= high;
}

Options parse(int argc, char** argv) {
    struct Row {
        std::string_view name;
        long long Options::*value;
        long long low, high;
    };
    constexpr Row kRows[] = {{"--steps", &Options::steps, 1, 1'000'000},
                             {"--elements", &Options::elements, 1, 1 << 28},
                             {"--compute-us", &Options::compute_us, 0, 10'000'000}};
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--help") {
            options.help = true;
            return options;
        }
        const Row* row = nullptr;
        for (const Row& candidate : kRows) {
            if (candidate.name == word) row = &candidate;
        }
        if (row == nullptr) {
            options.fault = "unknown option '" + std::string(word) + "'";
        } else if (i + 1 >= argc ||
                   !number_between(argv[++i], row->low, row->high, options.*row->value)) {
            options.fault = std::string(word) + " needs a number from " + std::to_string(row->low) +
                            " to " + std::to_string(row->high);
        }
        if (!options.fault.empty()) return options;
    }
    return options;
}

/// Where this process stands: in the job and on its node.
struct Place {
    int rank = 0, ranks = 1;
    int local_rank = 0, local_ranks = 1;
    int nodes = 1;
    std::vector<int> local_rank_of;  ///< by rank
    std::vector<int> node_of;        ///< by rank: the smallest rank on that node
};

Place find_place() {
    Place place;
    MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place.ranks);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place.local_rank);
    MPI_Comm_size(node, &place.local_ranks);
    int first = place.rank;
    MPI_Bcast(&first, 1, MPI_INT, 0, node);
    MPI_Comm_free(&node);
    place.local_rank_of.resize(static_cast<std::size_t>(place.ranks));
    place.node_of.resize(static_cast<std::size_t>(place.ranks));
    MPI_Allgather(&place.local_rank, 1, MPI_INT, place.local_rank_of.data(), 1, MPI_INT,
                  MPI_COMM_WORLD);
    MPI_Allgather(&first, 1, MPI_INT, place.node_of.data(), 1, MPI_INT, MPI_COMM_WORLD);
    place.nodes = 0;
    for (int rank = 0; rank < place.ranks; ++rank) {
        place.nodes += place.node_of[static_cast<std::size_t>(rank)] == rank ? 1 : 0;
    }
    return place;
}

std::string two_digits(int number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
}

std::string interface_list(const std::vector<Interface>& interfaces) {
    std::string text;
    for (std::size_t i = 0; i < interfaces.size(); ++i) {
        text += (i == 0 ? "[" : " [") + std::to_string(i) + "]" + interfaces[i].name + ":" +
                interfaces[i].address + "<0>";
    }
    return text;
}

/// The communicator as the log shows it.
class Communicator {
  public:
    Communicator(Log& log, const Place& place) : log_(log), place_(place) {
        if (place.rank == 0) id_ = now_ns() * 0x9e3779b97f4a7c15u ^ static_cast<unsigned>(getpid());
        MPI_Bcast(&id_, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    }

    std::uint64_t id() const { return id_; }

    /// Chooses the interfaces. False when there is none: NCCL refuses to start then.
    bool choose_network() {
        log_.variable("NCCL_SOCKET_FAMILY");
        log_.variable("NCCL_SOCKET_IFNAME");
        const std::string wanted = environment("NCCL_SOCKET_IFNAME");
        if (wanted.size() > 1) log_.info(kInterfaceSetTo, {wanted});
        const std::vector<Interface> found =
            nccl_interfaces(wanted, environment("NCCL_SOCKET_FAMILY"));
        if (found.empty()) {
            log_.warn("bootstrap.cc:114", kNoInterface);
            return false;
        }
        log_.info(kBootstrapUsing, {found[0].name + ":" + found[0].address + "<0>"});
        log_.version(place_.rank);
        log_.info(kNoNetPlugin);
        log_.info(kSocketUsing, {interface_list(found)});
        log_.info(kNetInitialized);
        log_.info(kNetAssigned);
        log_.info(kUsingNetwork);
        return true;
    }

    void start() {
        life(kInitStart);
        log_.variable("NCCL_P2P_LEVEL");
        log_.variable("NCCL_P2P_DISABLE");
        log_.info(kCommShape, {address(), text(place_.rank), text(place_.ranks), text(place_.nodes),
                               text(place_.local_ranks), text(place_.local_rank)});
        if (place_.rank != 0) return;
        std::string order;
        for (int rank = 0; rank < place_.ranks; ++rank) {
            order += (rank == 0 ? "" : " ") + text(rank);
        }
        for (int channel = 0; channel < kChannels; ++channel) {
            log_.info(kRingOrder, {two_digits(channel) + "/" + two_digits(kChannels), order});
        }
    }

    void complete() { life(kInitComplete); }

    void connected() {
        const int next = (place_.rank + 1) % place_.ranks;
        const auto at = [](int rank) { return static_cast<std::size_t>(rank); };
        const bool same_node = place_.node_of[at(place_.rank)] == place_.node_of[at(next)];
        for (int channel = 0; channel < kChannels && place_.ranks > 1; ++channel) {
            log_.info(same_node ? kViaShm : kViaNet, {two_digits(channel) + (same_node ? "" : "/0"),
                                                      end_point(place_.rank), end_point(next)});
        }
        if (place_.ranks > 1) log_.info(kConnectedRings);
    }

    void destroy() {
        log_.info(kDestroyComplete, {address(), text(place_.rank), text(place_.ranks),
                                     text(place_.local_rank), bus_id()});
    }

  private:
    static std::string text(int number) { return std::to_string(number); }
    std::string address() const { return hex(reinterpret_cast<std::uintptr_t>(this)); }
    /// No GPU: the address of a bus that PCI hands out last.
    std::string bus_id() const {
        return hex(0xf0000u + static_cast<unsigned>(place_.local_rank) * 0x1000u).substr(2);
    }
    std::string end_point(int rank) const {
        return text(rank) + "[" + text(place_.local_rank_of[static_cast<std::size_t>(rank)]) + "]";
    }
    void life(const LogTemplate& line) {
        log_.info(line, {address(), text(place_.rank), text(place_.ranks), text(place_.local_rank),
                         text(place_.local_rank), bus_id(), hex(id_)});
    }

    Log& log_;
    const Place& place_;
    std::uint64_t id_ = 0;
};

/// [first, second) of part `part` of `parts` equal parts of `count` elements.
struct Range {
    std::size_t first, last;
    std::size_t size() const { return last - first; }
};
Range part_of(Range whole, int part, int parts) {
    const std::size_t n = static_cast<std::size_t>(parts);
    const std::size_t i = static_cast<std::size_t>((part % parts + parts) % parts);
    return {whole.first + whole.size() * i / n, whole.first + whole.size() * (i + 1) / n};
}

/// The ring: sums a buffer over all processes, in place.
class Ring {
  public:
    Ring(const Place& place, ProfilerHost& profiler, std::size_t elements)
        : place_(place), profiler_(profiler), elements_(elements), incoming_(elements) {}

    void all_reduce(std::vector<float>& buffer) {
        void* coll = profiler_.collective(sequence_++, elements_, kChannels);
        std::uint64_t start_ns[kChannels] = {}, stop_ns[kChannels] = {};
        const int rank = place_.rank, last_step = 2 * (place_.ranks - 1);
        for (int step = 0; step < last_step; ++step) {
            const bool adding = step < place_.ranks - 1;  // reduce-scatter, then all-gather
            const int shift = adding ? step : step - place_.ranks;
            for (int channel = 0; channel < kChannels; ++channel) {
                const Range half = part_of({0, elements_}, channel, kChannels);
                if (step == 0) start_ns[channel] = now_ns();
                exchange(buffer, part_of(half, rank - shift, place_.ranks),
                         part_of(half, rank - shift - 1, place_.ranks), adding);
                if (step == last_step - 1) stop_ns[channel] = now_ns();
            }
        }
        if (last_step == 0) return;
        for (int channel = 0; channel < kChannels; ++channel) {
            profiler_.channel(coll, channel, start_ns[channel], stop_ns[channel]);
        }
    }

    /// Messages around the ring before the first collective, as NCCL makes its connections: the
    /// first ones of a process are slow, and are no collectives that a profiler could see.
    void connect() {
        const int count = static_cast<int>(elements_ / static_cast<std::size_t>(place_.ranks));
        std::vector<float> out(static_cast<std::size_t>(count));
        for (int round = 0; round < kConnectRounds; ++round) {
            MPI_Sendrecv(out.data(), count, MPI_FLOAT, next(), kTag, incoming_.data(), count,
                         MPI_FLOAT, previous(), kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }

  private:
    int next() const { return (place_.rank + 1) % place_.ranks; }
    int previous() const { return (place_.rank + place_.ranks - 1) % place_.ranks; }

    void exchange(std::vector<float>& buffer, Range out, Range in, bool adding) {
        float* target = adding ? incoming_.data() : buffer.data() + in.first;
        MPI_Sendrecv(buffer.data() + out.first, static_cast<int>(out.size()), MPI_FLOAT, next(),
                     kTag, target, static_cast<int>(in.size()), MPI_FLOAT, previous(), kTag,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!adding) return;
        for (std::size_t i = 0; i < in.size(); ++i) buffer[in.first + i] += incoming_[i];
    }

    const Place& place_;
    ProfilerHost& profiler_;
    std::size_t elements_;
    std::vector<float> incoming_;
    std::uint64_t sequence_ = 0;
};

std::uint64_t thread_cpu_ns() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
           static_cast<std::uint64_t>(time.tv_nsec);
}

/// Arithmetic until it has taken the wanted CPU time. Returns a figure that depends on all of it.
double compute(std::uint64_t wanted_ns, double value) {
    const std::uint64_t begin = thread_cpu_ns();
    while (thread_cpu_ns() - begin < wanted_ns) {
        for (int i = 0; i < 2000; ++i) value = value * 0.999999 + 1e-6 * i;
    }
    return value;
}

/// Small whole numbers: their sums over 16 ranks are exact in float.
float input(int rank, std::size_t i, long long step) {
    return static_cast<float>((rank + 1) *
                              static_cast<int>((i + static_cast<std::size_t>(step)) % 8 + 1));
}

bool is_sum(const std::vector<float>& buffer, int ranks, long long step) {
    for (std::size_t i = 0; i < buffer.size(); ++i) {
        if (buffer[i] != input(ranks * (ranks + 1) / 2 - 1, i, step)) return false;
    }
    return true;
}

struct Outcome {
    double share = 0;   ///< time in the all-reduce / time of the loop after the warm-up, own clock
    bool exact = true;  ///< every sum was right
};

long long warm_up_steps(const Options& options) {
    return options.steps > kStepsWithoutWarmUp ? kWarmUpSteps : 0;
}

/// The clock runs from the end of the warm-up to the end of the last step.
Outcome run(const Options& options, const Place& place, Ring& ring) {
    std::vector<float> buffer(static_cast<std::size_t>(options.elements));
    volatile double figure = 1;
    Outcome outcome;
    std::uint64_t communication_ns = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    std::uint64_t begin = now_ns();
    for (long long step = 0; step < options.steps; ++step) {
        if (step == warm_up_steps(options)) {
            begin = now_ns();
            communication_ns = 0;
        }
        figure = compute(static_cast<std::uint64_t>(options.compute_us) * 1000, figure);
        for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = input(place.rank, i, step);
        const std::uint64_t call = now_ns();
        ring.all_reduce(buffer);
        communication_ns += now_ns() - call;
        outcome.exact = outcome.exact && is_sum(buffer, place.ranks, step);
    }
    const std::uint64_t wall_ns = now_ns() - begin;
    outcome.share = static_cast<double>(communication_ns) / static_cast<double>(wall_ns);
    return outcome;
}

/// Rank 0 prints; returns the exit status, which is the same on all ranks.
int conclude(const Options& options, const Place& place, const Outcome& outcome) {
    double sum = 0;
    int exact = outcome.exact ? 1 : 0, all_exact = 0;
    MPI_Reduce(&outcome.share, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&exact, &all_exact, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (place.rank == 0) {
        if (place.ranks == 1) {
            std::printf(
                "ring_allreduce: one process only, nothing to communicate with: start it "
                "with mpirun -np 2 or more\n");
        }
        std::printf(
            "ring_allreduce: %d rank%s, %lld steps, communication %.1f %% of the time "
            "(own clock)\n",
            place.ranks, place.ranks == 1 ? "" : "s", options.steps, 100 * sum / place.ranks);
        std::printf(
            "ring_allreduce: stands in for a GPU node: CPU processes over MPI, no GPU, no "
            "NCCL\n");
        if (all_exact == 0) std::fprintf(stderr, "ring_allreduce: a sum was wrong\n");
    }
    return all_exact == 1 ? 0 : 1;
}

int train(const Options& options) {
    const Place place = find_place();
    Log log(place.local_rank);
    Communicator communicator(log, place);
    if (!communicator.choose_network()) {
        std::fprintf(stderr,
                     "ring_allreduce: no usable network interface, as NCCL would say "
                     "(invalid usage); NCCL_SOCKET_IFNAME='%s'\n",
                     environment("NCCL_SOCKET_IFNAME").c_str());
        return 1;
    }
    communicator.start();
    ProfilerHost profiler(log, {communicator.id(), place.nodes, place.ranks, place.rank});
    communicator.complete();
    Ring ring(place, profiler, static_cast<std::size_t>(options.elements));
    ring.connect();
    communicator.connected();
    const Outcome outcome = run(options, place, ring);
    const int status = conclude(options, place, outcome);
    communicator.destroy();
    return status;
}

}  // namespace
}  // namespace ring_allreduce

int main(int argc, char** argv) {
    const ring_allreduce::Options options = ring_allreduce::parse(argc, argv);
    if (options.help) {
        std::fputs(ring_allreduce::kHelp, stdout);
        return 0;
    }
    if (!options.fault.empty()) {
        std::fprintf(stderr, "ring_allreduce: %s\n  hint: see ring_allreduce --help\n",
                     options.fault.c_str());
        return 2;
    }
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    const int status = ring_allreduce::train(options);
    MPI_Finalize();
    return status;
}
