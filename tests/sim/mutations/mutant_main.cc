// Runs seeds of the simulator with one mutation, or with none, until one is red.
//   mutants MUTATION|none [SEEDS [PROFILE]]
// Prints the mutation and what became of the seeds; exit status 0: all are green, 1: one is red,
// 2: there is no such mutation or profile. Profiles "checkpoints" and "rows" are the jobs of
// tests/sim/cluster.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/sim/campaign.h"
#include "tests/sim/check/profile.h"
#include "tests/sim/cluster/rows_job.h"
#include "tests/sim/cluster/stored_job.h"
#include "tests/sim/mutations/mutants.h"

namespace {

struct Ran {
  uint64_t seeds = 0, red_seed = 0;
  std::string violation;  // empty: none is red
};

// `run` returns the outcome of one seed.
template <typename Run>
Ran RunJobs(uint64_t seeds, const Run& run) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::string violation = run(seed).violation;
    if (!violation.empty()) return {seed, seed, violation};
  }
  return {seeds, 0, ""};
}

Ran RunWorlds(uint64_t seeds, const strata::sim::Profile& profile) {
  strata::sim::Campaign::Options options;
  options.seeds = seeds;
  options.failures_max = 1;
  options.Take(profile);
  const strata::sim::Campaign campaign = strata::sim::RunCampaign(options);
  if (campaign.failures.empty()) return {campaign.runs, 0, ""};
  return {campaign.runs, campaign.failures.front().seed, campaign.failures.front().violation};
}

// The name of the mutation that is on, as the switches say; "none" where the code is sound.
const char* TurnOn(std::string_view name) {
  const char* on = "none";
  for (const strata::mutants::Mutant& mutant : strata::mutants::All()) {
    *mutant.on = name == mutant.name;
    if (*mutant.on) on = mutant.name;
  }
  return on;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mutation = argc > 1 ? argv[1] : "";
  if (TurnOn(mutation) != mutation) {
    std::fprintf(stderr, "no mutation is named '%s'\n", mutation.c_str());
    return 2;
  }
  std::printf("mutation: %s\n", mutation.c_str());
  std::fflush(stdout);
  const uint64_t seeds = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 200;
  const std::string name = argc > 3 ? argv[3] : "all";
  Ran ran;
  if (name == "checkpoints") {
    ran = RunJobs(seeds, strata::sim::RunStoredJob);
  } else if (name == "rows") {
    ran = RunJobs(seeds, strata::sim::RunRowsJob);
  } else {
    const strata::sim::Profile* profile = strata::sim::FindProfile(name);
    if (profile == nullptr) {
      std::fprintf(stderr, "no profile is named '%s'\n", name.c_str());
      return 2;
    }
    ran = RunWorlds(seeds, *profile);
  }
  std::printf("seeds: %lu\n", ran.seeds);
  if (ran.violation.empty()) return 0;
  std::printf("seed: %lu\nviolation: %s\n", ran.red_seed, ran.violation.c_str());
  return 1;
}
