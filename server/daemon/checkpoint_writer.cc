#include "server/daemon/checkpoint_writer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/checkpoint/checkpoints.h"
#include "common/image/image_file.h"
#include "common/log.h"

namespace strata::server {

std::string ShardObjectPart(ShardId shard, JobId job, uint32_t attempt) {
  return absl::StrFormat("shard-%d-%d.%d", shard.value(), job.value(), attempt);
}

CheckpointWriter::CheckpointWriter(const proto::JobRecord& record, Calls calls)
    : job_(record.job_id()),
      attempt_(record.attempt()),
      token_(record.token()),
      calls_(std::move(calls)),
      thread_([this] { Run(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    absl::MutexLock lock(&mutex_);
    abandoned_ = true;
  }
  thread_.join();
}

void CheckpointWriter::Write(ShardCut cut) {
  absl::MutexLock lock(&mutex_);
  if (!finishing_) queue_.push_back(std::move(cut));
}

void CheckpointWriter::Finish() {
  absl::MutexLock lock(&mutex_);
  finishing_ = true;
}

bool CheckpointWriter::done() const {
  absl::MutexLock lock(&mutex_);
  return done_;
}

void CheckpointWriter::Run() {
  while (true) {
    ShardCut cut;
    {
      absl::MutexLock lock(&mutex_, absl::Condition(this, &CheckpointWriter::HasWork));
      if (abandoned_ || queue_.empty()) {
        done_ = true;
        return;
      }
      cut = std::move(queue_.front());
      queue_.pop_front();
    }
    WriteNow(std::move(cut));
  }
}

absl::StatusOr<ObjectFacts> CheckpointWriter::Put(const ShardCut& cut) {
  if (store_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Store>> opened = calls_.open();
    if (!opened.ok()) return opened.status();
    store_ = *std::move(opened);
  }
  const ImageFile file = MakeImageFile(cut.images);
  const std::vector<absl::Span<const char>> pieces = file.Pieces();
  const ObjectFacts facts = FactsOf(
      Checkpoints::ObjectName(cut.clock, ShardObjectPart(cut.shard, job_, attempt_)), pieces);
  if (absl::Status put = store_->Put(facts.name, pieces); !put.ok()) {
    store_.reset();
    return put;
  }
  return facts;
}

void CheckpointWriter::WriteNow(ShardCut cut) {
  proto::CheckpointPart part;
  part.set_job_id(job_.value());
  part.set_token(token_);
  part.set_clock(cut.clock);
  part.set_shard(cut.shard.value());
  part.set_error(cut.problem);
  if (cut.problem.empty()) {
    const absl::Time begin = absl::Now();
    const absl::StatusOr<ObjectFacts> facts = Put(cut);
    if (facts.ok()) {
      part.mutable_object()->set_name(facts->name);
      part.mutable_object()->set_bytes(facts->bytes);
      part.mutable_object()->set_checksum(facts->checksum);
      LogDebug("job %d: wrote %d bytes of the checkpoint of step %d in %s", job_.value(),
               facts->bytes, cut.clock, absl::FormatDuration(absl::Now() - begin));
    } else {
      part.set_error(std::string(facts.status().message()));
    }
    cut.images.clear();
    calls_.let_go(cut.shard, cut.clock);
  }
  if (!part.error().empty()) {
    LogWarning("job %d: checkpoint of step %d: %s", job_.value(), cut.clock, part.error());
  }
  calls_.tell(part);
}

}  // namespace strata::server
