#include "server/daemon/job_checkpoints.h"

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "common/image/image_file.h"

namespace strata::server {

// One job's images on their way in.
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
  // What a later attempt has cut at the same clock is still in memory.
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
    if (slot->outcome) calls.tell(*slot->outcome);  // what was told may be lost
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

}  // namespace strata::server
