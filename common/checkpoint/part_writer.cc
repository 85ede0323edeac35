#include "common/checkpoint/part_writer.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/checkpoint/checkpoints.h"
#include "common/log.h"

namespace strata {
namespace {

void SetNumber(const PartName& name, proto::CheckpointPart* part) {
  switch (name.kind) {
    case PartKind::kShard:
      return part->set_shard(name.number);
    case PartKind::kNode:
      return part->set_node(name.number);
    case PartKind::kRank:
      return part->set_rank(name.number);
  }
}

}  // namespace

PartWriter::PartWriter(const proto::JobRecord& record, Calls calls)
    : job_(record.job_id()),
      attempt_(record.attempt()),
      token_(record.token()),
      calls_(std::move(calls)),
      thread_([this] { Run(); }) {}

PartWriter::~PartWriter() {
  {
    absl::MutexLock lock(&mutex_);
    abandoned_ = true;
  }
  thread_.join();
}

void PartWriter::Write(Part part) {
  absl::MutexLock lock(&mutex_);
  if (!finishing_) queue_.push_back(std::move(part));
}

void PartWriter::Finish() {
  absl::MutexLock lock(&mutex_);
  finishing_ = true;
}

bool PartWriter::done() const {
  absl::MutexLock lock(&mutex_);
  return done_;
}

bool PartWriter::AwaitDone(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&done_), timeout);
}

void PartWriter::Run() {
  while (true) {
    Part part;
    {
      absl::MutexLock lock(&mutex_, absl::Condition(this, &PartWriter::HasWork));
      if (abandoned_ || queue_.empty()) {
        done_ = true;
        return;
      }
      part = std::move(queue_.front());
      queue_.pop_front();
    }
    WriteNow(std::move(part));
  }
}

absl::StatusOr<ObjectFacts> PartWriter::Put(const Part& part) {
  if (store_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Store>> opened = calls_.open();
    if (!opened.ok()) return opened.status();
    store_ = *std::move(opened);
  }
  const ImageFile file = part.make();
  const std::vector<absl::Span<const char>> pieces = file.Pieces();
  const ObjectFacts facts =
      FactsOf(Checkpoints::ObjectName(part.clock, ToText(part.name, job_, attempt_)), pieces);
  if (absl::Status put = store_->Put(facts.name, pieces); !put.ok()) {
    store_.reset();
    return put;
  }
  return facts;
}

void PartWriter::WriteNow(Part part) {
  proto::CheckpointPart told;
  told.set_job_id(job_);
  told.set_token(token_);
  told.set_clock(part.clock);
  SetNumber(part.name, &told);
  told.set_error(part.problem);
  if (part.problem.empty()) {
    const absl::Time begin = absl::Now();
    const absl::StatusOr<ObjectFacts> facts = Put(part);
    if (facts.ok()) {
      told.mutable_object()->set_name(facts->name);
      told.mutable_object()->set_bytes(facts->bytes);
      told.mutable_object()->set_checksum(facts->checksum);
      LogDebug("job %d: wrote %d bytes of the checkpoint of clock %d in %s", job_, facts->bytes,
               part.clock, absl::FormatDuration(absl::Now() - begin));
    } else {
      told.set_error(std::string(facts.status().message()));
    }
    part.make = nullptr;
    if (part.let_go != nullptr) part.let_go();
  }
  if (!told.error().empty()) {
    LogWarning("job %d: checkpoint of clock %d: %s", job_, part.clock, told.error());
  }
  calls_.tell(told);
}

}  // namespace strata
