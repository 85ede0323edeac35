// Runs seeds of the simulator until one is red; every mutant and the sound program are made of it.
//   PROGRAM [SEEDS [PROFILE]]
// Prints the mutation that it was built with and what became of the seeds; exit status 0: all are
// green, 1: one is red.
#include <cstdio>
#include <cstdlib>

#include "tests/sim/campaign.h"
#include "tests/sim/scenario/profile.h"

// Defined in the faulty source file of a mutant.
extern "C" __attribute__((weak)) const char* StrataMutation();

int main(int argc, char** argv) {
  std::printf("mutation: %s\n", StrataMutation != nullptr ? StrataMutation() : "none");
  std::fflush(stdout);
  strata::sim::Campaign::Options options;
  options.seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  options.failures_max = 1;
  const strata::sim::Profile* profile = strata::sim::FindProfile(argc > 2 ? argv[2] : "all");
  if (profile == nullptr) return 2;
  options.Take(*profile);
  const strata::sim::Campaign campaign = strata::sim::RunCampaign(options);
  std::printf("seeds: %lu\n", campaign.runs);
  if (campaign.failures.empty()) return 0;
  const strata::sim::Campaign::Failure& failure = campaign.failures.front();
  std::printf("seed: %lu\nviolation: %s\n", failure.seed, failure.violation.c_str());
  return 1;
}
