#include "training/trainer/rank_trainer.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/log.h"
#include "training/data/batch_source.h"
#include "training/nn/models/zoo.h"
#include "training/nn/tensor_memory.h"
#include "training/trainer/job_precision.h"
#include "training/trainer/model_file.h"
#include "worker/client/client_trace.h"

namespace strata::worker {

absl::StatusOr<TrainingOutcome> RankTrainer::Run() {
  if (auto status = ReportFailure(Prepare()); !status.ok()) return status;
  if (auto status = Join(); !status.ok()) return status;
  if (auto status = LearnRanks(client_.first_step()); !status.ok()) return status;
  if (auto status = ReportFailure(BuildNetworks()); !status.ok()) return status;
  BatchSource source(&data_.train, normalisation_,
                     {job_.seed(), plan_.batch(), plan_.batches_per_epoch()});
  StepBatches batches(&source, plan_, &client_.views());
  source.Start();
  began_ = window_begin_ = absl::Now();
  computed_before_ = ThreadTime();
  if (auto status = BeginWindows(client_.first_step()); !status.ok()) return status;
  if (auto status = MakeSteps(&batches); !status.ok()) return status;
  if (auto status = client_.Finish(); !status.ok()) return status;
  // The one that was to do what is left for all may have died with the last steps.
  if (by_.makes_it && DropsLost(job_)) {
    if (auto status = LearnRanks(client_.first_step() + outcome_.steps); !status.ok())
      return status;
    if (auto status = ReportFailure(PrepareToEvaluate()); !status.ok()) return status;
  }
  if (auto status = by_.makes_it ? End() : Leave(); !status.ok()) return status;
  return outcome_;
}

// Everything that can go wrong before the job is joined.
absl::Status RankTrainer::Prepare() {
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
  auto plan = ViewPlan::Make(job_, train.size(), client_.ranks());
  if (!plan.ok()) return plan.status();
  plan_ = *plan;
  if (client_.rank() == 0 || IsElastic(job_)) {
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
absl::Status RankTrainer::Join() {
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
  return client_.Start({.samples_per_epoch = plan_.samples_per_epoch(),
                        .total_steps = plan_.total_steps(),
                        .can_resume = true,
                        .keeps_state = state_->keeps_state()});
}

absl::Status RankTrainer::LearnRanks(uint64_t step) {
  const auto by = client_.views().At(step);
  if (by.ok()) by_ = *by;
  return by.status();
}

absl::Status RankTrainer::BuildNetworks() {
  if (device::Device* const device = client_.devices().device()) {
    auto backend = OpenBackend(device, JobPrecision(job_));
    if (!backend.ok()) return backend.status();
    backend_ = *std::move(backend);
    auto joined = client_.devices().ComputeIn(&backend_.layers->stream());
    if (!joined.ok()) return joined;
  }
  auto network = CreateNetwork(
      model_, {.batch = plan_.batch(), .seed = job_.seed(), .rank = client_.rank()}, backend_);
  if (!network.ok()) return network.status();
  network_ = *std::move(network);
  if (auto status = state_->MoveTo(backend_); !status.ok()) return status;
  std::vector<absl::Span<float>> gradients;
  for (int tensor : tensors_) gradients.push_back(client_.Gradients(tensor));
  network_->Bind(WeightSpans(), gradients, statistics_->training());
  return PrepareToEvaluate();
}

// Up to the end of the job, or of this rank's part in it. Who would make the step that the job ends
// before finishes it.
absl::Status RankTrainer::MakeSteps(StepBatches* batches) {
  uint64_t step = client_.first_step();
  while (by_.makes_it && !plan_.IsOver(step, by_)) {
    if (auto status = Step(step, batches); !status.ok()) return status;
    ++outcome_.steps;
    if (auto status = LearnRanks(++step); !status.ok()) return status;
    if (auto status = ReportFailure(PrepareToEvaluate()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// While the device is busy with the step.
absl::Status RankTrainer::PrefetchImages(uint64_t step, StepBatches* batches) {
  if (network_->stream() == nullptr) return absl::OkStatus();
  const auto next = batches->TakeAhead(step, by_);
  if (!next.ok() || *next == nullptr) return next.status();
  return ReportFailure(network_->Prefetch((*next)->images.data()));
}

absl::Status RankTrainer::Step(uint64_t step, StepBatches* batches) {
  if (options_.stop != nullptr && options_.stop->HasBeenNotified()) {
    return absl::CancelledError("stopped");
  }
  if (auto status = client_.BeginStep(plan_.batch()); !status.ok()) return status;
  if (auto status = AtStepsStart(step); !status.ok()) return status;
  const auto batch = batches->Take(step, by_);
  if (!batch.ok()) return batch.status();
  absl::Status said;  // by the client
  auto status = network_->Forward((*batch)->images.data(), step, [&](int weight) {
    return said = client_.Wait(tensors_[weight]);
  });
  if (!status.ok()) return said.ok() ? ReportFailure(status) : said;
  const auto sums = network_->Loss((*batch)->labels);
  if (!sums.ok()) return ReportFailure(sums.status());
  double loss = sums->loss;
  if (job_.debug().has_nan_rank() && job_.debug().nan_rank() == client_.rank() &&
      job_.debug().nan_step() == step) {
    loss *= std::numeric_limits<double>::quiet_NaN();
  }
  if (status = ReportFailure(CheckLoss(loss, step)); !status.ok()) return status;
  if (status = Delay(step); !status.ok()) return status;
  client_.trace().BeginBackward();
  if (status = statistics_->Publish(plan_.batch()); !status.ok()) return status;
  status = network_->Backward([&](int weight) { return said = client_.Publish(tensors_[weight]); });
  if (!status.ok()) return said.ok() ? ReportFailure(status) : said;
  if (status = PrefetchImages(step, batches); !status.ok()) return status;
  if (status = client_.FinishStep(); !status.ok()) return status;
  const bool is_kept = state_->is_due();
  if (status = state_->GiveIfDue(plan_.IsLast(step, by_)); !status.ok()) return status;
  window_.end_step = step + 1;
  window_.samples += plan_.batch();
  window_.loss_sum += loss;
  // A checkpoint is of whole windows: who reads reports then knows all up to it.
  return is_kept || plan_.EndsWindow(step, by_) ? CloseWindow(step) : absl::OkStatus();
}

// What needs all weights of the step: the measurement that the last window asked for, the hash.
absl::Status RankTrainer::AtStepsStart(uint64_t step) {
  const bool is_due = std::exchange(measurement_due_, false) && measures();
  if (is_due || hashes_.has_value()) {
    if (auto status = client_.WaitAll(); !status.ok()) return status;
  }
  if (is_due) {
    if (auto status = MeasureWeights(step); !status.ok()) return status;
  }
  if (auto status = SendHeld(); !status.ok()) return status;
  if (!hashes_.has_value()) return absl::OkStatus();
  auto weights = client_.ReadWeights();
  if (!weights.ok()) return ReportFailure(weights.status());
  return ReportFailure(hashes_->Add(step, *weights));
}

absl::Status RankTrainer::CheckLoss(double loss, uint64_t step) {
  if (std::isfinite(loss)) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("loss is ", std::isnan(loss) ? "NaN" : "infinite", " at step ", step));
}

// After this step's forward; before it came the last step's backward. Cut short by `stop`.
absl::Status RankTrainer::Delay(uint64_t step) {
  const absl::Duration computed = ThreadTime() - computed_before_;
  const absl::Duration delay = straggler_.Delay(step, computed);
  computed_before_ += computed;
  if (delay <= absl::ZeroDuration()) return absl::OkStatus();
  const absl::Notification never;
  const absl::Notification& stop = options_.stop != nullptr ? *options_.stop : never;
  return stop.WaitForNotificationWithTimeout(delay) ? absl::CancelledError("stopped")
                                                    : absl::OkStatus();
}

absl::Status RankTrainer::SaveTo(const std::string& path) {
  auto weights = ReadTensors(backend_, WeightSpans());
  if (!weights.ok()) return weights.status();
  auto buffers = ReadTensors(backend_, statistics_->inference());
  if (!buffers.ok()) return buffers.status();
  return SaveModel(path, model_, job_.name(), *weights, *buffers);
}

// With the final weights in the arena. Every rank's last window is the final one.
absl::Status RankTrainer::End() {
  if (hashes_.has_value()) {
    auto weights = client_.ReadWeights();
    if (!weights.ok()) return ReportFailure(weights.status());
    if (auto status = ReportFailure(hashes_->AddFinal(*weights)); !status.ok()) return status;
  }
  window_.final = true;
  if (measures()) {
    if (auto status = EvaluateInto(&window_); !status.ok()) return status;
    outcome_.test_accuracy = window_.test_accuracy;
  }
  if (leads()) {
    const std::string path = absl::StrCat(options_.run_dir, "/model.safetensors");
    if (auto status = ReportFailure(SaveTo(path)); !status.ok()) return status;
    LogInfo("model saved as %s", path);
  }
  if (auto status = MeasureSnapshots(); !status.ok()) return status;
  return Send(window_);
}

// Without the final weights, which the job has yet to come to.
absl::Status RankTrainer::Leave() {
  LogInfo("leaves the job before step %d, as planned", window_.end_step);
  if (auto status = SendHeld(); !status.ok()) return status;
  return window_.end_step > window_.first_step ? Send(window_) : absl::OkStatus();
}

}  // namespace strata::worker
