#ifndef STRATA_CLI_COMMANDS_RUN_SITE_H_
#define STRATA_CLI_COMMANDS_RUN_SITE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/cluster/local_cluster.h"
#include "cli/options/interrupt.h"
#include "cli/options/options.h"
#include "compare/campaign/cluster_size.h"
#include "compare/runner.h"

namespace strata::cli {

// Where a comparison or sweep makes its runs: on a cluster of its own, on an existing one, or in
// virtual time.
struct SiteOptions {
  LocalClusterOptions local;
  CoordinatorOptions coordinator;
  bool has_coordinator = false;  // set from the option's count when the command runs
  std::string cluster;           // file, for virtual time; empty: none
};

// --nodes and so on, --coordinator, --cluster; at most one of the three. Returns --coordinator.
CLI::Option* AddSiteOptions(CLI::App* command, SiteOptions* options);

struct RunSite {
  compare::ClusterSize size;
  std::string words;
  std::shared_ptr<compare::Runner> in_virtual_time;  // null: on a cluster of that size
};

// Errors: InvalidArgument or NotFound (the cluster's file), Unavailable (no coordinator).
absl::StatusOr<RunSite> OpenSite(const SiteOptions& options);

// Errors: InvalidArgument naming the first run that is impossible there: "mode sync: ranks: ...",
// where `what` is "mode".
absl::Status CheckFit(const std::vector<compare::RunPlan>& plans, const RunSite& site,
                      const std::string& what);

// Returns how many runs can always run there at once, from 1 to `at_most`; in virtual time 1.
// CheckFit has accepted them.
size_t RunsAtOnce(const std::vector<compare::RunPlan>& plans, const RunSite& site, size_t at_most);

// `run` returns the exit status; `stop`, from any thread and possibly before it, makes it return
// soon.
struct SiteWork {
  std::function<int(const std::vector<compare::Runner*>&)> run;
  std::function<void()> stop;
  size_t runners = 1;
  std::string jobs_dir;  // of a cluster of its own
};

// Ctrl-C and SIGTERM call `stop`. `interrupt` was created before anything that starts threads; null
// for a cluster of its own, which catches signals itself. Returns the exit status.
int RunAt(const RunSite& site, const SiteOptions& options, const SiteWork& work,
          const std::string& log_level, Interrupt* interrupt);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_RUN_SITE_H_
