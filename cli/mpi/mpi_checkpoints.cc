#include "cli/mpi/mpi_checkpoints.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/checkpoint/checkpoints.h"
#include "common/job/arena.h"
#include "server/coordinator/checkpoints/go_on.h"

namespace strata::cli {
namespace {

void Say(const std::string& text) { std::fprintf(stderr, "strata: %s\n", text.c_str()); }

// A folder by its whole path.
std::string WholePath(const std::string& dir) {
  const bool is_folder = !dir.empty() && !absl::StartsWith(dir, "s3://");
  return server::NormalFolder(is_folder ? std::filesystem::absolute(dir).string() : dir);
}

// Finds the newest checkpoint whose objects are whole: nobody could tell this process later that
// one is damaged.
absl::StatusOr<server::CheckpointFound> FindWhole(server::CheckpointQuery query,
                                                  const StoreOpener& open) {
  while (true) {
    absl::StatusOr<server::CheckpointFound> found = server::FindCheckpoint(query, open);
    if (!found.ok() || query.resume_dir.empty()) return found;
    for (const std::string& one : found->passed_over) Say(one);
    const absl::StatusOr<std::unique_ptr<Store>> store = open(query.resume_dir);
    if (!store.ok()) return store.status();
    const absl::Status whole = Checkpoints(**store).Verify(found->manifest);
    if (whole.ok()) return found;
    if (!IsDamage(whole)) return whole;
    Say(absl::StrFormat("passes over the checkpoint of step %d: %s", found->manifest.clock,
                        whole.message()));
    query.below = found->manifest.clock;
  }
}

absl::StatusOr<MpiStart> MakeStart(proto::Job job, const std::string& resume_dir,
                                   const StoreOpener& open) {
  if (job.has_checkpoint()) job.mutable_checkpoint()->set_dir(WholePath(job.checkpoint().dir()));
  MpiStart start;
  proto::JobRecord& record = start.record;
  *record.mutable_job() = job;
  if (!job.has_checkpoint() && resume_dir.empty()) return start;
  // Another run of the same job is another owner of a folder.
  std::random_device random;
  record.set_cluster((uint64_t{random()} << 32) | random());
  const server::CheckpointQuery query = {.cluster = record.cluster(),
                                         .own_dir = job.checkpoint().dir(),
                                         .resume_dir = WholePath(resume_dir)};
  const absl::StatusOr<server::CheckpointFound> found = FindWhole(query, open);
  if (!found.ok()) return found.status();
  if (query.resume_dir.empty()) return start;
  if (absl::Status same = server::CheckGoesOn(job, found->record); !same.ok()) {
    return absl::InvalidArgumentError(absl::StrFormat("cannot go on from %s (%s): %s",
                                                      query.resume_dir, found->manifest.job_name,
                                                      same.message()));
  }
  absl::StatusOr<proto::Resume> resume =
      server::MakeResume(query.resume_dir, found->manifest, found->record);
  if (!resume.ok()) return resume.status();
  *record.mutable_resume() = *std::move(resume);
  if (query.own_dir == query.resume_dir) {
    record.set_cluster(found->record.cluster());
    record.set_attempt(found->record.attempt() + 1);
  }
  start.from = found->record;
  return start;
}

// Gives rank 0's text to all; absent: it has none.
absl::StatusOr<std::optional<std::string>> Tell(const std::optional<std::string>& text,
                                                mpi::Collective* collective) {
  std::vector<uint64_t> words = {text ? text->size() + 1 : 0};
  if (absl::Status told = collective->Sum(absl::MakeSpan(words)); !told.ok()) return told;
  if (words[0] == 0) return std::optional<std::string>();
  std::string all(words[0] - 1, '\0');
  words.assign((all.size() + sizeof words[0] - 1) / sizeof words[0], 0);
  if (text) std::memcpy(words.data(), text->data(), text->size());
  if (absl::Status told = collective->Sum(absl::MakeSpan(words)); !told.ok()) return told;
  std::memcpy(all.data(), words.data(), all.size());
  return std::optional<std::string>(std::move(all));
}

}  // namespace

absl::StatusOr<MpiStart> AgreeOnStart(const proto::Job& job, const std::string& resume,
                                      const StoreOpener& open, mpi::Collective* collective) {
  absl::StatusOr<MpiStart> start = absl::CancelledError("rank 0 has failed");
  if (collective->rank() == 0) start = MakeStart(job, resume, open);
  std::optional<std::string> text;
  if (start.ok()) text = start->record.SerializeAsString();
  const absl::StatusOr<std::optional<std::string>> told = Tell(text, collective);
  if (!told.ok()) return told.status();
  if (!*told || collective->rank() == 0) return start;
  MpiStart heard;
  if (heard.record.ParseFromString(**told)) return heard;
  return absl::InternalError("rank 0 has told no job record");
}

MpiCheckpoints::MpiCheckpoints(MpiStart start, StoreOpener open)
    : record_(std::move(start.record)), from_(std::move(start.from)), open_(std::move(open)) {}

MpiCheckpoints::~MpiCheckpoints() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  thread_.join();
}

