#include "cli/web/exposition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/render/render.h"
#include "cli/web/families.h"
#include "cli/web/metric_text.h"

namespace strata::cli {
namespace {

using metrics::Family;
using metrics::Label;
using metrics::MetricText;

// A daemon reports a handful; one that reports more must not crowd others out.
constexpr int kPerDaemonMax = 64;
constexpr size_t kStalenessMax = 64;

constexpr std::array kStates = {proto::QUEUED, proto::RUNNING, proto::FINISHED, proto::FAILED,
                                proto::CANCELLED};

uint64_t Flag(bool value) { return value ? 1 : 0; }

std::string With(absl::string_view labels, absl::string_view name, absl::string_view value) {
  return absl::StrCat(labels, labels.empty() ? "" : ",", Label(name, value));
}

std::string With(absl::string_view labels, absl::string_view name, uint64_t value) {
  return absl::StrCat(labels, ",", name, "=\"", value, "\"");
}

double SecondsSince(int64_t unix_ms, absl::Time now) {
  return std::max(0.0, absl::ToDoubleSeconds(now - absl::FromUnixMillis(unix_ms)));
}

void AddResources(const proto::DaemonStatus& daemon, absl::string_view labels, const Family& used,
                  const Family& limit, MetricText* text) {
  const int count = std::min(daemon.resources_size(), kPerDaemonMax);
  for (int i = 0; i < count; ++i) {
    const proto::Resource& resource = daemon.resources(i);
    const std::string all = With(labels, "name", resource.name());
    text->Add(used, all, resource.used());
    if (resource.limit() > 0) text->Add(limit, all, resource.limit());
  }
}

void AddRefusals(const proto::DaemonStatus& daemon, absl::string_view labels, MetricText* text) {
  const int count = std::min(daemon.refusals_size(), kPerDaemonMax);
  for (int i = 0; i < count; ++i) {
    const proto::Refusal& refusal = daemon.refusals(i);
    const Family& family = refusal.expected() ? metrics::kExpectedRefusals : metrics::kRefusals;
    text->Add(family, With(labels, "cause", refusal.cause()), refusal.count());
  }
}

void AddDaemon(const proto::DaemonStatus& daemon, absl::Duration scene_age, MetricText* text) {
  const bool worker = daemon.role() == proto::WORKER;
  const std::string labels =
      With(Label("daemon", daemon.name()), "role", worker ? "worker" : "server");
  text->Add(metrics::kDaemonUp, labels, Flag(daemon.alive()));
  text->Add(metrics::kDaemonHeartbeat, labels,
            absl::ToDoubleSeconds(absl::Milliseconds(daemon.last_heartbeat_ms_ago()) + scene_age));
  text->Add(metrics::kDaemonDraining, labels, Flag(daemon.draining()));
  if (worker) {
    text->Add(metrics::kDaemonSlots, labels, uint64_t{daemon.slots()});
    text->Add(metrics::kDaemonSlotsUsed, labels, uint64_t{daemon.slots_used()});
    text->Add(metrics::kDaemonGpuSlots, labels, uint64_t{daemon.gpu_slots()});
    text->Add(metrics::kDaemonGpuSlotsUsed, labels, uint64_t{daemon.gpu_slots_used()});
  }
  AddResources(daemon, labels, metrics::kDaemonUsed, metrics::kDaemonLimit, text);
  AddRefusals(daemon, labels, text);
}

void AddCoordinator(const proto::DaemonStatus& coordinator, MetricText* text) {
  AddResources(coordinator, "", metrics::kCoordinatorUsed, metrics::kCoordinatorLimit, text);
  AddRefusals(coordinator, With(Label("daemon", coordinator.name()), "role", "coordinator"), text);
}

void AddProgress(const proto::JobStatus& job, const std::string& labels, MetricText* text) {
  const proto::Progress& progress = job.progress();
  text->Add(metrics::kJobRanks, labels, uint64_t{job.ranks()});
  text->Add(metrics::kJobSteps, labels, progress.step());
  text->Add(metrics::kJobStepsPlanned, labels, progress.total_steps());
  text->Add(metrics::kJobSamples, labels, progress.samples());
  text->Add(metrics::kJobEpoch, labels, progress.epoch());
  text->Add(metrics::kJobStepBytes, labels, progress.bytes_per_step());
  if (progress.samples() > 0) {
    text->Add(metrics::kJobSamplesPerSecond, labels, progress.samples_per_s());
    text->Add(metrics::kJobLoss, labels, progress.loss());
  }
  // -1: not known. NaN is known, and bad.
  if (!(progress.test_accuracy() < 0)) {
    text->Add(metrics::kJobAccuracy, labels, progress.test_accuracy());
  }
  if (progress.eta_s() >= 0) text->Add(metrics::kJobEta, labels, progress.eta_s());
}

void AddNewestWindow(const JobScene& scene, const std::string& labels, MetricText* text) {
  if (scene.status.has_hidden_share()) {
    text->Add(metrics::kJobHidden, labels, scene.status.hidden_share());
  } else if (!scene.course.empty() && scene.course.back().hidden_share >= 0) {
    text->Add(metrics::kJobHidden, labels, scene.course.back().hidden_share);
  }
  // A point of a test alone has neither.
  const auto point =
      std::find_if(scene.course.rbegin(), scene.course.rend(),
                   [](const CoursePoint& p) { return !std::isnan(p.waiting_share); });
  if (point == scene.course.rend()) return;
  const CoursePoint& newest = *point;
  text->Add(metrics::kJobWaiting, labels, newest.waiting_share);
  text->Add(metrics::kJobLearningRate, labels, newest.lr);
  for (size_t i = 0; i < std::min(newest.staleness.size(), kStalenessMax); ++i) {
    text->Add(metrics::kJobStaleness, With(labels, "staleness", i), newest.staleness[i]);
  }
}

// Until the job's end: its last checkpoint does not age afterwards.
void AddFaults(const proto::JobStatus& job, const std::string& labels, absl::Time now,
               MetricText* text) {
  if (job.has_checkpoints()) {
    const proto::CheckpointStatus& checkpoints = job.checkpoints();
    text->Add(metrics::kJobCheckpoints, With(labels, "result", "complete"),
              uint64_t{checkpoints.complete()});
    text->Add(metrics::kJobCheckpoints, With(labels, "result", "failed"),
              uint64_t{checkpoints.failed()});
    if (checkpoints.complete() > 0) {
      const absl::Time until = job.ended_ms() > 0 ? absl::FromUnixMillis(job.ended_ms()) : now;
      text->Add(metrics::kJobCheckpointAge, labels, SecondsSince(checkpoints.newest_ms(), until));
    }
  }
  text->Add(metrics::kJobRestarts, labels, static_cast<uint64_t>(job.restarts_size()));
  text->Add(metrics::kJobReplacements, labels, static_cast<uint64_t>(job.replacements_size()));
}

void AddNodes(const proto::JobStatus& job, const std::string& labels, MetricText* text) {
  for (const proto::JobNodeStatus& node : job.nodes()) {
    if (node.absent()) continue;
    const std::string all =
        With(With(labels, "node", uint64_t{node.node()}), "daemon", node.daemon());
    text->Add(metrics::kNodeMemory, all, node.memory_bytes());
    text->Add(metrics::kNodeMemoryLimit, all, node.memory_limit_bytes());
    if (node.gpu_memory_limit_bytes() == 0) continue;
    text->Add(metrics::kNodeGpuMemory, all, node.gpu_memory_bytes());
    text->Add(metrics::kNodeGpuMemoryLimit, all, node.gpu_memory_limit_bytes());
  }
}

void AddShards(const proto::JobStatus& job, const std::string& labels, MetricText* text) {
  for (const proto::JobShardStatus& shard : job.shards()) {
    const std::string all =
        With(With(labels, "daemon", shard.daemon()), "shard", uint64_t{shard.shard()});
    const proto::ShardCounters& counters = shard.counters();
    text->Add(metrics::kShardPushes, all, counters.pushes());
    text->Add(metrics::kShardAnswers, all, counters.answers());
    text->Add(metrics::kShardDuplicates, all, counters.duplicates());
    text->Add(metrics::kShardRefused, all, counters.refused());
    text->Add(metrics::kShardReceived, all, counters.bytes_received());
    text->Add(metrics::kShardSent, all, counters.bytes_sent());
    text->Add(metrics::kShardMemory, all, shard.memory_bytes());
    text->Add(metrics::kShardMemoryLimit, all, shard.memory_limit_bytes());
  }
}

void AddWaits(const proto::JobStatus& job, const std::string& labels, MetricText* text) {
  for (const proto::Wait& wait : job.waits()) {
    const std::string rank = wait.has_rank() ? absl::StrCat(wait.rank()) : "";
    const std::string all = With(With(With(labels, "node", uint64_t{wait.node()}), "rank", rank),
                                 "daemon", wait.daemon());
    text->Add(metrics::kJobWait, all, wait.seconds());
  }
}

void AddJob(const JobScene& scene, absl::Time now, MetricText* text) {
  const proto::JobStatus& job = scene.status;
  std::string labels = With(absl::StrCat("job=\"", job.job_id(), "\""), "name", job.name());
  labels = With(With(labels, "mode", job.mode()), "namespace", job.tenant());
  for (const proto::JobState state : kStates) {
    text->Add(metrics::kJobState, With(labels, "state", StateName(state)),
              Flag(job.state() == state));
  }
  AddProgress(job, labels, text);
  AddNewestWindow(scene, labels, text);
  AddFaults(job, labels, now, text);
  if (job.state() != proto::RUNNING) return;
  AddWaits(job, labels, text);
  AddNodes(job, labels, text);
  AddShards(job, labels, text);
  for (const auto& [rank, windows] : scene.ranks) {
    if (windows.empty()) continue;
    const std::string all = With(labels, "rank", uint64_t{rank});
    text->Add(metrics::kRankWaiting, all, windows.back().waiting_share);
    text->Add(metrics::kRankSamplesPerSecond, all, windows.back().samples_per_s);
  }
}

}  // namespace

std::string Exposition(const ClusterScene& scene, absl::Time now) {
  MetricText text;
  const bool ever = scene.taken != absl::InfinitePast();
  text.Add(metrics::kReachable, "", Flag(ever && scene.problem.empty()));
  if (ever) {
    const absl::Duration age = std::max(now - scene.taken, absl::ZeroDuration());
    text.Add(metrics::kSceneAge, "", absl::ToDoubleSeconds(age));
    if (age <= kSceneShown) {
      AddCoordinator(scene.nodes.coordinator(), &text);
      for (const auto& job : scene.jobs) {
        if (now - job->first_seen_ended < kEndedJobShown) AddJob(*job, now, &text);
      }
      for (const auto& daemon : scene.nodes.daemons()) AddDaemon(daemon, age, &text);
    }
  }
  return text.Write();
}

}  // namespace strata::cli
