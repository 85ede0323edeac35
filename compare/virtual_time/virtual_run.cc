#include "compare/virtual_time/virtual_run.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/diverged.h"
#include "common/job/consistency.h"
#include "common/random.h"
#include "compare/run_record.pb.h"
#include "compare/virtual_time/compute_pool.h"
#include "compare/virtual_time/job_hosts.h"
#include "compare/virtual_time/link_medium.h"
#include "compare/virtual_time/problem.h"
#include "compare/virtual_time/task_problem.h"
#include "compare/virtual_time/virtual_node.h"
#include "compare/virtual_time/zoo_problem.h"
#include "kernels/kernels.h"
#include "proto/cluster.pb.h"
#include "proto/record.pb.h"
#include "server/shard/shard_core.h"
#include "training/trainer/step_plan.h"

namespace strata::compare {
namespace {

using transport::Event;

constexpr uint64_t kJitterStream = 0x6a6974746572;  // of the job's seed

// Records the steps of a run's ranks. A window is a fixed number of steps of all ranks together, in
// the order in which they end, so that it means the same when ranks are not in step.
class RunBook {
 public:
  RunBook(const training::StepPlan& plan, uint32_t ranks);

  // A rank has made its next step. `now_s` never goes back.
  void OnStep(uint32_t rank, const StepResult& result, double now_s);

  uint64_t samples() const { return samples_; }
  uint64_t slowest_step() const { return slowest_; }  // steps that all ranks have made
  double loss() const { return last_loss_; }          // mean of the newest window

  // The time, samples, steps and windows of what was done; times count from `began_s`.
  void Write(double began_s, proto::RunRecord* record) const;

 private:
  void CloseWindow(double now_s);

  const uint64_t window_steps_;  // of all ranks together
  std::vector<uint64_t> steps_;  // by rank
  uint64_t slowest_ = 0;
  std::deque<uint32_t> ranks_past_;  // by step from slowest_ on: ranks that have made it
  uint64_t samples_ = 0, in_window_ = 0, steps_in_window_ = 0;
  double window_loss_ = 0, last_loss_ = 0, last_s_ = 0;
  std::vector<proto::Window> windows_;  // their times are not from `began_s`
};

RunBook::RunBook(const training::StepPlan& plan, uint32_t ranks)
    : window_steps_(plan.report_every * ranks), steps_(ranks, 0) {}

void RunBook::OnStep(uint32_t rank, const StepResult& result, double now_s) {
  const uint64_t ahead = steps_[rank]++ - slowest_;
  if (ranks_past_.size() <= ahead) ranks_past_.resize(ahead + 1, 0);
  ++ranks_past_[ahead];
  while (!ranks_past_.empty() && ranks_past_.front() == steps_.size()) {
    ranks_past_.pop_front();
    ++slowest_;
  }
  samples_ += result.samples;
  in_window_ += result.samples;
  window_loss_ += result.loss;
  last_s_ = now_s;
  if (++steps_in_window_ >= window_steps_) CloseWindow(now_s);
}

void RunBook::CloseWindow(double now_s) {
  last_loss_ = std::exchange(window_loss_, 0) / std::exchange(in_window_, 0);
  steps_in_window_ = 0;
  proto::Window& window = windows_.emplace_back();
  window.set_samples(samples_);
  window.set_trained_s(now_s);
  window.set_loss(last_loss_);
}

void RunBook::Write(double began_s, proto::RunRecord* record) const {
  RunBook all = *this;
  if (all.in_window_ > 0) all.CloseWindow(last_s_);
  record->set_trained_s(last_s_ - began_s);
  record->set_samples(samples_);
  record->set_steps(slowest_);
  for (proto::Window& window : all.windows_) {
    window.set_trained_s(window.trained_s() - began_s);
    *record->add_windows() = window;
  }
}

// One shard of a server: its core, its endpoint, and one core of a processor, which takes its time
// for each frame, one after the other, before the frame has any effect.
//
// Threads: one.
class VirtualShard {
 public:
  // All outlive it.
  VirtualShard(transport::SimClock* clock, transport::SimNetwork* network, uint32_t host,
               const proto::Servers& servers);

  // Takes the one job in and listens. Errors: ShardCore's and Listen's.
  absl::Status Start(const proto::JobRecord& record, ShardId own_shard, const std::string& address);

 private:
  void OnReady();
  void OnEvent(const transport::Event& event);
  void Execute();
  // Tells the core the time when it wants to be told.
  void WakeAtDeadline();

