#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/render/render.h"
#include "cli/render/render_daemons.h"
#include "common/job/encoding.h"
#include "common/job/program_optimizer.h"
#include "worker/agent/metrics_log.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

// Null for what is not known, which the messages write as -1.
Json Known(double value) { return value < 0 ? Json() : Json(value); }

Json ToJson(const proto::Progress& progress) {
  Json json;
  json["step"] = progress.step();
  json["total_steps"] = progress.total_steps();
  json["epoch"] = progress.epoch();
  json["epochs"] = progress.epochs();
  json["samples"] = progress.samples();
  json["samples_per_s"] = progress.samples_per_s();
  json["loss"] = progress.loss();
  json["test_accuracy"] = Known(progress.test_accuracy());
  // Sorted by name; an object even without values.
  Json values = Json::object();
  for (const auto& [name, value] : std::map(progress.values().begin(), progress.values().end())) {
    values[name] = value;
  }
  json["values"] = std::move(values);
  json["bytes_per_step"] = progress.bytes_per_step();
  json["eta_s"] = Known(progress.eta_s());
  return json;
}

Json ToJson(const google::protobuf::RepeatedPtrField<proto::MemoryPart>& parts) {
  Json json = Json::array();
  for (const proto::MemoryPart& part : parts) {
    json.push_back({{"name", part.name()},
                    {"limit_bytes", part.limit_bytes()},
                    {"model_sizes", part.model_sizes()}});
  }
  return json;
}

Json ToJson(const proto::JobShardStatus& shard) {
  Json json;
  json["daemon"] = shard.daemon();
  json["shard"] = shard.shard();
  json["chunks"] = shard.chunks();
  json["backup"] = shard.backup().empty() ? Json() : Json(shard.backup());
  json["backup_is_partial"] = shard.backup_is_partial();
  json["pushes"] = shard.counters().pushes();
  json["answers"] = shard.counters().answers();
  json["duplicates"] = shard.counters().duplicates();
  json["refused"] = shard.counters().refused();
  json["bytes_received"] = shard.counters().bytes_received();
  json["bytes_sent"] = shard.counters().bytes_sent();
  json["memory_bytes"] = shard.memory_bytes();
  json["memory_limit_bytes"] = shard.memory_limit_bytes();
  json["memory_parts"] = ToJson(shard.memory_parts());
  return json;
}

Json ToJson(const MemorySum& sum) {
  return {{"memory_bytes", sum.memory_bytes}, {"memory_limit_bytes", sum.memory_limit_bytes}};
}

Json ResourcesJson(const proto::DaemonStatus& daemon) {
  Json json = Json::array();
  for (const auto& resource : daemon.resources()) {
    json.push_back(
        {{"name", resource.name()}, {"used", resource.used()}, {"limit", resource.limit()}});
  }
  return json;
}

Json TotalsJson(const proto::ListNodesReply& nodes) {
  Json json = Json::array();
  for (const ResourceTotal& total : AddUpResources(nodes)) {
    json.push_back({{"name", total.name},
                    {"used", total.used},
                    {"limit", total.limit},
                    {"fullest", total.fullest},
                    {"fullest_used", total.fullest_used},
                    {"fullest_limit", total.fullest_limit}});
  }
  return json;
}

Json ToJson(const proto::Wait& wait) {
  Json json;
  json["node"] = wait.node();
  json["rank"] = wait.has_rank() ? Json(wait.rank()) : Json();
  json["daemon"] = wait.daemon();
  json["clock"] = wait.clock();
  json["seconds"] = wait.seconds();
  json["doing"] = wait.doing();
  json["text"] = wait.text();
  return json;
}

Json ToJson(const proto::JobStatus& job) {
  Json json;
  json["job_id"] = job.job_id();
  json["name"] = job.name();
  json["state"] = StateName(job.state());
  json["reason"] = job.reason();
  json["mode"] = job.mode();
  json["model"] = job.model();
  json["optimizer"] = OptimizerText(job.job().optimizer());
  json["exchange"] = job.exchange();
  json["protection"] = proto::Job::Protection_Name(job.job().protection());
  json["device"] = proto::Job::Device_Name(job.job().device());
  json["node_sum"] = proto::NodeSum::By_Name(job.job().node_sum());
  json["push"] = EncodingName(job.job().push());
  const bool both_ways = job.job().exchange() == proto::Job::RING;
  json["pull"] = EncodingName(both_ways ? job.job().push() : job.job().pull());
  if (job.has_ring()) {
    json["ring"] = {{"algorithm", proto::AllReduce::Algorithm_Name(job.ring().algorithm())},
                    {"latency_us", job.ring().latency_us()},
                    {"bytes_per_s", job.ring().bytes_per_s()}};
  }
  json["ranks"] = job.ranks();
  json["nodes"] = Json::array();
  for (const auto& node : job.nodes()) {
    json["nodes"].push_back({{"node", node.node()},
                             {"daemon", node.daemon()},
                             {"first_rank", node.first_rank()},
                             {"ranks", node.ranks()},
                             {"step", node.step()},
                             {"joins", node.joins()},
                             {"leaves_at", node.has_leaves_at() ? Json(node.leaves_at()) : Json()},
                             {"memory_bytes", node.memory_bytes()},
                             {"memory_limit_bytes", node.memory_limit_bytes()},
                             {"memory_parts", ToJson(node.memory_parts())},
                             {"gpu_memory_bytes", node.gpu_memory_bytes()},
                             {"gpu_memory_limit_bytes", node.gpu_memory_limit_bytes()},
                             {"gpu_memory_parts", ToJson(node.gpu_memory_parts())}});
  }
  json["shards"] = Json::array();
  for (const auto& shard : job.shards()) json["shards"].push_back(ToJson(shard));
  json["node_memory"] = ToJson(AddUp(job.nodes()));
  json["shard_memory"] = ToJson(AddUp(job.shards()));
  json["placement"] = job.placement();
  json["connections"] = job.job().connections();
  if (job.has_hidden_share()) json["hidden_share"] = job.hidden_share();
  AddCheckpoints(job, &json);
  json["progress"] = ToJson(job.progress());
  json["waits"] = Json::array();
  for (const auto& wait : job.waits()) json["waits"].push_back(ToJson(wait));
  json["owner"] = job.owner();
  json["namespace"] = job.tenant();
  json["submitted_ms"] = job.submitted_ms();
  json["started_ms"] = job.started_ms();
  json["ended_ms"] = job.ended_ms();
  json["run_dir"] = job.run_dir();
  json["elements"] = job.elements();
  json["chunks"] = job.chunks();
  json["chunk_elements"] = job.chunk_elements();
  return json;
}

