#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/render/progress.h"
#include "cli/render/render.h"
#include "cli/render/render_daemons.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "common/job/encoding.h"
#include "common/job/program_optimizer.h"

namespace strata::cli {
namespace {

std::string Accuracy(const proto::Progress& progress) {
  return progress.test_accuracy() < 0 ? "-" : absl::StrFormat("%.4f", progress.test_accuracy());
}

std::string Steps(const proto::Progress& progress) {
  if (progress.total_steps() == 0) return absl::StrCat(progress.step());
  return absl::StrCat(progress.step(), "/", progress.total_steps());
}

std::string When(int64_t unix_ms) {
  if (unix_ms == 0) return "-";
  return TimeText(absl::FromUnixMillis(unix_ms));
}

// "alice (vision)"; empty: the coordinator's user.
std::string OwnerText(const proto::JobStatus& job) {
  return absl::StrCat(job.owner(), job.tenant().empty() ? "" : " (", job.tenant(),
                      job.tenant().empty() ? "" : ")");
}

// "0-1", "2 (joins)", "3 (leaves before step 40)"
std::string RanksOf(const proto::JobNodeStatus& node) {
  std::string text = absl::StrCat(node.first_rank(), "-", node.first_rank() + node.ranks() - 1);
  if (node.joins()) return absl::StrCat(text, " (joins)");
  if (node.has_leaves_at()) absl::StrAppend(&text, " (leaves before step ", node.leaves_at(), ")");
  return text;
}

std::string NodeRows(const proto::JobStatus& job) {
  std::vector<Row> rows = {{"  node", "worker", "ranks", "step", "memory", "at most"}};
  MemorySum gpus;
  for (const auto& node : job.nodes()) {
    rows.push_back({absl::StrCat("  ", node.node()), node.daemon().empty() ? "-" : node.daemon(),
                    RanksOf(node), absl::StrCat(node.step()), MemoryText(node.memory_bytes()),
                    MemoryText(node.memory_limit_bytes())});
    gpus.memory_bytes += node.gpu_memory_bytes();
    gpus.memory_limit_bytes += node.gpu_memory_limit_bytes();
  }
  const MemorySum sum = AddUp(job.nodes());
  rows.push_back(
      {"  all", "", "", "", MemoryText(sum.memory_bytes), MemoryText(sum.memory_limit_bytes)});
  if (gpus.memory_limit_bytes == 0) return Table(rows);
  const auto append = [&rows](size_t row, const std::string& used, const std::string& limit) {
    rows[row].insert(rows[row].end(), {used, limit});
  };
  append(0, "GPU memory", "at most");
  for (int i = 0; i < job.nodes_size(); ++i) {
    append(i + 1, MemoryText(job.nodes(i).gpu_memory_bytes()),
           MemoryText(job.nodes(i).gpu_memory_limit_bytes()));
  }
  append(rows.size() - 1, MemoryText(gpus.memory_bytes), MemoryText(gpus.memory_limit_bytes));
  return Table(rows);
}

std::string ShardRows(const proto::JobStatus& job) {
  std::vector<Row> rows = {{"  server", "shard", "chunks", "pushes", "answers", "duplicates",
                            "refused", "in", "out", "memory", "at most"}};
  for (const auto& shard : job.shards()) {
    const proto::ShardCounters& counters = shard.counters();
    rows.push_back({absl::StrCat("  ", shard.daemon().empty() ? "-" : shard.daemon()),
                    absl::StrCat(shard.shard()), absl::StrCat(shard.chunks()),
                    absl::StrCat(counters.pushes()), absl::StrCat(counters.answers()),
                    absl::StrCat(counters.duplicates()), absl::StrCat(counters.refused()),
                    FormatBytes(counters.bytes_received()), FormatBytes(counters.bytes_sent()),
                    MemoryText(shard.memory_bytes()), MemoryText(shard.memory_limit_bytes())});
  }
  const MemorySum sum = AddUp(job.shards());
  rows.push_back({"  all", "", "", "", "", "", "", "", "", MemoryText(sum.memory_bytes),
                  MemoryText(sum.memory_limit_bytes)});
  return Table(rows);
}

// "RING, halving and doubling (links measured: 35 us, 1.2 GB/s)"
std::string ExchangeText(const proto::JobStatus& job) {
  if (!job.has_ring()) return job.exchange();
  const bool halving = job.ring().algorithm() == proto::AllReduce::HALVING_DOUBLING;
  std::string text = absl::StrCat(job.exchange(), ", ", halving ? "halving and doubling" : "ring");
  if (job.ring().bytes_per_s() == 0) return text;
  absl::StrAppendFormat(&text, " (links measured: %.0f us, %.2f GB/s)", job.ring().latency_us(),
                        job.ring().bytes_per_s() / 1e9);
  return text;
}

// Empty: it is not known yet.
std::string ProtectionText(const proto::Job& job) {
  const bool is_sealed =
      job.protection() == proto::Job::ENCRYPT || job.protection() == proto::Job::SIGN;
  if (is_sealed && job.exchange() == proto::Job::NCCL) {
    return "none of what NCCL sends from host to host";
  }
  switch (job.protection()) {
    case proto::Job::ENCRYPT:
      return "ENCRYPT";
    case proto::Job::SIGN:
      return "SIGN: gradients and weights can be read on the network";
    case proto::Job::PLAIN:
      return "PLAIN: none against others on the network";
    default:
      return "";
  }
}

// "CPU"; "GPU, a node's gradients added up by NCCL"
std::string DeviceText(const proto::Job& job) {
  const std::string& device = proto::Job::Device_Name(job.device());
  if (job.node_sum() != proto::NodeSum::NCCL) return device;
  return absl::StrCat(device, ", a node's gradients added up by NCCL");
}

// "2 of 4 used on 2 x NVIDIA H100", "2 of 4 used on 0 A, 1 B"
std::string GpusText(const proto::DaemonStatus& daemon) {
  if (daemon.gpus().empty()) return "-";
  const std::string& first = daemon.gpus(0).name();
  const bool alike = std::all_of(daemon.gpus().begin(), daemon.gpus().end(),
                                 [&](const proto::Gpu& gpu) { return gpu.name() == first; });
  const std::string names =
      alike ? absl::StrCat(daemon.gpus_size(), " x ", first)
            : absl::StrJoin(daemon.gpus(), ", ", [](std::string* out, const proto::Gpu& gpu) {
                absl::StrAppend(out, gpu.index(), " ", gpu.name());
              });
  return absl::StrCat(daemon.gpu_slots_used(), "/", daemon.gpu_slots(), " used on ", names);
}

}  // namespace

std::string StateName(proto::JobState state) {
  switch (state) {
    case proto::QUEUED:
      return "queued";
    case proto::RUNNING:
      return "running";
    case proto::FINISHED:
      return "finished";
    case proto::FAILED:
      return "failed";
    case proto::CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}

std::string DaemonStateText(const proto::DaemonStatus& daemon) {
  return absl::StrCat(daemon.alive() ? "alive" : "gone", daemon.drained()     ? ", drained"
                                                         : daemon.draining()  ? ", draining"
                                                         : daemon.stands_in() ? ", stands in"
                                                                              : "");
}

std::string JobsText(const std::vector<proto::JobStatus>& jobs) {
  if (jobs.empty()) return "no jobs\n";
  std::vector<Row> rows = {
      {"JOB", "NAME", "STATE", "MODE", "MODEL", "RANKS", "STEP", "ACCURACY", "REASON"}};
  const bool have_owners = std::any_of(jobs.begin(), jobs.end(),
                                       [](const auto& job) { return !OwnerText(job).empty(); });
  if (have_owners) rows[0].insert(rows[0].begin() + 2, "OWNER");
  for (const auto& job : jobs) {
    rows.push_back({absl::StrCat(job.job_id()), job.name(), StateName(job.state()), job.mode(),
                    job.model(), absl::StrCat(job.ranks()), Steps(job.progress()),
                    Accuracy(job.progress()), job.reason()});
    const std::string owner = OwnerText(job);
    if (have_owners) rows.back().insert(rows.back().begin() + 2, owner.empty() ? "-" : owner);
  }
  return Table(rows);
}

std::string JobText(const proto::JobStatus& given) {
  const proto::JobStatus job = Printable(given);
  std::string text =
      absl::StrCat("job ", job.job_id(), " (", job.name(), "): ", StateName(job.state()));
  if (!job.reason().empty()) absl::StrAppend(&text, ": ", job.reason());
  for (const auto& wait : job.waits()) absl::StrAppend(&text, "\n  waits: ", wait.text());
  const std::string encoding = EncodingsName(job.job());
  std::vector<Row> rows = {{"  mode", job.mode()},
                           {"  model", job.model()},
                           {"  optimizer", OptimizerText(job.job().optimizer())},
                           {"  exchange", ExchangeText(job)},
                           {"  device", DeviceText(job.job())},
                           {"  encoding", encoding.empty() ? "fp32" : encoding},
                           {"  ranks", absl::StrCat(job.ranks())},
                           {"  submitted", When(job.submitted_ms())},
                           {"  started", When(job.started_ms())},
                           {"  ended", When(job.ended_ms())}};
  if (const std::string text = ProtectionText(job.job()); !text.empty()) {
    rows.push_back({"  protection", text});
  }
  if (!OwnerText(job).empty()) rows.insert(rows.begin(), {"  owner", OwnerText(job)});
  if (job.elements() > 0) {
    rows.push_back(
        {"  parameters", absl::StrCat(job.elements(), " in ", Counted(job.chunks(), "chunk"),
                                      " of ", job.chunk_elements())});
  }
  if (job.job().connections() > 1) {
    rows.push_back({"  connections", absl::StrCat(job.job().connections(), " to each peer")});
  }
  if (!job.placement().empty()) rows.push_back({"  placement", job.placement()});
  if (!job.run_dir().empty()) rows.push_back({"  run directory", job.run_dir()});
  if (job.progress().step() > 0) {
    rows.push_back({"  step", Steps(job.progress())});
    rows.push_back({"  progress", ProgressLine(job)});
  }
  for (Row& row : CheckpointRows(job)) rows.push_back(std::move(row));
  if (job.has_hidden_share()) {
    rows.push_back({"  hidden", absl::StrFormat("%.0f %% of the exchange behind computation",
                                                100 * job.hidden_share())});
  }
  absl::StrAppend(&text, "\n", Table(rows));
  if (!job.nodes().empty()) absl::StrAppend(&text, NodeRows(job));
  if (!job.shards().empty()) absl::StrAppend(&text, ShardRows(job));
  absl::StrAppend(&text, MemoryTable(job));
  return text;
}

std::string NodesText(const proto::ListNodesReply& given) {
  const proto::ListNodesReply nodes = Printable(given);
  if (nodes.daemons().empty()) return "no servers and no workers\n";
  std::vector<Row> rows = {{"NAME", "ROLE", "STATE", "ADDRESS", "SLOTS", "GPUS", "PORTS", "JOBS"}};
  for (const auto& daemon : nodes.daemons()) {
    bool worker = daemon.role() == proto::WORKER;
    rows.push_back({daemon.name(), worker ? "worker" : "server", DaemonStateText(daemon),
                    daemon.address(),
                    worker ? absl::StrCat(daemon.slots_used(), "/", daemon.slots(), " used") : "-",
                    GpusText(daemon), worker ? "-" : absl::StrJoin(daemon.shard_ports(), ","),
                    daemon.jobs().empty() ? "-" : absl::StrJoin(daemon.jobs(), ",")});
  }
  const std::string resources = ResourcesByDaemon(nodes);
  return absl::StrCat(Table(rows), UnreachedText(nodes), RefusalsText(nodes),
                      resources.empty() ? "" : "\n", resources);
}

std::string ClusterText(const proto::ListNodesReply& given,
                        const std::vector<proto::JobStatus>& jobs) {
  const proto::ListNodesReply nodes = Printable(given);
  int servers = 0, workers = 0, shards = 0, slots = 0, used = 0, running = 0, queued = 0;
  int gpus = 0, gpu_slots = 0, gpu_slots_used = 0, stand_ins = 0;
  for (const auto& daemon : nodes.daemons()) {
    if (!daemon.alive()) continue;
    if (daemon.stands_in()) {  // no job begins there
      stand_ins += daemon.draining() ? 0 : 1;
      continue;
    }
    (daemon.role() == proto::WORKER ? workers : servers) += 1;
    shards += daemon.shard_ports_size();
    slots += daemon.slots();
    used += daemon.slots_used();
    gpus += daemon.gpus_size();
    gpu_slots += daemon.gpu_slots();
    gpu_slots_used += daemon.gpu_slots_used();
  }
  for (const auto& job : jobs) {
    running += job.state() == proto::RUNNING ? 1 : 0;
    queued += job.state() == proto::QUEUED ? 1 : 0;
  }
  std::string on_gpus;
  if (gpus > 0) {
    on_gpus = absl::StrCat(", ", Counted(gpus, "GPU"), " with ", Counted(gpu_slots, "slot"), " (",
                           gpu_slots_used, " used)");
  }
  const std::string besides =
      stand_ins == 0 ? ""
                     : absl::StrCat(", besides ", Counted(stand_ins, "worker"),
                                    stand_ins == 1 ? " that stands in" : " that stand in");
  const std::string security =
      nodes.security().empty() ? "" : absl::StrCat("  security: ", nodes.security(), "\n");
  return absl::StrCat(
      "cluster ", nodes.cluster_id(), "\n", security, "  ", Counted(servers, "server"), " with ",
      Counted(shards, "shard"), ", ", Counted(workers, "worker"), " with ", Counted(slots, "slot"),
      " (", used, " used)", on_gpus, besides, "\n  ", Counted(running, "job"), " running, ", queued,
      " queued, ", jobs.size(), " in all\n", RefusalsText(nodes), ResourceTotals(nodes));
}

}  // namespace strata::cli
