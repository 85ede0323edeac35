#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "cli/command.h"
#include "cli/options.h"
#include "common/log.h"
#include "common/process/stop_request.h"
#include "worker/client/client.h"
#include "worker/client/launch.h"
#include "worker/trainer/trainer.h"

namespace strata::cli {
namespace {

absl::Status Train(const std::string& launch_file, const proto::Launch& launch,
                   const absl::Notification* stop) {
  auto client = client::Client::Connect(launch_file);
  if (!client.ok()) return client.status();
  worker::TrainerOptions options;
  options.job = launch.record().job();
  options.run_dir = launch.run_dir();
  options.node = launch.node();
  options.local_rank = launch.local_rank();
  options.stop = stop;
  auto outcome = worker::RunTrainer(options, **client);
  if (!outcome.ok()) return outcome.status();
  LogInfo("trained %d steps, %d samples in %.1f s, last loss %.4f", outcome->steps,
          outcome->samples, outcome->wall_s, outcome->loss);
  return absl::OkStatus();
}

int Run(const std::string& launch_file, const Invocation& invocation) {
  auto launch = client::ReadLaunch(launch_file);
  if (!launch.ok()) return PrintError(launch.status());
  absl::Status status = StartLogging(invocation, absl::StrCat("rank ", launch->rank()));
  if (!status.ok()) return PrintError(status);
  StopRequest request;
  absl::Notification stop;
  std::thread waiter([&] {
    request.Wait().IgnoreError();
    stop.Notify();
  });
  status = Train(launch_file, *launch, &stop);
  request.Raise(status);
  waiter.join();
  return status.ok() ? kExitOk : PrintError(std::string(status.message()), kExitFailed);
}

}  // namespace

// Started by the worker daemon only, so it is not in the help.
void AddRankCommand(CLI::App* app, Invocation* invocation) {
  auto launch = std::make_shared<std::string>();
  CLI::App* command = app->add_subcommand("rank", "One rank of a job")->group("");
  command->add_option("--launch", *launch, "Launch file")->required();
  AddLogLevelOption(command, invocation);
  command->callback([=] { invocation->run = [=] { return Run(*launch, *invocation); }; });
}

}  // namespace strata::cli
