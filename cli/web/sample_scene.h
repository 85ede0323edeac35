#ifndef STRATA_CLI_WEB_SAMPLE_SCENE_H_
#define STRATA_CLI_WEB_SAMPLE_SCENE_H_

#include "absl/time/time.h"
#include "cli/render/cluster_scene.h"

namespace strata::cli::testing {

// A cluster of a server and a worker with one job, whose rank 3 is stuck, with a value for every
// metric.
ClusterScene SampleScene(absl::Time now);

// `daemons` workers and servers with five resources each, and `jobs` running jobs of 8 nodes, 8
// shards and 16 ranks.
ClusterScene LargeScene(absl::Time now, int daemons, int jobs);

}  // namespace strata::cli::testing

#endif  // STRATA_CLI_WEB_SAMPLE_SCENE_H_
