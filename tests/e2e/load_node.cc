#include "tests/e2e/load_node.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/clock.h"
#include "common/job/arena.h"
#include "common/job/job.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "kernels/kernels.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/node_arenas.h"
#include "worker/aggregator/core/node_budget.h"
#include "worker/aggregator/node_endpoint.h"
#include "worker/exchange/create_exchange.h"

namespace strata::tests {

namespace {

using worker::Exchange;

constexpr absl::Duration kPoll = absl::Seconds(1);

// The rank and the aggregator of one node for one job.
class NodeRun {
 public:
  NodeRun(const LoadProblem& problem, worker::NodeMemory* memory, const ChunkMap& map,
          const proto::LogicalNode& self, const std::atomic<bool>* stopping)
      : problem_(problem),
        node_(self.node()),
        memory_(memory),
        stopping_(stopping),
        core_(RankId(self.first_rank()), 1, map.chunks()),
        arenas_(memory, &core_, map, kernels::Cpu()) {}

  absl::Status Join(const proto::JobRecord& record, uint32_t incarnation) {
    auto endpoint = transport::CreateZmqEndpoint({});
    if (endpoint.ok()) endpoint = worker::Protected(record, "", *std::move(endpoint));
    if (!endpoint.ok()) return endpoint.status();
    auto exchange = worker::CreateExchange(
        {.record = record, .node = NodeId(node_), .incarnation = incarnation}, *std::move(endpoint),
        -1, &arenas_, &clock_);
    if (!exchange.ok()) return exchange.status();
    exchange_ = *std::move(exchange);
    absl::Status status = exchange_->Start();
    if (!status.ok()) return status;
    status = PollUntil([this] { return exchange_->phase() == Exchange::Phase::kTraining; });
    if (status.ok()) arenas_.LandFirstWeights();
    return status;
  }

  absl::Status Step(uint64_t step) {
    problem_.Gradients(node_, step,
                       absl::MakeSpan(memory_->gradients(0), memory_->offsets().elements));
    memory_->rank(0).samples[step % worker::kSampleSlots].store(1);
    memory_->rank(0).complete.store(step + 1);
    const uint64_t ready[] = {step + 1};
    for (uint32_t c = 0; c < core_.chunks(); ++c) {
      absl::StatusOr<bool> complete = core_.OnReady(ChunkId(c), ready);
      if (!complete.ok()) return complete.status();
      if (absl::Status status = exchange_->Submit(ChunkId(c)); !status.ok()) return status;
    }
    return PollUntil([this, step] {
      for (uint32_t c = 0; c < core_.chunks(); ++c) {
        if (memory_->landed(c).load() < step + 2) return false;
      }
      return true;
    });
  }

  absl::Status Finish(uint64_t steps) {
    if (absl::Status left = core_.OnLeave(0, steps); !left.ok()) return left;
    if (absl::Status finished = exchange_->Finish(steps); !finished.ok()) return finished;
    return PollUntil([this] { return exchange_->phase() == Exchange::Phase::kFinished; });
  }

  uint64_t memory_bytes() const { return memory_->touched_bytes() + arenas_.buffer_bytes(); }

