#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/control/coordinator_client.h"
#include "common/control/credentials.h"
#include "common/os/descriptors.h"
#include "common/os/memory_ledger.h"
#include "common/os/process.h"
#include "common/os/process_use.h"
#include "common/testing/test_keys.h"
#include "tests/e2e/load_node.h"

// The load program; README.md beside this file says what it does.

namespace strata::tests {

// A real coordinator and real servers, as processes of this one; killed with it.
class LoadCluster {
 public:
  struct Options {
    std::string strata;  // the binary
    std::string dir;     // for state and logs
    uint32_t servers = 2;
    uint32_t shards = 1;  // per server
  };
  // The most that one of them had, and its limits.
  struct Member {
    std::string name;
    std::unique_ptr<Process> process;
    ProcessUse most;
  };

  explicit LoadCluster(Options options) : options_(std::move(options)) {}

  // All are ready then. Errors: DeadlineExceeded and FailedPrecondition with what one wrote.
  absl::Status Start();
  // Looks at what each has now.
  void Measure();
  // SIGTERM to all, servers first. Errors: Internal, naming one that did not end well.
  absl::Status Stop();

  const std::string& coordinator() const { return coordinator_; }
  // Returns the file with them.
  std::string KeysOf(keys::Role role, const std::string& name) { return keys_->PathOf(role, name); }
  control::Credentials CredentialsOf(keys::Role role, const std::string& name) {
    return control::Credentials::File(KeysOf(role, name));
  }
  const std::vector<Member>& members() const { return members_; }

 private:
  absl::Status StartMember(const std::string& name, std::vector<std::string> args,
                           std::string* ready_line);

  const Options options_;
  std::optional<keys::KeyFolder> keys_;
  std::string coordinator_;  // HOST:PORT
  std::vector<Member> members_;
};

namespace {

constexpr absl::Duration kReadyDeadline = absl::Seconds(60);
constexpr absl::Duration kReadyLook = absl::Milliseconds(20);

// The line with " ready " in a file; empty: none yet.
std::string ReadyLineIn(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (absl::StrContains(line, " ready ") && !in.eof()) return line;
  }
  return "";
}

}  // namespace

absl::Status LoadCluster::StartMember(const std::string& name, std::vector<std::string> args,
                                      std::string* ready_line) {
  const std::string log = absl::StrCat(options_.dir, "/", name, ".log");
  std::filesystem::remove(log);  // of an earlier run, whose daemons were elsewhere
  args.insert(args.begin(), "strata");
  auto process = Process::Start({.args = args,
                                 .executable = options_.strata,
                                 .log_path = log,
                                 .environment = {"STRATA_DUMPABLE=1"}});  // for Measure
  if (!process.ok()) return process.status();
  members_.push_back({.name = name, .process = *std::move(process)});
  const absl::Time deadline = absl::Now() + kReadyDeadline;
  while (absl::Now() < deadline) {
    *ready_line = ReadyLineIn(log);
    if (!ready_line->empty()) return absl::OkStatus();
    if (members_.back().process->TryReap().has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(name, " has ended, see ", log));
    }
    absl::SleepFor(kReadyLook);
  }
  return absl::DeadlineExceededError(absl::StrCat(name, " is not ready, see ", log));
}

absl::Status LoadCluster::Start() {
  std::filesystem::remove_all(absl::StrCat(options_.dir, "/state"));
  keys_.emplace(absl::StrCat(options_.dir, "/keys"));
  std::string line;
  absl::Status status = StartMember("coordinator",
                                    {"coordinator", "--listen", "127.0.0.1:0", "--keys",
                                     keys_->PathOf(keys::Role::kCoordinator, "coordinator"),
                                     "--state", absl::StrCat(options_.dir, "/state")},
                                    &line);
  if (!status.ok()) return status;
  const size_t begin = line.find("address=") + 8;
  coordinator_ = line.substr(begin, line.find(' ', begin) - begin);
  for (uint32_t i = 0; i < options_.servers && status.ok(); ++i) {
    const std::string name = absl::StrCat("s", i);
    status = StartMember(
        name,
        {"server", "--coordinator", coordinator_, "--name", name, "--keys",
         keys_->PathOf(keys::Role::kServer, name), "--shards", absl::StrCat(options_.shards)},
        &line);
  }
  return status;
}

void LoadCluster::Measure() {
  for (Member& member : members_) {
    const ProcessUse now = MeasureUse(member.process->pid());
    member.most.descriptors = std::max(member.most.descriptors, now.descriptors);
    member.most.descriptors_max = std::max(member.most.descriptors_max, now.descriptors_max);
    member.most.resident_bytes = std::max(member.most.resident_bytes, now.resident_bytes);
    member.most.threads = std::max(member.most.threads, now.threads);
  }
}

absl::Status LoadCluster::Stop() {
  absl::Status result;
  while (!members_.empty()) {
    Member& last = members_.back();
    last.process->Signal(SIGTERM);
    const ExitStatus status = last.process->Reap();
    if (!status.ok())
      result = absl::InternalError(absl::StrCat(last.name, ": ", status.ToString()));
    members_.pop_back();
  }
  return result;
}

namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);
constexpr absl::Duration kLastCounts = absl::Seconds(20);

struct Options {
  LoadProblem problem;
  LoadCluster::Options cluster;
  double deadline_s = 300;
  bool idle = false;
};

// Descriptors of one run in addition to the daemons' own limits: for each node a session, the
// node's memory, an endpoint and a connection to every shard.
DescriptorNeed OwnDescriptors(const Options& options) {
  const uint64_t shards = options.cluster.servers * options.cluster.shards;
  const uint64_t each = 4 + 4 * shards;
  return {absl::StrFormat("100 + %d nodes x %d", options.problem.nodes, each),
          100 + options.problem.nodes * each};
}

class LoadRun {
 public:
  explicit LoadRun(const Options& options) : options_(options), cluster_(options.cluster) {}

  absl::Status Run() {
    absl::Status status = EnsureDescriptors("the load program", OwnDescriptors(options_));
    if (status.ok()) status = cluster_.Start();
    if (status.ok()) status = StartNodes();
    if (status.ok() && options_.idle) {
      BeThere();
    } else {
      if (status.ok()) status = RunJob();
      if (status.ok()) status = Verify();
      if (status.ok()) PrintTable();
    }
    nodes_.clear();
    const absl::Status stopped = cluster_.Stop();
    return status.ok() ? stopped : status;
  }

 private:
  absl::Status StartNodes() {
    const absl::Time begin = absl::Now();
    client_ = control::CoordinatorClient::Create(
        {.coordinator = cluster_.coordinator(),
         .credentials = cluster_.CredentialsOf(keys::Role::kUser, "load")});
    for (uint32_t i = 0; i < options_.problem.nodes; ++i) {
      nodes_.push_back(std::make_unique<LoadNode>(
          options_.problem, cluster_.coordinator(),
          cluster_.CredentialsOf(keys::Role::kWorker, LoadNode::NameOf(i)), i));
      if (absl::Status started = nodes_.back()->Start(); !started.ok()) return started;
    }
    Say(absl::StrFormat("%d nodes registered in %.1f s", options_.problem.nodes,
                        absl::ToDoubleSeconds(absl::Now() - begin)));
    return absl::OkStatus();
  }

  // Until standard input ends: other programs look at the cluster or use it.
  void BeThere() {
    Say(absl::StrFormat("ready coordinator=%s keys=%s", cluster_.coordinator(),
                        cluster_.KeysOf(keys::Role::kUser, "load")));
    while (std::fgetc(stdin) != EOF) {
    }
  }

  absl::Status RunJob() {
    const absl::StatusOr<JobId> job = client_->Submit(options_.problem.Job());
    if (!job.ok()) return job.status();
    const absl::Time deadline = absl::Now() + absl::Seconds(options_.deadline_s);
    uint64_t shown = 0;
    while (absl::Now() < deadline) {
      cluster_.Measure();
      absl::StatusOr<proto::ListNodesReply> list = client_->ListNodes();
      absl::StatusOr<proto::JobStatus> status = client_->GetJob(*job);
      if (!list.ok() || !status.ok()) return list.ok() ? status.status() : list.status();
      own_ = MeasureUse();
      if (status->state() == proto::RUNNING) {
        if (Connections(*list) >= Connections(nodes_list_)) nodes_list_ = *list;
        if (MemoryBytes(*status) >= MemoryBytes(running_)) running_ = *status;
        for (const auto& daemon : list->daemons()) {
          silent_ms_max_ = std::max(silent_ms_max_, daemon.last_heartbeat_ms_ago());
        }
      }
      if (status->progress().step() != shown) {
        shown = status->progress().step();
        Say(absl::StrFormat("step %d of %d, %.0f samples/s", shown, options_.problem.steps,
                            status->progress().samples_per_s()));
      }
      if (control::HasEnded(status->state())) return TakeEnd(*status);
      absl::SleepFor(kLook);
    }
    return absl::DeadlineExceededError(
        absl::StrFormat("the job has not ended after %.0f s", options_.deadline_s));
  }

  absl::Status TakeEnd(const proto::JobStatus& status) {
    ended_ = status;
    if (status.state() == proto::FINISHED) return absl::OkStatus();
    return absl::InternalError("the job has failed: " + status.reason());
  }

