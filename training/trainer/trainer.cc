#include "training/trainer/trainer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/diverged.h"
#include "common/image/safetensors.h"
#include "common/job/job.h"
#include "common/log.h"
#include "common/os/atomic_file.h"
#include "common/unique_fd.h"
#include "kernels/device/layers.h"
#include "proto/job.pb.h"
#include "training/data/batch_source.h"
#include "training/data/dataset.h"
#include "training/nn/create_network.h"
#include "training/nn/network/model.h"
#include "training/nn/network/zoo.h"
#include "training/trainer/batch_statistics.h"
#include "training/trainer/evaluator.h"
#include "training/trainer/step_batches.h"
#include "training/trainer/step_plan.h"
#include "training/trainer/trainer_state.h"
#include "worker/client/client.h"
#include "worker/client/client_parts.h"
#include "worker/client/straggler.h"

namespace strata::training {
namespace {

// Returns the format that the job wants its layers computed in.
device::Precision JobPrecision(const proto::Job& job) {
  switch (job.model().precision()) {
    case proto::Model::TF32:
      return device::Precision::kTensorFloat32;
    case proto::Model::BF16:
      return device::Precision::kBFloat16;
    default:
      return device::Precision::kFloat32;
  }
}

// A file of lines "STEP HASH", the XXH3 hash of all weights (16 hexadecimal digits) before each
// step, and "final HASH": two runs that agree in it went through the same weights bit for bit.
class HashLog {
 public:
  // The file RUN_DIR/weights.node-N.hashes, which Open truncates.
  HashLog(const std::string& run_dir, uint32_t node);

  // Errors, also of the others, name the path.
  absl::Status Open();

  absl::Status Add(uint64_t step, absl::Span<const float> weights);
  absl::Status AddFinal(absl::Span<const float> weights);

 private:
  absl::Status Write(const std::string& what, absl::Span<const float> weights);

  const std::string path_;
  std::ofstream file_;
};

HashLog::HashLog(const std::string& run_dir, uint32_t node)
    : path_(absl::StrCat(run_dir, "/weights.node-", node, ".hashes")) {}

absl::Status HashLog::Open() {
  errno = 0;
  file_.open(path_, std::ios::trunc);
  return file_ ? absl::OkStatus() : FileError(errno, path_);
}

absl::Status HashLog::Add(uint64_t step, absl::Span<const float> weights) {
  return Write(absl::StrCat(step), weights);
}

absl::Status HashLog::AddFinal(absl::Span<const float> weights) { return Write("final", weights); }

absl::Status HashLog::Write(const std::string& what, absl::Span<const float> weights) {
  const XXH64_hash_t hash = XXH3_64bits(weights.data(), weights.size() * sizeof(float));
  errno = 0;
  file_ << absl::StrFormat("%s %016x\n", what, hash) << std::flush;
  return file_ ? absl::OkStatus() : FileError(errno, path_);
}

// One rank's training. Errors of the client's are returned as they are, our own by ReportFailure.
//
// Threads: the client's.
class RankTrainer {
 public:
  RankTrainer(const TrainerOptions& options, client::Client* client)
      : options_(options),
        job_(options.job),
        client_(*client),
        straggler_(options.job, options.node, client->rank()) {}

  // The client computes in a stream of ours.
  ~RankTrainer() {
    if (backend_.layers != nullptr) client_.devices().ComputeIn(nullptr).IgnoreError();
  }

  // See RunTrainer. Called once.
  absl::StatusOr<TrainingOutcome> Run();

 private:
  // Tells the client why this rank fails, unless it does not.
  absl::Status ReportFailure(absl::Status status) {
    if (!status.ok()) client_.Fail(status);
    return status;
  }

  absl::Status Prepare();
  absl::Status Join();
  absl::Status LearnRanks(uint64_t step);
  absl::Status BuildNetworks();
  absl::Status PrepareToEvaluate();
  absl::Status BeginWindows(uint64_t first_step);
  absl::Status MakeSteps(StepBatches* batches);
  absl::Status PrefetchImages(uint64_t step, StepBatches* batches);
  absl::Status Step(uint64_t step, StepBatches* batches);
  absl::Status AtStepsStart(uint64_t step);
  absl::Status MeasureWeights(uint64_t step);
  absl::Status SendHeld();
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
  absl::Status Leave();
  absl::Status SaveTo(const std::string& path);

  // True if this rank acts for all ranks in the current step.
  bool leads() const { return by_.makes_it && by_.rank == 0; }
  bool measures() const { return leads() && data_.test.size() > 0; }

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
  ViewPlan plan_;
  client::StepRanks by_;      // who makes the step in hand
  std::vector<int> tensors_;  // the client's index by ListWeights's
  Backend backend_;
  std::unique_ptr<BatchStatistics> statistics_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Evaluator> evaluator_;  // of a rank that measures
  std::optional<HashLog> hashes_;