  transport::SimClock* const clock_;
  const double seconds_per_byte_;
  const absl::Duration per_frame_;
  server::ShardCore core_;
  absl::Time free_;  // the processor, from then on
  absl::Time wakes_at_ = absl::InfiniteFuture();
  std::vector<transport::Event> events_;
  std::vector<server::ShardAction> actions_;
  transport::SimEndpoint endpoint_;
};

VirtualShard::VirtualShard(transport::SimClock* clock, transport::SimNetwork* network,
                           uint32_t host, const proto::Servers& servers)
    : clock_(clock),
      seconds_per_byte_(servers.cpu_ns_per_byte() / 1e9),
      per_frame_(absl::Microseconds(servers.cpu_us_per_frame())),
      core_(kernels::Cpu()),
      endpoint_(network, VirtualEndpoint(host, [this] { OnReady(); })) {}

absl::Status VirtualShard::Start(const proto::JobRecord& record, ShardId own_shard,
                                 const std::string& address) {
  if (absl::Status status = core_.Install(record, own_shard); !status.ok()) return status;
  return endpoint_.Listen(address).status();
}

void VirtualShard::OnReady() {
  events_.clear();
  endpoint_.Poll(absl::InfiniteDuration(), &events_);
  for (Event& event : events_) {
    absl::Duration cost;
    if (event.kind == Event::Kind::kFrame) {
      cost = per_frame_ + absl::Seconds(event.frame.payload.size() * seconds_per_byte_);
    }
    free_ = std::max(free_, clock_->Now()) + cost;
    clock_->At(free_, [this, event = std::move(event)] { OnEvent(event); });
  }
}

void VirtualShard::OnEvent(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kFrame:
      core_.OnFrame(event.connection, event.frame, clock_->Now(), &actions_);
      break;
    case Event::Kind::kMalformed:
      core_.OnMalformed(event.connection, &actions_);
      break;
    case Event::Kind::kDisconnected:
      core_.OnDisconnected(event.connection, event.error, clock_->Now(), &actions_);
      break;
  }
  Execute();
  WakeAtDeadline();
}

void VirtualShard::WakeAtDeadline() {
  const absl::Time at = core_.deadline();
  if (at >= wakes_at_) return;
  wakes_at_ = at;
  clock_->At(at, [this, at] {
    if (wakes_at_ == at) wakes_at_ = absl::InfiniteFuture();
    core_.OnTime(clock_->Now(), &actions_);
    Execute();
    WakeAtDeadline();
  });
}

void VirtualShard::Execute() {
  for (const server::ShardAction& action : actions_) {
    if (action.kind == server::ShardAction::Kind::kClose) {
      endpoint_.Close(action.connection);
    } else {
      // A closed connection is recognized as such, too.
      endpoint_.Send(action.connection, action.frame).IgnoreError();
    }
  }
  actions_.clear();
}

VirtualLink LinkOf(const proto::Link& link) {
  return {.bytes_per_s = link.gbit_per_s() * 1e9 / 8,
          .latency = absl::Microseconds(link.latency_us()),
          .jitter = absl::Microseconds(link.jitter_us())};
}

// Returns true if each push of a node is a separate update.
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
  void OnFailed(const absl::Status& why) override { failure_.Update(why); }

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
  absl::Status failure_;
  ComputePool pool_;  // last: its threads use what stands above
};

