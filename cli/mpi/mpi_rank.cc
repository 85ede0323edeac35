#include "cli/mpi/mpi_rank.h"

#include <sys/socket.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/mpi/mpi_checkpoints.h"
#include "cli/options/options.h"
#include "cli/render/progress.h"
#include "common/checkpoint/open_store.h"
#include "common/file/own_folder.h"
#include "common/ipc/framed_channel.h"
#include "common/process/environment.h"
#include "kernels/kernels.h"
#include "server/coordinator/jobs/metrics/metrics_merge.h"
#include "training/trainer/trainer.h"
#include "worker/agent/metrics_line.h"
#include "worker/agent/runs/run_directory.h"
#include "worker/client/connect/arena_client.h"
#include "worker/client/mpi/load_plugin.h"
#include "worker/client/mpi/mpi_link.h"

namespace strata::cli {
namespace {

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
      std::fprintf(stderr, "strata: the last reports of %u ranks have not come\n",
                   job_.ranks() - finals_);
    }
    if (const auto step = checkpoints_.writing_step()) {
      std::fprintf(stderr, "strata: the checkpoint of step %s is not complete\n",
                   absl::StrCat(*step).c_str());
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
      std::printf("%s\n", MetricsText(record, StatusOf()).c_str());
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

// Refusals that all ranks come to are told by one of them.
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
  std::printf(
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
  std::fprintf(stderr, "strata: error: rank %u: %s\n", collective->rank(),
               std::string(why.message()).c_str());
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
  worker::TrainerOptions options;
  options.job = job;
  options.run_dir = launch.run_dir();
  options.node = launch.node();
  options.stop = stop;
  auto outcome = worker::RunTrainer(options, client);
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
