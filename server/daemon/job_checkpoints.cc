#include "server/daemon/job_checkpoints.h"

#include <atomic>
#include <thread>
#include <utility>

#include "server/daemon/load_checkpoint.h"

namespace strata::server {

// One job's images on their way in.
struct JobCheckpoints::Reading {
  absl::Mutex mutex;  // held while the images are handed over
  bool wanted ABSL_GUARDED_BY(mutex) = true;
  std::atomic<bool> done = false;
  std::thread thread;
};

JobCheckpoints::JobCheckpoints(OpenStore open,
                               std::function<void(const proto::CheckpointPart&)> tell,
                               std::function<void(JobId, ShardId, uint64_t)> let_go)
    : open_(std::move(open)), tell_(std::move(tell)), let_go_(std::move(let_go)) {}

JobCheckpoints::~JobCheckpoints() { Stop(); }

void JobCheckpoints::Stop() {
  while (!readings_.empty()) End(readings_.begin()->first);
  for (auto& reading : left_) reading->thread.join();
  left_.clear();
  std::map<JobId, std::unique_ptr<CheckpointWriter>> writers;
  std::vector<std::unique_ptr<CheckpointWriter>> finishing;
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
  CheckpointWriter::Calls calls;
  calls.open = [open = open_, dir = record.job().checkpoint().dir()] { return open(dir); };
  calls.tell = tell_;
  calls.let_go = [let_go = let_go_, job](ShardId shard, uint64_t clock) {
    let_go(job, shard, clock);
  };
  writers_[job] = std::make_unique<CheckpointWriter>(record, std::move(calls));
}

void JobCheckpoints::OnCut(ShardCut cut) {
  absl::MutexLock lock(&mutex_);
  const auto writer = writers_.find(cut.job);
  if (writer != writers_.end()) writer->second->Write(std::move(cut));
}

void JobCheckpoints::Load(const proto::JobRecord& record, const std::vector<ShardId>& shards,
                          Loaded loaded) {
  std::unique_ptr<Reading>& slot = readings_[JobId(record.job_id())];
  if (slot != nullptr) return;
  slot = std::make_unique<Reading>();
  slot->thread =
      std::thread([this, record, shards, loaded = std::move(loaded), reading = slot.get()] {
        absl::StatusOr<std::vector<ChunkImage>> images;
        absl::StatusOr<std::unique_ptr<Store>> store = open_(record.resume().dir());
        if (store.ok()) {
          images = LoadCheckpoint(record, shards, **store);
        } else {
          images = store.status();
        }
        {
          absl::MutexLock lock(&reading->mutex);
          if (reading->wanted) loaded(images);
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
  writer->second->Finish();
  finishing_.push_back(std::move(writer->second));
  writers_.erase(writer);
}

void JobCheckpoints::DropDone() {
  std::erase_if(finishing_, [](const std::unique_ptr<CheckpointWriter>& w) { return w->done(); });
}

}  // namespace strata::server
