#include "server/daemon/load_checkpoint.h"

#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/checkpoint/resume_object.h"
#include "common/image/image_file.h"

namespace strata::server {
namespace {

// Returns the objects that hold chunks of the shards, by index.
absl::StatusOr<std::set<uint32_t>> NeededObjects(const proto::JobRecord& record,
                                                 const std::vector<ShardId>& shards) {
  const proto::Resume& resume = record.resume();
  const auto& shard_of_chunk = record.placement().shard_of_chunk();
  if (resume.object_of_chunk_size() != shard_of_chunk.size()) {
    return absl::InvalidArgumentError(absl::StrFormat("the checkpoint has %d chunks, the job %d",
                                                      resume.object_of_chunk_size(),
                                                      shard_of_chunk.size()));
  }
  std::set<uint32_t> own, needed;
  for (const ShardId shard : shards) own.insert(shard.value());
  for (int chunk = 0; chunk < shard_of_chunk.size(); ++chunk) {
    if (!own.contains(shard_of_chunk[chunk])) continue;
    const uint32_t object = resume.object_of_chunk(chunk);
    if (object >= static_cast<uint32_t>(resume.objects_size())) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "chunk %d is in object %d of the checkpoint's %d", chunk, object, resume.objects_size()));
    }
    needed.insert(object);
  }
  return needed;
}

}  // namespace

absl::StatusOr<std::vector<ChunkImage>> LoadCheckpoint(const proto::JobRecord& record,
                                                       const std::vector<ShardId>& shards,
                                                       Store& store) {
  const absl::StatusOr<std::set<uint32_t>> needed = NeededObjects(record, shards);
  if (!needed.ok()) return needed.status();
  std::vector<ChunkImage> all;
  for (const uint32_t index : *needed) {
    const absl::StatusOr<ResumeObject> object = ReadResumeObject(record.resume(), index, store);
    if (!object.ok()) return object.status();
    absl::StatusOr<std::vector<ChunkImage>> images = ParseImageFile(object->content, object->path);
    if (!images.ok()) return images.status();
    for (const ChunkImage& image : *images) {
      if (image.clock == record.resume().clock()) continue;
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: elements from %d on are of clock %d, not %d", object->path,
                          image.begin, image.clock, record.resume().clock()));
    }
    std::move(images->begin(), images->end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace strata::server
