#ifndef STRATA_SERVER_COORDINATOR_JOBS_METRICS_MERGE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_METRICS_MERGE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "proto/control.pb.h"
#include "proto/processes.pb.h"

namespace strata::server {

// Merges the reports of a job's ranks into one record per window of steps, and into the job's
// progress. Each rank reports its windows in order; steps that were already reported are ignored.
// Pure.
class MetricsMerge {
 public:
  MetricsMerge() = default;
  // `first_step`: the step that the job resumes with, from its checkpoint. Steps, samples and
  // epochs count from the beginning of its training; earlier steps are assumed to have had as many
  // samples per rank as the rank's first window.
  MetricsMerge(uint32_t ranks, uint32_t epochs, uint64_t samples_per_epoch, uint64_t total_steps,
               uint64_t first_step = 0);

  // Ranks make this many local steps per reported step. Records and progress show local steps, as
  // reported by the ranks if they do so.
  void SetLocalSteps(uint64_t per_step) { local_per_step_ = per_step; }

  // Returns the records that are complete now, in the order of their windows: each rank has
  // reported the window or a later one. A measurement of old weights is a record of its own,
  // without samples, and so is any that comes without steps. The record of the final model comes
  // last. `elapsed_s`: since training began.
  std::vector<proto::MetricsRecord> Add(const proto::RankReport& report, double elapsed_s);
  // New processes replace those of ranks [first, first + count). Their counters begin at 0, and
  // their steps at or after any reported step. Steps in between that nobody reported count as made,
  // with as many samples each as in the previous window, or in the next one.
  void StartOver(uint32_t first, uint32_t count);
  // For a job that resumes from a checkpoint with a different number of ranks than made its steps:
  // the sum of the steps of all earlier ranks. REQUIRES: nothing was added.
  void SetEarlier(uint64_t rank_steps);
  // Ranks [first, first + count) make steps from `step` on, or none from it on: nobody waits for
  // reports of the others.
  void Join(uint32_t first, uint32_t count, uint64_t step);
  void Leave(uint32_t first, uint32_t count, uint64_t step);
  // Ranks [first, first + count) have made their last step, whichever it was, and report no more.
  void Drop(uint32_t first, uint32_t count);
  // Returns the remaining records at the job's end, complete or not.
  std::vector<proto::MetricsRecord> Flush(double elapsed_s);

  // Returns the progress by the newest report of each rank.
  proto::Progress GetProgress() const;
  // Returns the finished steps of the slowest of ranks [first, first + count).
  uint64_t SlowestStep(uint32_t first, uint32_t count) const;
  // The same in shown steps, which are local steps.
  uint64_t ShownStep(uint32_t first, uint32_t count) const;
  bool HasReported(uint32_t rank) const;
  // The newest window's MetricsRecord.hidden_share.
  std::optional<double> hidden_share() const { return hidden_share_; }

 private:
  struct Rank {
    std::optional<proto::RankReport> newest;
    uint64_t began = 0;    // the newest step that it said it begins with
    uint64_t samples = 0;  // of all its steps
    uint64_t steps = 0;    // of all its reports
    double wall_s = 0;     // duration of these steps
    bool final = false;
    uint64_t measured_number = 0;   // of its newest report without steps, if it numbers them
    proto::NodeCounters earlier;    // of its earlier processes
    bool begins_anew = false;       // its newest process has not reported a window yet
    uint64_t from = 0;              // makes no step before this one
    std::optional<uint64_t> until;  // nor this one, or any after it
  };
  using Window = std::map<uint32_t, proto::RankReport>;  // by rank
  // Steps [first, end) of a rank that nobody reported, and their samples.
  struct Missed {
    uint64_t first = 0, end = 0, samples = 0;
  };

