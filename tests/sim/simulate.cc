// Runs many seeds, or one with its event log:
//   bazel run //tests/sim:simulate -- --seeds 100000              until three have failed
//   bazel run //tests/sim:simulate -- --seed 4711 --log           one of them, event by event
//   bazel run //tests/sim:simulate -- --profile lossy             scenarios of one kind
//   bazel run //tests/sim:simulate -- --compare 12,40             two seeds with equal final models
//   bazel run //tests/sim:simulate -- --seeds 500 --shape 4x60x5  seeds per second of one shape
#include <atomic>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "tests/sim/campaign.h"

int main(int argc, char** argv) {
  strata::sim::Campaign::Options options;
  options.jobs = std::thread::hardware_concurrency();
  uint64_t seed = 0;
  bool log = false;
  std::string shape, profile = "all", profiles;
  std::vector<uint64_t> compared;
  for (const auto& one : strata::sim::Profiles()) {
    profiles += absl::StrFormat("\n%s: %s", one.name, one.what);
  }
  CLI::App app("Runs the cluster's cores on a simulated network; every run follows from its seed.");
  app.add_option("--seeds", options.seeds, "how many seeds")->capture_default_str();
  app.add_option("--first-seed", options.first_seed, "the first of them")->capture_default_str();
  app.add_option("--jobs", options.jobs, "threads")->capture_default_str();
  CLI::Option* one = app.add_option("--seed", seed, "run this one only");
  CLI::Option* two = app.add_option("--compare", compared, "run two; their models must be equal")
                         ->delimiter(',')
                         ->expected(2);
  app.add_option("--profile", profile, "which scenarios are drawn:" + profiles)
      ->capture_default_str();
  bool faults = true;
  app.add_flag("--log", log, "with --seed: print every event");
  app.add_option("--shape", shape, "NODESxCHUNKSxCLOCKS: one job of this shape, for measurements");
  app.add_flag("!--no-faults", faults, "a network without faults");
  CLI11_PARSE(app, argc, argv);
  const strata::sim::Profile* found = strata::sim::FindProfile(profile);
  if (found == nullptr) {
    std::cerr << "simulate: --profile: there is no \"" << profile << "\"\n";
    return 2;
  }
  options.Take(*found);
  if (!faults) {
    options.limits.faults = false;
    options.flags += " --no-faults";
  }
  if (!shape.empty() && !strata::sim::ParseShape(shape, &options.limits)) {
    std::cerr << "simulate: --shape: \"" << shape << "\" is not NODESxCHUNKSxCLOCKS\n";
    return 2;
  }
  if (one->count() > 0) return strata::sim::Replay(seed, options.limits, log, std::cout) ? 0 : 1;
  if (two->count() > 0) {
    return strata::sim::CompareModels(compared[0], compared[1], options.limits, std::cout) ? 0 : 1;
  }
  options.progress = &std::cerr;
  if (!shape.empty()) options.flags += " --shape " + shape;
  const strata::sim::Campaign campaign = strata::sim::RunCampaign(options);
  std::cout << campaign.Report();
  return campaign.failures.empty() ? 0 : 1;
}
