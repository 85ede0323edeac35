#include "compare/virtual_time/virtual_run.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/random.h"
#include "compare/virtual_time/job_hosts.h"
#include "compare/virtual_time/link_medium.h"
#include "compare/virtual_time/problem/compute_pool.h"
#include "compare/virtual_time/run_book.h"
#include "compare/virtual_time/virtual_node.h"
#include "compare/virtual_time/virtual_shard.h"

namespace strata::compare {
namespace {

constexpr uint64_t kJitterStream = 0x6a6974746572;  // of the job's seed

VirtualLink LinkOf(const proto::Link& link) {
  return {.bytes_per_s = link.gbit_per_s() * 1e9 / 8,
          .latency = absl::Microseconds(link.latency_us()),
          .jitter = absl::Microseconds(link.jitter_us())};
}

// Whether each push of a node is an update of its own.
bool AppliesEachPush(const proto::Job& job) {
  return job.consistency().has_async() ||
         (job.consistency().has_lazy() &&
          job.consistency().lazy().apply() == proto::Lazy::ON_ARRIVAL);
}

// Weights that rank 0 had, and what they are worth.
struct Measured {
  proto::Measurement measurement;
  std::unique_ptr<Measuring> measuring;
};

class VirtualRun final : public NodeObserver {
 public:
  VirtualRun(const RunPlan& plan, const ClusterFile& cluster, const VirtualRunOptions& options,
             std::unique_ptr<Problem> problem)
      : plan_(plan),
        cluster_(cluster),
        options_(options),
        problem_(std::move(problem)),
        medium_(&clock_, cluster.cluster.memory_gb_per_s() * 1e9,
                RandomKey(plan.job.seed(), kJitterStream)),
        network_(&clock_, &medium_),
        book_(problem_->plan(), plan.job.ranks()),
        pool_(options.threads) {}

  absl::Status Build();
  absl::StatusOr<VirtualOutcome> Run();

 private:
  void OnWeights(VirtualNode* node, uint64_t step) override;
  void OnStep(uint32_t rank, const StepResult& result) override;
  void OnFinished(VirtualNode* node) override;
  void OnFailed(const std::string& reason) override {
    if (!failure_) failure_ = reason;
  }

  absl::Status AddNodes(const JobPlaces& places, const std::vector<ClusterHost>& hosts);
  void Measure(VirtualNode* node, uint64_t step);
  uint64_t UpdatesAt(uint64_t step, bool ended) const;
  absl::Status WriteMeasurements(proto::RunRecord* record);
  void WriteCounters(proto::RunRecord* record) const;

