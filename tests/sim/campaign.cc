#include "tests/sim/campaign.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <ostream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace strata::sim {
namespace {

absl::Duration CpuTime() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

}  // namespace

void Campaign::Options::Take(const Profile& profile) {
  limits = profile.limits;
  flags = absl::StrCat(" --profile ", profile.name);
}

std::string ReplayCommand(uint64_t seed, const std::string& flags) {
  return absl::StrFormat("bazel run //tests/sim:simulate -- --seed %d --log%s", seed, flags);
}

void Campaign::Add(const Outcome& outcome) {
  ++runs;
  events += outcome.events;
  pushes += outcome.pushes;
  partitions += outcome.partitions;
  jobs_failed += outcome.jobs_failed;
  jobs_cancelled += outcome.jobs_cancelled;
  jobs_unharmed += outcome.jobs_unharmed;
  virtual_time += outcome.virtual_time;
  for (const JobPlan& job : outcome.scenario.jobs) ++modes[job.consistency];
  for (size_t i = 0; i < kRares; ++i) rare[i] += outcome.rare[i];
  for (size_t i = 0; i < network.size(); ++i) network[i] += outcome.network[i];
  const uint64_t seed = outcome.scenario.seed;
  if (!outcome.ok()) failures.push_back({seed, outcome.violation, ReplayCommand(seed, flags)});
  for (const auto& [shape, hash] : outcome.models) {
    const auto [known, is_new] = models.emplace(shape, Model{.hash = hash, .seed = seed});
    if (!is_new) ++models_compared;
    const Model& model = known->second;
    if (model.hash == hash) continue;
    failures.push_back({seed,
                        absl::StrFormat("G2 order of bits: another final model than seed %d's: %s",
                                        model.seed, shape),
                        absl::StrFormat("bazel run //tests/sim:simulate -- --compare %d,%d%s",
                                        model.seed, seed, flags)});
  }
}

std::string Campaign::Report() const {
  std::string text = absl::StrFormat(
      "%d seeds in %.1f s: %.0f seeds/s; %.0f seeds per second of CPU time\n"
      "%d events, %d pushes, %.0f virtual seconds, %d partitions; %d final models in %d shapes "
      "compared; %d jobs failed by what was done to them, %d were cancelled, %d beside them ended "
      "well\nmodes:",
      runs, absl::ToDoubleSeconds(real_time), runs / absl::ToDoubleSeconds(real_time),
      runs / absl::ToDoubleSeconds(cpu_time), events, pushes, absl::ToDoubleSeconds(virtual_time),
      partitions, models_compared, models.size(), jobs_failed, jobs_cancelled, jobs_unharmed);
  for (const auto& [mode, jobs] : modes) absl::StrAppendFormat(&text, " [%s] %d", mode, jobs);
  absl::StrAppend(&text, "\nnetwork:");
  for (size_t i = 0; i < network.size(); ++i) {
    absl::StrAppendFormat(&text, " %s %d,", ToString(static_cast<transport::SimNote>(i)),
                          network[i]);
  }
  absl::StrAppend(&text, "\nrare branches:");
  for (size_t i = 0; i < kRares; ++i) {
    absl::StrAppendFormat(&text, " %s %d,", ToString(static_cast<Rare>(i)), rare[i]);
  }
  absl::StrAppend(&text, "\n");
  for (const Failure& failure : failures) {
    absl::StrAppendFormat(&text, "FAILED seed %d: %s\n  replay: %s\n", failure.seed,
                          failure.violation, failure.replay);
  }
  return text;
}

Campaign RunCampaign(const Campaign::Options& options) {
  Campaign campaign;
  campaign.flags = options.flags;
  absl::Mutex mutex;
  std::atomic<uint64_t> next = 0;
  const absl::Time begin = absl::Now();
  const absl::Duration cpu_begin = CpuTime();
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < std::max<uint32_t>(1, options.jobs); ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = next++; i < options.seeds; i = next++) {
        const Outcome outcome = RunSeed(options.first_seed + i, options.limits);
        absl::MutexLock lock(&mutex);
        campaign.Add(outcome);
        if (campaign.failures.size() >= options.failures_max) next = options.seeds;
        if (options.progress != nullptr && campaign.runs % 1000 == 0) {
          *options.progress << campaign.runs << " of " << options.seeds << " seeds, "
                            << campaign.failures.size() << " failed\n";
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  campaign.real_time = absl::Now() - begin;
  campaign.cpu_time = CpuTime() - cpu_begin;
  return campaign;
}

bool Replay(uint64_t seed, const Scenario::Limits& limits, bool log, std::ostream& out) {
  EventLog events(log);
  const Outcome outcome = RunSeed(seed, limits, &events);
  out << events.text() << "seed " << seed << ": " << outcome.scenario.Describe() << "\n"
      << outcome.events << " events, " << absl::FormatDuration(outcome.virtual_time)
      << ", event log hash " << absl::StrFormat("%016x", outcome.log_hash) << "\n"
      << (outcome.ok() ? "all invariants held" : "VIOLATION " + outcome.violation) << "\n";
  const bool is_same = RunSeed(seed, limits).log_hash == outcome.log_hash;
  if (!is_same) out << "VIOLATION a seed decides every event: other events the second time\n";
  return outcome.ok() && is_same;
}

bool CompareModels(uint64_t seed, uint64_t other, const Scenario::Limits& limits,
                   std::ostream& out) {
  Campaign campaign;
  for (const uint64_t one : {seed, other}) {
    const Outcome outcome = RunSeed(one, limits);
    out << "seed " << one << ": " << outcome.scenario.Describe() << "\n";
    for (const auto& [shape, hash] : outcome.models) {
      out << absl::StrFormat("  %016x  %s\n", hash, shape);
    }
    campaign.Add(outcome);
  }
  for (const Campaign::Failure& failure : campaign.failures) {
    out << "seed " << failure.seed << ": VIOLATION " << failure.violation << "\n";
  }
  out << campaign.models_compared << " final models compared\n";
  return campaign.failures.empty();
}

bool ParseShape(const std::string& shape, Scenario::Limits* limits) {
  const std::vector<std::string> parts = absl::StrSplit(shape, 'x');
  JobPlan plan;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &plan.nodes) ||
      !absl::SimpleAtoi(parts[1], &plan.chunks) || !absl::SimpleAtoi(parts[2], &plan.clocks) ||
      plan.nodes == 0 || plan.nodes > 32 || plan.chunks == 0 || plan.clocks == 0) {
    return false;
  }
  limits->job = plan;
  return true;
}

}  // namespace strata::sim
