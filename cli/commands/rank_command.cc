#include <signal.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "cli/cluster/mpi_rank.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "common/log.h"
#include "common/os/environment.h"
#include "common/os/stop_request.h"
#include "training/trainer/trainer.h"
#include "worker/aggregator/aggregator.h"
#include "worker/client/client.h"
#include "worker/contract/launch.h"

namespace strata::cli {

namespace {

absl::Status Train(const std::string& launch_file, const proto::Launch& launch,
                   const absl::Notification* stop) {
  auto client = client::Client::Connect(launch_file);
  if (!client.ok()) return client.status();
  training::TrainerOptions options;
  options.job = launch.record().job();
  options.run_dir = launch.run_dir();
  options.node = launch.node();
  options.local_rank = launch.local_rank();
  options.stop = stop;
  auto outcome = training::RunTrainer(options, **client);
  if (!outcome.ok()) return outcome.status();
  LogInfo("trained %d steps, %d samples in %.1f s, last loss %.4f", outcome->steps,
          outcome->samples, outcome->wall_s, outcome->loss);
  return absl::OkStatus();
}

// Runs `train` until it ends or a signal asks for its end.
int RunUntilStopped(const std::function<absl::Status(const absl::Notification*)>& train) {
  StopRequest request;
  // Meant for programs that know them; the launcher hands them to every rank.
  for (const int theirs : {SIGUSR1, SIGUSR2}) signal(theirs, SIG_IGN);
  absl::Notification stop;
  std::thread waiter([&] {
    request.Wait().IgnoreError();
    stop.Notify();
  });
  const absl::Status status = train(&stop);
  request.Raise(status);
  waiter.join();
  if (status.ok()) return kExitOk;
  // Another rank says why.
  if (absl::IsCancelled(status)) return kExitFailed;
  return PrintError(status);
}

int RunRankCommand(const std::string& launch_file, const Invocation& invocation) {
  auto launch = client::ReadLaunch(launch_file);
  if (!launch.ok()) return PrintError(launch.status());
  absl::Status status = StartLogging(invocation, absl::StrCat("rank ", launch->rank()));
  if (!status.ok()) return PrintError(status);
  return RunUntilStopped(
      [&](const absl::Notification* stop) { return Train(launch_file, *launch, stop); });
}

int RunUnderMpi(const MpiRankOptions& options, const Invocation& invocation) {
  const absl::Status status = StartLogging(invocation, "rank");
  if (!status.ok()) return PrintError(status);
  return RunUntilStopped([&](const absl::Notification* stop) { return RunMpiRank(options, stop); });
}

}  // namespace

void AddRankCommand(CLI::App* app, Invocation* invocation) {
  auto launch = std::make_shared<std::string>();
  auto mpi = std::make_shared<MpiRankOptions>();
  CLI::App* command =
      app->add_subcommand("rank", "One rank of a job with exchange: MPI, under mpirun");
  // The worker daemon alone uses this option, so help hides it.
  CLI::Option* by_daemon = command->add_option("--launch", *launch, "Launch file")->group("");
  CLI::Option* by_mpi =
      command->add_option("--job", mpi->job.path, "Job file (protobuf text, see proto/job.proto)");
  by_mpi->excludes(by_daemon);
  AddJobOptions(command, &mpi->job);
  command->add_option("--mpi-plugin", mpi->plugin,
                      "MPI's part of this program (default: libstrata_mpi.so beside it)");
  command
      ->add_option("--resume", mpi->resume,
                   "Go on from the newest whole checkpoint in this folder or bucket, as that of an "
                   "earlier run")
      ->excludes(by_daemon);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Example:\n"
      "  mpirun -n 4 strata rank --job job.textproto --set exchange=MPI --set ranks=4\n"
      "Rank 0 prints a line per window of steps, and writes metrics.jsonl and the model into the\n"
      "job's run_dir (default: strata-runs/NAME-0).");
  command->callback([=] {
    if (launch->empty() && mpi->job.path.empty()) throw CLI::RequiredError("--job");
    invocation->run = [=] {
      return launch->empty() ? RunUnderMpi(*mpi, *invocation)
                             : RunRankCommand(*launch, *invocation);
    };
  });
}

namespace {

int RunAggregatorCommand(const std::string& launch_file, const Invocation& invocation) {
  MakeUndumpable(OwnEnvironment());
  auto launch = client::ReadLaunch(launch_file);
  if (!launch.ok()) return PrintError(launch.status());
  absl::Status status =
      StartLogging(invocation, absl::StrCat("aggregator of node ", launch->node()));
  if (!status.ok()) return PrintError(status);
  status = worker::RunAggregatorProcess(*launch);
  return status.ok() ? kExitOk : PrintError(std::string(status.message()), kExitFailed);
}

}  // namespace

// Started by the worker daemon only, so it is not in the help.
void AddAggregatorCommand(CLI::App* app, Invocation* invocation) {
  auto launch = std::make_shared<std::string>();
  CLI::App* command =
      app->add_subcommand("aggregator", "One job's aggregator on one node")->group("");
  command->add_option("--launch", *launch, "Launch file")->required();
  AddLogLevelOption(command, invocation);
  AddLogFormatOption(command);
  command->callback(
      [=] { invocation->run = [=] { return RunAggregatorCommand(*launch, *invocation); }; });
}

}  // namespace strata::cli
