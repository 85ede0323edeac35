#ifndef STRATA_CLI_WEB_SCENE_JSON_H_
#define STRATA_CLI_WEB_SCENE_JSON_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "cli/watch/cluster_scene.h"

namespace strata::cli {

// A scene as the page reads it, each document in one line. Names and units are those of `strata
// status --json`, times Unix time in ms. What is not known is null; invalid UTF-8 is replaced.

// {"version", "now_ms", "taken_ms", "problem", "coordinator", "daemons", "has_logs", "jobs", ...}.
// `has_logs`: readers may have those of jobs, too.
std::string ClusterDocument(const ClusterScene& scene, bool has_logs, absl::Time now);
// {"now_ms", "taken_ms", "problem", "status", "course", "rank_windows", ...}; empty: there is no
// such job.
std::string JobDocument(const ClusterScene& scene, uint32_t job, absl::Time now);
// {"now_ms", "taken_ms", "problem", "daemon", "jobs"}; empty: there is no such daemon.
std::string DaemonDocument(const ClusterScene& scene, const std::string& name, absl::Time now);

// {"error": TEXT}
std::string ErrorDocument(const std::string& text);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_SCENE_JSON_H_