  client::Report window_;  // the steps since the last report
  // A window that waits for the evaluation of the weights after it.
  std::optional<client::Report> held_;
  bool measurement_due_ = false;  // of the weights that the next step starts from
  Snapshots snapshots_;
  std::optional<TrainerState> state_;
  absl::Time began_, window_begin_;
  absl::Duration evaluating_, evaluating_before_;  // within the window, and before it
  TrainingOutcome outcome_;
};

// Writes a model as safetensors: each layer's weights and buffers in the order of the forward pass,
// fp32, named as in ListWeights and ListBuffers; metadata: model, job, format.
// Errors name the path.
absl::Status SaveModel(const std::string& path, const ModelSpec& model, const std::string& job,
                       const Tensors& weights, const Tensors& buffers) {
  auto shapes = FollowShapes(model);
  if (!shapes.ok()) return shapes.status();
  std::vector<TensorToSave> tensors;
  size_t weight = 0, buffer = 0;
  for (const LayerShape& layer : *shapes) {
    for (const TensorSpec& tensor : layer.weights) {
      tensors.push_back({tensor.name, tensor.shape, weights[weight++]});
    }
    for (const TensorSpec& tensor : layer.buffers) {
      tensors.push_back({tensor.name, tensor.shape, buffers[buffer++]});
    }
  }
  return WriteSafetensors(path, {{"format", "pt"}, {"job", job}, {"model", model.name}}, tensors);
}

// Checks, by making one, that files can be made in the folder. Errors name the folder.
absl::Status CheckWritable(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/.writable.", getpid());
  unlink(path.c_str());  // of a process that has died, or a link that leads elsewhere
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    const int error = errno;
    return absl::Status(FileError(error, dir).code(),
                        absl::StrCat("cannot write to run directory ", dir, ": ", strerror(error)));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

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

// Does what needs all weights of the step: the measurement that the last window asked for, the
// hash.
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
  return DivergedError(
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

// Measuring, and reports of windows of steps.

// Prepares this rank if it measures.
absl::Status RankTrainer::PrepareToEvaluate() {
  if (!measures() || evaluator_ != nullptr) return absl::OkStatus();
  auto evaluator = Evaluator::Create(model_, &data_.test, normalisation_, WeightSpans(),
                                     statistics_->inference(), backend_);
  if (!evaluator.ok()) return evaluator.status();
  evaluator_ = *std::move(evaluator);
  return absl::OkStatus();
}

// The evaluation after the last step before may not have been made: of a checkpoint, or by a rank
// that has left.
absl::Status RankTrainer::BeginWindows(uint64_t first_step) {
  window_.first_step = window_.end_step = first_step;
  if (first_step == 0) return absl::OkStatus();
  const auto before = client_.views().At(first_step - 1);
  if (!before.ok()) return before.status();
  measurement_due_ = plan_.Evaluates(first_step - 1, *before);
  return client_.Send(window_);  // says where this rank resumes
}

// Into the window that waits for it, if there is one.
absl::Status RankTrainer::MeasureWeights(uint64_t step) {
  if (job_.evaluation().deferred()) {
    return ReportFailure(
        snapshots_.Take(step, TrainedSeconds(), WeightSpans(), statistics_->inference(), backend_));
  }
  if (!held_.has_value()) held_ = window_;
  return EvaluateInto(&*held_);
}

// Without a measurement where another rank has to make it by now.
absl::Status RankTrainer::SendHeld() {
  return held_.has_value() ? Send(*std::exchange(held_, std::nullopt)) : absl::OkStatus();
}

// After `step`: reports the window, or holds it until what it still needs is there.
absl::Status RankTrainer::CloseWindow(uint64_t step) {
  if (plan_.IsLast(step, by_)) return absl::OkStatus();  // End sends it
  client::Report report = std::exchange(window_, client::Report());
  window_.first_step = window_.end_step = step + 1;
  measurement_due_ = plan_.Evaluates(step, by_);
  // If nodes come and go, any rank may be the first one of the next step.
  const bool may_measure = IsElastic(job_) ? data_.test.size() > 0 : measures();
  if (!measurement_due_ || !may_measure || job_.evaluation().deferred()) return Send(report);
  held_ = report;
  return absl::OkStatus();
}

absl::Status RankTrainer::EvaluateInto(client::Report* report) {
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

absl::Status RankTrainer::MeasureSnapshots() {
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
absl::Status RankTrainer::Send(client::Report report) {
  const absl::Time now = absl::Now();
  report.wall_s = absl::ToDoubleSeconds(now - window_begin_ - evaluating_);
  if (!report.has_test) report.trained_s = TrainedSeconds();
  window_begin_ = now;
  evaluating_before_ += std::exchange(evaluating_, absl::ZeroDuration());
  outcome_.wall_s += report.wall_s;
  outcome_.samples += report.samples;
  if (report.samples > 0) outcome_.loss = report.loss_sum / static_cast<double>(report.samples);
  LogDebug("steps %d to %d: loss %.4f in %.3f s", report.first_step, report.end_step,
           report.loss_sum / static_cast<double>(report.samples), report.wall_s);
  return client_.Send(report);
}

}  // namespace

absl::StatusOr<TrainingOutcome> RunTrainer(const TrainerOptions& options, client::Client& client) {
  return RankTrainer(options, &client).Run();
}

}  // namespace strata::training
