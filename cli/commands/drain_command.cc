#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/render/render_daemons.h"

namespace strata::cli {
namespace {

// Between looks at how far it is.
constexpr absl::Duration kLook = absl::Milliseconds(500);

struct DrainOptions {
  CoordinatorOptions coordinator;
  std::string daemon;
  bool wait = false;
  bool undo = false;
  std::string deadline;  // "10m"; empty: none
};

// Prints each change on its own line, until nothing is left on the daemon.
int Wait(control::CoordinatorClient* client, const DrainOptions& options, absl::Time end,
         proto::DrainReply told) {
  const uint32_t all = DrainLeft(told);
  std::string said;
  while (true) {
    const std::string line = DrainProgress(options.daemon, all, told);
    if (line != said) PrintF(stdout, "%s\n", line);
    std::fflush(stdout);
    said = line;
    if (told.drained()) return kExitOk;
    if (!told.draining()) {
      return PrintError(absl::StrCat(options.daemon, " is not being drained any more"),
                        kExitFailed);
    }
    if (absl::Now() >= end) {
      return PrintError(absl::StrFormat("%s is not empty after %s, and is still being drained",
                                        options.daemon, options.deadline),
                        kExitFailed);
    }
    absl::SleepFor(std::min(kLook, end - absl::Now()));
    proto::DrainRequest look;
    look.set_daemon(options.daemon);
    look.set_action(proto::DrainRequest::TELL);
    auto now = client->Drain(look);
    if (!now.ok()) return PrintError(now.status());
    told = *std::move(now);
  }
}

int RunDrain(const DrainOptions& options) {
  absl::Duration deadline = absl::InfiniteDuration();
  if (!options.deadline.empty() &&
      (!absl::ParseDuration(options.deadline, &deadline) || deadline <= absl::ZeroDuration())) {
    return PrintError(absl::InvalidArgumentError(
        absl::StrCat("--deadline ", options.deadline, ": is no time such as 1h, 30m or 90s")));
  }
  const absl::Time end = absl::Now() + deadline;
  auto client = ConnectTo(options.coordinator);
  proto::DrainRequest request;
  request.set_daemon(options.daemon);
  request.set_action(options.undo ? proto::DrainRequest::UNDO : proto::DrainRequest::DRAIN);
  auto told = client->Drain(request);
  if (!told.ok()) return PrintError(told.status());
  PrintText(stdout, DrainText(options.daemon, *told));
  const bool waits = options.wait || !options.deadline.empty();
  return waits ? Wait(client.get(), options, end, *std::move(told)) : kExitOk;
}

}  // namespace

void AddDrainCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<DrainOptions>();
  CLI::App* command = app->add_subcommand(
      "drain", "Take a server or worker out of service without hurting the jobs on it");
  command->add_option("name", options->daemon, "The server's or worker's name")->required();
  CLI::Option* wait =
      command->add_flag("--wait", options->wait, "Show progress until nothing is left there");
  CLI::Option* deadline = command->add_option(
      "--deadline", options->deadline,
      "As --wait, and no longer than this (30s, 10m): exit status 1, and it stays drained");
  command->add_flag("--undo", options->undo, "Put it back into service, as strata undrain does")
      ->excludes(wait)
      ->excludes(deadline);
  AddCoordinatorOptions(command, &options->coordinator);
  AddLogLevelOption(command, invocation);
  command->footer(
      "A server takes no new shard from then on, and those of running jobs go to other servers\n"
      "while the jobs train. A worker takes no new node; those that it runs go on to the job's\n"
      "end. It stays so until strata undrain, also after the daemon was started again.\n"
      "Examples:\n"
      "  strata drain s1 --deadline 10m\n"
      "  strata undrain s1\n"
      "Exit status: 0 done, with --wait or --deadline once nothing is left there; 1 jobs would "
      "have\n"
      "no server left, it was not being drained, the deadline has passed, or somebody has put it\n"
      "back into service; 2 no such daemon.");
  command->callback([=] {
    invocation->run = [options] {
      return OnCluster(&options->coordinator, ClusterChoice::kAny,
                       [&] { return RunDrain(*options); });
    };
  });
}

void AddUndrainCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<DrainOptions>();
  options->undo = true;
  CLI::App* command =
      app->add_subcommand("undrain", "Put a server or worker that was drained back into service");
  command->add_option("name", options->daemon, "The server's or worker's name")->required();
  AddCoordinatorOptions(command, &options->coordinator);
  AddLogLevelOption(command, invocation);
  command->footer(
      "New jobs may use it from then on; what has left it does not come back by itself.\n"
      "Exit status: 0 done, 1 it was not being drained, 2 no such daemon.");
  command->callback([=] {
    invocation->run = [options] {
      return OnCluster(&options->coordinator, ClusterChoice::kAny,
                       [&] { return RunDrain(*options); });
    };
  });
}

}  // namespace strata::cli
