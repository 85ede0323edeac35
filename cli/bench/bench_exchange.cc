#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/bench/bench.h"
#include "cli/bench/gate.h"
#include "cli/bench/link_speed.h"
#include "cli/cluster/child_starter.h"
#include "cli/cluster/cluster_keys.h"
#include "cli/cluster/cluster_run.h"
#include "cli/cluster/hosts_file.h"
#include "cli/options/coordinator_address.h"
#include "cli/options/invocation.h"
#include "cli/options/own_binary.h"
#include "cli/render/progress.h"
#include "common/job/encoding.h"
#include "common/job/job.h"
#include "common/os/event_loop.h"
#include "common/os/interfaces.h"
#include "numerics/encoder.h"

namespace strata::cli {
namespace {

// Facts shared by all parts of one measurement.
struct Setting {
  ExchangeBenchOptions options;
  std::vector<LabHost> hosts;  // nodes first
  std::string own_address;     // under which the hosts reach this process
  std::string binary;          // this program
  std::string scratch;         // a folder
};

bool IsServerless(const ExchangeBenchOptions& options) { return options.exchange != "ps"; }

uint32_t ServersOf(const ExchangeBenchOptions& options) {
  return IsServerless(options) ? 0 : options.servers;
}

absl::StatusOr<Setting> Prepare(const ExchangeBenchOptions& options) {
  Setting setting{.options = options, .own_address = "127.0.0.1"};
  const auto binary = OwnBinary();
  if (!binary.ok()) return binary.status();
  setting.binary = binary->string();
  if (!options.hosts_file.empty()) {
    auto hosts = ReadLabHosts(options.hosts_file);
    if (!hosts.ok()) return hosts.status();
    setting.hosts = *std::move(hosts);
    const size_t needed = options.nodes + ServersOf(options);
    if (setting.hosts.size() < needed) {
      return absl::InvalidArgumentError(absl::StrCat(options.hosts_file, ": ", setting.hosts.size(),
                                                     " hosts, but ", needed,
                                                     " are needed, one per node and server"));
    }
    const auto first = net::Resolve(setting.hosts[0].address);
    if (!first.ok()) return first.status();
    const auto own = net::SourceTowards(*first);
    if (!own.ok()) return own.status();
    setting.own_address = own->ToString();
  }
  return setting;
}

// Gradients are whole numbers below 64 plus the rank's, so that halves carry them, their sums and
// the weights' changes as they are, as long as there are few ranks, of a power of two.
absl::Status CheckExact(const proto::Job& job) {
  for (const auto& [field, codec] :
       {std::pair("push", job.push().codec()), std::pair("pull", job.pull().codec())}) {
    if (codec == proto::Encoding::FP32) continue;
    const bool is_fp16 = codec == proto::Encoding::FP16;
    const uint32_t ranks_max = is_fp16 ? 16 : 4;
    if (!is_fp16 && codec != proto::Encoding::BF16) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".codec: ", proto::Encoding::Codec_Name(codec),
                       ": bench verifies every bit, which FP32, FP16 and BF16 keep here"));
    }
    if (job.ranks() > ranks_max || !std::has_single_bit(job.ranks())) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".codec: ", proto::Encoding::Codec_Name(codec), ": its values are ",
                       "exact for 1, 2, 4 to ", ranks_max, " ranks, not for ", job.ranks()));
    }
  }
  return absl::OkStatus();
}

// Returns the encoded bytes of a node's gradient: the longer direction where the directions do not
// disturb each other.
uint64_t BytesInFlight(const proto::Job& job, const ExchangeBenchOptions& options) {
  const uint64_t elements = options.bytes / sizeof(float);
  const uint64_t push = wire::EncodedBytesMax(numerics::WireCodec(job.push()), elements);
  if (IsServerless(options)) return push;
  const uint64_t pull = wire::EncodedBytesMax(numerics::WireCodec(job.pull()), elements);
  return options.hosts_file.empty() ? (push + pull) / 2 : std::max(push, pull);
}

