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

// Splits `text` at the positions for which `separates` is true, outside of brackets and quotes;
// returns at least one part.
std::vector<std::string> SplitOutside(const std::string& text,
                                      const std::function<bool(size_t)>& separates);

// One mode of a comparison: MODE{+FIELD=VALUE}, MODE as SettingsOfMode takes it.
struct Mode {
  std::string name;                   // as written: "delay1+push.codec=FP16"
  std::vector<std::string> settings;  // all of its settings, in order (ApplySettings)
};

// "sync,lazy:ssp(3),delay1+push.codec=FP16". A comma or plus separates outside of brackets and
// quotes; a plus only before a letter ("schedule.base_lr=1e+2" is one field). Errors:
// InvalidArgument: none, an empty one, an unknown mode, the same name twice.
absl::StatusOr<std::vector<Mode>> ParseModes(const std::string& text);
// Parses one of the names. Errors: InvalidArgument naming it.
absl::StatusOr<Mode> ParseMode(const std::string& name);

// Returns the name with only letters, digits, '.', '-' and '_': "lazy:ssp(3)" is "lazy_ssp_3".
std::string ModeFileName(const std::string& mode);
// "lazy_ssp_3-seed1": the name of a run's files.
std::string RunName(const std::string& mode, uint64_t seed);

// Approximate number of accuracy measurements in a run, and the minimum when rounded to a multiple
// of the local steps.
inline constexpr uint64_t kMeasurements = 25, kMeasurementsMin = 8;

// The maximum number of seeds of a comparison or a sweep.
inline constexpr uint32_t kSeedsMax = 1000;

struct CampaignRequest {
  proto::Job job;  // without defaults; its mode is ignored
  std::string modes;
  uint32_t seeds = 1;
  std::string cluster;  // in words
  std::string version;
};

// Errors: InvalidArgument naming the mode or field.
absl::StatusOr<proto::Campaign> PlanCampaign(const CampaignRequest& request);

// Returns every run, seed by seed: first all modes with the first one. For fairness, fields that a
// mode does not name are equal in all of them; one seed gives all modes the same first weights and
// data order (they depend on nothing else), and all modes train on the same number of samples.
// Accuracy is measured without a pause in training, as often as the job says or else about
// kMeasurements times. A program gets the seed, and follows these rules as far as it implements
// them. Errors: InvalidArgument naming the mode: an invalid job, one equal to another mode's, or
// one that trains on another number of samples; the data cannot be counted.
absl::StatusOr<std::vector<RunPlan>> PlanRuns(const proto::Campaign& campaign);

// Returns the steps of each rank, for a model of the zoo. If the data is not on this host,
// `max_steps` or `data.limit_train` gives them. Errors: InvalidArgument. The job's defaults are
// filled in.
absl::StatusOr<uint64_t> TotalSteps(const proto::Job& job);

// Returns the steps between measurements: a multiple of `round` if that leaves kMeasurementsMin of
// them.
uint64_t MeasureEvery(uint64_t total_steps, uint64_t round);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_CAMPAIGN_PLAN_H_