absl::Status VirtualRun::Build() {
  const proto::Cluster& cluster = cluster_.cluster;
  const training::StepPlan& steps = problem_->plan();
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

// Updates of the weights once rank 0 has made `step` steps. The last clock may be shorter.
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
  if (!measuring.ok()) return OnFailed(measuring.status());
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
  const training::StepPlan& plan = problem_->plan();
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
  while (failure_.ok() && finished_ < nodes_.size()) {
    if (options_.stop != nullptr && *options_.stop) return absl::CancelledError("stopped");
    if (!clock_.RunOne()) {
      return absl::InternalError(absl::StrFormat(
          "virtual time stands still at step %d: nothing more is under way", book_.slowest_step()));
    }
    if (clock_.Now() - absl::UnixEpoch() >= transport::SimClock::DelayMax()) {
      OnFailed(absl::DeadlineExceededError("it takes more than a year"));
    }
  }
  if (const absl::Status healthy = problem_->health(); !healthy.ok()) return healthy;
  VirtualOutcome outcome;
  outcome.virtual_s = clock_.Seconds();
  outcome.bytes_between_hosts = medium_.bytes_between_hosts();
  proto::RunRecord& record = outcome.record;
  record.set_mode(plan_.mode);
  record.set_seed(plan_.job.seed());
  *record.mutable_job() = plan_.job;  // as requested: the chunk size is chosen here
  record.set_cluster(DescribeCluster(cluster_));
  if (!failure_.ok()) record.set_failure(std::string(failure_.message()));
  record.set_has_diverged(HasDiverged(failure_));
  book_.Write(began_s_.value_or(0), &record);
  record.set_updates(UpdatesAt(book_.slowest_step(), /*ended=*/failure_.ok()));
  WriteCounters(&record);
  if (absl::Status status = WriteMeasurements(&record); !status.ok()) return status;
  if (failure_.ok()) {
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

namespace {

class VirtualRunner final : public Runner {
 public:
  VirtualRunner(ClusterFile cluster, uint32_t threads)
      : cluster_(std::move(cluster)), threads_(threads) {}

  absl::Status Check(const RunPlan& plan) override;
  absl::StatusOr<proto::RunRecord> Run(const RunPlan& plan, const OnProgress& progress) override;
  void Stop() override { stop_ = true; }

 private:
  // Reads the job's data, unless the last job had the same.
  absl::Status Load(const proto::Job& job);
  // Returns what the script of a job says of its task, once both of its functions have run with its
  // first weights. A script is asked once for all modes and seeds.
  const absl::StatusOr<proto::TaskDescription>& Describe(const proto::Job& job);
  TaskProcess::Options TaskOptions(const proto::Job& job) { return {.job = job, .stop = &stop_}; }
  absl::StatusOr<std::unique_ptr<Problem>> MakeProblem(const proto::Job& job);

  const ClusterFile cluster_;
  const uint32_t threads_;
  std::atomic<bool> stop_ = false;
  std::string loaded_;  // what `data_` is
  std::shared_ptr<const TrainingData> data_;
  std::map<std::string, absl::StatusOr<proto::TaskDescription>> tasks_;  // by program and ranks
};

const absl::StatusOr<proto::TaskDescription>& VirtualRunner::Describe(const proto::Job& job) {
  const std::string program = absl::StrCat(job.program().SerializeAsString(), " ", job.ranks());
  const auto [known, is_new] = tasks_.try_emplace(program);
  if (!is_new) return known->second;
  const auto problem = TaskProblem::Create(TaskOptions(job));
  const absl::Status status = problem.ok() ? (*problem)->Try() : problem.status();
  if (status.ok()) {
    known->second = (*problem)->task();
  } else {
    known->second = status;
  }
  return known->second;
}

// Errors that need a model of the zoo are left to Run.
absl::Status VirtualRunner::Check(const RunPlan& plan) {
  proto::Job job = plan.job;
  if (job.exchange() != proto::Job::PARAMETER_SERVER && job.exchange() != proto::Job::RING) {
    return absl::InvalidArgumentError(
        "exchange: virtual time knows PARAMETER_SERVER and RING only");
  }
  if (job.tensorboard()) {
    return absl::InvalidArgumentError(
        "tensorboard: in virtual time no worker writes events; the report has the curves");
  }
  proto::Layout layout;  // of a model of the zoo any: of a job whose nodes have an element each
  layout.set_elements(uint64_t{1} << 20);
  if (job.has_program()) {
    const absl::StatusOr<proto::TaskDescription>& task = Describe(job);
    if (!task.ok()) return absl::InvalidArgumentError(std::string(task.status().message()));
    if (absl::Status complete = CompleteJob(*task, &job); !complete.ok()) return complete;
    const absl::StatusOr<client::TensorSet> tensors = TensorsOf(*task);
    if (!tensors.ok()) return tensors.status();
    layout = tensors->Layout();
  }
  const absl::Status placed = PlaceJob(job, cluster_.cluster, layout, 1).status();
  if (placed.ok()) return placed;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(placed.message()), " (", cluster_.cluster.name(), ")"));
}

absl::Status VirtualRunner::Load(const proto::Job& job) {
  std::string wanted = job.data().SerializeAsString();
  if (job.data().has_synthetic() || job.data().has_synthetic_imagenet()) {
    absl::StrAppend(&wanted, " seed ", job.seed());
  }
  if (data_ != nullptr && wanted == loaded_) return absl::OkStatus();
  data_ = nullptr;
  absl::StatusOr<std::shared_ptr<const TrainingData>> data = LoadTrainingData(job);
  if (!data.ok()) return data.status();
  data_ = *std::move(data);
  loaded_ = std::move(wanted);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Problem>> VirtualRunner::MakeProblem(const proto::Job& job) {
  // Each run has its own process, so a script's state does not carry over to the next run.
  if (job.has_program()) return TaskProblem::Create(TaskOptions(job));
  if (absl::Status status = Load(job); !status.ok()) return status;
  return ZooProblem::Create(job, data_);
}

absl::StatusOr<proto::RunRecord> VirtualRunner::Run(const RunPlan& plan,
                                                    const OnProgress& progress) {
  absl::StatusOr<std::unique_ptr<Problem>> problem = MakeProblem(plan.job);
  if (!problem.ok()) return problem.status();
  VirtualRunOptions options;
  options.threads = threads_;
  options.stop = &stop_;
  options.on_progress = progress;
  absl::StatusOr<VirtualOutcome> outcome =
      RunInVirtualTime(plan, cluster_, *std::move(problem), options);
  if (!outcome.ok()) return outcome.status();
  return std::move(outcome->record);
}

}  // namespace

std::unique_ptr<Runner> CreateVirtualRunner(ClusterFile cluster, uint32_t threads) {
  return std::make_unique<VirtualRunner>(std::move(cluster), threads);
}

}  // namespace strata::compare