Json ToJson(const std::vector<proto::JobStatus>& jobs) {
  Json json = Json::array();
  for (const auto& job : jobs) json.push_back(ToJson(job));
  return json;
}

// `expected`: those that follow from something planned, or else all others.
Json RefusalsOf(const proto::DaemonStatus& daemon, bool expected) {
  Json json = Json::object();
  for (const auto& refusal : daemon.refusals()) {
    if (refusal.expected() == expected) json[refusal.cause()] = refusal.count();
  }
  return json;
}

Json GpusJson(const proto::DaemonStatus& daemon) {
  Json json = Json::array();
  for (const proto::Gpu& gpu : daemon.gpus()) {
    json.push_back(
        {{"index", gpu.index()}, {"name", gpu.name()}, {"memory_bytes", gpu.memory_bytes()}});
  }
  return json;
}

Json ToJson(const proto::ListNodesReply& nodes) {
  Json json;
  json["cluster_id"] = nodes.cluster_id();
  json["security"] = nodes.security();
  json["daemons"] = Json::array();
  for (const auto& daemon : nodes.daemons()) {
    Json one;
    one["name"] = daemon.name();
    one["role"] = daemon.role() == proto::SERVER ? "server" : "worker";
    one["address"] = daemon.address();
    one["version"] = daemon.version();
    one["protocol_version"] = daemon.protocol_version();
    one["alive"] = daemon.alive();
    one["draining"] = daemon.draining();
    one["drained"] = daemon.drained();
    if (daemon.role() == proto::WORKER) one["stands_in"] = daemon.stands_in();
    one["slots"] = daemon.slots();
    one["slots_used"] = daemon.slots_used();
    if (daemon.role() == proto::WORKER) {
      one["gpus"] = GpusJson(daemon);
      one["gpu_slots"] = daemon.gpu_slots();
      one["gpu_slots_used"] = daemon.gpu_slots_used();
    }
    one["shard_ports"] =
        std::vector<uint32_t>(daemon.shard_ports().begin(), daemon.shard_ports().end());
    one["jobs"] = std::vector<uint32_t>(daemon.jobs().begin(), daemon.jobs().end());
    one["last_heartbeat_ms_ago"] = daemon.last_heartbeat_ms_ago();
    if (daemon.role() == proto::WORKER) one["peers"] = PeersJson(daemon);
    one["resources"] = ResourcesJson(daemon);
    one["refusals"] = RefusalsOf(daemon, false);
    one["expected_refusals"] = RefusalsOf(daemon, true);
    json["daemons"].push_back(one);
  }
  json["coordinator"] = {{"resources", ResourcesJson(nodes.coordinator())},
                         {"refusals", RefusalsOf(nodes.coordinator(), false)}};
  json["resources"] = TotalsJson(nodes);
  return json;
}

// Invalid UTF-8 (a reason with a path of the user's) is replaced, never thrown at.
std::string Print(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Json StatusJson(const proto::JobStatus& job) { return ToJson(job); }

Json StatusJson(const proto::ListNodesReply& nodes) { return ToJson(nodes); }

std::string JobsJson(const std::vector<proto::JobStatus>& jobs) { return Print(ToJson(jobs)); }

std::string JobJson(const proto::JobStatus& job) { return Print(ToJson(job)); }

std::string EventJson(const proto::FollowEvent& event) {
  if (event.has_metrics()) {
    return "{\"metrics\":" + worker::MetricsLine(event.metrics()) + "}\n";
  }
  Json json;
  json["status"] = ToJson(event.status());
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string NodesJson(const proto::ListNodesReply& nodes) { return Print(ToJson(nodes)); }

std::string ClusterJson(const proto::ListNodesReply& nodes,
                        const std::vector<proto::JobStatus>& jobs) {
  Json json = ToJson(nodes);
  json["jobs"] = ToJson(jobs);
  return Print(json);
}

}  // namespace strata::cli
