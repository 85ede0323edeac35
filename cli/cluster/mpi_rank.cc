#include "cli/cluster/mpi_rank.h"

#include <sys/socket.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/render/progress.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/open_store.h"
#include "common/checkpoint/store.h"
#include "common/job/arena.h"
#include "common/os/environment.h"
#include "common/os/framed_channel.h"
#include "common/os/trusted_file.h"
#include "kernels/kernels.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/checkpoint_ledger.h"
#include "server/coordinator/jobs/checkpoint_work.h"
#include "server/coordinator/jobs/go_on.h"
#include "server/coordinator/jobs/metrics_merge.h"
#include "training/trainer/trainer.h"
#include "worker/agent/metrics_log.h"
#include "worker/agent/run_directory.h"
#include "worker/client/client.h"
#include "worker/client/connect/arena_client.h"
#include "worker/client/connect/collective.h"
#include "worker/client/connect/load_plugin.h"
#include "worker/client/connect/mpi_link.h"

namespace strata::cli {
namespace {

// The beginning of a job that mpirun has started.
struct MpiStart {
  proto::JobRecord record;               // the same on all ranks
  std::optional<proto::JobRecord> from;  // on rank 0: the job whose checkpoint it continues
};

// Completes the checkpoints of such a job, on rank 0, as a coordinator does for the jobs of a
// cluster. A failure is reported on stderr, and training continues.
//
// Threads: one; it has one of its own for the store.
class MpiCheckpoints {
 public:
  MpiCheckpoints(MpiStart start, StoreOpener open);
  ~MpiCheckpoints();  // what is being written is written to its end

  // The job's layout is known. Errors: InvalidArgument: the checkpoint is of another one.
  absl::Status Begin(const client::JobFacts& facts, const proto::Layout& layout);
  // A rank's object is written, or is not.
  void OnPart(const proto::CheckpointPart& part);
  // Moves on what can be moved.
  void MoveOn();
  // The step whose checkpoint is under way.
  std::optional<uint64_t> writing_step() const {
    return status_.has_writing_step() ? std::optional(status_.writing_step()) : std::nullopt;
  }

 private:
  void KeepIfWhole();
  void Run();
  void TellProblem();

  proto::JobRecord record_;
  const std::optional<proto::JobRecord> from_;
  const StoreOpener open_;
  server::CheckpointLedger ledger_;
  proto::CheckpointStatus status_;
  std::string told_;  // the newest problem that was said

