#ifndef STRATA_CLI_WEB_EXPOSITION_H_
#define STRATA_CLI_WEB_EXPOSITION_H_

#include <string>

#include "absl/time/time.h"
#include "cli/render/cluster_scene.h"

namespace strata::cli {

inline constexpr char kExpositionType[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// How long an ended job is shown after its end was first seen.
inline constexpr absl::Duration kEndedJobShown = absl::Minutes(5);
// For an older scene only its age and the unreachable coordinator are reported: stale values would
// look like an idle cluster.
inline constexpr absl::Duration kSceneShown = absl::Minutes(1);

// The scene as OpenMetrics 1.0 text, at most metrics::kSeriesMax series; docs/metrics.md lists
// them.
std::string Exposition(const ClusterScene& scene, absl::Time now);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_EXPOSITION_H_
