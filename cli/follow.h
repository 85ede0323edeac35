#ifndef STRATA_CLI_FOLLOW_H_
#define STRATA_CLI_FOLLOW_H_

#include "common/control/coordinator_client.h"
#include "common/ids.h"

namespace strata::cli {

// Shows a job's progress until it has ended, then how it ended, where its outputs are and, for a
// job that did not finish, one error line. Returns the exit status that the job stands for.
int FollowJob(control::CoordinatorClient* client, JobId job);

}  // namespace strata::cli

#endif  // STRATA_CLI_FOLLOW_H_
