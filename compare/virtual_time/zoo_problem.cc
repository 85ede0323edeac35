#include "compare/virtual_time/zoo_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/diverged.h"
#include "common/require.h"
#include "training/data/batch_source.h"
#include "training/nn/create_network.h"
#include "training/nn/network/zoo.h"
#include "training/trainer/batch_statistics.h"
#include "training/trainer/evaluator.h"

namespace strata::compare {
namespace {

using training::TensorSpec;

// A rank of a model of the zoo.
class ZooRank final : public RankCompute {
 public:
  // `problem` and `weights`, the node's arena, outlive it.
  ZooRank(ZooProblem* problem, uint32_t rank, float* weights);

  void Begin(uint64_t step, ComputePool* pool) override;
  absl::StatusOr<StepResult> Finish(ComputePool* pool) override;
  const float* gradients() const override { return gradients_.data(); }
  // Buffers of batch normalisation, from the rank's own batches.
  const std::vector<std::vector<float>>& buffers() const { return buffers_; }

 private:
  absl::Status Compute(ComputePool::Worker* worker);

  ZooProblem* const problem_;
  const uint32_t rank_;
  std::vector<float> gradients_;
  std::vector<std::vector<float>> buffers_;
  std::vector<absl::Span<float>> weight_spans_, gradient_spans_, buffer_spans_, statistics_spans_;
  ComputePool::Ticket ticket_;
  // State of the current step.
  uint64_t step_ = 0;
  ZooProblem::Order order_;
  absl::Status status_;
  double loss_ = 0;
};

// Measures copies on the pool.
class ZooMeasuring final : public Measuring {
 public:
  // The weights come first in `tensors`, then the buffers.
  ZooMeasuring(const ZooProblem* problem, std::vector<std::vector<float>> tensors, size_t weights,
               ComputePool* pool)
      : problem_(problem), tensors_(std::move(tensors)), weights_(weights) {
    ticket_ = pool->Add([this](ComputePool::Worker*) { score_ = Compute(); });
  }

