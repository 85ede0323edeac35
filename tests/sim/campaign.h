#ifndef STRATA_TESTS_SIM_CAMPAIGN_H_
#define STRATA_TESTS_SIM_CAMPAIGN_H_

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/sim/check/profile.h"
#include "tests/sim/cluster/outcome.h"

namespace strata::sim {

// The result of many seeds.
struct Campaign {
  struct Options {
    uint64_t first_seed = 1, seeds = 1000;
    uint32_t jobs = 1;        // threads
    size_t failures_max = 3;  // stops after this many
    Scenario::Limits limits;
    std::string flags;  // flags of simulate for these limits
    std::ostream* progress = nullptr;

    void Take(const Profile& profile);
  };
  struct Failure {
    uint64_t seed = 0;
    std::string violation;
    std::string replay;  // the command that reproduces it
  };
  struct Model {
    uint64_t hash = 0, seed = 0;
  };

  uint64_t runs = 0, events = 0, pushes = 0, partitions = 0;
  uint64_t jobs_failed = 0, jobs_cancelled = 0, jobs_unharmed = 0;  // see Outcome
  absl::Duration virtual_time, real_time, cpu_time;
  std::map<std::string, uint64_t> modes;  // jobs
  std::array<uint64_t, kRares> rare = {};
  std::array<uint64_t, transport::kSimNotes> network = {};
  std::map<std::string, Model> models;  // by shape: the first one seen
  uint64_t models_compared = 0;
  std::vector<Failure> failures;
  std::string flags;

  // Adds an outcome. A sync job that ends with other weights than an earlier one of the same shape
  // is also a failure.
  void Add(const Outcome& outcome);
  // Returns several lines: coverage, seeds per second, and for each failure the invariant, the seed
  // and the command that replays it.
  std::string Report() const;
};

Campaign RunCampaign(const Campaign::Options& options);

// Returns the command that replays a seed.
std::string ReplayCommand(uint64_t seed, const std::string& flags);
// Runs one seed twice and prints the result, with all its events if `log`. True: no violation, and
// the same events both times.
bool Replay(uint64_t seed, const Scenario::Limits& limits, bool log, std::ostream& out);
// Runs two seeds and prints whether jobs of one shape have ended with the same weights.
bool CompareModels(uint64_t seed, uint64_t other, const Scenario::Limits& limits,
                   std::ostream& out);

// Parses "4x60x5": nodes, chunks, clocks; sync. Returns false if it has another form.
bool ParseShape(const std::string& shape, Scenario::Limits* limits);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CAMPAIGN_H_