  absl::Status Verify() {
    for (const auto& node : nodes_) {
      if (!node->ended()) return absl::InternalError("a node has not ended");
      if (absl::Status result = node->result(); !result.ok()) return result;
      if (node->weights() != nodes_[0]->weights()) {
        return absl::DataLossError("nodes have different final weights");
      }
    }
    const std::string wrong = options_.problem.Check(nodes_[0]->weights());
    if (!wrong.empty()) return absl::DataLossError(wrong);
    const uint64_t expected =
        uint64_t{options_.problem.nodes} * ended_.chunks() * options_.problem.steps;
    uint64_t pushes = 0, refused = 0;
    // The servers' last counts come after the job's end.
    for (const absl::Time deadline = absl::Now() + kLastCounts;
         pushes != expected && absl::Now() < deadline; absl::SleepFor(kLook)) {
      const absl::StatusOr<proto::JobStatus> status = client_->GetJob(JobId(ended_.job_id()));
      if (!status.ok()) return status.status();
      pushes = refused = 0;
      for (const auto& shard : status->shards()) {
        pushes += shard.counters().pushes();
        refused += shard.counters().refused();
      }
    }
    if (pushes != expected || refused != 0) {
      return absl::DataLossError(
          absl::StrFormat("%d pushes and %d refusals, not %d and 0", pushes, refused, expected));
    }
    const double seconds = (ended_.ended_ms() - ended_.started_ms()) / 1e3;
    Say(absl::StrFormat(
        "%d nodes x %d steps x %d chunks in %.1f s: %.1f steps/s, %.0f pushes/s; the final weights "
        "are equal on all nodes and to a direct computation",
        options_.problem.nodes, options_.problem.steps, ended_.chunks(), seconds,
        options_.problem.steps / seconds, pushes / seconds));
    return absl::OkStatus();
  }

  void PrintTable() {
    Say(absl::StrFormat("\n%-12s %-16s %-20s %-10s %-8s", "process", "connections",
                        "file descriptors", "resident", "threads"));
    for (const LoadCluster::Member& member : cluster_.members()) {
      PrintProcess(member.name, ConnectionsOf(member.name), member.most);
    }
    PrintProcess("all nodes", "-", own_);
    Say(absl::StrFormat("longest time without a heartbeat, of any daemon: %d ms", silent_ms_max_));
    PrintMemory("memory of the job on all nodes", running_.nodes());
    PrintMemory("memory of the job on all shards", running_.shards());
  }

  void PrintProcess(const std::string& name, const std::string& connections,
                    const ProcessUse& use) {
    Say(absl::StrFormat("%-12s %-16s %-20s %-10s %-8d", name, connections,
                        absl::StrFormat("%d of %d", use.descriptors, use.descriptors_max),
                        BytesText(use.resident_bytes), use.threads));
  }

  template <typename Parts>
  void PrintMemory(const char* title, const Parts& parts) {
    uint64_t bytes = 0, limit = 0;
    for (const auto& part : parts) {
      bytes += part.memory_bytes();
      limit += part.memory_limit_bytes();
    }
    Say(absl::StrFormat("%s: %s, by formula at most %s", title, BytesText(bytes),
                        BytesText(limit)));
  }

  std::string ConnectionsOf(const std::string& name) {
    const proto::DaemonStatus* found = &nodes_list_.coordinator();
    for (const auto& daemon : nodes_list_.daemons()) {
      if (daemon.name() == name) found = &daemon;
    }
    for (const auto& resource : found->resources()) {
      if (resource.name() != "connections") continue;
      return absl::StrFormat("%d of %d", resource.used(), resource.limit());
    }
    return "-";
  }

  static uint64_t Connections(const proto::ListNodesReply& list) {
    uint64_t sum = 0;
    for (const auto& daemon : list.daemons()) {
      for (const auto& resource : daemon.resources()) {
        if (resource.name() == "connections") sum += resource.used();
      }
    }
    return sum;
  }

  static uint64_t MemoryBytes(const proto::JobStatus& status) {
    uint64_t sum = 0;
    for (const auto& node : status.nodes()) sum += node.memory_bytes();
    for (const auto& shard : status.shards()) sum += shard.memory_bytes();
    return sum;
  }

  static void Say(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  const Options& options_;
  LoadCluster cluster_;
  std::unique_ptr<control::CoordinatorClient> client_;
  std::vector<std::unique_ptr<LoadNode>> nodes_;
  ProcessUse own_;
  int64_t silent_ms_max_ = 0;
  // While it trained: the newest of those with the most connections, and with the most memory.
  proto::ListNodesReply nodes_list_;
  proto::JobStatus running_;
  proto::JobStatus ended_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Many nodes with a tiny model on this machine, against real daemons.");
  app.add_option("--strata", options.cluster.strata, "The strata binary")->required();
  app.add_option("--dir", options.cluster.dir,
                 "Folder for logs and state, which replace those of an earlier run")
      ->required();
  app.add_option("--nodes", options.problem.nodes, "Nodes, a rank each")->capture_default_str();
  app.add_option("--steps", options.problem.steps)->capture_default_str();
  app.add_option("--elements", options.problem.elements, "Weights")->capture_default_str();
  app.add_option("--servers", options.cluster.servers)->capture_default_str();
  app.add_option("--shards", options.cluster.shards, "Per server")->capture_default_str();
  app.add_flag("--idle", options.idle, "No job: be there until standard input ends");
  app.add_option("--deadline", options.deadline_s, "Seconds for the job")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.cluster.strata = std::filesystem::absolute(options.cluster.strata);
  std::filesystem::create_directories(options.cluster.dir);
  const absl::Status status = LoadRun(options).Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "strata_load: error: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

}  // namespace strata::tests

int main(int argc, char** argv) { return strata::tests::Main(argc, argv); }
