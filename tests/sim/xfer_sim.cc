// SPDX-License-Identifier: Apache-2.0
// Random scenarios in the simulated world, by seed; tests/sim/README.md tells more.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "scenario.h"

using namespace xfer;

namespace {

const char kHelp[] =
    "xfer_sim runs random scenarios of simulated engines and checks what must hold.\n"
    "\n"
    "  --seed N        the scenario of seed N alone\n"
    "  --trace         with --seed: prints it line by line\n"
    "  --seeds A..B    those of seeds A to B\n"
    "  --count N       N fresh seeds\n"
    "  --listed FILE   the seeds that begin the lines of a file\n"
    "  --seconds S     fresh seeds for S seconds\n"
    "  --hours H       fresh seeds for H hours\n"
    "  --plain         without what the generator learnt later: a seed is what it once "
    "was\n"
    "  --digest        prints the digest of all scenarios: equal for equal runs\n"
    "  --quiet         no coverage at the end\n"
    "  --help          this\n"
    "\n"
    "With XFER_TEST_QUICK in the environment, --seeds and --seconds do a tenth.\n"
    "A violation is told in one line, seed=N: what; then the exit status is 1.\n";

constexpr rlim_t kDescriptors = 320;

struct Wanted {
    uint64_t first = 0, last = 0;
    std::vector<uint64_t> listed;  // in place of those
    double seconds = 0;
    bool trace = false, plain = false, digest = false, quiet = false;
};

[[noreturn]] void wrong(const std::string &what) {
    std::fprintf(stderr, "xfer_sim: %s; --help tells what there is\n", what.c_str());
    std::exit(2);
}

uint64_t number(const std::string &option, const std::string &text) {
    char *end = nullptr;
    const uint64_t value = std::strtoull(text.c_str(), &end, 10);
    if (text.empty() || *end || text[0] == '-')
        wrong(option + " needs a number, not \"" + text + "\"");
    return value;
}

double duration(const std::string &option, const std::string &text) {
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end || !(value > 0))
        wrong(option + " needs a number above 0, not \"" + text + "\"");
    return value;
}

uint64_t fresh_seed() {
    std::random_device entropy;
    return (uint64_t{entropy()} << 16 ^ entropy()) % 1'000'000'000'000;
}

std::vector<uint64_t> listed_in(const std::string &file) {
    std::ifstream lines(file);
    if (!lines) wrong("can't read " + file);
    std::vector<uint64_t> seeds;
    for (std::string line; std::getline(lines, line);)
        if (!line.empty() && line[0] != '#')
            seeds.push_back(number(file, line.substr(0, line.find(' '))));
    if (seeds.empty()) wrong(file + " lists no seed");
    return seeds;
}

void choose(Wanted &wanted, const std::string &option, const std::string &value) {
    const uint64_t share = std::getenv("XFER_TEST_QUICK") ? 10 : 1;
    if (option == "--seed") {
        wanted.first = wanted.last = number(option, value);
    } else if (option == "--seeds") {
        const size_t dots = value.find("..");
        if (dots == std::string::npos) wrong("--seeds needs two numbers, as in 1..100");
        wanted.first = number(option, value.substr(0, dots));
        wanted.last = number(option, value.substr(dots + 2));
        if (wanted.last < wanted.first) wrong("--seeds ends before it begins");
        wanted.last = wanted.first + (wanted.last - wanted.first) / share;
    } else if (option == "--count") {
        const uint64_t count = number(option, value);
        if (count == 0) wrong("--count needs a number above 0");
        wanted.first = fresh_seed();
        wanted.last = wanted.first + count - 1;
    } else if (option == "--listed") {
        wanted.listed = listed_in(value);
    } else {
        wanted.seconds = duration(option, value) * (option == "--hours" ? 3'600 : 1);
        wanted.seconds /= static_cast<double>(share);
        wanted.first = fresh_seed();
        wanted.last = UINT64_MAX;
    }
}

Wanted parse(int argc, char **argv) {
    static const std::set<std::string> choices = {"--seed",    "--seeds", "--count",
                                                  "--seconds", "--hours", "--listed"};
    Wanted wanted;
    std::string chosen;
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--help") {
            std::fputs(kHelp, stdout);
            std::exit(0);
        }
        if (option == "--trace") {
            wanted.trace = true;
        } else if (option == "--plain") {
            wanted.plain = true;
        } else if (option == "--digest") {
            wanted.digest = true;
        } else if (option == "--quiet") {
            wanted.quiet = true;
        } else {
            if (!choices.count(option)) wrong("unknown option " + option);
            if (++i == argc) wrong(option + " needs a value");
            if (!chosen.empty()) wrong("either " + chosen + " or " + option);
            chosen = option;
            choose(wanted, option, argv[i]);
        }
    }
    if (chosen.empty()) wrong("no seeds: --seed, --seeds, --count, --seconds, --hours or --listed");
    if (wanted.trace && chosen != "--seed") wrong("--trace goes with --seed");
    return wanted;
}

