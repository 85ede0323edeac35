// Runs seeds of the simulator until one is red; every mutant and the sound program are made of it.
//   PROGRAM [SEEDS [PROFILE]]
// Prints the mutation that it was built with and what became of the seeds; exit status 0: all are
// green, 1: one is red. Profile "checkpoints" is that of tests/sim/checkpoints.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/sim/campaign.h"
#include "tests/sim/checkpoints/stored_job.h"
#include "tests/sim/scenario/profile.h"

// Defined in the faulty source file of a mutant.
extern "C" __attribute__((weak)) const char* StrataMutation();

namespace {

struct Ran {
  uint64_t seeds = 0, red_seed = 0;
  std::string violation;  // empty: none is red
};

Ran RunStoredJobs(uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::string violation = strata::sim::RunStoredJob(seed).violation;
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

}  // namespace

int main(int argc, char** argv) {
  std::printf("mutation: %s\n", StrataMutation != nullptr ? StrataMutation() : "none");
  std::fflush(stdout);
  const uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  const std::string name = argc > 2 ? argv[2] : "all";
  Ran ran;
  if (name == "checkpoints") {
    ran = RunStoredJobs(seeds);
  } else {
    const strata::sim::Profile* profile = strata::sim::FindProfile(name);
    if (profile == nullptr) return 2;
    ran = RunWorlds(seeds, *profile);
  }
  std::printf("seeds: %lu\n", ran.seeds);
  if (ran.violation.empty()) return 0;
  std::printf("seed: %lu\nviolation: %s\n", ran.red_seed, ran.violation.c_str());
  return 1;
}