  const RunPlan& plan_;
  const ClusterFile& cluster_;
  const VirtualRunOptions& options_;
  const std::unique_ptr<Problem> problem_;
  transport::SimClock clock_;
  LinkMedium medium_;
  transport::SimNetwork network_;
  RunBook book_;
  proto::JobRecord record_;
  std::vector<std::unique_ptr<VirtualShard>> shards_;
  std::vector<std::unique_ptr<VirtualNode>> nodes_;
  std::deque<Measured> measured_;
  std::optional<double> began_s_;  // the first step
  size_t finished_ = 0;            // nodes
  std::optional<std::string> failure_;
  ComputePool pool_;  // last: its threads use what stands above
};

absl::Status VirtualRun::Build() {
  const proto::Cluster& cluster = cluster_.cluster;
  const worker::StepPlan& steps = problem_->plan();
  absl::StatusOr<JobPlaces> places =
      PlaceJob(problem_->job(), cluster, problem_->tensors().Layout(),
               steps.steps_per_epoch * plan_.job.ranks() * steps.batch);
  if (!places.ok()) return places.status();
  record_ = places->record;
  record_.set_says_rates(problem_->says_rates());
  const std::vector<ClusterHost> hosts = ListHosts(cluster);
  for (const ClusterHost& host : hosts) medium_.AddHost(LinkOf(host.link), host.site);
  for (const proto::SiteLink& link : cluster.site_links()) {
    medium_.JoinSites(link.sites(0), link.sites(1),
                      {.bytes_per_s = link.gbit_per_s() * 1e9 / 8,
                       .latency = absl::Milliseconds(link.latency_ms()),
                       .jitter = absl::Milliseconds(link.jitter_ms())});
  }
  for (uint32_t i = 0; i < places->shards.size(); ++i) {
    const JobShard& shard = places->shards[i];
    shards_.push_back(
        std::make_unique<VirtualShard>(&clock_, &network_, shard.host, cluster.servers()));
    const absl::Status status = shards_.back()->Start(record_, ShardId(i), shard.address);
    if (!status.ok()) return status;
  }
  return AddNodes(*places, hosts);
}

absl::Status VirtualRun::AddNodes(const JobPlaces& places, const std::vector<ClusterHost>& hosts) {
  for (const proto::LogicalNode& logical : record_.view().nodes()) {
    VirtualNode::Options options;
    options.record = record_;
    options.node = logical.node();
    options.host = places.host_of_node[logical.node()];
    const ClusterHost& host = hosts[options.host];
    if (record_.has_ring()) options.listen = RingAddress(host);
    for (uint32_t r = 0; r < logical.ranks(); ++r) {
      options.compute.emplace_back(cluster_, host.group, plan_.job.seed(),
                                   logical.first_rank() + r);
    }
    const proto::NodeGroup& group = cluster_.cluster.nodes(host.group);
    options.forward_share = group.compute().forward_share();
    options.aggregation_bytes_per_s = group.aggregation_gb_per_s() * 1e9;
    auto node = VirtualNode::Create(options, &clock_, &network_, &pool_, problem_.get(), this);
    if (!node.ok()) return node.status();
    nodes_.push_back(*std::move(node));
  }
  return absl::OkStatus();
}

// Of the weights, once rank 0 has made so many steps. The last clock may be shorter than others.
uint64_t VirtualRun::UpdatesAt(uint64_t step, bool ended) const {
  const uint64_t per_clock = StepsPerClock(plan_.job);
  const auto clocks = [&](uint64_t steps) {
    return (ended ? steps + per_clock - 1 : steps) / per_clock;
  };
  uint64_t all = 0, fastest = 0;
  for (const std::unique_ptr<VirtualNode>& node : nodes_) {
    all += clocks(node->steps_landed());
    fastest = std::max(fastest, clocks(node->steps_landed()));
  }
  if (AppliesEachPush(plan_.job)) return all;
  // At least: a clock has one push of a node at most.
  return plan_.job.consistency().lazy().has_quorum() ? fastest : clocks(step);
}

void VirtualRun::Measure(VirtualNode* node, uint64_t step) {
  auto measuring = problem_->Measure(node->weights(), step, node->rank(0), &pool_);
  if (!measuring.ok()) return OnFailed(std::string(measuring.status().message()));
  if (*measuring == nullptr) return;
  Measured& measured = measured_.emplace_back();
  measured.measuring = *std::move(measuring);
  measured.measurement.set_step(step);
  measured.measurement.set_samples(book_.samples());
  measured.measurement.set_updates(UpdatesAt(step, step == problem_->plan().total_steps));
  measured.measurement.set_trained_s(clock_.Seconds() - *began_s_);
}

void VirtualRun::OnWeights(VirtualNode* node, uint64_t step) {
  if (!began_s_) began_s_ = clock_.Seconds();
  const worker::StepPlan& plan = problem_->plan();
  if (step >= plan.total_steps) return;
  if (options_.on_weights) options_.on_weights(node->node(), step, node->arena());
  if (node->node() == 0 && step > 0 && plan.Evaluates(step - 1)) Measure(node, step);
}

void VirtualRun::OnStep(uint32_t rank, const StepResult& result) {
  const uint64_t before = book_.slowest_step();
  book_.OnStep(rank, result, clock_.Seconds());
  if (book_.slowest_step() == before || !options_.on_progress) return;
  const uint64_t total = problem_->plan().total_steps;
  RunProgress progress;
  progress.done = static_cast<double>(book_.slowest_step()) / static_cast<double>(total);
  progress.text = absl::StrFormat("step %d/%d", book_.slowest_step(), total);
  if (book_.loss() > 0) absl::StrAppendFormat(&progress.text, "  loss %.3f", book_.loss());
  options_.on_progress(progress);
}

void VirtualRun::OnFinished(VirtualNode* node) {
  ++finished_;
  const uint64_t steps = problem_->plan().total_steps;
  if (options_.on_weights) options_.on_weights(node->node(), steps, node->arena());
  if (node->node() == 0) Measure(node, steps);
}

absl::Status VirtualRun::WriteMeasurements(proto::RunRecord* record) {
  for (Measured& measured : measured_) {
    if (options_.stop != nullptr && *options_.stop) return absl::CancelledError("stopped");
    const absl::Status status = measured.measuring->Finish(&pool_, &measured.measurement);
    if (!status.ok()) return status;
    *record->add_measurements() = measured.measurement;
  }
  return absl::OkStatus();
}

void VirtualRun::WriteCounters(proto::RunRecord* record) const {
  std::vector<uint64_t> staleness;
  absl::Duration waited, stepped;
  uint64_t pushed = 0, answered = 0;
  for (const std::unique_ptr<VirtualNode>& node : nodes_) {
    const worker::ExchangeCounters& counters = node->counters();
    pushed += counters.bytes_pushed;
    answered += counters.bytes_answered;
    for (size_t bin = 0; bin < counters.staleness.size(); ++bin) {
      if (counters.staleness[bin] == 0) continue;
      if (staleness.size() <= bin) staleness.resize(bin + 1, 0);
      staleness[bin] += counters.staleness[bin];
    }
    waited += node->waited();
    stepped += node->stepped();
  }
  record->set_bytes_pushed(pushed);
  record->set_bytes_answered(answered);
  for (const uint64_t pushes : staleness) record->add_staleness(pushes);
  if (stepped > absl::ZeroDuration()) {
    record->set_waiting_share(absl::FDivDuration(waited, stepped));
  }
}

absl::StatusOr<VirtualOutcome> VirtualRun::Run() {
  for (const std::unique_ptr<VirtualNode>& node : nodes_) node->Start();
  while (!failure_ && finished_ < nodes_.size()) {
    if (options_.stop != nullptr && *options_.stop) return absl::CancelledError("stopped");
    if (!clock_.RunOne()) {
      return absl::InternalError(absl::StrFormat(
          "virtual time stands still at step %d: nothing more is under way", book_.slowest_step()));
    }
    if (clock_.Now() - absl::UnixEpoch() >= transport::SimClock::DelayMax()) {
      OnFailed("it takes more than a year");
    }
  }
  if (const absl::Status healthy = problem_->health(); !healthy.ok()) return healthy;
  VirtualOutcome outcome;
  outcome.virtual_s = clock_.Seconds();
  outcome.bytes_between_hosts = medium_.bytes_between_hosts();
  proto::RunRecord& record = outcome.record;
  record.set_mode(plan_.mode);
  record.set_seed(plan_.job.seed());
  *record.mutable_job() = plan_.job;  // as it was asked for: the chunk size is ours
  record.set_cluster(DescribeCluster(cluster_));
  if (failure_) record.set_failure(*failure_);
  book_.Write(began_s_.value_or(0), &record);
  record.set_updates(UpdatesAt(book_.slowest_step(), /*ended=*/!failure_));
  WriteCounters(&record);
  if (absl::Status status = WriteMeasurements(&record); !status.ok()) return status;
  if (!failure_) {
    const absl::Span<const float> arena = nodes_[0]->arena();
    outcome.weights.assign(arena.begin(), arena.end());
  }
  return outcome;
}

}  // namespace

absl::StatusOr<VirtualOutcome> RunInVirtualTime(const RunPlan& plan, const ClusterFile& cluster,
                                                std::unique_ptr<Problem> problem,
                                                const VirtualRunOptions& options) {
  VirtualRun run(plan, cluster, options, std::move(problem));
  if (absl::Status status = run.Build(); !status.ok()) return status;
  return run.Run();
}

absl::StatusOr<VirtualOutcome> RunInVirtualTime(const RunPlan& plan, const ClusterFile& cluster,
                                                std::shared_ptr<const TrainingData> data,
                                                const VirtualRunOptions& options) {
  auto problem = ZooProblem::Create(plan.job, std::move(data));
  if (!problem.ok()) return problem.status();
  return RunInVirtualTime(plan, cluster, *std::move(problem), options);
}

}  // namespace strata::compare