volatile uint64_t running = 0;

// A check inside the library has failed: which seed that was must not be lost.
void on_abort(int signal) {
    char text[80];
    const int length =
        std::snprintf(text, sizeof text, "seed=%llu: the library stopped, signal %d\n",
                      static_cast<unsigned long long>(running), signal);
    [[maybe_unused]] const ssize_t written = ::write(1, text, static_cast<size_t>(length));
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

// How many connections may be half-open follows from it: the same everywhere, and soon full.
void limit_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, kDescriptors);
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

double now() {
    using namespace std::chrono;
    return duration_cast<std::chrono::duration<double>>(steady_clock::now().time_since_epoch())
        .count();
}

class Campaign {
public:
    void run(uint64_t seed, const Wanted &wanted) {
        running = seed;
        Scenario scenario(seed, wanted.trace, wanted.plain);
        const uint64_t start = scenario.world.now();
        const std::string fault = scenario.run();
        if (!fault.empty()) {
            std::printf("seed=%llu: %s\n", static_cast<unsigned long long>(seed), fault.c_str());
            std::fflush(stdout);
            ::_exit(1);  // what it left can't be taken apart in order
        }
        ++scenarios_;
        simulated_ += static_cast<double>(scenario.world.now() - start) / 1e9;
        digest_ = (digest_ ^ scenario.digest()) * 0x100000001b3;
        for (const auto &[what, times] : scenario.net.met)
            met_[what] += times;
    }
    void tell(const Wanted &wanted, double took) const {
        if (wanted.digest)
            std::printf("digest %016llx\n", static_cast<unsigned long long>(digest_));
        if (wanted.quiet) return;
        for (const auto &[what, times] : met_)
            std::printf("%12llu  %s\n", static_cast<unsigned long long>(times), what.c_str());
        std::printf(
            "%llu scenarios in %.1f s: %.0f seeds per minute, %.0f simulated seconds per "
            "second\n",
            static_cast<unsigned long long>(scenarios_), took,
            60 * static_cast<double>(scenarios_) / took, simulated_ / took);
    }

private:
    uint64_t scenarios_ = 0, digest_ = 0;
    double simulated_ = 0;
    std::map<std::string, uint64_t> met_;
};

}  // namespace

int main(int argc, char **argv) {
    const Wanted wanted = parse(argc, argv);
    limit_descriptors();
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE})
        std::signal(signal, on_abort);
    if (wanted.first != wanted.last)
        std::printf("from seed %llu\n", static_cast<unsigned long long>(wanted.first));
    std::fflush(stdout);
    const double began = now();
    Campaign campaign;
    for (const uint64_t seed : wanted.listed)
        campaign.run(seed, wanted);
    for (uint64_t seed = wanted.first; wanted.listed.empty() && seed <= wanted.last; ++seed) {
        if (wanted.seconds > 0 && now() - began > wanted.seconds) break;
        campaign.run(seed, wanted);
    }
    campaign.tell(wanted, now() - began);
    return 0;
}
