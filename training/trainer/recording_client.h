#ifndef STRATA_TRAINING_TRAINER_RECORDING_CLIENT_H_
#define STRATA_TRAINING_TRAINER_RECORDING_CLIENT_H_

#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/client/client.h"
#include "worker/client/client_parts.h"

namespace strata::training {

// A client of its own process without an exchange that records calls; for tests and benchmarks.
// `job` is protobuf text of the job's fields without ranks and exchange.
class RecordingClient final : public client::Client {
 private:
  // Keeps the state that is given when the step `due_at` is about to begin.
  struct States final : client::ClientCheckpoints {
    bool due() const override { return is_due; }
    absl::Status Give(std::string state) override {
      is_due = false;
      given = std::move(state);
      return absl::OkStatus();
    }
    absl::StatusOr<Bytes> Read(uint32_t) override {
      auto owned = std::make_shared<const std::string>(saved);
      return Bytes(owned, reinterpret_cast<const std::byte*>(owned->data()), owned->size());
    }

    bool is_due = false;
    std::string given;
    std::string saved;  // what Read returns
  };
  // The views of a job whose nodes come and go as `made_by` says.
  struct MadeViews final : client::ClientViews {
    explicit MadeViews(const RecordingClient& client) : client(client) {}
    absl::StatusOr<client::StepRanks> At(uint64_t step) override { return client.made_by(step); }
    absl::StatusOr<std::optional<client::StepRanks>> AtIfKnown(uint64_t step) override {
      if (step % 3 == 0) return std::nullopt;  // as while a change is being agreed on
      return client.made_by(step);
    }
    const RecordingClient& client;
  };

 public:
  RecordingClient(const std::string& job, const std::string& dir) {
    const std::string path = dir + "/launch.textproto";
    std::ofstream(path) << "local_ranks: 1 channel_fd: -1 record { job_id: 1 job { ranks: 1 "
                        << "exchange: NONE " << job << " } }";
    inner_ = client::Client::Connect(path).value();
  }

  uint32_t rank() const override { return as_rank; }
  uint32_t ranks() const override { return inner_->ranks(); }
  void OnWait(std::function<bool()> interrupted) override { inner_->OnWait(interrupted); }
  absl::StatusOr<int> Register(client::Tensor tensor) override {
    names.push_back(tensor.name);
    return inner_->Register(std::move(tensor));
  }
  absl::Status Allocate() override { return inner_->Allocate(); }
  absl::Status Start(const client::JobFacts& value) override {
    facts = value;
    auto from = begins_with.begin();
    for (int tensor = 0; from != begins_with.end(); ++tensor) {
      for (float& weight : inner_->Weights(tensor)) weight = *from++;
    }
    return inner_->Start(value);
  }
  uint64_t first_step() const override { return goes_on_at; }
  absl::Span<float> Weights(int tensor) override { return inner_->Weights(tensor); }
  absl::Span<float> Gradients(int tensor) override { return inner_->Gradients(tensor); }
  absl::StatusOr<absl::Span<const float>> ReadWeights() override { return inner_->ReadWeights(); }
  absl::Status BeginStep(uint32_t samples) override {
    if (made_by && !made_by(goes_on_at + steps).makes_it) {
      return absl::OutOfRangeError("this rank does not make the step");
    }
    if (steps == fail_at_step) return absl::UnavailableError("aggregator of node 0 is gone");
    if (steps == keep_at_step)
      kept.assign(inner_->ReadWeights()->begin(), inner_->ReadWeights()->end());
    ++steps;
    return inner_->BeginStep(samples);
  }
  absl::Status BeginStepAt(uint32_t samples, double rate) override {
    return inner_->BeginStepAt(samples, rate);
  }
  absl::Status Wait(int tensor) override { return inner_->Wait(tensor); }
  absl::Status WaitAll() override { return inner_->WaitAll(); }
  absl::Status Publish(int tensor) override {
    if (steps == 1) published.push_back(tensor);
    return inner_->Publish(tensor);
  }
  absl::Status ExpectUnpublished(int tensor) const override {
    return inner_->ExpectUnpublished(tensor);
  }
  absl::Status FinishStep() override {
    states.is_due = steps == keep_at_step;
    return inner_->FinishStep();
  }
  absl::Status KeepWeights() override { return inner_->KeepWeights(); }
  absl::Status Finish() override {
    finished = true;
    last.assign(inner_->ReadWeights()->begin(), inner_->ReadWeights()->end());
    return inner_->Finish();
  }
  absl::Status Send(const client::Report& report) override {
    reports.push_back(report);
    return absl::OkStatus();
  }
  void Fail(const absl::Status& why) override { failures.emplace_back(why.message()); }
  client::ClientDevices& devices() override { return inner_->devices(); }
  client::ClientTrace& trace() override { return inner_->trace(); }
  client::ClientCheckpoints& checkpoints() override { return states; }
  client::ClientRows& rows() override { return inner_->rows(); }
  client::ClientViews& views() override {
    if (made_by) return made_views_;
    return inner_->views();
  }

  int fail_at_step = -1;
  // The value of first_step, and the first weights, which replace the program's own.
  uint64_t goes_on_at = 0;
  std::vector<float> begins_with;
  // Returns the ranks that make a step; null: this rank alone.
  std::function<client::StepRanks(uint64_t step)> made_by;
  uint32_t as_rank = 0;
  // Keeps the weights with which this step begins; a state is due then.
  int keep_at_step = -1;
  std::vector<float> kept;
  std::vector<float> last;  // the weights at the call of Finish
  States states;
  int steps = 0;  // steps begun
  bool finished = false;
  std::vector<std::string> names;  // in order of registration
  std::vector<int> published;      // in the first step
  client::JobFacts facts;
  std::vector<client::Report> reports;
  std::vector<std::string> failures;

 private:
  std::unique_ptr<client::Client> inner_;
  MadeViews made_views_{*this};
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_TRAINER_RECORDING_CLIENT_H_
