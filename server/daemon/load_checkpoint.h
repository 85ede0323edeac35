#ifndef STRATA_SERVER_DAEMON_LOAD_CHECKPOINT_H_
#define STRATA_SERVER_DAEMON_LOAD_CHECKPOINT_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/checkpoint/store.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "proto/record.pb.h"

namespace strata::server {

// Puts images of chunks where they belong. They are gone after the call. It is called on threads of
// the reader's, one call after the other, none once LoadCheckpoint has returned.
using TakeImages = std::function<absl::Status(absl::Span<const ChunkImage>)>;

// Reads those objects of the checkpoint that the record goes on from which have chunks of the given
// shards of the job, and hands their images on as they come: those of other shards, too. That an
// object is damaged may show after images of it have been handed on. Errors: NotFound, DataLoss,
// InvalidArgument: the checkpoint is damaged, naming the object and what is wrong; those of `take`;
// others: the store's.
absl::Status LoadCheckpoint(const proto::JobRecord& record, const std::vector<ShardId>& shards,
                            Store& store, const TakeImages& take);

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_LOAD_CHECKPOINT_H_
