#ifndef STRATA_SERVER_DAEMON_LOAD_CHECKPOINT_H_
#define STRATA_SERVER_DAEMON_LOAD_CHECKPOINT_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/store.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "proto/control.pb.h"

namespace strata::server {

// Reads those objects of the checkpoint that the record goes on from which have chunks of the given
// shards of the job. Errors: NotFound, DataLoss, InvalidArgument: the checkpoint is damaged, naming
// the object and what is wrong; others: the store's.
absl::StatusOr<std::vector<ChunkImage>> LoadCheckpoint(const proto::JobRecord& record,
                                                       const std::vector<ShardId>& shards,
                                                       Store& store);

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_LOAD_CHECKPOINT_H_