// The one place that says which exchange is measured and how.
absl::StatusOr<proto::Job> JobOf(const Setting& setting, int gate_port) {
  const ExchangeBenchOptions& options = setting.options;
  proto::Job job;
  job.set_name("bench");
  job.mutable_program()->set_path(setting.binary);
  for (const std::string& arg :
       {std::string("bench"), std::string("rank"), std::string("--elements"),
        absl::StrCat(options.bytes / sizeof(float)), std::string("--steps"),
        absl::StrCat(options.warmup + options.steps), std::string("--gate"),
        absl::StrCat(setting.own_address, ":", gate_port), std::string("--launch"),
        std::string("{launch}")}) {
    job.mutable_program()->add_args(arg);
  }
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_schedule()->set_base_lr(1.0f);
  job.set_ranks(options.nodes * options.ranks_per_node);
  job.set_ranks_per_node(options.ranks_per_node);
  job.set_window(options.window);
  job.set_chunk_elements(options.chunk_elements);
  std::vector<std::string> settings = options.settings;
  if (IsServerless(options)) {
    settings.insert(settings.begin(),
                    absl::StrCat("exchange=", absl::AsciiStrToUpper(options.exchange)));
  }
  if (absl::Status status = ApplySettings(settings, &job); !status.ok()) return status;
  FillDefaults(&job);
  if (absl::Status status = ValidateJob(job); !status.ok()) return status;
  if (absl::Status status = CheckExact(job); !status.ok()) return status;
  return job;
}

// Nodes are on the first hosts, servers on those after them.
std::vector<PlannedDaemon> Plan(const Setting& setting) {
  const ExchangeBenchOptions& options = setting.options;
  auto host = [&](uint32_t i) { return setting.hosts.empty() ? "" : setting.hosts[i].name; };
  std::vector<PlannedDaemon> plan;
  const std::string listen = setting.hosts.empty() ? OwnCoordinator() : "0.0.0.0:0";
  plan.push_back({DaemonRole::kCoordinator,
                  {"coordinator",
                   "",
                   {"coordinator", "--listen", listen, "--state", setting.scratch + "/state"}}});
  for (uint32_t i = 0; i < ServersOf(options); ++i) {
    const std::string name = absl::StrCat("s", i);
    plan.push_back({DaemonRole::kServer,
                    {absl::StrCat("server ", name),
                     host(options.nodes + i),
                     {"server", "--name", name, "--shards", absl::StrCat(options.shards)}}});
  }
  for (uint32_t i = 0; i < options.nodes; ++i) {
    const std::string name = absl::StrCat("w", i);
    plan.push_back({DaemonRole::kWorker,
                    {absl::StrCat("worker ", name),
                     host(i),
                     {"worker", "--name", name, "--slots", absl::StrCat(options.ranks_per_node),
                      "--runs", setting.scratch + "/runs"}}});
  }
  return plan;
}

