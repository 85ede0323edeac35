#include "server/daemon/load_checkpoint.h"

#include <future>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/resume_object.h"
#include "common/image/image_stream.h"

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

// Hands images on while the next ones are being read, or before those where no more threads can be
// had.
class HandOver {
 public:
  explicit HandOver(const TakeImages& take) : take_(take) {}
  ~HandOver() { Await().IgnoreError(); }

  // Errors: of those before.
  absl::Status Give(std::vector<ChunkImage> images) {
    if (absl::Status before = Await(); !before.ok()) return before;
    under_way_ = std::async(std::launch::async | std::launch::deferred,
                            [this, images = std::move(images)] { return take_(images); });
    return absl::OkStatus();
  }
  absl::Status Await() { return under_way_.valid() ? under_way_.get() : absl::OkStatus(); }

 private:
  const TakeImages& take_;
  std::future<absl::Status> under_way_;
};

// Reads one object and hands its images on.
absl::Status LoadObject(const proto::Resume& resume, uint32_t index, Store& store, HandOver* take) {
  const std::string path =
      absl::StrCat(store.where(), "/", resume.objects(static_cast<int>(index)).name());
  std::optional<ImageStream> stream;
  absl::Status read = ReadResumeObject(
      resume, index, store, [&](uint64_t size, absl::Span<const char> piece) -> absl::Status {
        if (!stream) stream.emplace(size, path);
        std::vector<ChunkImage> images;
        if (absl::Status taken = stream->Take(piece, &images); !taken.ok()) return taken;
        for (const ChunkImage& image : images) {
          if (image.clock == resume.clock()) continue;
          return absl::InvalidArgumentError(
              absl::StrFormat("%s: elements from %d on are of clock %d, not %d", path, image.begin,
                              image.clock, resume.clock()));
        }
        return images.empty() ? absl::OkStatus() : take->Give(std::move(images));
      });
  return read.ok() ? stream->Finish() : read;
}

}  // namespace

absl::Status LoadCheckpoint(const proto::JobRecord& record, const std::vector<ShardId>& shards,
                            Store& store, const TakeImages& take) {
  const absl::StatusOr<std::set<uint32_t>> needed = NeededObjects(record, shards);
  if (!needed.ok()) return needed.status();
  HandOver hand_over(take);
  for (const uint32_t index : *needed) {
    absl::Status loaded = LoadObject(record.resume(), index, store, &hand_over);
    if (!loaded.ok()) return loaded;
  }
  return hand_over.Await();
}

}  // namespace strata::server