  absl::Status Finish(ComputePool* pool, proto::Measurement* measurement) override {
    pool->Wait(ticket_);
    if (!score_.ok()) return score_.status();
    measurement->set_accuracy(score_->accuracy);
    measurement->set_loss(score_->loss);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<training::Score> Compute() {
    std::vector<absl::Span<float>> spans;
    for (std::vector<float>& tensor : tensors_) spans.push_back(absl::MakeSpan(tensor));
    const std::vector<absl::Span<float>> buffers(spans.begin() + weights_, spans.end());
    spans.resize(weights_);
    const TrainingData& data = problem_->data();
    auto evaluator = training::Evaluator::Create(problem_->model(), &data.sets.test,
                                                 data.normalisation, spans, buffers);
    if (!evaluator.ok()) return evaluator.status();
    absl::StatusOr<training::Score> score = (*evaluator)->Measure();
    tensors_.clear();
    return score;
  }

  const ZooProblem* const problem_;
  std::vector<std::vector<float>> tensors_;
  const size_t weights_;
  ComputePool::Ticket ticket_;
  absl::StatusOr<training::Score> score_ = training::Score();
};

}  // namespace

absl::StatusOr<std::shared_ptr<const TrainingData>> LoadTrainingData(const proto::Job& job) {
  absl::StatusOr<training::TrainAndTest> sets = training::LoadData(job.data(), job.seed());
  if (!sets.ok()) return sets.status();
  auto data = std::make_shared<TrainingData>();
  data->sets = *std::move(sets);
  data->normalisation = training::Normalisation::Of(data->sets.train);
  return data;
}

absl::StatusOr<std::unique_ptr<ZooProblem>> ZooProblem::Create(
    const proto::Job& job, std::shared_ptr<const TrainingData> data) {
  std::unique_ptr<ZooProblem> problem(new ZooProblem(job, std::move(data)));
  if (absl::Status status = problem->Build(); !status.ok()) return status;
  return problem;
}

absl::Status ZooProblem::Build() {
  const training::Dataset& train = data_->sets.train;
  auto model = training::MakeModel(job_.model().zoo(), {train.channels, train.height, train.width},
                                   train.classes, train.name);
  if (!model.ok()) return model.status();
  model_ = *std::move(model);
  auto plan = training::MakeStepPlan(job_, train.size(), job_.ranks());
  if (!plan.ok()) return plan.status();
  plan_ = *plan;
  auto stages = MakeStages(model_);
  if (!stages.ok()) return stages.status();
  stages_ = *std::move(stages);
  const bool exchanged = job_.model().batch_norm() == proto::Model::LAST_BATCH;
  if (exchanged) training::ForgetEarlierBatches(&model_);
  // Last layer first, in the order in which backward finishes them.
  const std::vector<TensorSpec> weights = training::ListWeights(model_);
  for (size_t i = weights.size(); i-- > 0;) {
    client::Tensor tensor;
    tensor.name = weights[i].name;
    tensor.shape = weights[i].shape;
    tensor.decay_multiplier = weights[i].decay_multiplier;
    if (auto added = tensors_.Add(std::move(tensor)); !added.ok()) return added.status();
  }
  weights_ = tensors_.size();
  if (!exchanged) return absl::OkStatus();
  for (const TensorSpec& buffer : training::ListBuffers(model_)) {
    auto added = tensors_.Add(training::StatisticsTensor(buffer));
    if (!added.ok()) return added.status();
  }
  return absl::OkStatus();
}

std::vector<absl::Span<float>> ZooProblem::WeightSpans(float* arena) const {
  std::vector<absl::Span<float>> spans;
  for (int weight = 0; weight < weights_; ++weight) {
    const client::TensorSet::Entry& entry = tensors_[TensorIndex(weight)];
    spans.push_back(absl::MakeSpan(arena + entry.offset, entry.count));
  }
  return spans;
}

std::vector<absl::Span<float>> ZooProblem::StatisticsSpans(float* arena) const {
  std::vector<absl::Span<float>> spans;
  for (int tensor = first_statistics(); tensor < tensors_.size(); ++tensor) {
    const client::TensorSet::Entry& entry = tensors_[tensor];
    spans.push_back(absl::MakeSpan(arena + entry.offset, entry.count));
  }
  return spans;
}

void ZooProblem::FirstWeights(float* arena) const {
  const std::vector<TensorSpec> weights = training::ListWeights(model_);
  const std::vector<absl::Span<float>> spans = WeightSpans(arena);
  for (size_t i = 0; i < weights.size(); ++i) {
    training::Initialize(weights[i], job_.seed(), i, spans[i]);
  }
  const std::vector<std::vector<float>> buffers = FirstBuffers();
  const std::vector<absl::Span<float>> statistics = StatisticsSpans(arena);
  for (size_t i = 0; i < statistics.size(); ++i) {
    std::copy(buffers[i].begin(), buffers[i].end(), statistics[i].begin());
  }
}

std::vector<std::vector<float>> ZooProblem::FirstBuffers() const {
  std::vector<std::vector<float>> buffers;
  for (const TensorSpec& buffer : training::ListBuffers(model_)) {
    buffers.emplace_back(buffer.Elements(), buffer.constant);
  }
  return buffers;
}

ZooProblem::Order ZooProblem::SampleOrder(uint64_t step) {
  const uint64_t epoch = step / plan_.steps_per_epoch;
  std::weak_ptr<const std::vector<uint32_t>>& known = orders_[epoch];
  Order order = known.lock();
  if (order == nullptr) {
    order = std::make_shared<const std::vector<uint32_t>>(
        training::EpochOrder(data_->sets.train.size(), job_.seed(), epoch));
    known = order;
    newest_ = order;
  }
  return order;
}

std::unique_ptr<RankCompute> ZooProblem::MakeRank(uint32_t rank, float* arena) {
  return std::make_unique<ZooRank>(this, rank, arena);
}

absl::StatusOr<std::unique_ptr<Measuring>> ZooProblem::Measure(float* arena, uint64_t /*step*/,
                                                               const RankCompute& rank_0,
                                                               ComputePool* pool) {
  std::unique_ptr<Measuring> measuring;
  if (data_->sets.test.size() == 0) return measuring;
  std::vector<std::vector<float>> tensors;
  for (const absl::Span<float> span : WeightSpans(arena)) {
    tensors.emplace_back(span.begin(), span.end());
  }
  const size_t weights = tensors.size();
  for (const absl::Span<float> statistics : StatisticsSpans(arena)) {
    tensors.emplace_back(statistics.begin(), statistics.end());
  }
  if (tensors.size() == weights) {  // those of rank 0's batches, if any
    const auto& own = static_cast<const ZooRank&>(rank_0).buffers();
    tensors.insert(tensors.end(), own.begin(), own.end());
  }
  measuring = std::make_unique<ZooMeasuring>(this, std::move(tensors), weights, pool);
  return measuring;
}

namespace {

ZooRank::ZooRank(ZooProblem* problem, uint32_t rank, float* weights)
    : problem_(problem),
      rank_(rank),
      gradients_(problem->tensors().elements()),
      buffers_(problem->FirstBuffers()),
      weight_spans_(problem->WeightSpans(weights)),
      gradient_spans_(problem->WeightSpans(gradients_.data())),
      statistics_spans_(problem->StatisticsSpans(gradients_.data())) {
  for (std::vector<float>& buffer : buffers_) buffer_spans_.push_back(absl::MakeSpan(buffer));
}

void ZooRank::Begin(uint64_t step, ComputePool* pool) {
  step_ = step;
  order_ = problem_->SampleOrder(step);
  ticket_ = pool->Add([this](ComputePool::Worker* worker) { status_ = Compute(worker); });
}

absl::Status ZooRank::Compute(ComputePool::Worker* worker) {
  const training::StepPlan& plan = problem_->plan();
  const TrainingData& data = problem_->data();
  const uint64_t seed = problem_->job().seed();
  if (worker->network == nullptr) {
    auto network = training::CreateNetwork(problem_->model(), {.batch = plan.batch, .seed = seed});
    if (!network.ok()) return network.status();
    worker->network = *std::move(network);
    worker->images.resize(plan.batch * data.sets.train.PixelsPerImage());
    worker->labels.resize(plan.batch);
  }
  training::Network& network = *worker->network;
  network.Bind(weight_spans_, gradient_spans_, buffer_spans_);
  network.SetRank(rank_);
  const auto samples = training::RankSlice(*order_, step_ % plan.steps_per_epoch, rank_,
                                           problem_->job().ranks(), plan.batch);
  training::FillBatch(data.sets.train, data.normalisation, samples, worker->images.data(),
                      worker->labels.data());
  const auto nothing = [](int) { return absl::OkStatus(); };
  if (auto status = network.Forward(worker->images.data(), step_, nothing); !status.ok()) {
    return status;
  }
  const auto sums = network.Loss(worker->labels);
  if (!sums.ok()) return sums.status();
  loss_ = sums->loss;
  for (size_t i = 0; i < statistics_spans_.size(); ++i) {
    training::SumStatistics(buffers_[i], static_cast<uint32_t>(plan.batch), statistics_spans_[i]);
  }
  return network.Backward(nothing);
}

absl::StatusOr<StepResult> ZooRank::Finish(ComputePool* pool) {
  STRATA_REQUIRE(order_ != nullptr);
  pool->Wait(ticket_);
  order_ = nullptr;
  if (!status_.ok()) return status_;
  const proto::Debug& debug = problem_->job().debug();
  if (debug.has_nan_rank() && debug.nan_rank() == rank_ && debug.nan_step() == step_) {
    loss_ *= std::numeric_limits<double>::quiet_NaN();
  }
  if (std::isfinite(loss_)) return StepResult{loss_, problem_->plan().batch};
  return DivergedError(absl::StrCat("rank ", rank_, ": loss is ",
                                    std::isnan(loss_) ? "NaN" : "infinite", " at step ", step_));
}

}  // namespace
}  // namespace strata::compare