// Runs the job; its last status. Errors: FailedPrecondition: what has ended it, and where the logs
// are, which are left behind only then.
absl::StatusOr<proto::JobStatus> RunJob(const Setting& setting, const proto::Job& job) {
  ChildStarter::Options children;
  children.log_dir = setting.scratch + "/daemons";
  children.binary = setting.binary;
  for (const LabHost& host : setting.hosts) children.enter[host.name] = host.enter;
  for (const char* dir : {"/daemons", "/runs", "/state"}) {
    absl::Status status = MakeWritableDirectory(setting.scratch + dir);
    if (!status.ok()) return status;
  }
  if (setting.hosts.empty()) {
    if (absl::Status made = MakeCoordinatorFolder(); !made.ok()) return made;
  }
  EventLoop loop;
  ChildStarter starter(&loop, children);
  ClusterRun::Options run;
  run.cluster.plan = Plan(setting);
  if (!setting.hosts.empty()) {
    run.cluster.coordinator_host = setting.own_address;
    auto keys = GiveKeys(&run.cluster.plan);
    if (!keys.ok()) return keys.status();
    run.keys = *std::move(keys);
  }
  run.job = job;
  // A restarted daemon would affect the measurement.
  std::string lost;
  run.on_error = [&lost](const std::string& error) { lost = error; };
  proto::JobStatus end;
  std::string failed;
  run.follow = [&end, &failed](control::CoordinatorClient* client, JobId id) -> std::optional<int> {
    auto followed = client->Follow(id, [](const proto::FollowEvent&) {});
    if (absl::IsCancelled(followed.status())) return std::nullopt;
    if (followed.ok()) end = *followed;
    if (end.state() == proto::FINISHED) return kExitOk;
    failed = followed.ok() ? EndLine(end) : std::string(followed.status().message());
    return kExitFailed;
  };
  if (ClusterRun(&loop, &starter, std::move(run)).Run() == kExitOk) return end;
  const std::string& why = lost.empty() ? failed : lost;
  return absl::FailedPreconditionError(absl::StrCat(
      why, why.empty() ? "" : ": ", "the job was not measured, see ", setting.scratch));
}

void FindBandwidth(const Setting& setting, ExchangeBenchResult* result) {
  const ExchangeBenchOptions& options = setting.options;
  std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> result->congestion;
  result->bytes_per_s = options.bandwidth_mbit * 1e6 / 8;
  result->bandwidth_source = result->bytes_per_s > 0 ? "given" : "not known";
  if (result->bytes_per_s > 0 || options.measure_s <= 0) return;
  Enter from, to;
  std::string address = "127.0.0.1";
  if (setting.hosts.size() > 1) {
    const LabHost& peer = setting.hosts[IsServerless(options) ? 1 : options.nodes];
    from = setting.hosts[0].enter;
    to = peer.enter;
    address = peer.address;
  }
  const auto speed = MeasureLink(from, to, address, options.measure_s);
  if (!speed.ok()) {
    result->bandwidth_source = absl::StrCat("not known: ", std::string(speed.status().message()));
    return;
  }
  result->bytes_per_s = speed->bytes_per_s;
  result->bandwidth_source = "iperf3";
  result->congestion = speed->congestion;
}

}  // namespace

absl::StatusOr<ExchangeBenchResult> RunExchangeBench(const ExchangeBenchOptions& options) {
  auto setting = Prepare(options);
  if (!setting.ok()) return setting.status();
  ExchangeBenchResult result;
  FindBandwidth(*setting, &result);
  auto gate = Gate::Open(options.nodes * options.ranks_per_node);
  if (!gate.ok()) return gate.status();
  auto job = JobOf(*setting, (*gate)->port());
  if (!job.ok()) return job.status();
  std::string scratch = absl::StrFormat("/tmp/strata-bench-%d-XXXXXX", getpid());
  if (mkdtemp(scratch.data()) == nullptr)
    return absl::InternalError("cannot make a directory in /tmp");
  setting->scratch = scratch;
  auto end = RunJob(*setting, *job);
  if (!end.ok()) return end.status();
  std::vector<double> steps_ms = (*gate)->steps_ms();
  steps_ms.erase(steps_ms.begin(), steps_ms.begin() + std::min(options.warmup, steps_ms.size()));
  result.verified = (*gate)->all_right() && steps_ms.size() == options.steps;
  result.figures = MakeFigures(steps_ms);
  result.steps_ms = std::move(steps_ms);
  result.bound_ms = BoundMs({.bytes = BytesInFlight(*job, options),
                             .nodes = options.nodes,
                             .servers = ServersOf(options),
                             .bytes_per_s = result.bytes_per_s,
                             .shares_one_host = setting->hosts.empty()});
  result.chunks = end->chunks();
  result.chunk_elements = end->chunk_elements();
  result.window = job->window();
  result.encoding = EncodingsName(*job);
  std::error_code ignored;
  std::filesystem::remove_all(setting->scratch, ignored);
  return result;
}

}  // namespace strata::cli
