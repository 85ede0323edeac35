#ifndef STRATA_CLI_COMMANDS_CHECKPOINT_OBJECTS_H_
#define STRATA_CLI_COMMANDS_CHECKPOINT_OBJECTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"
#include "common/image/chunk_image.h"
#include "common/image/image_file.h"
#include "common/image/node_image.h"
#include "common/image/rows_image.h"
#include "proto/record.pb.h"

namespace strata::cli {

// Checks that ranges cover an arena, each element once.
//
// Threads: one.
class RangeCover {
 public:
  explicit RangeCover(uint64_t elements) : elements_(elements) {}

  // Adds the range of `count` elements that begins at `begin`, and comes from `object`. Errors:
  // DataLoss naming the object: no elements, elements beyond the arena, or duplicates.
  absl::Status Add(uint64_t begin, uint64_t count, const std::string& object);
  // Errors: DataLoss naming `what` and the first missing elements.
  absl::Status ExpectAll(const std::string& what) const;

 private:
  struct Range {
    uint64_t end = 0;
    std::string object;
  };

  const uint64_t elements_;
  std::map<uint64_t, Range> ranges_;  // by their first element
};

// Returns the record of the job that wrote a checkpoint: a valid job of this version with a valid
// layout. Errors: DataLoss naming the manifest and what is wrong.
absl::StatusOr<proto::JobRecord> RecordOf(const Manifest& manifest, const std::string& where);

// Receives a checkpoint's contents while it is read; each function may be null. Images are valid
// only during the call.
struct ObjectTaker {
  // Called before an object is read, with the number of bytes read so far.
  std::function<void(const ObjectFacts& object, uint64_t bytes_before)> on_object;
  std::function<void(const ChunkImage& image)> on_chunk;
  std::function<void(const NodeImage& image)> on_node;
  std::function<void(const RankImage& image)> on_rank;
  // Its errors end the reading.
  std::function<absl::Status(const RowsImage& image)> on_rows;
};

// Reads all objects of a checkpoint, one at a time, and checks that each has the size and checksum
// in the manifest and is a file of images; that the images are of the checkpoint's clock, and have
// the vectors that the record's job needs; that those of chunks cover the arena, each element once;
// and that those of rows cover all buckets. Errors: DataLoss naming the object and what is wrong;
// the store's.
absl::Status ReadObjects(Store& store, const Manifest& manifest, const proto::JobRecord& record,
                         const ObjectTaker& taker);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_CHECKPOINT_OBJECTS_H_
