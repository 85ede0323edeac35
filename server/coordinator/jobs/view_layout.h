#ifndef STRATA_SERVER_COORDINATOR_JOBS_VIEW_LAYOUT_H_
#define STRATA_SERVER_COORDINATOR_JOBS_VIEW_LAYOUT_H_

#include <vector>

#include "absl/status/status.h"
#include "proto/record.pb.h"
#include "server/coordinator/placement/rank_allocation.h"

namespace strata::server {

// Lays out a job's nodes: it begins with those of `blocks`, in order. If nodes may join the job,
// all nodes that it may have get their places now, each with the same number of ranks. If it
// resumes from a checkpoint of such a job (record `from`), the record gets all changes up to the
// checkpoint, and one more if the resuming nodes differ: the job's number of samples follows from
// these. Fills in the view and its changes. REQUIRES: blocks as AllocateRanks makes them; the
// record's resume fits `from` (CheckContinues).
void LayOutNodes(const std::vector<RankBlock>& blocks, const proto::JobRecord& from,
                 proto::JobRecord* record);

// Checks that LayOutNodes can take over the participation history of `from`, the record in a
// checkpoint.
// REQUIRES: record has resume. Errors: InvalidArgument naming the change, and the conflict.
absl::Status CheckHistory(const proto::JobRecord& from, proto::JobRecord record);

// Returns the highest number of the view and its changes.
uint32_t HighestViewNumber(const proto::JobRecord& record);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_VIEW_LAYOUT_H_
