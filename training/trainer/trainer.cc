#include "training/trainer/trainer.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "training/data/batch_source.h"
#include "training/nn/create_network.h"
#include "training/nn/models/zoo.h"
#include "training/nn/tensor_memory.h"
#include "training/trainer/batch_statistics.h"
#include "training/trainer/evaluator.h"
#include "training/trainer/hash_log.h"
#include "training/trainer/job_precision.h"
#include "training/trainer/model_file.h"
#include "training/trainer/snapshots.h"
#include "training/trainer/step_plan.h"
#include "training/trainer/trainer_state.h"
#include "worker/client/client_devices.h"
#include "worker/client/client_trace.h"
#include "worker/client/straggler.h"

namespace strata::worker {
namespace {

// One rank's training. Errors of the client's are returned as they are, our own by ReportFailure.
class Trainer {
 public:
  Trainer(const TrainerOptions& options, client::Client* client)
      : options_(options),
        job_(options.job),
        client_(*client),
        straggler_(options.job, options.node, client->rank()) {}

  // The client computes in a stream of ours.
  ~Trainer() {
    if (backend_.layers != nullptr) client_.devices().ComputeIn(nullptr).IgnoreError();
  }

  absl::StatusOr<TrainingOutcome> Run() {
    if (auto status = ReportFailure(Prepare()); !status.ok()) return status;
    if (auto status = Join(); !status.ok()) return status;
    if (auto status = ReportFailure(BuildNetworks()); !status.ok()) return status;
    const uint64_t first_step = client_.first_step();
    BatchSource source(
        &data_.train, normalisation_,
        {job_.seed(), client_.rank(), client_.ranks(), plan_.batch, first_step, plan_.total_steps});
    source.Start();
    began_ = window_begin_ = absl::Now();
    computed_before_ = ThreadTime();
    if (auto status = BeginWindows(first_step); !status.ok()) return status;
    for (uint64_t step = first_step; step < plan_.total_steps; ++step) {
      if (auto status = Step(step, &source); !status.ok()) return status;
    }
    if (auto status = client_.Finish(); !status.ok()) return status;
    if (auto status = End(); !status.ok()) return status;
    return outcome_;
  }

 private:
  // Tells the client why this rank fails, unless it does not.
  absl::Status ReportFailure(absl::Status status) {
    if (!status.ok()) client_.Fail(std::string(status.message()));
    return status;
  }

  absl::Status Prepare();
  absl::Status Join();
  absl::Status BuildNetworks();
  absl::Status BeginWindows(uint64_t first_step);
  const Batch& NextBatch(BatchSource* source);
  absl::Status PrefetchImages(uint64_t step, BatchSource* source);
  absl::Status Step(uint64_t step, BatchSource* source);
  absl::Status AtStepsStart(uint64_t step);
  absl::Status CheckLoss(double loss, uint64_t step);
  absl::Status Delay(uint64_t step);
  absl::Status CloseWindow(uint64_t step);
  absl::Status EvaluateInto(client::Report* report);
  absl::Status MeasureSnapshots();
  // See RankReport in proto/control.proto.
  double TrainedSeconds() const {
    return absl::ToDoubleSeconds(absl::Now() - began_ - evaluating_ - evaluating_before_);
  }
  absl::Status Send(client::Report report);
  absl::Status End();
  absl::Status SaveTo(const std::string& path);

  std::vector<absl::Span<float>> WeightSpans() {
    std::vector<absl::Span<float>> spans;
    for (int tensor : tensors_) spans.push_back(client_.Weights(tensor));
    return spans;
  }

  const TrainerOptions& options_;
  const proto::Job& job_;
  client::Client& client_;
  const Straggler straggler_;
  absl::Duration computed_before_;  // of the thread, up to the last delay, and in evaluations

  TrainAndTest data_;
  Normalisation normalisation_;
  ModelSpec model_;
  StepPlan plan_;
  std::vector<int> tensors_;  // the client's index by ListWeights's
  Backend backend_;
  std::unique_ptr<BatchStatistics> statistics_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Evaluator> evaluator_;  // rank 0, with test data
  std::optional<HashLog> hashes_;
  const Batch* prefetched_ = nullptr;  // the next step's, where a device has begun to fetch it

