#include "server/daemon/job_checkpoints.h"

#include <algorithm>
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
#include "common/require.h"
#include "server/shard/shard_rows.h"

namespace strata::server {

// The load of one job's images.
struct JobCheckpoints::Reading {
  absl::Mutex mutex;  // held while calls are made
  bool wanted ABSL_GUARDED_BY(mutex) = true;
  std::optional<absl::Status> outcome ABSL_GUARDED_BY(mutex);
  std::atomic<bool> done = false;
  std::thread thread;
};

JobCheckpoints::JobCheckpoints(Calls calls) : calls_(std::move(calls)) {}

JobCheckpoints::~JobCheckpoints() { Stop(); }

void JobCheckpoints::Stop() {
  while (!readings_.empty()) End(readings_.begin()->first);
  for (auto& reading : left_) reading->thread.join();
  left_.clear();
  std::map<JobId, Writer> writers;
  std::vector<std::pair<JobId, std::unique_ptr<PartWriter>>> finishing;
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
  // The tables of an earlier attempt, whose checkpoint counts no more, take memory.
  for (const auto& [other, writer] : finishing_) {
    if (other == job) writer->LeaveRest();
  }
  PartWriter::Calls calls;
  calls.open = [open = calls_.open, dir = record.job().checkpoint().dir()] { return open(dir); };
  calls.tell = calls_.tell;
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
    if (!*has_ended) calls_.let_go(job, shard, clock);
  };
  part.make = [images = std::move(cut.images)] { return MakeImageFile(images); };
  writer->second.writer->Write(std::move(part));
}

namespace {

// Returns the part of a checkpoint that a piece of rows is.
PartWriter::Part PartOf(ShardRowsPiece piece) {
  PartWriter::Part part;
  part.name = {.kind = PartKind::kRows, .number = piece.shard.value(), .piece = piece.number};
  part.clock = piece.clock;
  part.problem = piece.problem;
  part.goes_on = !piece.is_last;
  for (const BucketImage& bucket : piece.parts) part.buckets.push_back(bucket.bucket);
  // With the last piece of one copy another one may begin, which has waited for it.
  if (piece.rest != nullptr && (!piece.is_last || piece.rest->cuts().has_rest())) {
    part.next = [job = piece.job, shard = piece.shard, tables = piece.tables, rest = piece.rest] {
      std::optional<RowsPiece> next = rest->cuts().TakeRest();
      STRATA_REQUIRE(next.has_value());
      return PartOf({*std::move(next), job, shard, tables, rest});
    };
  }
  const auto rows = std::make_shared<ShardRowsPiece>(std::move(piece));
  part.make = [rows] { return MakeRowsImageFile(ImageOf(*rows, *rows->tables)); };
  return part;
}

}  // namespace

void JobCheckpoints::OnRows(ShardRowsPiece piece) {
  absl::MutexLock lock(&mutex_);
  const auto writer = writers_.find(piece.job);
  if (writer == writers_.end()) return;
  const JobId job = piece.job;
  const ShardId shard = piece.shard;
  PartWriter::Part part = PartOf(std::move(piece));
  part.let_go = [this, job, shard, has_ended = writer->second.has_ended] {
    if (!*has_ended) calls_.let_go_rows(job, shard);
  };
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
        const absl::StatusOr<std::unique_ptr<Store>> store = calls_.open(record.resume().dir());
        absl::Status status = store.status();
        const auto give = [reading](const auto& take, const auto& images) -> absl::Status {
          absl::MutexLock lock(&reading->mutex);
          if (!reading->wanted) return absl::CancelledError("has ended");
          return take(images);
        };
        if (store.ok()) {
          status = LoadCheckpoint(
              record, shards, **store,
              [&](absl::Span<const ChunkImage> images) { return give(calls.take, images); },
              [&](const RowsImage& rows) { return give(calls.take_rows, rows); });
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
  finishing_.emplace_back(job, std::move(writer->second.writer));
  writers_.erase(writer);
}

void JobCheckpoints::DropDone() {
  std::erase_if(finishing_, [](const auto& one) { return one.second->done(); });
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

// Reads the objects with rows of the shards' buckets, one at a time.
absl::Status LoadRows(const proto::JobRecord& record, const std::vector<ShardId>& shards,
                      Store& store, const TakeRows& take) {
  const proto::Resume& resume = record.resume();
  const auto& shard_of_bucket = record.placement().shard_of_bucket();
  const auto is_own = [&](uint32_t bucket) {
    if (bucket >= static_cast<uint32_t>(shard_of_bucket.size())) return false;
    const ShardId shard(shard_of_bucket[static_cast<int>(bucket)]);
    return std::find(shards.begin(), shards.end(), shard) != shards.end();
  };
  for (int index = 0; index < resume.objects_size(); ++index) {
    const auto& buckets = resume.objects(index).buckets();
    if (std::none_of(buckets.begin(), buckets.end(), is_own)) continue;
    const absl::StatusOr<ResumeObject> object =
        ReadResumeObject(resume, static_cast<uint32_t>(index), store);
    if (!object.ok()) return object.status();
    const absl::StatusOr<RowsImage> rows = ParseRowsImageFile(object->content, object->path);
    if (!rows.ok()) return rows.status();
    if (rows->clock != resume.clock()) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: its rows are of clock %d, not %d",
                                                        object->path, rows->clock, resume.clock()));
    }
    if (absl::Status taken = take(*rows); !taken.ok()) return taken;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadCheckpoint(const proto::JobRecord& record, const std::vector<ShardId>& shards,
                            Store& store, const TakeImages& take, const TakeRows& take_rows) {
  const absl::StatusOr<std::set<uint32_t>> needed = NeededObjects(record, shards);
  if (!needed.ok()) return needed.status();
  HandOver hand_over(take);
  for (const uint32_t index : *needed) {
    absl::Status loaded = LoadObject(record.resume(), index, store, &hand_over);
    if (!loaded.ok()) return loaded;
  }
  absl::Status taken = hand_over.Await();
  return taken.ok() ? LoadRows(record, shards, store, take_rows) : taken;
}

}  // namespace strata::server
