#include "common/checkpoint/part_writer.h"

#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/checkpoint/checkpoints.h"
#include "common/log.h"

namespace strata {
namespace {

// How long the destructor of a writer waits for a store.
constexpr absl::Duration kEndOfAStore = absl::Seconds(5);

void SetNumber(const PartName& name, proto::CheckpointPart* part) {
  switch (name.kind) {
    case PartKind::kShard:
      return part->set_shard(name.number);
    case PartKind::kNode:
      return part->set_node(name.number);
    case PartKind::kRank:
      return part->set_rank(name.number);
    case PartKind::kRows:
      return part->set_rows(name.number);
  }
}

PartName FirstOf(const PartName& name) { return {.kind = name.kind, .number = name.number}; }

}  // namespace

PartWriter::PartWriter(const proto::JobRecord& record, Calls calls)
    : work_(std::make_shared<Work>()) {
  work_->job = record.job_id();
  work_->attempt = record.attempt();
  work_->token = record.token();
  work_->calls = std::move(calls);
  thread_ = std::thread([work = work_] { Run(*work); });
}

PartWriter::~PartWriter() {
  {
    absl::MutexLock lock(&work_->mutex);
    work_->queue.clear();
    work_->finishing = work_->leaves_rest = true;
  }
  if (AwaitDone(kEndOfAStore)) {
    thread_.join();
    return;
  }
  LogWarning("job %d: the store of its checkpoints does not answer", work_->job);
  absl::MutexLock lock(&work_->telling);
  work_->abandoned = true;
  thread_.detach();
}

proto::CheckpointPart PartWriter::Describe(const Part& part, const Work& work) {
  proto::CheckpointPart described;
  described.set_job_id(work.job);
  described.set_token(work.token);
  described.set_clock(part.clock);
  SetNumber(part.name, &described);
  return described;
}

void PartWriter::GiveUp(const std::string& why) {
  std::deque<Part> queue;
  {
    absl::MutexLock lock(&work_->mutex);
    queue.swap(work_->queue);
    work_->finishing = true;
  }
  std::vector<proto::CheckpointPart> unwritten;
  absl::MutexLock lock(&work_->telling);
  if (work_->in_hand) unwritten.push_back(*work_->in_hand);
  for (const auto& [name, part] : work_->begun) unwritten.push_back(part);
  for (const Part& part : queue) unwritten.push_back(Describe(part, *work_));
  for (proto::CheckpointPart& part : unwritten) {
    part.set_error(why);
    part.clear_pieces();
    work_->calls.tell(part);
  }
  work_->abandoned = true;
}

void PartWriter::LeaveRest() {
  absl::MutexLock lock(&work_->mutex);
  work_->leaves_rest = true;
}

void PartWriter::Write(Part part) {
  absl::MutexLock lock(&work_->mutex);
  if (!work_->finishing) work_->queue.push_back(std::move(part));
}

void PartWriter::Finish() {
  absl::MutexLock lock(&work_->mutex);
  work_->finishing = true;
}

bool PartWriter::done() const {
  absl::MutexLock lock(&work_->mutex);
  return work_->done;
}

bool PartWriter::AwaitDone(absl::Duration timeout) const {
  absl::MutexLock lock(&work_->mutex);
  return work_->mutex.AwaitWithTimeout(absl::Condition(&work_->done), timeout);
}

void PartWriter::Run(Work& work) {
  while (true) {
    Part part;
    {
      absl::MutexLock lock(&work.mutex, absl::Condition(&work, &Work::HasWork));
      if (work.queue.empty()) {
        work.done = true;
        return;
      }
      part = std::move(work.queue.front());
      work.queue.pop_front();
    }
    std::function<Part()> next = part.next;
    WriteNow(std::move(part), work);
    while (next) {
      if (work.IsLeft()) break;
      Part more = next();
      next = more.next;
      WriteNow(std::move(more), work);
    }
  }
}

bool PartWriter::IsGivenUp(const Part& part, const Work& work) {
  return part.name.piece > 0 && !work.begun.contains({FirstOf(part.name), part.clock});
}

bool PartWriter::Join(const Part& part, Work& work, proto::CheckpointPart* told) {
  if (part.name.kind != PartKind::kRows) return true;
  const std::pair key(FirstOf(part.name), part.clock);
  if (!told->error().empty()) {
    work.begun.erase(key);
    return true;
  }
  proto::CheckpointPart& whole = work.begun.try_emplace(key, *told).first->second;
  whole.clear_object();
  proto::CheckpointObject* const piece = whole.add_pieces();
  *piece = told->object();
  piece->mutable_buckets()->Add(part.buckets.begin(), part.buckets.end());
  if (whole.pieces_size() > static_cast<int>(kCheckpointObjectsMax)) {
    told->set_error(absl::StrFormat("more than %d objects", kCheckpointObjectsMax));
    work.begun.erase(key);
    return true;
  }
  if (part.goes_on) return false;
  *told = std::move(whole);
  work.begun.erase(key);
  return true;
}

absl::StatusOr<ObjectFacts> PartWriter::Put(const Part& part, Work& work) {
  if (work.store == nullptr) {
    absl::StatusOr<std::unique_ptr<Store>> opened = work.calls.open();
    if (!opened.ok()) return opened.status();
    work.store = *std::move(opened);
  }
  const ImageFile file = part.make();
  const std::vector<absl::Span<const char>> pieces = file.Pieces();
  const std::string name =
      Checkpoints::ObjectName(part.clock, ToText(part.name, work.job, work.attempt));
  // The sum is made while the store writes, or after it if no more threads are available.
  std::future<ObjectFacts> facts =
      std::async(std::launch::async | std::launch::deferred, [&] { return FactsOf(name, pieces); });
  absl::Status put = work.store->Put(name, pieces);
  ObjectFacts done = facts.get();
  if (put.ok()) return done;
  work.store.reset();
  return put;
}

void PartWriter::WriteNow(Part part, Work& work) {
  proto::CheckpointPart told = Describe(part, work);
  bool is_given_up = false;
  {
    absl::MutexLock lock(&work.telling);
    is_given_up = part.problem.empty() && IsGivenUp(part, work);
    if (!is_given_up) work.in_hand = told;
  }
  told.set_error(part.problem);
  if (part.problem.empty() && !is_given_up) {
    const absl::Time begin = absl::Now();
    const absl::StatusOr<ObjectFacts> facts = Put(part, work);
    if (facts.ok()) {
      told.mutable_object()->set_name(facts->name);
      told.mutable_object()->set_bytes(facts->bytes);
      told.mutable_object()->set_checksum(facts->checksum);
      LogDebug("job %d: wrote %d bytes of the checkpoint of clock %d in %s", work.job, facts->bytes,
               part.clock, absl::FormatDuration(absl::Now() - begin));
    } else {
      told.set_error(std::string(facts.status().message()));
    }
  }
  part.make = nullptr;
  if (!told.error().empty()) {
    LogWarning("job %d: checkpoint of clock %d: %s", work.job, part.clock, told.error());
  }
  absl::MutexLock lock(&work.telling);
  work.in_hand.reset();
  if (work.abandoned) return;
  if (part.problem.empty() && part.let_go != nullptr) part.let_go();
  if (!is_given_up && Join(part, work, &told)) work.calls.tell(told);
}

}  // namespace strata