 private:
  absl::Status PollUntil(const std::function<bool()>& done) {
    while (!done()) {
      if (stopping_->load()) return absl::CancelledError("told to stop");
      if (absl::Status status = exchange_->Poll(kPoll); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const LoadProblem& problem_;
  const uint32_t node_;
  worker::NodeMemory* const memory_;
  const std::atomic<bool>* const stopping_;
  const RealClock clock_;
  worker::AggregatorCore core_;
  worker::NodeArenas arenas_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace

std::string LoadNode::NameOf(uint32_t number) { return absl::StrFormat("w%03d", number); }

LoadNode::LoadNode(const LoadProblem& problem, const std::string& coordinator,
                   control::Credentials credentials, uint32_t number)
    : problem_(problem), name_(NameOf(number)) {
  control::Session::Options options;
  options.coordinator = coordinator;
  options.credentials = std::move(credentials);
  options.registration.set_role(proto::WORKER);
  options.registration.set_name(name_);
  options.registration.set_address("127.0.0.1");
  options.registration.set_slots(1);
  control::Session::Callbacks callbacks;
  callbacks.on_message = [this](const proto::CoordinatorMessage& message) { OnMessage(message); };
  callbacks.heartbeat = [this] { return Heartbeat(); };
  callbacks.running_jobs = [this] {
    return job_ == 0 || ended() ? std::vector<uint32_t>() : std::vector<uint32_t>{job_};
  };
  callbacks.on_lost = [this](const absl::Status& status) { End(status); };
  session_ = control::Session::Create(std::move(options), std::move(callbacks));
}

LoadNode::~LoadNode() { Stop(); }

void LoadNode::Stop() {
  stopping_ = true;
  session_->Stop();
  if (thread_.joinable()) thread_.join();
}

bool LoadNode::ended() {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

absl::Status LoadNode::result() {
  absl::MutexLock lock(&mutex_);
  return result_;
}

void LoadNode::OnMessage(const proto::CoordinatorMessage& message) {
  if (message.has_start_node() && job_ == 0) {
    const absl::Status prepared = Prepare(message.start_node());
    if (!prepared.ok()) return End(prepared);
    proto::DaemonMessage ready;
    *ready.mutable_node_ready() = problem_.Ready(job_);
    session_->Send(std::move(ready));
  } else if (message.has_run_node() && !thread_.joinable() && memory_ != nullptr) {
    thread_ = std::thread([this, run = message.run_node()] { End(Train(run)); });
  } else if (message.has_stop_node()) {
    stopping_ = true;
    if (!thread_.joinable()) End(absl::CancelledError(message.stop_node().reason()));
  }
}

absl::Status LoadNode::Prepare(const proto::StartNode& start) {
  job_ = start.record().job_id();
  node_ = start.node();
  incarnation_ = start.incarnation();
  auto memory = worker::NodeMemory::Create(problem_.elements, 1);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  problem_.FirstWeights(absl::MakeSpan(memory_->weights(), problem_.elements));
  return absl::OkStatus();
}

absl::Status LoadNode::Train(const proto::RunNode& run) {
  const proto::JobRecord& record = run.record();
  memory_limit_bytes_ =
      worker::NodeMemoryNeed(record.job(), static_cast<uint32_t>(record.view().nodes_size()),
                             problem_.elements, 1, record.placement())
          .total();
  const ChunkMap map(problem_.elements, record.placement().chunk_elements());
  NodeRun node(problem_, memory_.get(), map, record.view().nodes(static_cast<int>(node_)),
               &stopping_);
  absl::Status status = node.Join(record, incarnation_);
  const uint64_t every = record.job().metrics().every_steps();
  uint64_t reported = 0;
  absl::Time reported_at = absl::Now();
  for (uint64_t step = 0; status.ok() && step < problem_.steps; ++step) {
    status = node.Step(step);
    if ((step + 1) % every != 0 && step + 1 != problem_.steps) continue;
    memory_bytes_ = node.memory_bytes();
    Report(record.job_id(), std::exchange(reported, step + 1), step + 1,
           absl::ToDoubleSeconds(absl::Now() - std::exchange(reported_at, absl::Now())));
  }
  if (status.ok()) status = node.Finish(problem_.steps);
  return status;
}

absl::Span<const float> LoadNode::weights() const {
  return absl::MakeConstSpan(memory_->weights(), problem_.elements);
}

void LoadNode::Report(uint32_t job, uint64_t begin, uint64_t end, double wall_s) {
  proto::DaemonMessage message;
  proto::RankReport* report = message.mutable_rank_report();
  report->set_job_id(job);
  report->set_rank(node_);
  report->set_first_step(begin);
  report->set_end_step(end);
  report->set_samples(end - begin);
  report->set_wall_s(wall_s);
  session_->Send(std::move(message));
}

void LoadNode::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    ended_ = true;
    result_ = status;
  }
  proto::DaemonMessage message;
  if (status.ok()) {
    message.mutable_node_finished()->set_job_id(job_);
  } else {
    message.mutable_node_failed()->set_job_id(job_);
    message.mutable_node_failed()->set_reason(absl::StrFormat("%s: %s", name_, status.message()));
  }
  session_->Send(std::move(message));
}

proto::Heartbeat LoadNode::Heartbeat() {
  proto::Heartbeat heartbeat;
  if (memory_bytes_ == 0) return heartbeat;
  proto::NodeActivity* activity = heartbeat.add_nodes();
  activity->set_job_id(job_);
  activity->set_node(node_);
  activity->set_phase("training");
  activity->set_memory_bytes(memory_bytes_);
  activity->set_memory_limit_bytes(memory_limit_bytes_);
  return heartbeat;
}

namespace {

constexpr double kRate = 0.5;

double GradientAt(uint32_t node, uint64_t step, size_t element) {
  return static_cast<double>((node * 7 + step * 5 + element * 3) % 16) - 8;
}

double FirstWeightAt(size_t element) { return static_cast<double>(element % 64) / 64; }

bool IsPowerOfTwo(uint32_t number) { return (number & (number - 1)) == 0; }

}  // namespace

proto::Job LoadProblem::Job() const {
  proto::Job job;
  job.set_name("load");
  job.mutable_program()->set_path("load");  // which no daemon starts
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_schedule()->set_base_lr(kRate);
  job.mutable_consistency()->mutable_sync();
  job.set_ranks(nodes);
  job.set_ranks_per_node(1);
  job.set_epochs(1);
  job.set_chunk_elements(chunk_elements);
  job.mutable_metrics()->set_every_steps(10);
  FillDefaults(&job);
  return job;
}

proto::NodeReady LoadProblem::Ready(uint32_t job_id) const {
  proto::NodeReady ready;
  ready.set_job_id(job_id);
  ready.set_samples_per_epoch(nodes * steps);
  ready.set_total_steps(steps);
  ready.set_run_dir("/nowhere");
  ready.mutable_layout()->set_elements(elements);
  proto::Segment* segment = ready.mutable_layout()->add_segments();
  segment->set_name("w");
  segment->add_shape(elements);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  return ready;
}

void LoadProblem::FirstWeights(absl::Span<float> weights) const {
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(FirstWeightAt(i));
}

void LoadProblem::Gradients(uint32_t node, uint64_t step, absl::Span<float> gradients) const {
  for (size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = static_cast<float>(GradientAt(node, step, i));
  }
}

std::string LoadProblem::Check(absl::Span<const float> weights) const {
  if (weights.size() != elements) return "another number of weights";
  const double tolerance = IsPowerOfTwo(nodes) ? 0 : 1e-4;
  for (size_t i = 0; i < weights.size(); ++i) {
    double expected = FirstWeightAt(i);
    for (uint64_t step = 0; step < steps; ++step) {
      double sum = 0;
      for (uint32_t node = 0; node < nodes; ++node) sum += GradientAt(node, step, i);
      expected -= kRate * sum / nodes;
    }
    if (std::abs(weights[i] - expected) <= tolerance) continue;
    return absl::StrFormat("weight %d is %.9g, not %.9g", i, weights[i], expected);
  }
  return "";
}

}  // namespace strata::tests
