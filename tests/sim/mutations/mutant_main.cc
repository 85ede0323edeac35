// Runs seeds of the simulator until one is red; every mutant and the sound program are made of it.
//   PROGRAM [SEEDS]
// Prints the mutation that it was built with and what became of the seeds; exit status 0: all are
// green, 1: one is red.
#include <cstdio>
#include <cstdlib>

#include "tests/sim/campaign.h"

// Defined in the faulty source file of a mutant.
extern "C" __attribute__((weak)) const char* StrataMutation();

int main(int argc, char** argv) {
  std::printf("mutation: %s\n", StrataMutation != nullptr ? StrataMutation() : "none");
  std::fflush(stdout);
  strata::sim::Campaign::Options options;
  options.seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  options.failures_max = 1;
  const strata::sim::Campaign campaign = strata::sim::RunCampaign(options);
  std::printf("seeds: %lu\n", campaign.runs);
  if (campaign.failures.empty()) return 0;
  const auto& [seed, violation] = campaign.failures.front();
  std::printf("seed: %lu\ninvariant: %s\n", seed, violation.c_str());
  return 1;
}
