#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/commands/commands.h"
#include "cli/options/interrupt.h"
#include "cli/options/options.h"
#include "cli/options/screen.h"
#include "cli/options/terminal.h"
#include "cli/render/top_screen.h"

namespace strata::cli {
namespace {

// The longest wait for an answer for a redrawn screen.
constexpr double kAnswerSeconds = 2;

struct TopOptions {
  CoordinatorOptions coordinator;
  double every_s = 1;
  bool once = false;
};

absl::Status Ask(control::CoordinatorClient* client, TopScene* scene) {
  auto nodes = client->ListNodes();
  if (!nodes.ok()) return nodes.status();
  auto jobs = client->ListJobs();
  if (!jobs.ok()) return jobs.status();
  scene->nodes = *std::move(nodes);
  scene->jobs = *std::move(jobs);
  scene->taken = absl::Now();
  return absl::OkStatus();
}

int ShowOnce(const TopOptions& options) {
  auto client = ConnectTo(options.coordinator);
  TopScene scene{.coordinator = options.coordinator.address};
  if (absl::Status asked = Ask(client.get(), &scene); !asked.ok()) return PrintError(asked);
  const std::optional<Screen::Size> size = Screen::SizeOf(stdout);
  // Into a pipe or a file all of it goes.
  const TopSize shown{.columns = size.has_value() ? size->columns : INT_MAX};
  PrintText(stdout, TopScreen(scene, shown, absl::Now()));
  return kExitOk;
}

int Show(TopOptions options) {
  Interrupt interrupt;
  options.coordinator.timeout_s = std::min(options.coordinator.timeout_s, kAnswerSeconds);
  auto client = ConnectTo(options.coordinator);
  TopScene scene{.coordinator = options.coordinator.address};
  auto screen = Screen::Open(stdin, stdout);
  if (!screen.ok()) return PrintError(screen.status());
  std::atomic<bool> is_over = false;
  interrupt.Catch([&] {
    is_over = true;
    (*screen)->Wake();
  });
  while (!is_over) {
    const absl::Time next = absl::Now() + absl::Seconds(options.every_s);
    const absl::Status asked = Ask(client.get(), &scene);
    scene.problem = std::string(asked.message());
    do {
      const Screen::Size size = (*screen)->size();
      (*screen)->Draw(
          TopScreen(scene, {.columns = size.columns, .rows = size.rows, .colours = UsesColours()},
                    absl::Now()));
      if ((*screen)->AwaitKey(next) == 'q') is_over = true;
    } while (!is_over && absl::Now() < next);
  }
  interrupt.Catch(nullptr);
  return kExitOk;
}

int RunTop(const TopOptions& options) {
  const bool on_terminal = Screen::SizeOf(stdout).has_value();
  return options.once || !on_terminal ? ShowOnce(options) : Show(options);
}

}  // namespace

void AddTopCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command = app->add_subcommand(
      "top", "Watch the cluster in a terminal: who is stuck, jobs and daemons; q ends it");
  command->add_option("--every", options->every_s, "Seconds from one look to the next")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--once", options->once,
                    "Print it once and end, as it does where standard output is no terminal");
  AddCoordinatorOptions(command, &options->coordinator);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Without an answer for 2 s the last picture stays, with its age and what is wrong, and the\n"
      "coordinator is asked again and again. NO_COLOR=1 does without colours.\n"
      "Examples:\n"
      "  strata top\n"
      "  strata top --once | head -5\n"
      "Exit status: 0; with --once 1 where no coordinator answers.");
  command->callback([=] {
    invocation->run = [options] {
      return OnCluster(&options->coordinator, ClusterChoice::kAny,
                       [&] { return RunTop(*options); });
    };
  });
}

}  // namespace strata::cli
