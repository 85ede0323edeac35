#ifndef STRATA_CLI_CLUSTER_FOLLOW_H_
#define STRATA_CLI_CLUSTER_FOLLOW_H_

#include <optional>
#include <string>

#include "cli/cluster/rank_output.h"
#include "cli/options/options.h"
#include "cli/program/interrupt.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"

namespace strata::cli {

// Shows a job's progress until it has ended, then how it ended, where its outputs are and, for a
// job that did not finish, one error line. With `json` each event is a line of JSON instead. Then
// writes the job's trace to `trace`, unless that is empty; where StopFollowing comes before, it
// says so and names `trace_command`, which writes it later, unless that is empty. Returns the exit
// status that the job stands for; nullopt: StopFollowing came before the job had ended, nothing was
// said. Shows what ranks print, besides, as `output` says.
std::optional<int> FollowJob(control::CoordinatorClient* client, JobId job, bool json,
                             const std::string& trace = "", const std::string& trace_command = "",
                             const RankOutputOptions& output = {});

// Follows the job as FollowJob does until a signal comes. Then it says how to go on and returns the
// signal's exit status.
int FollowJobUntilSignal(control::CoordinatorClient* client, JobId job,
                         const CoordinatorOptions& options, Interrupt* interrupt,
                         const std::string& trace = "", const RankOutputOptions& output = {});

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_FOLLOW_H_
