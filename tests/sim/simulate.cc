// Runs many seeds, or one with its event log. See README.md.
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
  std::string shape;
  CLI::App app("Runs the cluster's cores on a simulated network; every run follows from its seed.");
  app.add_option("--seeds", options.seeds, "how many seeds")->capture_default_str();
  app.add_option("--first-seed", options.first_seed, "the first of them")->capture_default_str();
  app.add_option("--jobs", options.jobs, "threads")->capture_default_str();
  CLI::Option* one = app.add_option("--seed", seed, "run this one only");
  app.add_flag("--log", log, "with --seed: print every event");
  app.add_option("--shape", shape, "NODESxCHUNKSxCLOCKS: one job of this shape, for measurements");
  app.add_flag("!--no-faults", options.limits.faults, "a network without faults");
  CLI11_PARSE(app, argc, argv);
  if (!shape.empty() && !strata::sim::ParseShape(shape, &options.limits)) {
    std::cerr << "simulate: --shape: \"" << shape << "\" is not NODESxCHUNKSxCLOCKS\n";
    return 2;
  }
  if (one->count() > 0) return strata::sim::Replay(seed, options.limits, log, std::cout) ? 0 : 1;
  options.progress = &std::cerr;
  if (!shape.empty()) options.flags += " --shape " + shape;
  if (!options.limits.faults) options.flags += " --no-faults";
  const strata::sim::Campaign campaign = strata::sim::RunCampaign(options);
  std::cout << campaign.Report();
  return campaign.failures.empty() ? 0 : 1;
}