  // Returns the number of steps that the rank is known to have finished.
  uint64_t StepsOf(const Rank& rank) const {
    return std::max(rank.newest.has_value() ? rank.newest->end_step() : first_step_, rank.began);
  }
  // The same in local steps.
  uint64_t LocalStepsOf(const Rank& rank) const;
  // Returns the least value of `steps_of` over these ranks, without those that have left; 0 if
  // there are none.
  uint64_t Slowest(uint32_t first, uint32_t count,
                   absl::FunctionRef<uint64_t(const Rank&)> steps_of) const;
  uint64_t LocalStepsAt(const proto::RankReport& report) const {
    return report.local_steps() > 0 ? report.local_steps() : report.end_step() * local_per_step_;
  }
  // Returns whether it has left: it made its last step while others continue.
  bool HasLeft(const Rank& rank) const { return rank.until && StepsOf(rank) >= *rank.until; }
  // Returns whether the rank measures for all: it is the first of those that make the step before
  // `end_step`, or `end_step` itself.
  bool Measures(uint32_t rank, uint64_t end_step) const;
  // Returns whether it makes the step, and no rank before it does.
  bool IsFirst(uint32_t rank, uint64_t step) const;
  // Returns the samples of the steps before a resume, of ranks that have reported no step yet: as
  // many per step as the others'.
  uint64_t EarlierSamples() const;
  void Take(proto::RankReport report);
  // The rank continues with `step`.
  void Begin(Rank* rank, uint64_t step);
  // Adds samples for the rank's unreported steps [first, end), at the window's rate.
  void AddMissed(uint64_t first, uint64_t end, const proto::RankReport& window, Rank* rank);
  // Returns the samples of missed steps below `end`; each is returned once.
  uint64_t TakeMissedSamples(uint64_t end);
  // Fits the report to the steps that its rank is known to have made: drops those already counted,
  // and adds the samples of unreported steps.
  void SettleSteps(proto::RankReport* report);
  bool IsComplete(uint64_t end_step) const;
  proto::MetricsRecord Merge(const Window& window, double elapsed_s);
  // The duration of one window's exchanges, over all nodes.
  struct Overlap {
    double exchange_s = 0, exposed_s = 0;
  };
  void AddCounters(const proto::RankReport& report, proto::MetricsRecord* record, Overlap* overlap);
  std::vector<proto::MetricsRecord> Complete(bool all, double elapsed_s);
  // Returns whether this report without steps is new. Reports without a number count as new only by
  // a name that is new at this step.
  bool IsNewMeasurement(const proto::RankReport& report);
  // Returns the records of a report without steps.
  std::vector<proto::MetricsRecord> AddMeasured(const proto::RankReport& report);
  // Keeps the values that the progress shows.
  void NoteMeasured(const proto::RankReport& report);

  // Returns the seconds until all epochs are done, at the rate of the whole run; -1: unknown.
  double EtaBySamples(uint64_t samples) const;

  uint32_t epochs_ = 0;
  bool has_learnt_epochs_ = false;  // from reports: the steps of an epoch are unknown
  uint64_t samples_per_epoch_ = 0;
  uint64_t total_steps_ = 0;
  uint64_t local_per_step_ = 1;
  uint64_t local_total_ = 0;  // as reported by ranks
  uint64_t first_step_ = 0;
  uint64_t earlier_rank_steps_ = 0;  // steps before the resume, if ranks do not report them
  std::vector<Rank> ranks_;
  std::map<uint64_t, Window> windows_;  // by end step; not yet merged
  std::vector<Missed> missed_;          // not yet merged
  std::optional<proto::RankReport> final_;
  bool final_merged_ = false;
  uint64_t samples_merged_ = 0;
  uint64_t measured_step_ = 0;            // the newest that came without steps
  std::set<std::string> measured_names_;  // measured at that step
  double accuracy_ = -1;
  std::map<std::string, double> values_;  // the newest
  std::optional<double> hidden_share_;
  // The counters of each node at the end of the last merged window, by the rank that reports them.
  std::map<uint32_t, proto::NodeCounters> counters_;
};

// Compares rank reports that must be identical on all ranks: weights and options of the ranks' own
// optimizers. Ranks are compared only at the same step, each with the first one that reported it.
// Keeps the newest kStepsMax steps.
class RankStates {
 public:
  static constexpr size_t kStepsMax = 4;
  // Items beyond this number are neither kept nor compared.
  static constexpr int kItemsMax = 4096;
  static constexpr size_t kBytesMax = 1 << 20;

  // Returns one line on the first difference to another rank's report; empty: none.
  std::string Add(uint32_t rank, const proto::RankState& state);

 private:
  struct First {
    uint32_t rank = 0;
    proto::RankState state;
  };

  std::map<uint64_t, First> steps_;  // by step
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_METRICS_MERGE_H_
