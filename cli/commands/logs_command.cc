#include <re2/re2.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/options/interrupt.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/render/log_lines.h"
#include "common/control/logs_client.h"

namespace strata::cli {
namespace {

struct LogsOptions {
  CoordinatorOptions coordinator;
  std::string job;
  std::vector<uint32_t> ranks, nodes;
  bool aggregators = false;
  bool follow = false;
  std::string tail = "100";
  std::string grep;
};

absl::StatusOr<proto::ReadLogs> RequestOf(const LogsOptions& options, JobId job) {
  proto::ReadLogs request;
  request.set_job_id(job.value());
  request.mutable_ranks()->Add(options.ranks.begin(), options.ranks.end());
  request.mutable_nodes()->Add(options.nodes.begin(), options.nodes.end());
  request.set_aggregators(options.aggregators);
  request.mutable_lines()->set_follow(options.follow);
  const RE2 pattern(options.grep, RE2::Quiet);
  if (!pattern.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--grep ", options.grep, ": ", pattern.error()));
  }
  request.mutable_lines()->set_grep(options.grep);
  if (options.tail == "all") return request;
  uint64_t tail = 0;
  if (!absl::SimpleAtoi(options.tail, &tail)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tail ", options.tail, ": neither a number of lines nor \"all\""));
  }
  request.mutable_lines()->set_tail_lines(tail);
  return request;
}

// Shows what comes, and remembers whether something could not be shown.
class Shown {
 public:
  explicit Shown(const LogsOptions& options)
      : json_(options.coordinator.json),
        with_process_(options.aggregators ? options.nodes.size() != 1
                                          : options.ranks.size() != 1 || !options.nodes.empty()) {
    if (json_) form_ = LogLinesForm::kJson;
    if (!json_ && isatty(STDOUT_FILENO) != 0) form_ = LogLinesForm::kTerminal;
  }

  // Returns whether what shows it still takes more.
  bool Add(const proto::LogLines& lines) {
    is_empty_ = false;
    std::string text = LogLinesText(lines, form_, with_process_);
    if (!lines.error().empty()) {
      failed_ = true;
      if (json_) text += LogErrorJson(lines);
    }
    const bool taken = WriteBytes(stdout, text) && std::fflush(stdout) == 0;
    if (!taken && errno != EPIPE) {
      failed_ = true;
      PrintError(absl::StrCat("standard output: ", std::strerror(errno)), kExitFailed);
    }
    // It may have a path that a user named.
    if (!lines.error().empty() && !json_) PrintError(TerminalLine(lines.error()), kExitFailed);
    return taken;
  }

  bool failed() const { return failed_; }
  bool is_empty() const { return is_empty_; }

 private:
  const bool json_;
  const bool with_process_;
  LogLinesForm form_ = LogLinesForm::kRaw;
  bool failed_ = false;
  bool is_empty_ = true;
};

int RunLogs(const LogsOptions& options) {
  Interrupt interrupt;
  auto client = ConnectTo(options.coordinator);
  const auto job = FindJob(*client, options.job);
  if (!job.ok()) return PrintError(job.status());
  const auto request = RequestOf(options, *job);
  if (!request.ok()) return PrintError(request.status());
  const control::CoordinatorClient::Options reached = ClientOptions(options.coordinator);
  control::LogsClient logs({.coordinator = reached.coordinator,
                            .credentials = reached.credentials,
                            .deadline = reached.deadline});
  interrupt.Catch([&logs] { logs.Stop(); });
  Shown shown(options);
  bool taken = true;
  const absl::Status status = logs.Read(*request, [&](const proto::LogLines& lines) {
    if (!taken) return;
    taken = shown.Add(lines);
    if (!taken) logs.Stop();
  });
  interrupt.Catch(nullptr);
  // Whoever reads the output has enough of it, as `head` does.
  if (!taken) return shown.failed() ? kExitFailed : kExitOk;
  if (absl::IsCancelled(status)) return interrupt.exit_status();
  if (absl::IsUnimplemented(status)) {
    return PrintError(absl::StrCat("coordinator at ", reached.coordinator,
                                   " is of an earlier version, which cannot show logs"),
                      kExitFailed);
  }
  if (!status.ok()) return PrintError(status);
  // Silence looks like a fault.
  if (shown.is_empty() && options.tail != "0") {
    const std::string among =
        options.tail == "all" ? "" : absl::StrCat(" among the last ", options.tail, " of each");
    PrintF(stderr, "strata: %s\n",
           options.grep.empty() ? "these processes have written nothing"
                                : absl::StrCat("no line", among, " matches --grep"));
  }
  return shown.failed() ? kExitFailed : kExitOk;
}

}  // namespace

void AddLogsCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* command = app->add_subcommand(
      "logs", "Show what a job's processes have written, on whatever hosts they run or ran");
  command->add_option("job", options->job, "The job's number, or its name (the newest one)")
      ->required();
  command->add_option("--rank", options->ranks, "Only this rank; again for others")
      ->type_name("RANK")
      ->allow_extra_args(false);
  command->add_option("--node", options->nodes, "Only the ranks of this node; again for others")
      ->type_name("NODE")
      ->allow_extra_args(false);
  command->add_flag("--aggregator", options->aggregators,
                    "The aggregators' logs in place of the ranks': of all nodes, or of --node's");
  command->add_flag("-f,--follow", options->follow,
                    "Go on with what is written, until the job has ended");
  command
      ->add_option("--tail", options->tail,
                   "So many of the last lines of each process that are there, or \"all\"")
      ->type_name("LINES")
      ->capture_default_str();
  command
      ->add_option("--grep", options->grep,
                   "Of these lines only those that match (RE2's syntax); the hosts look")
      ->type_name("REGEX");
  AddCoordinatorOptions(command, &options->coordinator);
  AddJsonOption(command, &options->coordinator.json);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Each line of several processes begins with its rank: \"[3] epoch 2\". A terminal gets\n"
      "colours, and of progress bars the last state; a file or pipe gets the bytes as they are.\n"
      "Whoever submitted the job may see its logs, and who operates the cluster.\n"
      "Examples:\n"
      "  strata logs lenet\n"
      "  strata logs lenet --rank 3 --follow\n"
      "  strata logs 12 --tail all --grep 'loss|error'\n"
      "  strata logs 12 --aggregator --node 1\n"
      "Exit status: 0 all was shown, 1 not all of it could be (each reason in a line), 2 no such\n"
      "job or process.");
  command->callback([=] {
    invocation->run = [options] {
      return OnCluster(&options->coordinator, ClusterChoice::kAny,
                       [&] { return RunLogs(*options); });
    };
  });
}

}  // namespace strata::cli
