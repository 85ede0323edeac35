#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/cluster/cluster_run.h"
#include "cli/cluster/follow.h"
#include "cli/cluster/local_cluster.h"
#include "cli/commands/cluster_page.h"
#include "cli/commands/commands.h"
#include "cli/options/interrupt.h"
#include "cli/options/options.h"
#include "cli/options/program_job.h"
#include "cli/options/terminal.h"
#include "common/job/job.h"
#include "common/os/interfaces.h"

namespace strata::cli {
namespace {

constexpr char kFooter[] =
    "Ranks have STRATA_LAUNCH (the launch file), STRATA_SEED, RANK, WORLD_SIZE, LOCAL_RANK and\n"
    "LOCAL_WORLD_SIZE in their environment; on a cluster of the command's own also MASTER_ADDR\n"
    "and MASTER_PORT, for torch.distributed. A program named *.py, or run by python3, names\n"
    "its optimizer itself, unless the options do: --set optimizer.sgd={}. Ranks that share one\n"
    "node need no server: their job, also the printed one, is a ring where the mode allows it.\n"
    "What stands behind PROGRAM is its own, with or without -- between.\n"
    "Examples:\n"
    "  strata run -n 4 ./train -- --rate 0.1\n"
    "  strata run -n 4 --nodes 2 --servers 2 --mode \"ssp(3)\" train.py\n"
    "  strata run -n 16 --coordinator head:7070 --log all train.py\n"
    "  strata run -n 4 --set 'checkpoint={dir: \"/data/c\" every_steps: 500}' --resume /data/c "
    "train.py\n"
    "  strata run -n 4 --print-job train.py > job.textproto\n"
    "Exit status: 0 finished, 1 failed or stopped, 2 bad input.";

struct RunOptions {
  ProgramOptions program;
  JobOptions job;
  LocalClusterOptions cluster;
  std::string coordinator;  // empty: a cluster of its own
  std::string web;          // where the page listens; empty: there is none
  KeyOptions keys;
  std::string log;
  std::string resume;
  std::string exchange;    // empty: as settings and mode say
  std::string suggestion;  // where PROGRAM looks like an option that was meant
  bool prints_job = false;
  bool names_servers = false;
};

// The job as the user could have written it, with the changes that the options make.
absl::StatusOr<proto::Job> MakeJob(const RunOptions& options) {
  const absl::StatusOr<proto::Job> program = MakeProgramJob(options.program);
  if (!program.ok()) return program.status();
  JobOptions changes = options.job;
  changes.path = "strata run";
  return JobAsWrittenFrom(JobToText(*program), changes);
}

// Returns whether the user has chosen the exchange.
bool SaysExchange(const JobOptions& options) {
  return std::any_of(
      options.settings.begin(), options.settings.end(),
      [](const std::string& setting) { return absl::StartsWith(setting, "exchange="); });
}

int RunOn(const std::string& address, const proto::Job& job, const RunOptions& options) {
  CoordinatorOptions coordinator;
  coordinator.address = address;
  coordinator.keys = options.keys;
  std::optional<Interrupt> interrupt;
  interrupt.emplace();
  auto client = ConnectTo(coordinator);
  auto id = client->Submit(job, ToResumeFrom(options.resume));
  if (!id.ok()) return PrintError(id.status());
  return FollowJobUntilSignal(client.get(), *id, coordinator, &*interrupt, options.job.trace,
                              ParseRankOutput(options.log));
}

// Scripts that use torch.distributed besides meet there: all ranks are on this host.
void SayWhereRanksMeet(proto::Program* program) {
  const std::optional<uint16_t> port = FreePort();
  if (!port) return;
  program->add_env("MASTER_ADDR=127.0.0.1");
  program->add_env(absl::StrCat("MASTER_PORT=", *port));
}

int RunHere(proto::Job job, RunOptions options, const Invocation& invocation) {
  LocalClusterOptions& cluster = options.cluster;
  if (absl::Status status = CheckOwnCluster(job, cluster); !status.ok()) return PrintError(status);
  FillSlots(job.ranks(), &cluster);
  PrintEmptyNodes(job, cluster);
  SayWhereRanksMeet(job.mutable_program());
  ClusterRun::Options run;
  const absl::StatusOr<std::shared_ptr<WebService>> web =
      ShowInBrowser(options.web, "--web=", &run);
  if (!web.ok()) return PrintError(web.status());
  if (*web != nullptr) {
    run.ready_line = [&web](const std::string&) {
      return absl::StrCat("strata web ready url=", (*web)->url());
    };
  }
  if (absl::Status made = ChooseRunsDirectory(&cluster); !made.ok()) return PrintError(made);
  run.job = std::move(job);
  run.resume = ToResumeFrom(options.resume);
  run.trace = options.job.trace;
  run.output = ParseRankOutput(options.log);
  run.output.runs_dir = cluster.runs_dir;
  return RunLocalCluster(cluster, std::move(run), invocation.log_level);
}

// Returns whether the command's own cluster is one node whose servers nobody asked for.
bool MayLeaveOutServers(const RunOptions& options) {
  return options.coordinator.empty() && options.cluster.nodes == 1 && !options.names_servers &&
         !SaysExchange(options.job);
}

int RunProgramJob(const RunOptions& options, const Invocation& invocation) {
  absl::StatusOr<proto::Job> job = MakeJob(options);
  if (!job.ok() && !options.suggestion.empty()) {
    return PrintError(absl::StrCat(job.status().message(), options.suggestion), kExitUsage);
  }
  if (!job.ok()) return PrintError(job.status());
  RunOptions here = options;
  if (MayLeaveOutServers(options) && LeaveOutServers(&*job)) here.cluster.servers = 0;
  if (options.prints_job) {
    PrintText(stdout, JobToText(*job));
    return kExitOk;
  }
  const absl::Status log = RankOutput().Open(ParseRankOutput(options.log));
  if (!log.ok()) return PrintError(log);
  FillDefaults(&*job);
  if (!options.coordinator.empty()) return RunOn(options.coordinator, *job, options);
  return RunHere(*std::move(job), std::move(here), invocation);
}

void AddExchangeOption(CLI::App* command, std::string* exchange) {
  command
      ->add_option("--exchange", *exchange,
                   "What joins the nodes: servers (the default), ring, nccl or none")
      ->transform(CLI::Transformer(std::map<std::string, std::string>{
          {"servers", "PARAMETER_SERVER"}, {"ring", "RING"}, {"nccl", "NCCL"}, {"none", "NONE"}}))
      ->check(CLI::IsMember({"PARAMETER_SERVER", "RING", "NCCL", "NONE"}));
}

// Takes the program and its arguments, which stand behind the options.
void TakeWords(const CLI::App& command, RunOptions* options) {
  std::vector<std::string>& words = options->program.words;
  words = command.remaining();
  options->suggestion = words.empty() ? "" : DidYouMeanOption(words[0], command);
  // compare and sweep need "--" before the arguments; here it may be left out.
  if (words.size() > 1 && words[1] == "--") words.erase(words.begin() + 1);
  if (!options->web.empty() && !words.empty() && CheckHostAndPort(words[0]).empty()) {
    throw CLI::ValidationError(
        absl::StrCat("say --web=", words[0], ": the word after --web is the program"),
        CLI::ExitCodes::ValidationError);
  }
}

}  // namespace

void AddRunCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app->add_subcommand("run", "Run a program of your own as a job");
  command->prefix_command();
  command->add_option("-n,--ranks", options->program.ranks, "Ranks: processes of the program")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--name", options->program.name, "The job's name (default: the program's)");
  command->add_option("--python", options->program.python, "Interpreter of programs named *.py")
      ->capture_default_str();
  AddJobOptions(command, &options->job);
  AddExchangeOption(command, &options->exchange);
  AddTraceOption(command, &options->job);
  std::vector<CLI::Option*> own = AddLocalClusterOptions(command, &options->cluster);
  own.push_back(command->add_option("--runs", options->cluster.runs_dir,
                                    "Parent of run directories and logs (default: "
                                    "strata-runs/TIME)"));
  CLI::Option* coordinator =
      command->add_option("--coordinator", options->coordinator,
                          "HOST:PORT or unix:/PATH of a cluster's coordinator (default: "
                          "$STRATA_COORDINATOR, where no option of an own cluster is given; else a "
                          "cluster of this command's own, on this machine)");
  coordinator->check(CheckCoordinatorAddress);
  // A flag, as the word after it is the program: --web=HOST:PORT.
  own.push_back(command->add_flag(absl::StrCat("--web{", WebService::kListen, "}"), options->web,
                                  "Show the cluster in a browser, too; --web=HOST:PORT: there"));
  AddKeyOptions(command, &options->keys);
  for (const char* option : {"--keys", "--insecure"})
    command->get_option(option)->needs(coordinator);
  for (CLI::Option* option : own)
    if (option->get_name() != "--nodes") coordinator->excludes(option);
  command->add_option("--log", options->log,
                      "What ranks print: all, none, or a file for that of all ranks (default: "
                      "rank 0's)");
  AddResumeOption(command, &options->resume);
  command->add_flag("--print-job", options->prints_job,
                    "Print the job file that would run, for strata submit, and run nothing");
  AddLogLevelOption(command, invocation);
  command->footer(kFooter);
  command->callback([=] {
    TakeWords(*command, options.get());
    // Printing the job needs no cluster.
    if (!options->prints_job) NamesCluster(*coordinator, &options->coordinator);
    options->names_servers = command->count("--servers") + command->count("--shards") > 0;
    if (!options->exchange.empty()) {
      options->job.settings.insert(options->job.settings.begin(),
                                   absl::StrCat("exchange=", options->exchange));
    }
    options->program.nodes = static_cast<uint32_t>(options->cluster.nodes);
    invocation->run = [=] { return RunProgramJob(*options, *invocation); };
  });
}

}  // namespace strata::cli
