#ifndef STRATA_CLI_WEB_PAGE_JSON_H_
#define STRATA_CLI_WEB_PAGE_JSON_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/render/cluster_scene.h"
#include "cli/render/log_watch.h"

namespace strata::cli {

// A scene in the page's format, each document on one line. Names and units are those of `strata
// status --json`, times Unix time in ms. Unknown values are null; invalid UTF-8 is replaced.

// {"version", "now_ms", "taken_ms", "problem", "coordinator", "daemons", "has_logs", "jobs", ...}.
// `has_logs`: readers may also have jobs' logs.
std::string ClusterDocument(const ClusterScene& scene, bool has_logs, absl::Time now);
// {"now_ms", "taken_ms", "problem", "status", "course", "rank_windows", ...}; empty: there is no
// such job.
std::string JobDocument(const ClusterScene& scene, uint32_t job, absl::Time now);
// {"now_ms", "taken_ms", "problem", "daemon", "jobs"}; empty: there is no such daemon.
std::string DaemonDocument(const ClusterScene& scene, const std::string& name, absl::Time now);

// {"error": TEXT}
std::string ErrorDocument(const std::string& text);

// Parses a page's choice of logs: "3", "3:rank:1", "3:aggregators". nullopt: invalid.
std::optional<LogChoice> ParseLogChoice(absl::string_view text);

// Returns the document of an event "log": {"choice": as above, "anew", "passed_over", "lines":
// [[process, text], ...] (a third one, true: a problem), "problem", "ended"}.
std::string LogDocument(const LogChoice& choice, const LogNews& news);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_PAGE_JSON_H_
