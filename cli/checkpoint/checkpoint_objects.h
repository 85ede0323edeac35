#ifndef STRATA_CLI_CHECKPOINT_CHECKPOINT_OBJECTS_H_
#define STRATA_CLI_CHECKPOINT_CHECKPOINT_OBJECTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"
#include "common/image/chunk_image.h"
#include "common/image/node_image.h"
#include "proto/record.pb.h"

namespace strata::cli {

// Returns the record of the job that wrote a checkpoint: a valid job of this version with a valid
// layout. Errors: DataLoss naming the manifest and what is wrong.
absl::StatusOr<proto::JobRecord> RecordOf(const Manifest& manifest, const std::string& where);

// Who is told what a checkpoint holds while it is read; each may be null. Images are valid only
// during the call.
struct ObjectTaker {
  // Before an object is read, and how many bytes of others have been.
  std::function<void(const ObjectFacts& object, uint64_t bytes_before)> on_object;
  std::function<void(const ChunkImage& image)> on_chunk;
  std::function<void(const NodeImage& image)> on_node;
};

// Reads all objects of a checkpoint, one at a time, and checks that each has the size and checksum
// that the manifest says and is a file of images; that the images are of the checkpoint's clock,
// and have the vectors that the record's job needs; and that those of chunks cover the arena, each
// element once. Errors: DataLoss naming the object and what is wrong; the store's.
absl::Status ReadObjects(Store& store, const Manifest& manifest, const proto::JobRecord& record,
                         const ObjectTaker& taker);

}  // namespace strata::cli

#endif  // STRATA_CLI_CHECKPOINT_CHECKPOINT_OBJECTS_H_
