#include "worker/client/nccl/node_reducer.h"

#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/diverged.h"

namespace strata::nccl {
namespace {

// The device signals when a chunk is reduced; this is the interval of all other checks.
constexpr absl::Duration kNodeReducerLook = absl::Milliseconds(5);
// Interval of asking the caller whether it still waits.
constexpr absl::Duration kCallerLooks = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<std::unique_ptr<NodeReducer>> NodeReducer::Create(client::NodeSumSetup setup) {
  const proto::Job job = std::move(setup.job);
  auto reducer = absl::WrapUnique(new NodeReducer(std::move(setup)));
  if (absl::Status status = reducer->Init(job); !status.ok()) return status;
  reducer->thread_ = std::thread([self = reducer.get()] { self->Run(); });
  return reducer;
}

NodeReducer::~NodeReducer() {
  Stop();
  communicator_->Abort();
  for (auto* stream : {&stream_, &told_}) {
    if (*stream != nullptr) (*stream)->Synchronize().IgnoreError();
  }
}

absl::Status NodeReducer::Init(const proto::Job& job) {
  const size_t bytes = device_bytes();
  absl::StatusOr<device::Memory> verdicts = device_->Allocate(bytes, "verdicts on gradients");
  if (!verdicts.ok()) return verdicts.status();
  verdicts_ = *std::move(verdicts);
  verdicts = device_->AllocatePinned(bytes, "verdicts on gradients");
  if (!verdicts.ok()) return verdicts.status();
  verdicts_on_host_ = *std::move(verdicts);
  chunks_.resize(map_.chunks());
  for (Chunk& chunk : chunks_) {
    for (std::unique_ptr<device::Event>* event : {&chunk.computed, &chunk.reduced}) {
      absl::StatusOr<std::unique_ptr<device::Event>> made = device_->NewEvent();
      if (!made.ok()) return made.status();
      *event = *std::move(made);
    }
  }
  for (auto* stream : {&stream_, &told_}) {
    absl::StatusOr<std::unique_ptr<device::Stream>> made = device_->NewStream(/*urgent=*/true);
    if (!made.ok()) return made.status();
    *stream = *std::move(made);
  }
  auto trace = ReduceTrace::Create(job, device_, stream_.get());
  if (!trace.ok()) return trace.status();
  trace_ = *std::move(trace);
  return absl::OkStatus();
}

void NodeReducer::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  thread_.join();
}

absl::Status NodeReducer::PublishAfter(device::Stream* stream, absl::Span<const ChunkId> chunks,
                                       uint64_t step) {
  if (step != step_) {  // the events are recorded again
    if (absl::Status status = Drain(); !status.ok()) return status;
    step_ = step;
  }
  for (const ChunkId chunk : chunks) {
    if (stream == nullptr) break;
    absl::Status status = stream->Record(chunks_[chunk.value()].computed.get());
    if (!status.ok()) return status;
  }
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return status_;
  for (const ChunkId chunk : chunks) published_.push_back({chunk, step});
  pending_ += chunks.size();
  woken_ = true;
  return absl::OkStatus();
}

absl::Status NodeReducer::Drain() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(this, &NodeReducer::Idle), kCallerLooks)) {
        return status_;
      }
    }
    if (calls_.caller_waits == nullptr) continue;
    if (absl::Status status = calls_.caller_waits(); !status.ok()) return status;
  }
}

absl::Status NodeReducer::Finish() {
  if (absl::Status status = Drain(); !status.ok()) return status;
  Stop();
  if (absl::Status status = stream_->Synchronize(); !status.ok()) return status;
  if (trace_ != nullptr) trace_->Stop();
  return communicator_->Finish(calls_.caller_waits ? calls_.caller_waits : calls_.still_wanted);
}

void NodeReducer::SendTrace(client::AgentChannel* agent, bool all) {
  if (trace_ != nullptr) trace_->Send(agent, all);
}

void NodeReducer::Run() {
  while (true) {
    std::vector<Item> published;
    {
      absl::MutexLock lock(&mutex_);
      const bool waits_for_device = pending_ > 0 && status_.ok();
      mutex_.AwaitWithTimeout(absl::Condition(this, &NodeReducer::Woken),
                              waits_for_device ? kNodeReducerLook : absl::InfiniteDuration());
      if (ends_) return;
      woken_ = false;
      published.swap(published_);
      if (!status_.ok()) continue;
    }
    if (absl::Status status = MoveOn(published); !status.ok()) Fail(std::move(status));
  }
}

