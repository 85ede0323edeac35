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
// progress. Each rank reports its windows in order; steps that were taken in before are ignored.
// Pure.
class MetricsMerge {
 public:
  MetricsMerge() = default;
  // `first_step`: that the job goes on with, of its checkpoint. Steps, samples and epochs count
  // from the beginning of its training; of the steps before, samples are taken to be as many in
  // each as in a rank's first window.
  MetricsMerge(uint32_t ranks, uint32_t epochs, uint64_t samples_per_epoch, uint64_t total_steps,
               uint64_t first_step = 0);

  // Ranks take so many local steps for each of the steps that reports count. Records and progress
  // show those, by what reports say of them where they do.
  void SetLocalSteps(uint64_t per_step) { local_per_step_ = per_step; }

  // Returns the records that are complete now, in the order of their windows: each rank has
  // reported the window or a later one. A measurement of weights that are long gone is a record of
  // its own, without samples, and so is any that comes without steps. The record of the final model
  // comes last. `elapsed_s` since training began.
  std::vector<proto::MetricsRecord> Add(const proto::RankReport& report, double elapsed_s);
  // New processes take the place of those of ranks [first, first + count): their counters begin at
  // 0, and their steps with any of those reported, or later. Steps in between that nobody has
  // reported are made all the same: they are taken to have had as many samples each as those of the
  // window before, or of the one after.
  void StartOver(uint32_t first, uint32_t count);
  // Of a job that goes on from a checkpoint with other ranks than have come to it: these have made
  // so many steps, all together. REQUIRES: nothing was added.
  void SetEarlier(uint64_t rank_steps);
  // Ranks [first, first + count) make steps from `step` on, or none from it on any more: nobody
  // waits for reports of the others.
  void Join(uint32_t first, uint32_t count, uint64_t step);
  void Leave(uint32_t first, uint32_t count, uint64_t step);
  // Ranks [first, first + count) have made their last step, whichever that was, and say no more.
  void Drop(uint32_t first, uint32_t count);
  // Returns what is left at the job's end, complete or not.
  std::vector<proto::MetricsRecord> Flush(double elapsed_s);

  // Returns the progress by the newest report of each rank.
  proto::Progress GetProgress() const;
  // Returns the finished steps of the slowest of ranks [first, first + count).
  uint64_t SlowestStep(uint32_t first, uint32_t count) const;
  // The same as the progress shows them: with local steps.
  uint64_t ShownStep(uint32_t first, uint32_t count) const;
  bool HasReported(uint32_t rank) const;
  // MetricsRecord's hidden_share of the newest window.
  std::optional<double> hidden_share() const { return hidden_share_; }

 private:
  struct Rank {
    std::optional<proto::RankReport> newest;
    uint64_t began = 0;    // the newest step that it has said to go on with
    uint64_t samples = 0;  // in all its steps
    uint64_t steps = 0;    // of all its reports
    double wall_s = 0;     // that these steps took
    bool final = false;
    uint64_t measured_number = 0;   // of its newest report without steps, where it counts them
    proto::NodeCounters earlier;    // of its processes before the newest one
    bool begins_anew = false;       // the newest one has reported no window yet
    uint64_t from = 0;              // it makes no step before
    std::optional<uint64_t> until;  // nor this one, or one after it
  };
  using Window = std::map<uint32_t, proto::RankReport>;  // by rank
  // Steps [first, end) of a rank that nobody has reported, and the samples that they had.
  struct Missed {
    uint64_t first = 0, end = 0, samples = 0;
  };

