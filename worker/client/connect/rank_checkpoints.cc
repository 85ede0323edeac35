#include "worker/client/connect/rank_checkpoints.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/open_store.h"
#include "common/image/cut_collector.h"
#include "common/image/image_file.h"
#include "common/job/consistency.h"
#include "common/job/program_optimizer.h"
#include "common/os/environment.h"

namespace strata::client {
namespace {

// Interval of checks whether the program still waits for its states to be written.
constexpr absl::Duration kTurn = absl::Milliseconds(50);

StoreOpener OpenerOf(StoreOpener open, const std::stop_source& stop) {
  if (open != nullptr) return open;
  // The program may change its environment later, on another thread than the one that opens the
  // store.
  return [environment = OwnEnvironment(), token = stop.get_token()](const std::string& address) {
    return OpenStore(address, {.environment = environment, .stop = token});
  };
}

}  // namespace

proto::Job Completed(proto::Job job, const JobFacts& facts) {
  std::optional<proto::Optimizer> named;
  if (!facts.optimizer.empty()) {
    if (auto parsed = ParseOptimizer(facts.optimizer); parsed.ok()) named = *std::move(parsed);
  }
  TakeProgramSamples(facts.samples_per_rank, named ? &*named : nullptr, &job);
  // An inconsistent combination has failed the job by now.
  TakeProgramOptimizer(named ? &*named : nullptr, facts.says_rates, &job).IgnoreError();
  return job;
}

RankCheckpoints::RankCheckpoints(const proto::Launch& launch, AgentChannel* agent, RankLink* link,
                                 StoreOpener open)
    : launch_(launch), agent_(*agent), link_(link), open_(OpenerOf(std::move(open), stop_)) {
  const proto::JobRecord& record = launch_.record();
  if (link_ == nullptr || !record.has_resume() || !RanksKeepWeights(record.job())) return;
  link_->GoOnFrom([this] { return ReadWeights(); });
}

RankCheckpoints::~RankCheckpoints() { stop_.request_stop(); }

void RankCheckpoints::Begin(const JobFacts& facts, uint64_t first_step) {
  const proto::JobRecord& record = launch_.record();
  keeps_state_ = facts.keeps_state;
  keeps_weights_ = link_ != nullptr && RanksKeepWeights(record.job()) && launch_.rank() == 0;
  if ((!keeps_state_ && !keeps_weights_) || !record.job().has_checkpoint()) return;
  const proto::Job job = Completed(record.job(), facts);
  first_step_ = first_step;
  steps_per_clock_ = StepsPerClock(job);
  every_ = ClocksPerCheckpoint(job) * steps_per_clock_;
  writer_ = std::make_unique<PartWriter>(
      record,
      PartWriter::Calls{.open = [open = open_, dir = job.checkpoint().dir()] { return open(dir); },
                        .tell =
                            [this](const proto::CheckpointPart& part) {
                              proto::ChildMessage message;
                              *message.mutable_checkpoint() = part;
                              agent_.Send(message).IgnoreError();  // without a daemon the job ends
                            }});
}

absl::Status RankCheckpoints::AtStep(uint64_t steps) {
  trains_ = true;
  if (every_ == 0 || steps <= first_step_ || steps % every_ != 0) return absl::OkStatus();
  clock_ = steps / steps_per_clock_;
  is_due_ = keeps_state_ && IsDue(PartKind::kRank);
  if (!keeps_weights_ || !IsDue(PartKind::kShard)) return absl::OkStatus();
  absl::StatusOr<std::vector<ChunkImage>> images = link_->Cut(steps);
  if (!images.ok()) return images.status();
  Hold(PartKind::kShard);
  Write(PartKind::kShard, "", [images = *std::move(images)] { return MakeImageFile(images); });
  return absl::OkStatus();
}

bool RankCheckpoints::IsDue(PartKind kind) {
  std::optional<uint64_t> held;
  {
    absl::MutexLock lock(&mutex_);
    if (held_[kind].size() >= kCutsHeldMax) held = *held_[kind].begin();
  }
  if (!held) return true;
  Write(kind,
        absl::StrFormat("the checkpoint of clock %d is not written yet: the store is slower than "
                        "steps are",
                        *held),
        nullptr);
  return false;
}

void RankCheckpoints::PassOn() {
  if (std::exchange(is_due_, false)) {
    Write(PartKind::kRank, "the program has not given its state", nullptr);
  }
}

absl::Status RankCheckpoints::Give(std::string state) {
  if (!std::exchange(is_due_, false)) {
    return absl::FailedPreconditionError(
        "checkpoint: no state of this rank is due: it is after the last step of a checkpoint, and "
        "before the next step begins");
  }
  auto owned = std::make_shared<const std::string>(std::move(state));
  const Bytes bytes(owned, reinterpret_cast<const std::byte*>(owned->data()), owned->size());
  Hold(PartKind::kRank);
  Write(PartKind::kRank, "",
        [image = RankImage{.rank = launch_.rank(), .clock = clock_, .state = bytes}] {
          return MakeRankImageFile(image);
        });
  return absl::OkStatus();
}

void RankCheckpoints::Hold(PartKind kind) {
  absl::MutexLock lock(&mutex_);
  held_[kind].insert(clock_);
}

void RankCheckpoints::Write(PartKind kind, std::string problem, std::function<ImageFile()> make) {
  PartWriter::Part part;
  part.name = {.kind = kind, .number = launch_.rank()};
  part.clock = clock_;
  part.problem = std::move(problem);
  part.make = std::move(make);
  part.let_go = [this, kind, clock = clock_] {
    absl::MutexLock lock(&mutex_);
    held_[kind].erase(clock);
  };
  writer_->Write(std::move(part));
}

absl::Status RankCheckpoints::Finish(absl::Duration timeout,
                                     const std::function<absl::Status()>& still_wanted) {
  if (writer_ == nullptr) return absl::OkStatus();
  writer_->Finish();
  absl::Status wanted;
  const absl::Time deadline = absl::Now() + timeout;
  while (wanted.ok() && !writer_->AwaitDone(std::min(kTurn, deadline - absl::Now()))) {
    if (absl::Now() >= deadline) break;
    wanted = still_wanted();
  }
  if (!writer_->done()) writer_->GiveUp(kNotInTime);
  return wanted;
}

absl::StatusOr<ResumeObject> RankCheckpoints::ReadObject(uint32_t index) {
  const proto::Resume& resume = launch_.record().resume();
  const absl::StatusOr<std::unique_ptr<Store>> store = open_(resume.dir());
  if (!store.ok()) return store.status();
  return ReadResumeObject(resume, index, **store);
}

absl::StatusOr<Bytes> RankCheckpoints::ReadState(uint32_t rank) {
  const proto::Resume& resume = launch_.record().resume();
  if (rank >= static_cast<uint32_t>(resume.object_of_rank_size())) {
    return absl::DataLossError(
        absl::StrFormat("the checkpoint has the state of %d ranks, not of "
                        "rank %d",
                        resume.object_of_rank_size(), rank));
  }
  const absl::StatusOr<ResumeObject> object =
      ReadObject(resume.object_of_rank(static_cast<int>(rank)));
  if (!object.ok()) return object.status();
  absl::StatusOr<RankImage> image = ParseRankImageFile(object->content, object->path);
  if (!image.ok()) return image.status();
  if (image->rank != rank || image->clock != resume.clock()) {
    return absl::DataLossError(
        absl::StrFormat("%s: is of rank %d at clock %d, not of rank %d at %d", object->path,
                        image->rank, image->clock, rank, resume.clock()));
  }
  return image->state;
}

absl::StatusOr<std::vector<ChunkImage>> RankCheckpoints::ReadImages() {
  const proto::Resume& resume = launch_.record().resume();
  int index = 0;
  for (; index < resume.objects_size(); ++index) {
    const std::optional<PartName> part = ParsePartName(resume.objects(index).name());
    if (part && part->kind == PartKind::kShard) break;
  }
  const absl::StatusOr<ResumeObject> object = ReadObject(index);
  if (!object.ok()) return object.status();
  absl::StatusOr<std::vector<ChunkImage>> images = ParseImageFile(object->content, object->path);
  if (!images.ok()) return images.status();
  for (const ChunkImage& image : *images) {
    if (image.clock == resume.clock()) continue;
    return absl::DataLossError(absl::StrFormat("%s: elements from %d on are of clock %d, not %d",
                                               object->path, image.begin, image.clock,
                                               resume.clock()));
  }
  return images;
}

absl::Status RankCheckpoints::Refuse(const absl::Status& status) {
  const std::string text(status.message());
  // Later checkpoints may have replaced it by now: the job itself is fine.
  if (trains_) return absl::FailedPreconditionError(text);
  if (IsDamage(status)) {
    agent_.SendDamaged(text);
    return absl::DataLossError(text);
  }
  agent_.SendFailed(status);
  return absl::InternalError(text);
}

absl::StatusOr<std::vector<ChunkImage>> RankCheckpoints::ReadWeights() {
  absl::StatusOr<std::vector<ChunkImage>> images = ReadImages();
  return images.ok() ? std::move(images) : Refuse(images.status());
}

absl::StatusOr<Bytes> RankCheckpoints::Read(uint32_t rank) {
  const proto::JobRecord& record = launch_.record();
  if (rank >= record.job().ranks()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the state of rank %d: the job has %d ranks", rank, record.job().ranks()));
  }
  if (record.resume().object_of_rank_size() == 0) {
    return absl::NotFoundError(
        absl::StrFormat("no state of rank %d: the job goes on from none", rank));
  }
  absl::StatusOr<Bytes> state = ReadState(rank);
  return state.ok() ? std::move(state) : Refuse(state.status());
}

}  // namespace strata::client