  client::Report window_;  // the steps since the last report
  // A window that waits for the evaluation of the weights after it.
  std::optional<client::Report> held_;
  bool snapshot_due_ = false;  // of the weights that the next step starts from
  Snapshots snapshots_;
  std::optional<TrainerState> state_;
  absl::Time began_, window_begin_;
  absl::Duration evaluating_, evaluating_before_;  // within the window, and before it
  TrainingOutcome outcome_;
};

// Everything that can go wrong before the job is joined.
absl::Status Trainer::Prepare() {
  auto data = LoadData(job_.data(), job_.seed());
  if (!data.ok()) return data.status();
  data_ = *std::move(data);
  normalisation_ = Normalisation::Of(data_.train);
  const Dataset& train = data_.train;
  auto model = MakeModel(job_.model().zoo(), {train.channels, train.height, train.width},
                         train.classes, train.name);
  if (!model.ok()) return model.status();
  model_ = *std::move(model);
  statistics_ = std::make_unique<BatchStatistics>(job_.model().batch_norm(), &model_, &client_);
  state_.emplace(model_, job_.evaluation().deferred(), statistics_.get(), &snapshots_, &client_);
  auto plan = MakeStepPlan(job_, train.size(), client_.ranks());
  if (!plan.ok()) return plan.status();
  plan_ = *plan;
  if (client_.rank() == 0) {
    // Found out now rather than after hours of training.
    if (auto status = CheckWritable(options_.run_dir); !status.ok()) return status;
  }
  if (job_.debug().hash_weights() && options_.local_rank == 0) {
    hashes_.emplace(options_.run_dir, options_.node);
    return hashes_->Open();
  }
  return absl::OkStatus();
}

// Registers the tensors, last layer first, offers their first values and waits for the start.
absl::Status Trainer::Join() {
  const std::vector<TensorSpec> weights = ListWeights(model_);
  tensors_.resize(weights.size());
  for (size_t i = weights.size(); i-- > 0;) {
    auto index = client_.Register({.name = weights[i].name,
                                   .shape = weights[i].shape,
                                   .decay_multiplier = weights[i].decay_multiplier});
    if (!index.ok()) return index.status();
    tensors_[i] = *index;
  }
  if (auto status = statistics_->Register(); !status.ok()) return status;
  client_.devices().Accept();
  if (auto status = client_.Allocate(); !status.ok()) return status;
  statistics_->Initialize();
  for (size_t i = 0; i < weights.size(); ++i) {
    Initialize(weights[i], job_.seed(), i, client_.Weights(tensors_[i]));
  }
  return client_.Start({.samples_per_epoch = plan_.steps_per_epoch * client_.ranks() * plan_.batch,
                        .total_steps = plan_.total_steps,
                        .can_resume = true,
                        .keeps_state = state_->keeps_state()});
}

absl::Status Trainer::BuildNetworks() {
  if (device::Device* const device = client_.devices().device()) {
    auto backend = OpenBackend(device, JobPrecision(job_));
    if (!backend.ok()) return backend.status();
    backend_ = *std::move(backend);
    auto joined = client_.devices().ComputeIn(&backend_.layers->stream());
    if (!joined.ok()) return joined;
  }
  auto network = CreateNetwork(
      model_, {.batch = plan_.batch, .seed = job_.seed(), .rank = client_.rank()}, backend_);
  if (!network.ok()) return network.status();
  network_ = *std::move(network);
  if (auto status = state_->MoveTo(backend_); !status.ok()) return status;
  std::vector<absl::Span<float>> gradients;
  for (int tensor : tensors_) gradients.push_back(client_.Gradients(tensor));
  network_->Bind(WeightSpans(), gradients, statistics_->training());
  if (client_.rank() != 0 || data_.test.size() == 0) return absl::OkStatus();
  auto evaluator = Evaluator::Create(model_, &data_.test, normalisation_, WeightSpans(),
                                     statistics_->inference(), backend_);
  if (!evaluator.ok()) return evaluator.status();
  evaluator_ = *std::move(evaluator);
  return absl::OkStatus();
}

// The evaluation after the last step that a checkpoint has may not have been made.
absl::Status Trainer::BeginWindows(uint64_t first_step) {
  window_.first_step = window_.end_step = first_step;
  if (evaluator_ != nullptr && plan_.EvaluatesBefore(first_step)) {
    snapshot_due_ = job_.evaluation().deferred();
    if (!snapshot_due_) held_ = window_;
  }
  return first_step > 0 ? client_.Send(window_) : absl::OkStatus();  // says where this rank goes on
}

const Batch& Trainer::NextBatch(BatchSource* source) {
  return prefetched_ != nullptr ? *std::exchange(prefetched_, nullptr) : source->Next();
}

// While the device is busy with the step before.
absl::Status Trainer::PrefetchImages(uint64_t step, BatchSource* source) {
  if (network_->stream() == nullptr || step == plan_.total_steps) return absl::OkStatus();
  prefetched_ = &source->Next();
  return network_->Prefetch(prefetched_->images.data());
}

absl::Status Trainer::Step(uint64_t step, BatchSource* source) {
  if (options_.stop != nullptr && options_.stop->HasBeenNotified()) {
    return absl::CancelledError("stopped");
  }
  if (auto status = client_.BeginStep(plan_.batch); !status.ok()) return status;
  if (auto status = AtStepsStart(step); !status.ok()) return status;
  const Batch& batch = NextBatch(source);
  absl::Status said;  // by the client
  auto status = network_->Forward(
      batch.images.data(), step, [&](int weight) { return said = client_.Wait(tensors_[weight]); });
  if (!status.ok()) return said.ok() ? ReportFailure(status) : said;
  const auto sums = network_->Loss(batch.labels);
  if (!sums.ok()) return ReportFailure(sums.status());
  double loss = sums->loss;
  if (job_.debug().has_nan_rank() && job_.debug().nan_rank() == client_.rank() &&
      job_.debug().nan_step() == step) {
    loss *= std::numeric_limits<double>::quiet_NaN();
  }
  if (status = ReportFailure(CheckLoss(loss, step)); !status.ok()) return status;
  if (status = Delay(step); !status.ok()) return status;
  client_.trace().BeginBackward();
  if (status = statistics_->Publish(plan_.batch); !status.ok()) return status;
  status = network_->Backward([&](int weight) { return said = client_.Publish(tensors_[weight]); });
  if (!status.ok()) return said.ok() ? ReportFailure(status) : said;
  if (status = ReportFailure(PrefetchImages(step + 1, source)); !status.ok()) return status;
  if (status = client_.FinishStep(); !status.ok()) return status;
  const bool is_kept = state_->is_due();
  if (status = state_->GiveIfDue(step + 1 == plan_.total_steps); !status.ok()) return status;
  window_.end_step = step + 1;
  window_.samples += plan_.batch;
  window_.loss_sum += loss;
  // A checkpoint is of whole windows: who reads reports then knows all up to it.
  return is_kept || plan_.EndsWindow(step) ? CloseWindow(step) : absl::OkStatus();
}

// What needs all weights of the step: the evaluation that the last window asked for, the hash.
absl::Status Trainer::AtStepsStart(uint64_t step) {
  if (!held_.has_value() && !snapshot_due_ && !hashes_.has_value()) return absl::OkStatus();
  if (auto status = client_.WaitAll(); !status.ok()) return status;
  if (std::exchange(snapshot_due_, false)) {
    auto status = ReportFailure(
        snapshots_.Take(step, TrainedSeconds(), WeightSpans(), statistics_->inference(), backend_));
    if (!status.ok()) return status;
  }
  if (held_.has_value()) {
    client::Report report = *std::exchange(held_, std::nullopt);
    if (auto status = EvaluateInto(&report); !status.ok()) return status;
    if (auto status = Send(report); !status.ok()) return status;
  }
  if (!hashes_.has_value()) return absl::OkStatus();
  auto weights = client_.ReadWeights();
  if (!weights.ok()) return ReportFailure(weights.status());
  return ReportFailure(hashes_->Add(step, *weights));
}

absl::Status Trainer::CheckLoss(double loss, uint64_t step) {
  if (std::isfinite(loss)) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("loss is ", std::isnan(loss) ? "NaN" : "infinite", " at step ", step));
}

// After this step's forward; before it came the last step's backward. Cut short by `stop`.
absl::Status Trainer::Delay(uint64_t step) {
  const absl::Duration computed = ThreadTime() - computed_before_;
  const absl::Duration delay = straggler_.Delay(step, computed);
  computed_before_ += computed;
  if (delay <= absl::ZeroDuration()) return absl::OkStatus();
  const absl::Notification never;
  const absl::Notification& stop = options_.stop != nullptr ? *options_.stop : never;
  return stop.WaitForNotificationWithTimeout(delay) ? absl::CancelledError("stopped")
                                                    : absl::OkStatus();
}

// After `step`: reports the window, or holds it until what it still needs is there.
absl::Status Trainer::CloseWindow(uint64_t step) {
  outcome_.loss = window_.loss_sum / static_cast<double>(window_.samples);
  if (step + 1 == plan_.total_steps) return absl::OkStatus();  // End sends it
  client::Report report = std::exchange(window_, client::Report());
  window_.first_step = window_.end_step = step + 1;
  if (evaluator_ != nullptr && plan_.Evaluates(step)) {
    snapshot_due_ = job_.evaluation().deferred();
    if (snapshot_due_) return Send(report);
    held_ = report;
    return absl::OkStatus();
  }
  return Send(report);
}

absl::Status Trainer::EvaluateInto(client::Report* report) {
  report->trained_s = TrainedSeconds();
  const absl::Time begin = absl::Now();
  const absl::Duration computed = ThreadTime();
  auto score = evaluator_->Measure();
  computed_before_ += ThreadTime() - computed;
  if (!score.ok()) return ReportFailure(score.status());
  report->has_test = true;
  report->test_accuracy = score->accuracy;
  report->test_loss = score->loss;
  evaluating_ += absl::Now() - begin;
  LogInfo("after step %d: test accuracy %.4f, test loss %.4f", report->end_step, score->accuracy,
          score->loss);
  return absl::OkStatus();
}

absl::Status Trainer::MeasureSnapshots() {
  if (snapshots_.empty()) return absl::OkStatus();
  const auto send = [this](const Snapshots::Snapshot& snapshot, const Score& score) {
    client::Report report;
    report.first_step = report.end_step = snapshot.step;
    report.trained_s = snapshot.trained_s;
    report.has_test = true;
    report.test_accuracy = score.accuracy;
    report.test_loss = score.loss;
    LogInfo("after step %d: test accuracy %.4f, test loss %.4f", snapshot.step, score.accuracy,
            score.loss);
    return client_.Send(report);
  };
  const absl::Time begin = absl::Now();
  auto status = snapshots_.Measure(model_, &data_.test, normalisation_, send, backend_);
  evaluating_ += absl::Now() - begin;
  return status;
}

// The window's time is that since the last report, without evaluation.
absl::Status Trainer::Send(client::Report report) {
  const absl::Time now = absl::Now();
  report.wall_s = absl::ToDoubleSeconds(now - window_begin_ - evaluating_);
  if (!report.has_test) report.trained_s = TrainedSeconds();
  window_begin_ = now;
  evaluating_before_ += std::exchange(evaluating_, absl::ZeroDuration());
  outcome_.wall_s += report.wall_s;
  LogDebug("steps %d to %d: loss %.4f in %.3f s", report.first_step, report.end_step,
           report.loss_sum / static_cast<double>(report.samples), report.wall_s);
  return client_.Send(report);
}

absl::Status Trainer::SaveTo(const std::string& path) {
  auto weights = ReadTensors(backend_, WeightSpans());
  if (!weights.ok()) return weights.status();
  auto buffers = ReadTensors(backend_, statistics_->inference());
  if (!buffers.ok()) return buffers.status();
  return SaveModel(path, model_, job_.name(), *weights, *buffers);
}

// With the final weights in the arena. Every rank's last window is the final one.
absl::Status Trainer::End() {
  if (hashes_.has_value()) {
    auto weights = client_.ReadWeights();
    if (!weights.ok()) return ReportFailure(weights.status());
    if (auto status = ReportFailure(hashes_->AddFinal(*weights)); !status.ok()) return status;
  }
  window_.final = true;
  if (evaluator_ != nullptr) {
    if (auto status = EvaluateInto(&window_); !status.ok()) return status;
    outcome_.test_accuracy = window_.test_accuracy;
  }
  if (client_.rank() == 0) {
    const std::string path = absl::StrCat(options_.run_dir, "/model.safetensors");
    if (auto status = ReportFailure(SaveTo(path)); !status.ok()) return status;
    LogInfo("model saved as %s", path);
  }
  if (auto status = MeasureSnapshots(); !status.ok()) return status;
  const uint64_t first_step = client_.first_step();
  outcome_.steps = plan_.total_steps > first_step ? plan_.total_steps - first_step : 0;
  outcome_.samples = outcome_.steps * plan_.batch;
  return Send(window_);
}

}  // namespace

absl::StatusOr<TrainingOutcome> RunTrainer(const TrainerOptions& options, client::Client& client) {
  return Trainer(options, &client).Run();
}

}  // namespace strata::worker
