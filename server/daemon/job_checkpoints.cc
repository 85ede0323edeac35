#include "server/daemon/job_checkpoints.h"

#include <atomic>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"
#include "common/image/image_file.h"

namespace strata::server {

// The load of one job's images.
struct JobCheckpoints::Reading {
  absl::Mutex mutex;  // held while calls are made
  bool wanted ABSL_GUARDED_BY(mutex) = true;
  std::optional<absl::Status> outcome ABSL_GUARDED_BY(mutex);
  std::atomic<bool> done = false;
  std::thread thread;
};

JobCheckpoints::JobCheckpoints(StoreOpener open,
                               std::function<void(const proto::CheckpointPart&)> tell,
                               std::function<void(JobId, ShardId, uint64_t)> let_go)
    : open_(std::move(open)), tell_(std::move(tell)), let_go_(std::move(let_go)) {}

JobCheckpoints::~JobCheckpoints() { Stop(); }

void JobCheckpoints::Stop() {
  while (!readings_.empty()) End(readings_.begin()->first);
  for (auto& reading : left_) reading->thread.join();
  left_.clear();
  std::map<JobId, Writer> writers;
  std::vector<std::unique_ptr<PartWriter>> finishing;
  {
    absl::MutexLock lock(&mutex_);
    writers.swap(writers_);
    finishing.swap(finishing_);
  }
  // Without the lock, for shards that are about to hand over a cut.
  writers.clear();
  finishing.clear();
}

void JobCheckpoints::Begin(const proto::JobRecord& record) {
  if (!record.job().has_checkpoint()) return;
  const JobId job(record.job_id());
  absl::MutexLock lock(&mutex_);
  DropDone();
  if (writers_.contains(job)) return;
  PartWriter::Calls calls;
  calls.open = [open = open_, dir = record.job().checkpoint().dir()] { return open(dir); };
  calls.tell = tell_;
  writers_[job] = {std::make_unique<PartWriter>(record, std::move(calls)),
                   std::make_shared<std::atomic<bool>>(false)};
}

void JobCheckpoints::OnCut(ShardCut cut) {
  absl::MutexLock lock(&mutex_);
  const auto writer = writers_.find(cut.job);
  if (writer == writers_.end()) return;
  PartWriter::Part part;
  part.name = {.kind = PartKind::kShard, .number = cut.shard.value()};
  part.clock = cut.clock;
  part.problem = cut.problem;
  // The later attempt's cut at the same clock is still in memory.
  part.let_go = [this, job = cut.job, shard = cut.shard, clock = cut.clock,
                 has_ended = writer->second.has_ended] {
    if (!*has_ended) let_go_(job, shard, clock);
  };
  part.make = [images = std::move(cut.images)] { return MakeImageFile(images); };
  writer->second.writer->Write(std::move(part));
}

void JobCheckpoints::Load(const proto::JobRecord& record, const std::vector<ShardId>& shards,
                          LoadCalls calls) {
  std::unique_ptr<Reading>& slot = readings_[JobId(record.job_id())];
  if (slot != nullptr) {
    absl::MutexLock lock(&slot->mutex);
    if (slot->outcome) calls.tell(*slot->outcome);  // the report may have been lost
    return;
  }
  slot = std::make_unique<Reading>();
  slot->thread =
      std::thread([this, record, shards, calls = std::move(calls), reading = slot.get()] {
        const absl::StatusOr<std::unique_ptr<Store>> store = open_(record.resume().dir());
        absl::Status status = store.status();
        if (store.ok()) {
          status = LoadCheckpoint(record, shards, **store,
                                  [&](absl::Span<const ChunkImage> images) -> absl::Status {
                                    absl::MutexLock lock(&reading->mutex);
                                    if (!reading->wanted) return absl::CancelledError("has ended");
                                    return calls.take(images);
                                  });
        }
        {
          absl::MutexLock lock(&reading->mutex);
          if (reading->wanted) {
            reading->outcome = status.ok() ? calls.finish() : status;
            calls.tell(*reading->outcome);
          }
        }
        reading->done = true;
      });
}

void JobCheckpoints::End(JobId job) {
  if (auto reading = readings_.find(job); reading != readings_.end()) {
    {
      absl::MutexLock lock(&reading->second->mutex);
      reading->second->wanted = false;
    }
    left_.push_back(std::move(reading->second));
    readings_.erase(reading);
  }
  std::erase_if(left_, [](const std::unique_ptr<Reading>& reading) {
    if (reading->done) reading->thread.join();
    return !reading->thread.joinable();
  });
  absl::MutexLock lock(&mutex_);
  DropDone();
  const auto writer = writers_.find(job);
  if (writer == writers_.end()) return;
  *writer->second.has_ended = true;
  writer->second.writer->Finish();
  finishing_.push_back(std::move(writer->second.writer));
  writers_.erase(writer);
}

void JobCheckpoints::DropDone() {
  std::erase_if(finishing_, [](const std::unique_ptr<PartWriter>& w) { return w->done(); });
}

namespace {

// Returns the indices of the objects that hold chunks of the shards.
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

// Passes images on while the next ones are being read, or before that if no more threads are
// available.
class HandOver {
 public:
  explicit HandOver(const TakeImages& take) : take_(take) {}
  ~HandOver() { Await().IgnoreError(); }

  // Errors: those of earlier calls.
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

// Reads one object and passes its images on.
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
