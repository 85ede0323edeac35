#ifndef STRATA_SERVER_COORDINATOR_JOBS_VIEW_LAYOUT_H_
#define STRATA_SERVER_COORDINATOR_JOBS_VIEW_LAYOUT_H_

#include <vector>

#include "absl/status/status.h"
#include "proto/record.pb.h"
#include "server/coordinator/placement/rank_allocation.h"

namespace strata::server {

// Lays a job's nodes out: those of `blocks` begin with it, in order. Where nodes may join the job,
// all that it may have get their places now, each with as many ranks. Where it goes on from a
// checkpoint of such a job, `from` of its record, the record has all changes up to the checkpoint
// and one more if other nodes go on than were there: how many samples the job has taken follows
// from them. Fills in the view and its changes. REQUIRES: blocks as AllocateRanks makes them; the
// record's resume goes with `from` (CheckContinues).
void LayOutNodes(const std::vector<RankBlock>& blocks, const proto::JobRecord& from,
                 proto::JobRecord* record);

// Checks that LayOutNodes can take who took part from `from`, the record that a checkpoint holds.
// REQUIRES: record has resume. Errors: InvalidArgument naming the change, and what it does not fit.
absl::Status CheckHistory(const proto::JobRecord& from, proto::JobRecord record);

// Returns the highest number that the view, or a change of it, has.
uint32_t HighestViewNumber(const proto::JobRecord& record);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_VIEW_LAYOUT_H_