  absl::Mutex mutex_;
  std::deque<server::CheckpointToKeep> to_keep_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<uint64_t, absl::Status>> kept_ ABSL_GUARDED_BY(mutex_);  // by clock
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last; none: the job writes no checkpoints
};

void Say(const std::string& text) { PrintF(stderr, "strata: %s\n", text); }

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
  if (absl::Status same = server::CheckContinues(job, found->record); !same.ok()) {
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

// Rank 0 finds the checkpoint that the job continues from, if `resume` names a folder or bucket,
// and tells the others. Checkpoints that it passes over are named on stderr. Errors, on rank 0:
// those of FindCheckpoint and CheckContinues; on the others Cancelled.
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
    if (absl::Status same = server::CheckContinues(record_, *from_); !same.ok()) return same;
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

// For the last reports of ranks that have ended their training.
constexpr absl::Duration kLastWords = absl::Seconds(150);
constexpr absl::Duration kLookEvery = absl::Milliseconds(1);

StoreOpener OpenAnyStore() {
  return [environment = OwnEnvironment()](const std::string& address) {
    return OpenStore(address, {.environment = environment});
  };
}

StoreOpener OpenStoreToLookInto() {
  return [environment = OwnEnvironment()](const std::string& address) {
    return OpenStoreThatIsThere(address, {.environment = environment});
  };
}

// Carries what ranks report to rank 0, which does with it what the coordinator of a cluster does:
// merges reports, completes checkpoints.
class Reports {
 public:
  // `channel`: where this rank's client reports to.
  Reports(MpiStart start, std::string run_dir, mpi::Collective* collective, UniqueFd channel)
      : job_(start.record.job()),
        metrics_file_(worker::MetricsFile(run_dir)),
        collective_(*collective),
        channel_(std::move(channel)),
        begun_(absl::Now()),
        checkpoints_(std::move(start), OpenAnyStore()) {}

  absl::Status Begin(const client::JobFacts& facts, const proto::Layout& layout) {
    merge_.emplace(job_.ranks(), job_.epochs(), facts.samples_per_epoch, facts.total_steps);
    return collective_.rank() == 0 ? checkpoints_.Begin(facts, layout) : absl::OkStatus();
  }

  // Moves on what there is.
  absl::Status Pump() {
    while (true) {
      proto::ChildMessage message;
      absl::StatusOr<bool> there = channel_.TryReceive(&message);
      if (!there.ok()) return there.status();
      if (!*there) break;
      if (!message.has_report() && !message.has_checkpoint()) continue;
      const absl::Status sent =
          collective_.rank() == 0 ? Take(message) : collective_.Post(message.SerializeAsString());
      if (!sent.ok()) return sent;
    }
    while (collective_.rank() == 0) {
      absl::StatusOr<std::optional<std::string>> posted = collective_.Take();
      if (!posted.ok()) return posted.status();
      if (!posted->has_value()) break;
      proto::ChildMessage message;
      message.ParseFromString(**posted);
      if (absl::Status status = Take(message); !status.ok()) return status;
    }
    checkpoints_.MoveOn();
    return absl::OkStatus();
  }

  // After the last step: until every rank's last report and the last checkpoint are there.
  absl::Status End() {
    const absl::Time deadline = absl::Now() + kLastWords;
    while (true) {
      if (absl::Status status = Pump(); !status.ok()) return status;
      const bool all = finals_ == job_.ranks() && !checkpoints_.writing_step();
      if (collective_.rank() != 0 || all) return absl::OkStatus();
      if (absl::Now() >= deadline) return Miss();
      absl::SleepFor(kLookEvery);
    }
  }

 private:
  // Says what has not come; the job is as well without it.
  absl::Status Miss() const {
    if (finals_ < job_.ranks()) {
      PrintF(stderr, "strata: the last reports of %u ranks have not come\n",
             job_.ranks() - finals_);
    }
    if (const auto step = checkpoints_.writing_step()) {
      PrintF(stderr, "strata: the checkpoint of step %s is not complete\n", absl::StrCat(*step));
    }
    return absl::OkStatus();
  }
  absl::Status Take(const proto::ChildMessage& message) {
    if (message.has_report()) return Take(message.report());
    checkpoints_.OnPart(message.checkpoint());
    return absl::OkStatus();
  }
  absl::Status Take(const proto::RankReport& report) {
    if (report.final()) ++finals_;
    const double elapsed_s = absl::ToDoubleSeconds(absl::Now() - begun_);
    for (const proto::MetricsRecord& record : merge_->Add(report, elapsed_s)) {
      PrintF(stdout, "%s\n", MetricsText(record, StatusOf()));
      std::fflush(stdout);
      absl::Status written = worker::AppendLine(metrics_file_, worker::MetricsLine(record));
      if (!written.ok()) return written;
    }
    return absl::OkStatus();
  }

  proto::JobStatus StatusOf() const {
    proto::JobStatus status;
    status.set_name(job_.name());
    *status.mutable_progress() = merge_->GetProgress();
    return status;
  }

  const proto::Job job_;
  const std::string metrics_file_;
  mpi::Collective& collective_;
  FramedChannel channel_;
  const absl::Time begun_;
  std::optional<server::MetricsMerge> merge_;
  uint32_t finals_ = 0;
  MpiCheckpoints checkpoints_;  // of rank 0
};

// A refusal that all ranks arrive at is reported by one of them.
absl::Status OfOne(const mpi::Collective& collective, const std::string& reason) {
  return collective.rank() == 0 ? absl::InvalidArgumentError(reason) : absl::CancelledError(reason);
}

std::string PluginPath(const std::string& given) {
  if (!given.empty()) return given;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "libstrata_mpi.so").string();
}

absl::Status CheckJob(const proto::Job& job, const mpi::Collective& collective) {
  if (job.exchange() != proto::Job::MPI) {
    return OfOne(collective, absl::StrCat("exchange: ", proto::Job::Exchange_Name(job.exchange()),
                                          ", but strata rank --job is for exchange: MPI"));
  }
  if (job.ranks() != collective.ranks()) {
    return OfOne(collective,
                 absl::StrCat("ranks: ", job.ranks(), ", but mpirun started ", collective.ranks(),
                              " (-n ", job.ranks(), ", or --set ranks=", collective.ranks(), ")"));
  }
  return absl::OkStatus();
}

// Rank 0 claims the directory; the others write what is theirs alone.
absl::StatusOr<UniqueFd> Prepare(const proto::Launch& launch) {
  if (launch.rank() == 0)
    return worker::PrepareRunDirectory(launch.run_dir(), launch.record(), 0, true);
  const absl::Status made = MakeOwnFolders(launch.run_dir());
  if (made.ok()) return UniqueFd();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write to run directory ", launch.run_dir(), ": ", made.message()));
}

proto::Launch MakeLaunch(proto::JobRecord record, const mpi::Collective& collective) {
  proto::Launch launch;
  *launch.mutable_record() = std::move(record);
  launch.set_rank(collective.rank());
  launch.set_node(collective.rank());
  launch.set_local_ranks(1);
  launch.set_run_dir(worker::ChooseRunDirectory(launch.record(), "strata-runs"));
  return launch;
}

void TellProgress(const mpi::Progress& progress) {
  PrintF(stdout,
         "all-reduce: %llu chunks, %.1f %% of them done before they were waited for, %.2f s "
         "waited for the others\n",
         static_cast<unsigned long long>(progress.chunks),
         progress.chunks == 0 ? 0.0
                              : 100.0 * static_cast<double>(progress.done_before_wait) /
                                    static_cast<double>(progress.chunks),
         progress.waiting_s);
}

// Returns where MPI does: it ends this process, too.
absl::Status AbortAll(const absl::Status& why, mpi::Collective* collective) {
  PrintF(stderr, "strata: error: rank %u: %s\n", collective->rank(), std::string(why.message()));
  collective->Abort(1);
  return absl::CancelledError(why.message());
}

absl::Status Train(MpiStart start, mpi::Collective* collective, const absl::Notification* stop) {
  const proto::Launch launch = MakeLaunch(start.record, *collective);
  const proto::Job& job = launch.record().job();
  absl::StatusOr<UniqueFd> claim = Prepare(launch);
  if (!claim.ok()) return claim.status();
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ResourceExhaustedError("socketpair");
  }
  Reports reports(std::move(start), launch.run_dir(), collective, UniqueFd(ends[0]));
  auto link = std::make_unique<mpi::MpiLink>(
      job, launch.record().resume().step(), collective, kernels::Cpu(),
      mpi::MpiLink::Reporting{[&](const client::JobFacts& facts, const proto::Layout& layout) {
                                return reports.Begin(facts, layout);
                              },
                              [&] { return reports.Pump(); }});
  const mpi::MpiLink* own = link.get();
  client::ArenaClient client(launch, std::make_shared<client::AgentChannel>(ends[1]),
                             std::move(link));
  training::TrainerOptions options;
  options.job = job;
  options.run_dir = launch.run_dir();
  options.node = launch.node();
  options.stop = stop;
  auto outcome = training::RunTrainer(options, client);
  absl::Status ended = outcome.ok() ? reports.End() : outcome.status();
  // At once: the others wait for this rank, whose store may not answer.
  if (!ended.ok()) return AbortAll(ended, collective);
  if (collective->rank() == 0) TellProgress(own->progress());
  return absl::OkStatus();
}

}  // namespace

absl::Status RunMpiRank(const MpiRankOptions& options, const absl::Notification* stop) {
  const absl::StatusOr<proto::Job> job = LoadJob(options.job);
  if (!job.ok()) return job.status();
  auto collective = mpi::LoadPlugin(PluginPath(options.plugin));
  if (!collective.ok()) return collective.status();
  if (absl::Status status = CheckJob(*job, **collective); !status.ok()) return status;
  absl::StatusOr<MpiStart> start =
      AgreeOnStart(*job, options.resume, OpenStoreToLookInto(), collective->get());
  if (!start.ok()) return start.status();
  const absl::Status status = Train(*std::move(start), collective->get(), stop);
  if (status.ok() || absl::IsCancelled(status)) return status;
  return AbortAll(status, collective->get());
}

}  // namespace strata::cli
