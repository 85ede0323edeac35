#ifndef STRATA_COMPARE_CAMPAIGN_CAMPAIGN_PLAN_H_
#define STRATA_COMPARE_CAMPAIGN_CAMPAIGN_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/campaign/campaign.pb.h"
#include "compare/runner.h"
#include "proto/job.pb.h"

namespace strata::compare {

// Cuts `text` at the characters, by their place, that `separates` says, outside of brackets and
// quotes; at least one part.
std::vector<std::string> SplitOutside(const std::string& text,
                                      const std::function<bool(size_t)>& separates);

// One mode of a comparison: MODE{+FIELD=VALUE}, MODE as SettingsOfMode takes it.
struct Mode {
  std::string name;                   // as written: "delay1+push.codec=FP16"
  std::vector<std::string> settings;  // all that it stands for, in order (ApplySettings)
};

// "sync,lazy:ssp(3),delay1+push.codec=FP16". A comma or plus separates unless it stands in brackets
// or quotes; so does a plus only where a letter follows it ("schedule.base_lr=1e+2" is one field).
// Errors: InvalidArgument: none, an empty one, one that is no mode, the same name twice.
absl::StatusOr<std::vector<Mode>> ParseModes(const std::string& text);
// Parses one of the names. Errors: InvalidArgument naming it.
absl::StatusOr<Mode> ParseMode(const std::string& name);

// Letters, digits, '.', '-' and '_' alone: "lazy:ssp(3)" is "lazy_ssp_3".
std::string ModeFileName(const std::string& mode);
// "lazy_ssp_3-seed1": of the files of a run.
std::string RunName(const std::string& mode, uint64_t seed);

// How often accuracy is measured in a run, about, and what a multiple of the local steps must leave
// of that.
inline constexpr uint64_t kMeasurements = 25, kMeasurementsMin = 8;

// The most seeds of a comparison or a sweep.
inline constexpr uint32_t kSeedsMax = 1000;

struct CampaignRequest {
  proto::Job job;  // defaults not filled in; its mode is not looked at
  std::string modes;
  uint32_t seeds = 1;
  std::string cluster;  // in words
  std::string version;
};

// Errors: InvalidArgument naming the mode or field.
absl::StatusOr<proto::Campaign> PlanCampaign(const CampaignRequest& request);

// Every run, seed by seed: first all modes with the first one. The fair rules: what a mode does not
// name is the same in all of them; one seed gives all modes the same first weights and data order
// (they depend on nothing else), and all modes train on as many samples. Accuracy is measured
// without a pause in training, as often as the job says or else about kMeasurements times. A
// program is given the seed, and does of this what it does. Errors:
// InvalidArgument naming the mode: a job that cannot be, one that is another mode's, or that trains
// on another number of samples; the data cannot be counted.
absl::StatusOr<std::vector<RunPlan>> PlanRuns(const proto::Campaign& campaign);

// Steps of each rank, of a model of the zoo. Where the data is not on this host, `max_steps` or
// `data.limit_train` say it. Errors: InvalidArgument. The job's defaults are filled in.
absl::StatusOr<uint64_t> TotalSteps(const proto::Job& job);

// Steps between measurements: a multiple of `round` where that leaves kMeasurementsMin of them.
uint64_t MeasureEvery(uint64_t total_steps, uint64_t round);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_CAMPAIGN_PLAN_H_