  // Returns the steps that the rank is known to have finished.
  uint64_t StepsOf(const Rank& rank) const {
    return std::max(rank.newest.has_value() ? rank.newest->end_step() : first_step_, rank.began);
  }
  // Returns the same with local steps.
  uint64_t LocalStepsOf(const Rank& rank) const;
  // Returns the least that `steps_of` gives of these ranks, those that have left aside; 0: of none.
  uint64_t Slowest(uint32_t first, uint32_t count,
                   absl::FunctionRef<uint64_t(const Rank&)> steps_of) const;
  uint64_t LocalStepsAt(const proto::RankReport& report) const {
    return report.local_steps() > 0 ? report.local_steps() : report.end_step() * local_per_step_;
  }
  // Returns whether it has made its last step, as others go on.
  bool HasLeft(const Rank& rank) const { return rank.until && StepsOf(rank) >= *rank.until; }
  // Whether it is the first of those that make the step before `end_step`, or this one, which
  // measures for all.
  bool Measures(uint32_t rank, uint64_t end_step) const;
  // Returns whether it makes the step, and no rank before it does.
  bool IsFirst(uint32_t rank, uint64_t step) const;
  // Returns the samples of ranks that have reported no step yet, in those before the one that they
  // go on with: as many per step as the others'.
  uint64_t EarlierSamples() const;
  void Take(proto::RankReport report);
  // The rank goes on with `step`.
  void Begin(Rank* rank, uint64_t step);
  // Adds what the rank's steps [first, end), which nobody has reported, had at the window's rate.
  void AddMissed(uint64_t first, uint64_t end, const proto::RankReport& window, Rank* rank);
  // Returns the samples of missed steps below `end`, each once.
  uint64_t TakeMissedSamples(uint64_t end);
  // Fits the report to the steps that its rank is known to have made: it shrinks to those past
  // them, and the samples of steps that nobody has reported are added.
  void SettleSteps(proto::RankReport* report);
  bool IsComplete(uint64_t end_step) const;
  proto::MetricsRecord Merge(const Window& window, double elapsed_s);
  // What one window's exchanges took, all nodes together.
  struct Overlap {
    double exchange_s = 0, exposed_s = 0;
  };
  void AddCounters(const proto::RankReport& report, proto::MetricsRecord* record, Overlap* overlap);
  std::vector<proto::MetricsRecord> Complete(bool all, double elapsed_s);
  // Whether it is another report without steps than those before it. Without a number only a name
  // that is new at this step says so.
  bool IsNewMeasurement(const proto::RankReport& report);
  // Returns the records of a report without steps.
  std::vector<proto::MetricsRecord> AddMeasured(const proto::RankReport& report);
  // Keeps what the progress shows.
  void NoteMeasured(const proto::RankReport& report);

  // Returns the seconds until all epochs are over, at the rate of the whole run; -1: unknown.
  double EtaBySamples(uint64_t samples) const;

  uint32_t epochs_ = 0;
  bool has_learnt_epochs_ = false;  // from reports: the steps of an epoch are not known
  uint64_t samples_per_epoch_ = 0;
  uint64_t total_steps_ = 0;
  uint64_t local_per_step_ = 1;
  uint64_t local_total_ = 0;  // as ranks say it
  uint64_t first_step_ = 0;
  uint64_t earlier_rank_steps_ = 0;  // before it, where ranks do not say
  std::vector<Rank> ranks_;
  std::map<uint64_t, Window> windows_;  // by end step; not yet merged
  std::vector<Missed> missed_;          // likewise
  std::optional<proto::RankReport> final_;
  bool final_merged_ = false;
  uint64_t samples_merged_ = 0;
  uint64_t measured_step_ = 0;            // the newest of those that came without steps
  std::set<std::string> measured_names_;  // of what was measured there
  double accuracy_ = -1;
  std::map<std::string, double> values_;  // the newest
  std::optional<double> hidden_share_;
  // The counters of each node at the end of the last merged window, by the rank that reports them.
  std::map<uint32_t, proto::NodeCounters> counters_;
};

// Compares what ranks report that must be the same on all of them: weights and options of
// optimizers of their own. Ranks are compared after the same steps only, each with the first one
// that reported that step. It keeps the newest kStepsMax steps.
class RankStates {
 public:
  static constexpr size_t kStepsMax = 4;
  // More is not kept, and not compared.
  static constexpr int kItemsMax = 4096;
  static constexpr size_t kBytesMax = 1 << 20;

  // Returns in one line the first difference to what another rank has reported; empty: there is
  // none.
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
