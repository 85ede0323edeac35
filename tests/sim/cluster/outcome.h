#ifndef STRATA_TESTS_SIM_CLUSTER_OUTCOME_H_
#define STRATA_TESTS_SIM_CLUSTER_OUTCOME_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/transport/sim/sim_network.h"
#include "tests/sim/check/scenario.h"

namespace strata::sim {

// All events of one run: as a hash, which proves that the seed decides all of it, and optionally as
// text: one line per event, with the virtual time in ms.
class EventLog {
 public:
  explicit EventLog(bool keep_text = false) : keep_text_(keep_text) {}

  // `text` is called only if text is kept.
  template <typename Text>
  void Add(absl::Time now, uint64_t what, Text text) {
    Mix(static_cast<uint64_t>(absl::ToUnixNanos(now)));
    Mix(what);
    if (!keep_text_) return;
    absl::StrAppendFormat(&text_, "%12.3f  %s\n",
                          absl::ToDoubleMilliseconds(now - absl::UnixEpoch()), std::string(text()));
  }

  uint64_t hash() const { return hash_; }
  const std::string& text() const { return text_; }

 private:
  void Mix(uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15;
    hash_ ^= hash_ >> 29;
  }

  const bool keep_text_;
  uint64_t hash_ = 0x5354524154410001;
  std::string text_;
};

// The result of one run.
struct Outcome {
  std::string violation;  // empty: all invariants held; otherwise the invariant's name comes first
  Scenario scenario;
  uint64_t log_hash = 0;
  uint64_t events = 0;
  absl::Duration virtual_time;
  uint64_t pushes = 0;                     // made by nodes, without repetitions by the network
  std::array<uint64_t, kRares> rare = {};  // how often each was taken
  std::array<uint64_t, transport::kSimNotes> network = {};
  uint64_t partitions = 0;
  // Jobs that failed or were cancelled because of a fault, and jobs that ended well beside them.
  uint64_t jobs_failed = 0, jobs_cancelled = 0, jobs_unharmed = 0;
  // Shape and hash of the final model of each job whose weights follow from its shape alone.
  std::vector<std::pair<std::string, uint64_t>> models;
  // By job and node: the time from the run's start to its ranks' last step.
  std::map<std::pair<uint32_t, uint32_t>, absl::Duration> trained_at;

  bool ok() const { return violation.empty(); }
};

// Runs the world of a seed. One thread; different runs may run in parallel. `log` may be null.
Outcome RunSeed(uint64_t seed, const Scenario::Limits& limits, EventLog* log = nullptr);
Outcome RunScenario(const Scenario& scenario, EventLog* log = nullptr);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_OUTCOME_H_