absl::Status NodeReducer::MoveOn(absl::Span<const Item> published) {
  for (const Item& item : published) {
    chunks_[item.chunk.value()].step = item.step;
    computing_.push_back(item);
  }
  while (chunks_[next_].step) {
    if (absl::Status status = Queue(ChunkId(next_)); !status.ok()) return status;
    next_ = (next_ + 1) % map_.chunks();
  }
  if (absl::Status status = NoteReduced(); !status.ok()) return status;
  if (absl::Status status = NoteComputed(); !status.ok()) return status;
  const absl::Time now = absl::Now();
  if (now < look_) return absl::OkStatus();
  look_ = now + kNodeReducerLook;
  // If a peer is gone, the aggregator may know the cause.
  const absl::Status status = calls_.still_wanted();
  return status.ok() ? communicator_->Error() : status;
}

// A rank's own gradients are checked before they are added, so that the rank at fault is known.
absl::Status NodeReducer::Queue(ChunkId id) {
  Chunk& chunk = chunks_[id.value()];
  float* const values = reinterpret_cast<float*>(gradients_.get()) + map_.OffsetOf(id);
  const size_t count = map_.ElementsOf(id);
  const size_t word = id.value() * sizeof(device::Verdict);
  auto* const verdict = reinterpret_cast<device::Verdict*>(verdicts_.get() + word);
  absl::Status status = stream_->Wait(*chunk.computed);
  if (status.ok()) status = stream_->Fill(verdict, device::kGoodByte, sizeof *verdict);
  if (status.ok()) status = device_->kernels().check_finite(*stream_, values, count, verdict);
  if (status.ok()) {
    status = stream_->Copy(verdicts_on_host_.get() + word, verdict, sizeof *verdict);
  }
  if (status.ok()) {
    // It may wait until the others have reached this chunk.
    const device::StillWanted wanted = [this] {
      const absl::Status computed = NoteComputed();
      return computed.ok() ? calls_.still_wanted() : computed;
    };
    const uint32_t root = id.value() % local_ranks_;
    float* const sum = root == local_rank_ ? values : nullptr;
    status = ReduceTrace::Queue(trace_.get(), id, *chunk.step, [&] {
      return communicator_->Reduce(*stream_, values, sum, count, root, wanted);
    });
  }
  if (status.ok()) status = stream_->Record(chunk.reduced.get());
  if (status.ok()) status = told_->Wait(*chunk.reduced);
  if (status.ok()) {
    status = told_->Call([this] {
      absl::MutexLock lock(&mutex_);
      woken_ = true;
    });
  }
  reducing_.push_back({id, *chunk.step});
  chunk.step.reset();
  return status;
}

absl::Status NodeReducer::NoteComputed() {
  while (!computing_.empty()) {
    const Item item = computing_.front();
    const absl::StatusOr<bool> done = chunks_[item.chunk.value()].computed->Done();
    if (!done.ok() || !*done) return done.status();
    computing_.pop_front();
    calls_.computed(item.step);
  }
  return absl::OkStatus();
}

absl::Status NodeReducer::NoteReduced() {
  while (!reducing_.empty()) {
    const Item item = reducing_.front();
    const absl::StatusOr<bool> done = chunks_[item.chunk.value()].reduced->Done();
    if (!done.ok() || !*done) return done.status();
    reducing_.pop_front();
    // The reduced gradient has been computed; others must see that first.
    if (absl::Status status = NoteComputed(); !status.ok()) return status;
    if (absl::Status status = ExpectFinite(item); !status.ok()) return status;
    if (absl::Status status = calls_.reduced(item.chunk, item.step); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    --pending_;
  }
  return absl::OkStatus();
}

absl::Status NodeReducer::ExpectFinite(const Item& item) const {
  device::Verdict verdict = device::kGood;
  std::memcpy(&verdict, verdicts_on_host_.get() + item.chunk.value() * sizeof verdict,
              sizeof verdict);
  if (verdict == device::kGood) return absl::OkStatus();
  return DivergedError(absl::StrFormat("the gradient of chunk %d is not finite at step %d",
                                       item.chunk.value(), item.step));
}

void NodeReducer::Fail(absl::Status status) {
  communicator_->Abort();
  absl::MutexLock lock(&mutex_);
  status_ = std::move(status);
}

absl::StatusOr<std::unique_ptr<client::NodeSum>> CreateNodeReducer(client::NodeSumSetup setup) {
  return NodeReducer::Create(std::move(setup));
}

}  // namespace strata::nccl