absl::Status MpiCheckpoints::Begin(const client::JobFacts& facts, const proto::Layout& layout) {
  *record_.mutable_layout() = layout;
  record_.set_samples_per_epoch(facts.samples_per_epoch);
  record_.set_ranks_keep_state(facts.keeps_state);
  const uint32_t asked = record_.job().chunk_elements();
  record_.mutable_placement()->set_chunk_elements(
      asked > 0 ? asked : DefaultChunkElements(layout.elements(), 1));
  if (from_) {
    if (absl::Status same = server::CheckGoesOn(record_, *from_); !same.ok()) return same;
  }
  if (!record_.job().has_checkpoint()) return absl::OkStatus();
  ledger_ = server::CheckpointLedger(record_);
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void MpiCheckpoints::OnPart(const proto::CheckpointPart& part) {
  const std::string who = absl::StrFormat("rank %d", part.has_rank() ? part.rank() : 0);
  ledger_.OnPart(who, part, &status_);
  TellProblem();
  KeepIfWhole();
}

void MpiCheckpoints::KeepIfWhole() {
  std::optional<server::CheckpointLedger::Whole> whole = ledger_.TakeWhole();
  if (!whole) return;
  proto::JobRecord record = record_;
  record.clear_resume();
  server::CheckpointToKeep checkpoint = server::MakeCheckpointToKeep(
      JobId(), record.job(), record.SerializeAsString(), *whole, absl::Now());
  absl::MutexLock lock(&mutex_);
  to_keep_.push_back(std::move(checkpoint));
}

void MpiCheckpoints::Run() {
  while (true) {
    server::CheckpointToKeep checkpoint;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](MpiCheckpoints* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
            return self->ends_ || !self->to_keep_.empty();
          },
          this));
      if (to_keep_.empty()) return;
      checkpoint = std::move(to_keep_.front());
      to_keep_.pop_front();
    }
    absl::Status deleting;
    const absl::Status kept = server::KeepCheckpoint(checkpoint, open_, &deleting);
    if (!deleting.ok()) {
      Say(absl::StrFormat("older checkpoints in %s: %s", checkpoint.dir, deleting.message()));
    }
    absl::MutexLock lock(&mutex_);
    kept_.emplace_back(checkpoint.manifest.clock, kept);
  }
}

void MpiCheckpoints::MoveOn() {
  std::deque<std::pair<uint64_t, absl::Status>> kept;
  {
    absl::MutexLock lock(&mutex_);
    kept.swap(kept_);
  }
  for (const auto& [clock, how] : kept) {
    ledger_.OnKept(clock, how, absl::Now(), &status_);
    TellProblem();
    KeepIfWhole();
  }
}

void MpiCheckpoints::TellProblem() {
  if (status_.problem().empty()) told_.clear();
  if (status_.problem() == told_) return;
  told_ = status_.problem();
  Say(absl::StrFormat("a checkpoint has failed, training goes on: %s", told_));
}

}  // namespace strata::cli
