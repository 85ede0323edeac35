#ifndef STRATA_COMPARE_CAMPAIGN_MODE_LIST_H_
#define STRATA_COMPARE_CAMPAIGN_MODE_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::compare {

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

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_MODE_LIST_H_
